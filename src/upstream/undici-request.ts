import type { IncomingHttpHeaders } from 'node:http';

import type { Dispatcher } from 'undici';

import { type BodySource, PushBody } from '../http/answer-body.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import {
  connectionError,
  MAX_INTERIM_ANSWERS,
  type Sending,
  type SendListener,
  switchedProtocols,
  tooManyInterim,
  type UpstreamRequest,
} from './transport.ts';

/** How many bytes had come over a connection before it failed with this error. */
export const bytesReadBefore: WeakMap<Error, number> = new WeakMap();

type Controller = Dispatcher.DispatchController;

/** One request to a provider over HTTP/1.1: undici's handler for it, and the source of its answer's body. */
export class UndiciRequest implements Dispatcher.DispatchHandler, Sending, BodySource {
  diedUnanswered = false;
  readonly wasRefused = false;
  /** Called once, when undici is through with the request. */
  onDone: (() => void) | undefined;
  readonly #listener: SendListener;
  /** Released once given to undici. */
  #request: UpstreamRequest | undefined;
  #controller: Controller | undefined;
  #body: PushBody | undefined;
  #aborted: Error | undefined;
  #interim = 0;
  #isAnswering = false;
  #isFailed = false;

  constructor(request: UpstreamRequest, listener: SendListener) {
    this.#request = request;
    this.#listener = listener;
  }

  get isAborted(): boolean {
    return this.#aborted !== undefined;
  }

  /** What undici sends. Called once. */
  takeOptions(): Dispatcher.DispatchOptions {
    const request = this.#request;
    if (!request) throw new TypeError('The request was sent');
    this.#request = undefined;
    const { path, headers, body } = request;
    return { path, method: 'POST', headers, body: bodyFor(body) };
  }

  abort(reason: Error): void {
    this.#aborted ??= reason;
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
    if (this.#isFailed) return;
    if (statusCode >= 200) {
      this.#body = new PushBody(this);
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
    this.onDone?.();
    this.#body?.end();
    this.#listener.onOver();
  }

  onResponseError(_controller: Controller | undefined, error: Error): void {
    this.onDone?.();
    if (this.#body) {
      this.#body.fail(this.#aborted ?? asConnectionError(error));
      this.#listener.onOver();
      return;
    }
    this.diedUnanswered = !this.#isAnswering && (bytesReadBefore.get(error) ?? bytesReadOf(error)) > 0;
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

/** Longer bodies are given to undici so that it can't keep them for as long as the answer lasts. */
const MAX_BUFFERED_BYTES = 16_384;

function bodyFor(chunks: BodyChunks): Buffer {
  const [only, second] = chunks;
  if (!second && only && only.length <= MAX_BUFFERED_BYTES) return only;
  // undici's types don't have iterables, which its documentation does.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return releasing(chunks) as unknown as Buffer;
}

/** Yields the chunks, and keeps none. */
function releasing(chunks: BodyChunks): Iterable<Buffer> {
  let left: Buffer[] = [...chunks].toReversed();
  return {
    *[Symbol.iterator]() {
      for (let chunk = left.pop(); chunk; chunk = left.pop()) yield chunk;
      left = [];
    },
  };
}

/** What undici knows of the connection that failed. */
function bytesReadOf(error: Error): number {
  const socket = 'socket' in error ? error.socket : undefined;
  const read = typeof socket === 'object' && socket && 'bytesRead' in socket ? socket.bytesRead : 0;
  return typeof read === 'number' ? read : 0;
}

/** Codes of errors about what the provider sent. */
const NOT_HTTP: ReadonlySet<string | undefined> = new Set([
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
