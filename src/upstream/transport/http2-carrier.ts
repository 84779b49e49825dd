import type { ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';

import { Timeout } from '../../async/timeout.ts';
import { asError } from '../../platform/as-error.ts';
import { KEEP_ALIVE_MS } from './connection-pools.ts';
import type { Http2Request, StreamCarrier, StreamEnd } from './http2-request.ts';
import { connectionError } from './transport.ts';
import type { WarmConnection } from './warm-connections.ts';

/** Most streams of a connection, also where the provider allows more: all of them end with their connection. */
const MAX_STREAMS = 100;
/** A connection on which nothing has arrived this long after a PING is dead. */
const PING_MS = 10_000;

/** A session, and how many streams it carries. */
export class Http2Carrier implements StreamCarrier, WarmConnection {
  readonly session: ClientHttp2Session;
  /** It waits for its first stream. */
  isWarm = true;
  onLost: () => void = () => {};
  isReused = false;
  lastStreamId: number = Infinity;
  readonly #socket: Socket;
  readonly #onRoom: () => void;
  #streams = 0;
  /** Streams that count until the provider answers the next PING. */
  #cancelled = 0;
  #isPinging = false;
  /** A request timed out, and nothing had come back: no streams until a PING is answered. */
  #isSuspect = false;

  constructor(session: ClientHttp2Session, socket: Socket, onRoom: () => void) {
    this.session = session;
    this.#socket = socket;
    this.#onRoom = onRoom;
    session.on('goaway', (_code, lastStreamId) => {
      this.lastStreamId = lastStreamId;
      if (this.isWarm) session.close();
      onRoom();
    });
    session.once('close', () => {
      this.onLost();
    });
    // Not the listener of `setTimeout`, which is called once: a silent stream would be the last to be looked at.
    session.setTimeout(KEEP_ALIVE_MS);
    session.on('timeout', () => {
      if (this.#streams === 0 && !this.isWarm) session.close();
    });
  }

  /** Also of a session that was destroyed. */
  get bytesRead(): number {
    return this.#socket.bytesRead;
  }

  get maxStreams(): number {
    return Math.min(MAX_STREAMS, this.session.remoteSettings.maxConcurrentStreams ?? MAX_STREAMS);
  }

  get hasRoom(): boolean {
    const { closed, destroyed } = this.session;
    const isOpen = !closed && !destroyed && this.lastStreamId === Infinity;
    return isOpen && !this.#isSuspect && this.#streams < this.maxStreams;
  }

  get isIdle(): boolean {
    return this.#streams === 0;
  }

  get isOpen(): boolean {
    return this.hasRoom;
  }

  close(): void {
    this.session.destroy();
  }

  start(request: Http2Request): void {
    this.#addStreams(1);
    try {
      request.start(this);
    } catch (error) {
      this.#addStreams(-1);
      request.fail(asError(error));
    }
  }

  released({ isCancelled, isSilent }: StreamEnd): void {
    this.isReused = true;
    if (!isCancelled) {
      this.#addStreams(-1);
      this.#onRoom();
      return;
    }
    if (isSilent && this.#streams === 1) {
      this.close();
      return;
    }
    this.#isSuspect ||= isSilent;
    this.#cancelled += 1;
    this.#ping();
  }

  /** The provider counts a cancelled stream until it has read that, so its place is free once a PING after it was answered. */
  #ping(): void {
    const { session } = this;
    if (this.#isPinging || this.#cancelled === 0 || session.destroyed) return;
    const cancelled = this.#cancelled;
    const before = this.bytesRead;
    this.#cancelled = 0;
    this.#isPinging = true;
    const done = (): void => {
      timeout.clear();
      if (!this.#isPinging) return;
      this.#isPinging = false;
      this.#isSuspect = false;
      this.#addStreams(-cancelled);
      this.#ping();
      this.#onRoom();
    };
    const timeout = new Timeout(PING_MS, () => {
      if (this.bytesRead !== before) done();
      else session.destroy(connectionError('ETIMEDOUT', `Nothing arrived within ${PING_MS} ms after a PING`));
    });
    session.ping(done);
  }

  /** A session without a stream doesn't keep the process alive. */
  #addStreams(count: number): void {
    const before = this.#streams;
    this.#streams += count;
    if (this.session.destroyed) return;
    if (before === 0) this.session.ref();
    if (this.#streams === 0) this.session.unref();
  }
}
