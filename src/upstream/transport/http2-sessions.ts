import { type ClientHttp2Session, connect } from 'node:http2';
import type { Socket } from 'node:net';

import { asError } from '../../platform/as-error.ts';
import { waitEnded } from './connection-wait.ts';
import type { Dialer } from './dialer.ts';
import { Http2Request, type StreamCarrier } from './http2-request.ts';
import { connectionError, type Sending, type SendListener, type UpstreamRequest } from './transport.ts';
import { KEEP_ALIVE_MS } from './undici-clients.ts';
import { type WarmConnection, WarmConnections } from './warm-connections.ts';

/** Most streams of a connection, also where the provider allows more: all of them end with their connection. */
const MAX_STREAMS = 100;
/** Bytes that a provider may send on all streams of a connection before the router has read them. */
const WINDOW_BYTES = 1024 * 1024;

export interface Http2SessionsOptions {
  readonly dialer: Dialer;
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
  readonly #options: Http2SessionsOptions;
  readonly #warm: WarmConnections<Carrier>;
  readonly #carriers: Carrier[] = [];
  readonly #waiting: Http2Request[] = [];
  #opening = 0;
  /** How many streams the latest connection may have; undefined before the first. */
  #streams: number | undefined;
  #isClosed = false;

  constructor(options: Http2SessionsOptions) {
    this.#options = options;
    const { dialer } = options;
    this.#warm = new WarmConnections({
      size: dialer.connection.keepWarm,
      open: () => this.#connect(true),
      // The first one tells whether the provider has HTTP/2.
      hasRoom: () => dialer.hasRoom && (this.#streams !== undefined || !dialer.isOpening),
      onReady: this.serve,
    });
  }

  setWarm(isWarm: boolean): void {
    if (isWarm) this.#warm.start();
    else this.#warm.stop();
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    const sending = new Http2Request(request, listener, this.#explainAbort);
    const carrier = this.#waiting.length === 0 ? this.#carrierWithRoom() : undefined;
    if (carrier) carrier.start(sending);
    else {
      this.#waiting.push(sending);
      this.serve();
    }
    return sending;
  }

  close(): void {
    this.#isClosed = true;
    this.#warm.stop();
    this.#refuseWaiting(connectionError('ECONNRESET', 'The router was closed'));
    for (const { session } of this.#carriers) session.destroy();
  }

  /** Starts what waits, and opens the connections that are missing. */
  readonly serve = (): void => {
    while (this.#waiting.length > 0) {
      const carrier = this.#carrierWithRoom();
      if (!carrier) break;
      const next = this.#waiting.shift();
      if (next && !next.isAborted) carrier.start(next);
    }
    // The first connection tells whether the provider has HTTP/2, and how many streams it allows.
    const wanted = this.#streams ? Math.ceil(this.#waiting.length / this.#streams) : 1;
    while (this.#waiting.length > 0 && this.#opening < wanted && this.#options.dialer.hasRoom) {
      this.#opening += 1;
      void this.#open();
    }
    this.#warm.fill();
  };

  readonly #explainAbort = (sending: Http2Request, reason: Error): Error => {
    const index = this.#waiting.indexOf(sending);
    if (index === -1) return reason;
    this.#waiting.splice(index, 1);
    const { connection, hasRoom } = this.#options.dialer;
    if (hasRoom || this.#carriers.length === 0) return reason;
    return waitEnded(reason, connection, this.#waiting.length);
  };

  /** One in use, else a warm one. */
  #carrierWithRoom(): Carrier | undefined {
    const used = this.#carriers.find((carrier) => carrier.hasRoom);
    if (used) return used;
    const warm = this.#warm.take();
    if (warm) this.#use(warm);
    return warm;
  }

  #use(carrier: Carrier): void {
    carrier.isWarm = false;
    this.#carriers.push(carrier);
    carrier.onLost = () => {
      const index = this.#carriers.indexOf(carrier);
      if (index !== -1) this.#carriers.splice(index, 1);
      this.serve();
    };
  }

  /** Never rejects. */
  async #open(): Promise<void> {
    try {
      this.#use(await this.#connect(false));
    } catch (error) {
      if (this.#opening === 1) this.#refuseWaiting(asError(error));
    }
    this.#opening -= 1;
    this.serve();
  }

  /** @throws {Error} if the provider can't be reached, or chose HTTP/1.1 */
  async #connect(background: boolean): Promise<Carrier> {
    const socket = await this.#options.dialer.open({ protocols: ['h2', 'http/1.1'], background });
    if (this.#isClosed) socket.destroy();
    else if (!('alpnProtocol' in socket && socket.alpnProtocol === 'h2')) this.#leaveToHttp1(socket);
    else return this.#startSession(socket);
    throw connectionError('ECONNRESET', 'The connection has no HTTP/2');
  }

  /** Resolves once the provider's settings are known. */
  #startSession(socket: Socket): Promise<Carrier> {
    return new Promise((resolve, reject) => {
      const session = connect(this.#options.dialer.connection.origin, {
        createConnection: () => socket,
        settings: { enablePush: false },
      });
      const carrier = new Carrier(session, this.serve);
      session.once('connect', () => {
        session.setLocalWindowSize(WINDOW_BYTES);
      });
      session.once('remoteSettings', () => {
        if (this.#isClosed || carrier.maxStreams === 0) {
          session.destroy();
          return;
        }
        this.#streams = carrier.maxStreams;
        // Without a stream it doesn't keep the process alive.
        session.unref();
        resolve(carrier);
      });
      session.on('error', reject);
      session.once('close', () => {
        reject(connectionError('ECONNRESET', 'The connection was closed before it allowed a stream'));
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
class Carrier implements StreamCarrier, WarmConnection {
  readonly session: ClientHttp2Session;
  /** It waits for its first stream. */
  isWarm = true;
  onLost: () => void = () => {};
  isUsed = false;
  lastStreamId = Infinity;
  readonly #onRoom: () => void;
  #streams = 0;

  constructor(session: ClientHttp2Session, onRoom: () => void) {
    this.session = session;
    this.#onRoom = onRoom;
    session.on('goaway', (_code, lastStreamId) => {
      this.lastStreamId = lastStreamId;
      if (this.isWarm) session.close();
      onRoom();
    });
    session.once('close', () => {
      this.onLost();
    });
    session.setTimeout(KEEP_ALIVE_MS, () => {
      if (this.#streams === 0 && !this.isWarm) session.close();
    });
  }

  get maxStreams(): number {
    return Math.min(MAX_STREAMS, this.session.remoteSettings.maxConcurrentStreams ?? MAX_STREAMS);
  }

  get hasRoom(): boolean {
    const { closed, destroyed } = this.session;
    return !closed && !destroyed && this.lastStreamId === Infinity && this.#streams < this.maxStreams;
  }

  get isOpen(): boolean {
    return this.hasRoom;
  }

  close(): void {
    this.session.destroy();
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
