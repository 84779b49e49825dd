import { type ClientHttp2Session, connect } from 'node:http2';
import type { Socket } from 'node:net';

import { Timeout } from '../../async/timeout.ts';
import { asError } from '../../platform/as-error.ts';
import { waitEnded } from './connection-wait.ts';
import type { Dialer } from './dialer.ts';
import { Http2Carrier } from './http2-carrier.ts';
import { Http2Request } from './http2-request.ts';
import { connectionError, type Sending, type SendListener, type UpstreamRequest } from './transport.ts';
import { WarmConnections } from './warm-connections.ts';

/** Bytes that a provider may send on all streams of a connection before the router has read them. */
const WINDOW_BYTES = 1024 * 1024;
/** A connection that takes longer to open may never do so: another one is begun. */
const SLOW_MS = 1000;
/** Headers of an answer; Node's default is 128. */
const MAX_HEADERS = 2000;

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
  readonly #warm: WarmConnections<Http2Carrier>;
  readonly #carriers: Http2Carrier[] = [];
  readonly #waiting: Http2Request[] = [];
  /** Being opened for requests that wait. */
  readonly #openings = new Set<{ isSlow: boolean }>();
  /** Their first settings haven't arrived. */
  readonly #starting = new Set<ClientHttp2Session>();
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
    const sending = new Http2Request(request, listener, this.#withdraw);
    const carrier = this.#waiting.length === 0 ? this.#takeCarrier() : undefined;
    if (carrier) carrier.start(sending);
    else {
      this.#waiting.push(sending);
      this.serve();
    }
    return sending;
  }

  closeUnused(): void {
    for (const carrier of this.#carriers) if (carrier.isIdle) carrier.close();
  }

  close(): void {
    this.#isClosed = true;
    this.#warm.stop();
    this.#refuse(this.#waiting.length, connectionError('ECONNRESET', 'The router was closed'));
    for (const session of this.#starting) session.destroy();
    for (const { session } of this.#carriers) session.destroy();
  }

  /** Starts what waits, and opens the connections that are missing. */
  readonly serve = (): void => {
    while (this.#waiting.length > 0) {
      const carrier = this.#takeCarrier();
      const next = carrier && this.#waiting.shift();
      if (!next) break;
      carrier.start(next);
    }
    // The first connection tells whether the provider has HTTP/2, and how many streams it allows.
    const wanted = this.#streams ? Math.ceil(this.#waiting.length / this.#streams) : 1;
    let opening = [...this.#openings].filter(({ isSlow }) => !isSlow).length;
    for (; this.#waiting.length > 0 && opening < wanted && this.#options.dialer.hasRoom; opening += 1) {
      void this.#open();
    }
    this.#warm.fill();
  };

  readonly #withdraw = (sending: Http2Request, reason: Error): Error => {
    const index = this.#waiting.indexOf(sending);
    if (index === -1) return reason;
    this.#waiting.splice(index, 1);
    if (this.#carriers.length === 0) return reason;
    return waitEnded(reason, this.#options.dialer, this.#waiting.length);
  };

  /** One in use that has room, else a warm one. */
  #takeCarrier(): Http2Carrier | undefined {
    const used = this.#carriers.find((carrier) => carrier.hasRoom);
    if (used) return used;
    const warm = this.#warm.take();
    if (!warm) return undefined;
    warm.isReused = true;
    this.#use(warm);
    return warm;
  }

  #use(carrier: Http2Carrier): void {
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
    const opening = { isSlow: false };
    this.#openings.add(opening);
    const slow = new Timeout(SLOW_MS, () => {
      opening.isSlow = true;
      this.serve();
    }).unref();
    try {
      this.#use(await this.#connect(false));
    } catch (error) {
      // Its share: others may succeed. Where nothing came in time, each request has a clock of its own.
      const isSilent = error instanceof Error && 'code' in error && error.code === 'ETIMEDOUT';
      if (!isSilent) this.#refuse(Math.ceil(this.#waiting.length / this.#openings.size), asError(error));
    }
    slow.clear();
    this.#openings.delete(opening);
    this.serve();
  }

  /** @throws {Error} if the provider can't be reached, or chose HTTP/1.1 */
  async #connect(background: boolean): Promise<Http2Carrier> {
    const socket = await this.#options.dialer.open({ protocols: ['h2', 'http/1.1'], background });
    if (this.#isClosed) socket.destroy();
    else if (!('alpnProtocol' in socket && socket.alpnProtocol === 'h2')) this.#leaveToHttp1(socket);
    else return this.#startSession(socket);
    throw connectionError('ECONNRESET', 'The connection has no HTTP/2');
  }

  /** Resolves once the provider's settings are known. */
  #startSession(socket: Socket): Promise<Http2Carrier> {
    const { origin, connectMs } = this.#options.dialer.connection;
    const ms = connectMs + SLOW_MS;
    return new Promise((resolve, reject) => {
      const session = connect(origin, {
        createConnection: () => socket,
        settings: { enablePush: false },
        maxHeaderListPairs: MAX_HEADERS,
      });
      this.#starting.add(session);
      const carrier = new Http2Carrier(session, socket, this.serve);
      const timeout = new Timeout(ms, () => {
        session.destroy(connectionError('ETIMEDOUT', `no HTTP/2 settings within ${ms} ms`));
      });
      const started = (): void => {
        timeout.clear();
        this.#starting.delete(session);
      };
      session.once('connect', () => {
        session.setLocalWindowSize(WINDOW_BYTES);
      });
      session.once('remoteSettings', () => {
        started();
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
        started();
        reject(connectionError('ECONNRESET', 'The connection was closed before it allowed a stream'));
      });
    });
  }

  #leaveToHttp1(socket: Socket): void {
    const { onHttp1, sendByHttp1 } = this.#options;
    onHttp1(socket);
    for (const sending of this.#waiting.splice(0)) sending.handOver(sendByHttp1);
  }

  /** Fails those that have waited longest. */
  #refuse(count: number, error: Error): void {
    for (const sending of this.#waiting.splice(0, count)) sending.fail(error);
  }
}
