import type { Socket } from 'node:net';

import type { Client } from 'undici';

import { asError } from '../platform/as-error.ts';
import { loadUndici } from './load-undici.ts';
import { connectionError, type Sending, type SendListener, type UpstreamRequest } from './transport.ts';
import { bytesReadBefore, UndiciRequest } from './undici-request.ts';

/** An unused connection is closed before a provider would close it. */
export const KEEP_ALIVE_MS = 30_000;
/** How much earlier than a provider announces: its clock started first. */
const KEEP_ALIVE_MARGIN_MS = 1000;
const MAX_FREE = 1024;

/** Keep-alive connections to one origin over HTTP/1.1, each with one request at a time.
 *
 * Each is a client of undici. Its `Pool` looks through all of its clients for each request, and can't take back a
 * request that waits.
 */
export class UndiciClients {
  readonly #undici = loadUndici();
  readonly #origin: URL;
  readonly #maxConnections: number;
  readonly #dial: () => Promise<Socket>;
  readonly #all = new Set<Connection>();
  /** The one that was used last is used next. */
  readonly #free: Connection[] = [];
  readonly #waiting: UndiciRequest[] = [];

  /** @param dial - opens a connection that is ready for a request */
  constructor(origin: URL, maxConnections: number, dial: () => Promise<Socket>) {
    this.#origin = origin;
    this.#maxConnections = maxConnections;
    this.#dial = dial;
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    const sending = new UndiciRequest(request, listener);
    const connection = this.#free.pop() ?? this.#open();
    if (connection) this.#use(connection, sending);
    else this.#waiting.push(sending);
    return sending;
  }

  close(): void {
    const closed = connectionError('ECONNRESET', 'The router was closed');
    for (const sending of this.#waiting.splice(0)) sending.abort(closed);
    for (const { client } of this.#all) void client.destroy(closed);
  }

  #use(connection: Connection, sending: UndiciRequest): void {
    connection.isBusy = true;
    sending.onDone = () => {
      connection.isBusy = false;
      this.#release(connection);
    };
    connection.client.dispatch(sending.takeOptions(), sending);
  }

  #release(connection: Connection): void {
    const next = this.#nextWaiting();
    if (next) this.#use(connection, next);
    else if (this.#free.length < MAX_FREE) this.#free.push(connection);
    else this.#drop(connection);
  }

  #nextWaiting(): UndiciRequest | undefined {
    for (;;) {
      const sending = this.#waiting.shift();
      if (!sending?.isAborted) return sending;
    }
  }

  /** Returns undefined if there are as many as allowed. */
  #open(): Connection | undefined {
    if (this.#all.size >= this.#maxConnections) return undefined;
    const client = new this.#undici.Client(this.#origin, {
      pipelining: 1,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      // An attempt has timeouts of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (_options, callback) => {
        this.#dial().then(
          (socket) => {
            socket.prependListener('error', (error) => {
              bytesReadBefore.set(error, socket.bytesRead);
            });
            callback(null, socket);
          },
          (error: unknown) => {
            callback(asError(error), null);
          },
        );
      },
    });
    const connection: Connection = { client, isBusy: false };
    const onClosed = (): void => {
      // A client with a request connects again.
      if (!connection.isBusy) this.#drop(connection);
    };
    client.on('disconnect', onClosed);
    client.on('connectionError', onClosed);
    this.#all.add(connection);
    return connection;
  }

  #drop(connection: Connection): void {
    if (!this.#all.delete(connection)) return;
    const index = this.#free.indexOf(connection);
    if (index !== -1) this.#free.splice(index, 1);
    void connection.client.destroy();
    const next = this.#nextWaiting();
    const another = next && this.#open();
    if (another) this.#use(another, next);
    else if (next) this.#waiting.unshift(next);
  }
}

/** A client of undici, which has one connection at a time. */
interface Connection {
  readonly client: Client;
  isBusy: boolean;
}
