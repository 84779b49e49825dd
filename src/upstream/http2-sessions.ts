import { type ClientHttp2Session, connect } from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';

import { asError } from '../platform/as-error.ts';
import { Http2Request, type StreamCarrier } from './http2-request.ts';
import { connectionError, type Sending, type SendListener, type UpstreamRequest } from './transport.ts';
import { KEEP_ALIVE_MS } from './undici-clients.ts';

/** Most streams of a connection, also where the provider allows more: all of them end with their connection. */
const MAX_STREAMS = 100;
/** Bytes that a provider may send on all streams of a connection before the router has read them. */
const WINDOW_BYTES = 1024 * 1024;

export interface Http2Origin {
  readonly origin: URL;
  readonly maxConnections: number;
  /** Opens a connection, and offers HTTP/2 and HTTP/1.1. */
  readonly dial: () => Promise<Socket>;
  /** The provider chose HTTP/1.1 for this connection, and gets all requests so from now on. */
  readonly onHttp1: (socket: Socket) => void;
  /** Sends over HTTP/1.1. */
  readonly sendByHttp1: (request: UpstreamRequest, listener: SendListener) => Sending;
}

/** Connections to one origin over HTTP/2, each with many streams.
 *
 * By `node:http2`: undici 7 ends all streams of a connection on GOAWAY.
 */
export class Http2Sessions {
  readonly #options: Http2Origin;
  readonly #carriers: Carrier[] = [];
  readonly #waiting: Http2Request[] = [];
  #opening = 0;
  /** How many streams the latest connection may have; undefined before the first. */
  #streams: number | undefined;
  #isClosed = false;

  constructor(options: Http2Origin) {
    this.#options = options;
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    const sending = new Http2Request(request, listener);
    const carrier = this.#waiting.length === 0 ? this.#carrierWithRoom() : undefined;
    if (carrier) carrier.start(sending);
    else {
      this.#waiting.push(sending);
      this.#serve();
    }
    return sending;
  }

  close(): void {
    this.#isClosed = true;
    this.#refuseWaiting(connectionError('ECONNRESET', 'The router was closed'));
    for (const { session } of [...this.#carriers]) session.destroy();
  }

  #carrierWithRoom(): Carrier | undefined {
    return this.#carriers.find((carrier) => carrier.hasRoom);
  }

  /** Starts what waits, and opens the connections that are missing. */
  readonly #serve = (): void => {
    while (this.#waiting.length > 0) {
      const carrier = this.#carrierWithRoom();
      if (!carrier) break;
      const next = this.#waiting.shift();
      if (next && !next.isAborted) carrier.start(next);
    }
    // The first connection tells whether the provider has HTTP/2, and how many streams it allows.
    const wanted = this.#streams ? Math.ceil(this.#waiting.length / this.#streams) : 1;
    const { maxConnections } = this.#options;
    while (
      this.#waiting.length > 0 &&
      this.#opening < wanted &&
      this.#opening + this.#carriers.length < maxConnections
    ) {
      this.#opening += 1;
      void this.#open();
    }
  };

  /** Never rejects. */
  async #open(): Promise<void> {
    try {
      const socket = await this.#options.dial();
      if ((socket as TLSSocket).alpnProtocol === 'h2') await this.#add(socket);
      else this.#leaveToHttp1(socket);
    } catch (error) {
      if (this.#opening === 1) this.#refuseWaiting(asError(error));
    }
    this.#opening -= 1;
    this.#serve();
  }

  /** Resolves once the provider's settings are known. */
  #add(socket: Socket): Promise<void> {
    return new Promise((resolve, reject) => {
      const session = connect(this.#options.origin, {
        createConnection: () => socket,
        settings: { enablePush: false },
      });
      const carrier = new Carrier(session, this.#serve);
      session.once('connect', () => {
        session.setLocalWindowSize(WINDOW_BYTES);
      });
      session.once('remoteSettings', () => {
        if (this.#isClosed) session.destroy();
        this.#streams = carrier.maxStreams;
        this.#carriers.push(carrier);
        resolve();
      });
      session.on('error', reject);
      session.once('close', () => {
        const index = this.#carriers.indexOf(carrier);
        if (index !== -1) this.#carriers.splice(index, 1);
        reject(connectionError('ECONNRESET', 'The connection was closed before its settings came'));
        this.#serve();
      });
    });
  }

  #leaveToHttp1(socket: Socket): void {
    const { onHttp1, sendByHttp1 } = this.#options;
    onHttp1(socket);
    for (const sending of this.#waiting.splice(0)) {
      if (!sending.isAborted) sending.handOver(sendByHttp1);
    }
  }

  #refuseWaiting(error: Error): void {
    for (const sending of this.#waiting.splice(0)) sending.fail(error);
  }
}

/** A session, and how many streams it carries. */
class Carrier implements StreamCarrier {
  readonly session: ClientHttp2Session;
  isUsed = false;
  lastStreamId = Infinity;
  readonly #onRoom: () => void;
  #streams = 0;

  constructor(session: ClientHttp2Session, onRoom: () => void) {
    this.session = session;
    this.#onRoom = onRoom;
    session.on('goaway', (_code, lastStreamId) => {
      this.lastStreamId = lastStreamId;
      onRoom();
    });
    session.setTimeout(KEEP_ALIVE_MS, () => {
      if (this.#streams === 0) session.close();
    });
  }

  get maxStreams(): number {
    return Math.min(MAX_STREAMS, this.session.remoteSettings.maxConcurrentStreams ?? MAX_STREAMS);
  }

  get hasRoom(): boolean {
    const { closed, destroyed } = this.session;
    return !closed && !destroyed && this.lastStreamId === Infinity && this.#streams < this.maxStreams;
  }

  start(request: Http2Request): void {
    if (this.#streams === 0) this.session.ref();
    this.#streams += 1;
    request.start(this);
  }

  released(): void {
    this.#streams -= 1;
    this.isUsed = true;
    if (this.#streams === 0 && !this.session.destroyed) this.session.unref();
    this.#onRoom();
  }
}
