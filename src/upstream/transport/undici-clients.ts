import type { Socket } from 'node:net';

import type { Client } from 'undici';

import { asError } from '../../platform/as-error.ts';
import { KEEP_ALIVE_MS, MAX_FREE_CONNECTIONS } from './connection-pools.ts';
import { waitEnded } from './connection-wait.ts';
import type { Dialer } from './dialer.ts';
import { loadUndici } from './load-undici.ts';
import { connectionError, type Sending, type SendListener, type UpstreamRequest } from './transport.ts';
import { type RequestConnection, UndiciRequest } from './undici-request.ts';
import { WarmConnections, WarmSocket } from './warm-connections.ts';

/** How much earlier than a provider announces: its clock started first. */
const KEEP_ALIVE_MARGIN_MS = 1000;

/** Keep-alive connections to one origin over HTTP/1.1, each with one request at a time.
 *
 * Each is a client of undici. Its `Pool` looks through all of its clients for each request, and can't take back a
 * request that waits.
 */
export class UndiciClients {
  readonly #undici = loadUndici();
  readonly #dialer: Dialer;
  readonly #warm: WarmConnections<WarmSocket>;
  /** Open, and not used yet: over these the provider chose HTTP/1.1, when it could have had HTTP/2. */
  readonly #opened = new Set<WarmSocket>();
  readonly #all = new Set<ClientConnection>();
  /** The one that was used last is used next. */
  readonly #free: ClientConnection[] = [];
  readonly #waiting: UndiciRequest[] = [];

  constructor(dialer: Dialer) {
    this.#dialer = dialer;
    this.#warm = new WarmConnections({
      size: dialer.connection.keepWarm,
      open: async () => this.#takeOpened() ?? new WarmSocket(await dialer.open({ background: true })),
      hasRoom: () => dialer.hasRoom || this.#opened.size > 0,
      onReady: this.serve,
    });
  }

  setWarm(isWarm: boolean): void {
    if (isWarm) this.#warm.start();
    else this.#warm.stop();
  }

  /** Uses a connection that was opened elsewhere. */
  adopt(socket: Socket): void {
    const opened = new WarmSocket(socket);
    opened.onLost = () => {
      this.#opened.delete(opened);
    };
    this.#opened.add(opened);
    // The request that it was opened for gets it in this turn.
    opened.isNew = true;
    queueMicrotask(() => {
      opened.isNew = false;
    });
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    const sending = new UndiciRequest(request, listener, this.#withdraw);
    const connection = this.#waiting.length === 0 ? this.#takeConnection() : undefined;
    if (connection) this.#use(connection, sending);
    else this.#waiting.push(sending);
    return sending;
  }

  closeUnused(): void {
    for (const connection of this.#free.splice(0)) this.#drop(connection);
  }

  close(): void {
    const closed = connectionError('ECONNRESET', 'The router was closed');
    this.#warm.stop();
    for (const sending of this.#waiting.splice(0)) sending.abort(closed);
    for (const opened of this.#opened) opened.close();
    for (const { client } of this.#all) void client.destroy(closed);
  }

  /** Sends what waits, as far as there are connections. */
  readonly serve = (): void => {
    while (this.#waiting.length > 0) {
      const connection = this.#takeConnection();
      const next = connection && this.#waiting.shift();
      if (!next) return;
      this.#use(connection, next);
    }
    this.#warm.fill();
  };

  readonly #withdraw = (sending: UndiciRequest, reason: Error): Error => {
    const index = this.#waiting.indexOf(sending);
    if (index === -1) return reason;
    this.#waiting.splice(index, 1);
    return waitEnded(reason, this.#dialer, this.#waiting.length);
  };

  /** A free connection, else a warm one, else a new one; undefined if there are as many as allowed. */
  #takeConnection(): ClientConnection | undefined {
    const free = this.#free.pop();
    if (free) return free;
    const ready = this.#takeOpened() ?? this.#warm.take();
    if (!ready && !this.#dialer.hasRoom) return undefined;
    return this.#open(ready);
  }

  #takeOpened(): WarmSocket | undefined {
    for (const opened of this.#opened) {
      this.#opened.delete(opened);
      if (opened.isOpen) return opened;
    }
    return undefined;
  }

  #use(connection: ClientConnection, sending: UndiciRequest): void {
    connection.sending = sending;
    connection.mayReopen = true;
    connection.client.dispatch(sending.takeOptions(connection), sending);
  }

  /** Called when a request is over: at once, or a turn later if the next one depends on what became of the connection. */
  #release(connection: ClientConnection): void {
    const { socket } = connection;
    // One that isn't sent completely was answered before: what is left of it would come first.
    if (!socket || socket.destroyed || socket.writableLength > 0) {
      this.#drop(connection);
      return;
    }
    const next = this.#waiting.shift();
    if (next) this.#use(connection, next);
    else if (this.#free.length < MAX_FREE_CONNECTIONS) this.#free.push(connection);
    else this.#drop(connection);
  }

  #open(warm: WarmSocket | undefined): ClientConnection {
    const ready = warm?.release();
    const { connection: options } = this.#dialer;
    const client = new this.#undici.Client(options.origin, {
      pipelining: 1,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      // An attempt has timeouts of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (_options, callback) => {
        void this.#connect(connection, callback);
      },
    });
    // At once, so that it counts: undici may connect later.
    const opening = ready ? Promise.resolve(ready) : this.#dialer.open();
    opening.catch(() => {});
    const connection: ClientConnection = {
      client,
      opening,
      socket: undefined,
      sending: undefined,
      mayReopen: true,
      isReused: warm !== undefined && !warm.isNew,
      done: () => {
        connection.sending = undefined;
        connection.isReused = true;
        const isSettled = this.#waiting.length === 0 && connection.socket?.writableLength === 0;
        if (isSettled) this.#release(connection);
        else setImmediate(() => this.#release(connection));
      },
    };
    const onClosed = (): void => {
      // A client with a request connects again.
      if (!connection.sending) this.#drop(connection);
    };
    client.on('disconnect', onClosed);
    client.on('connectionError', onClosed);
    this.#all.add(connection);
    return connection;
  }

  /** Never rejects. */
  async #connect(connection: ClientConnection, callback: ConnectCallback): Promise<void> {
    const opening = connection.opening ?? this.#reopen(connection);
    connection.opening = undefined;
    connection.socket = undefined;
    try {
      const socket = await opening;
      connection.socket = socket;
      callback(null, socket);
    } catch (error) {
      callback(asError(error), null);
    }
  }

  /** Once for a request that undici has not written: the connection was closed before. */
  async #reopen(connection: ClientConnection): Promise<Socket> {
    const isWanted = connection.sending?.isAborted === false && connection.mayReopen;
    if (!isWanted || !this.#dialer.hasRoom) {
      throw connectionError('ECONNRESET', 'The connection was closed before the request was sent');
    }
    connection.mayReopen = false;
    connection.isReused = false;
    return this.#dialer.open();
  }

  #drop(connection: ClientConnection): void {
    if (!this.#all.delete(connection)) return;
    const index = this.#free.indexOf(connection);
    if (index !== -1) this.#free.splice(index, 1);
    void connection.client.destroy();
    void connection.opening?.then(
      (socket) => socket.destroy(),
      () => {},
    );
  }
}

/** As undici calls it. */
type ConnectCallback = (...result: [null, Socket] | [Error, null]) => void;

/** A client of undici, which has one connection at a time. */
interface ClientConnection extends RequestConnection {
  readonly client: Client;
  /** What undici gets when it first connects; undefined from then on. */
  opening: Promise<Socket> | undefined;
  socket: Socket | undefined;
  /** The request that it is used for. */
  sending: UndiciRequest | undefined;
  /** Whether it may be opened again for this request. */
  mayReopen: boolean;
  isReused: boolean;
}
