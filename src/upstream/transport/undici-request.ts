import { channel } from 'node:diagnostics_channel';
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';

import type { Dispatcher } from 'undici';

import { type BodySource, PushBody } from '../../http/answer-body.ts';
import { byteLength, type BodyChunks } from '../../http/body-chunks.ts';
import type { Withdraw } from './connection-wait.ts';
import {
  connectionError,
  MAX_INTERIM_ANSWERS,
  type Sending,
  type SendListener,
  switchedProtocols,
  tooManyInterim,
  type UpstreamRequest,
} from './transport.ts';

type Controller = Dispatcher.DispatchController;

/** The connection that a request is sent over. */
export interface RequestConnection {
  /** Once there is one. */
  readonly socket: Socket | undefined;
  /** It stood before its latest request: the provider may be closing it at this moment. */
  readonly isReused: boolean;
  /** undici is through with the request. Called once per request. */
  done(): void;
}

/** One request to a provider over HTTP/1.1: undici's handler for it, and the source of its answer's body. */
export class UndiciRequest implements Dispatcher.DispatchHandler, Sending, BodySource {
  diedUnanswered = false;
  readonly wasRefused = false;
  readonly #listener: SendListener;
  readonly #withdraw: Withdraw<UndiciRequest>;
  /** Released once given to undici. */
  #request: UpstreamRequest | undefined;
  #connection: RequestConnection | undefined;
  /** Undefined for a body that is given as a buffer, which undici writes together with the head. */
  #chunks: ReleasedChunks | undefined;
  #controller: Controller | undefined;
  #body: PushBody | undefined;
  #aborted: Error | undefined;
  #interim = 0;
  #isAnswering = false;
  #isFailed = false;

  constructor(request: UpstreamRequest, listener: SendListener, withdraw: Withdraw<UndiciRequest>) {
    this.#request = request;
    this.#listener = listener;
    this.#withdraw = withdraw;
  }

  get isAborted(): boolean {
    return this.#aborted !== undefined;
  }

  /** What undici sends over the connection. Called once. */
  takeOptions(connection: RequestConnection): Dispatcher.DispatchOptions {
    const request = this.#request;
    if (!request) throw new TypeError('The request was sent');
    this.#request = undefined;
    this.#connection = connection;
    const { path, headers, body, isStream } = request;
    const [only, second] = body;
    const isShort =
      only !== undefined && only.length <= (isStream ? MAX_KEPT_BYTES_OF_STREAM : MAX_KEPT_BYTES);
    if (isShort && !second) return { path, method: 'POST', headers, body: only };
    this.#chunks = new ReleasedChunks(body, connection);
    // undici's types don't have iterables, which its documentation does.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    return { path, method: 'POST', headers, body: this.#chunks as unknown as Buffer };
  }

  get isWritten(): boolean {
    return (
      this.#chunks?.areTaken !== false &&
      this.#connection?.socket?.writableLength === 0 &&
      !chunkSent.hasSubscribers
    );
  }

  abort(reason: Error): void {
    this.#aborted ??= this.#request ? this.#withdraw(this, reason) : reason;
    if (this.#body) this.#body.destroy(reason);
    else {
      this.#controller?.abort(reason);
      this.#fail(reason);
    }
  }

  // The source of the body

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    // undici must not be resumed while it parses, be it the answer of another request.
    queueMicrotask(() => this.#controller?.resume());
  }

  destroy(reason?: Error): void {
    this.#controller?.abort(reason ?? new Error('The answer is not read on'));
  }

  // undici's handler

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#aborted) controller.abort(this.#aborted);
    else this.#listener.onConnected();
  }

  /** The first byte of an answer. */
  onResponseStarted(): void {
    this.#isAnswering = true;
  }

  onResponseStart(controller: Controller, statusCode: number, headers: IncomingHttpHeaders): void {
    // undici would keep them, and the bytes of the socket that they are in, for as long as the answer lasts.
    controller.rawHeaders = null;
    if (this.#isFailed) return;
    if (statusCode >= 200) {
      this.#body = new PushBody(this);
      joinRepeated(headers);
      this.#listener.onHead({ statusCode, headers, body: this.#body });
      return;
    }
    this.#interim += 1;
    if (this.#interim > MAX_INTERIM_ANSWERS) controller.abort(tooManyInterim());
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(): void {
    // undici takes a reset for the end of an answer without a length.
    const reset = this.#connection?.socket?.errored;
    this.#connection?.done();
    if (reset) this.#body?.fail(asConnectionError(reset));
    else this.#body?.end();
    this.#listener.onOver();
  }

  onResponseError(_controller: Controller | undefined, error: Error): void {
    this.diedUnanswered = !this.#body && !this.#isAnswering && this.#connection?.isReused === true;
    this.#connection?.done();
    if (this.#body) {
      this.#body.fail(this.#aborted ?? asConnectionError(error));
      this.#listener.onOver();
      return;
    }
    this.#fail(error);
  }

  #fail(error: Error): void {
    if (this.#isFailed || this.#body) return;
    this.#isFailed = true;
    this.#request = undefined;
    const reason = this.#aborted ?? asConnectionError(error);
    // Not before `send` has returned: undici may fail while it is called.
    queueMicrotask(() => {
      this.#listener.onFailed(reason);
    });
  }
}

/** Headers of which Node keeps the first, where an answer repeats them. */
const SINGLE: ReadonlySet<string> = new Set([
  'age',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'last-modified',
  'location',
  'retry-after',
  'server',
]);

/** Makes one value of a repeated header, as Node does: undici has an array of them. */
function joinRepeated(headers: IncomingHttpHeaders): void {
  for (const name in headers) {
    const values = headers[name];
    if (Array.isArray(values) && name !== 'set-cookie') {
      headers[name] = SINGLE.has(name) ? values[0] : values.join(', ');
    }
  }
}

/** It passes each chunk to its subscribers. */
const chunkSent = channel('undici:request:bodyChunkSent');

/** undici keeps a body in one piece until its answer is over. Longer ones are given to it so that it can't, which costs 10 µs. */
const MAX_KEPT_BYTES = 65_536;
/** The same for a stream, whose answer takes long: there it costs the first event 0.2 ms. */
const MAX_KEPT_BYTES_OF_STREAM = 4096;

/** Yields the chunks, and keeps none. They leave together with the head, in one system call, if the socket takes them all. */
class ReleasedChunks implements Iterable<Buffer> {
  /** undici has written all of them to the socket. */
  areTaken = false;
  readonly #bytes: number;
  /** In reverse: the next one is the last. */
  readonly #left: Buffer[];
  readonly #connection: RequestConnection;

  constructor(chunks: BodyChunks, connection: RequestConnection) {
    this.#bytes = byteLength(chunks);
    this.#left = chunks.toReversed();
    this.#connection = connection;
  }

  *[Symbol.iterator](): Generator<Buffer> {
    const { socket } = this.#connection;
    // undici waits for a socket that is full, and a corked one would stay so.
    const isCorked = socket !== undefined && this.#bytes < socket.writableHighWaterMark / 2;
    if (isCorked) socket.cork();
    try {
      for (let chunk = this.#left.pop(); chunk; chunk = this.#left.pop()) yield chunk;
      // undici asks for the next one once it has written the last.
      this.areTaken = true;
    } finally {
      if (isCorked) socket.uncork();
    }
  }
}

/** Codes of errors about what the provider sent. */
const NOT_HTTP: ReadonlySet<string | undefined> = new Set([
  // A status that can't be, such as 101 or 099.
  'ERR_ASSERTION',
  'UND_ERR_HEADERS_OVERFLOW',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
]);

/** An error of undici with the code that Node's client has for the same. */
function asConnectionError(error: Error): Error {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (error.name === 'HTTPParserError' || NOT_HTTP.has(code)) {
    return code?.startsWith('HPE_') ? error : connectionError('HPE_INVALID', error.message);
  }
  if (code === undefined || !code.startsWith('UND_ERR_')) return error;
  switch (error.message) {
    case 'bad upgrade':
      return switchedProtocols();
    case 'bad response':
      return connectionError('HPE_INVALID', 'An interim answer that was not asked for');
    default:
  }
  // The router's own mistake, such as an invalid header.
  if (code === 'UND_ERR_INVALID_ARG') return new TypeError(error.message);
  return connectionError('ECONNRESET', error.message);
}
