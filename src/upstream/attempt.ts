import type { IncomingMessage } from 'node:http';
import { type Duplex, pipeline, Readable, Transform, type TransformCallback } from 'node:stream';
import * as zlib from 'node:zlib';

import { asError, withoutAnswerBytes } from '../platform/as-error.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import { RouterError } from '../errors/router-error.ts';
import { ByokKeyRejectedError, UpstreamError, UpstreamErrorPageError } from '../errors/upstream-errors.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError } from '../http/exchange.ts';
import type { ProviderAnswer } from '../http/relay.ts';
import { errorCodeOf, type AttemptTrace } from '../observability/request-trace.ts';
import type { Timeouts } from '../options/resolve-options.ts';
import { AttemptTimeouts } from './attempt-timeouts.ts';
import { peek } from './peek.ts';
import { errorMessage, saysContentRefused, saysKeyRefused } from './provider-errors.ts';
import { type Sending, proxyRequest, type UpstreamRequest } from './proxy-request.ts';
import { nominatedHeaders } from './upstream-request.ts';
import type { Target } from '../catalog/model.ts';
import { SlotList, type Slot } from '../async/slot-list.ts';
import { RouterClosedError } from '../http/relay-end.ts';

/** Allow-list of the provider's response headers, with the names under which clients get them.
 *
 * Not forwarded: headers that act on our own origin (cookies, CORS, HSTS), describe the
 * provider's connection, or reveal the operator's account (organization, rate limits).
 */
export const FORWARDED_RESPONSE_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'content-type',
  'retry-after': 'retry-after',
  'retry-after-ms': 'retry-after-ms',
  'x-should-retry': 'x-should-retry',
  'openai-processing-ms': 'openai-processing-ms',
  'x-request-id': 'x-upstream-request-id',
};

export interface AttemptTerms {
  readonly timeouts: Timeouts;
  /** Time that earlier attempts have used of the total, in ms. */
  readonly spentMs: number;
  readonly client: ClientConnection;
  /** Reads the answer on when the client disconnects. */
  readonly detached: DetachedRead;
  /** The request carries the client's own key, so that the client gets the provider's errors about it. */
  readonly usesByok: boolean;
  readonly trace: AttemptTrace | undefined;
  readonly progress: AttemptProgress;
}

/** Receives the steps of a request while its targets are tried. */
export interface AttemptProgress {
  /** A target is tried next. Returns the detached read of its answer, for a client that disconnects. */
  asking(target: Target): DetachedRead;
  /** An attempt was started; `running` can abort it until the last byte of its answer. */
  attempting(running: Abortable): void;
  /** The request head was written to a connected socket: the provider may bill the request. */
  dispatched(): void;
  /** The provider rejected it: nothing is owed. */
  rejected(): void;
  /** There is no answer for the client, though a head may have arrived: nothing is owed. */
  unanswered(error: Error): void;
}

export interface Abortable {
  abort(reason: Error): void;
}

/** A reused connection that dies later than this after the write was not being closed at the time. */
const STALE_WITHIN_MS = 1000;

/** Sends a request to its provider and waits for the head of an answer for the client.
 *
 * A reused connection that dies before the first byte of an answer was probably being
 * closed by the provider during the write: the request is retried once, on a new connection.
 *
 * @throws {ClientDisconnectedError} if the client leaves first, and the answer is not read on
 * @throws {UpstreamError} or UpstreamTimeoutError if there is no answer for the client
 */
export async function attempt(
  request: UpstreamRequest,
  { timeouts, spentMs, client, detached, usesByok, trace, progress }: AttemptTerms,
): Promise<ProviderAnswer> {
  for (let tries = 0; ; tries++) {
    client.throwIfDisconnected();
    // Assigned before any timeout can expire.
    let sending: Sending | undefined = undefined as Sending | undefined;
    const attemptTimeouts = new AttemptTimeouts(timeouts, spentMs, (error) => sending?.abort(error));
    let isSent = false;
    sending = proxyRequest(request, () => {
      isSent = true;
      attemptTimeouts.connected();
      progress.dispatched();
    });
    const running = sending;
    const sentAt = performance.now();
    progress.attempting(running);
    client.onDisconnect(() => {
      const abort = (reason: Error): void => {
        running.abort(reason);
      };
      // A request that was not sent costs nothing.
      if (!isSent || !detached.begin(abort)) abort(new ClientDisconnectedError());
    });
    try {
      const message = await running.answer;
      attemptTimeouts.answered();
      trace?.answered(message, request.apiKey);
      message.once('close', () => {
        attemptTimeouts.stop();
      });
      if (message.destroyed) attemptTimeouts.stop();
      const { statusCode = 0 } = message;
      if (statusCode < 200 || statusCode >= 300) progress.rejected();
      const answer = toAnswer(message, attemptTimeouts, request.apiKey);
      if (answer.status === 401 || answer.status === 402) throw await accountError(answer, client, usesByok);
      if (answer.status === 403) throw await forbiddenError(answer, client, usesByok);
      return answer.status === 400 ? await checkKeyError(answer, client, usesByok) : answer;
    } catch (error) {
      attemptTimeouts.stop();
      running.abort(asError(error));
      if (
        tries === 0 &&
        running.diedUnanswered &&
        performance.now() - sentAt < STALE_WITHIN_MS &&
        isReset(error)
      ) {
        continue;
      }
      const failure = toUpstreamError(asError(error));
      trace?.failed(errorCodeOf(failure));
      throw failure;
    } finally {
      client.onDisconnect(undefined);
    }
  }
}

function toAnswer(
  message: IncomingMessage,
  attemptTimeouts: AttemptTimeouts,
  apiKey: string | undefined,
): ProviderAnswer {
  const status = message.statusCode ?? 0;
  if (status < 200 || (status >= 300 && status < 400)) {
    throw new UpstreamError(
      'upstream_invalid_response',
      `The model's provider answered with the unexpected status ${status}.`,
    );
  }
  const headers: Record<string, string> = {};
  const nominated = nominatedHeaders(message.headers);
  for (const name of Object.keys(message.headers)) {
    const value = message.headers[name];
    // A header may be named `constructor`.
    const sentAs = Object.hasOwn(FORWARDED_RESPONSE_HEADERS, name) && FORWARDED_RESPONSE_HEADERS[name];
    if (!sentAs || typeof value !== 'string' || nominated.includes(name)) continue;
    if (!isSecret(apiKey) || !value.includes(apiKey)) headers[sentAs] = value;
  }
  if (status >= 400 && isHtml(message)) return errorPage(message, status, headers);
  const plain = decoded(message);
  const { 'content-length': length } = message.headers;
  if (plain === message && length !== undefined) headers['content-length'] = length;
  const body = status >= 400 && isSecret(apiKey) ? redacted(plain, apiKey) : plain;
  return { status, headers, received: message.headers, body, idleTimeout: attemptTimeouts };
}

/** Redacts the key in an error body: servers in debug mode echo the request. */
function redacted(body: Readable, apiKey: string): Readable {
  const redactor = new SecretRedactor(apiKey);
  pipeline(body, redactor, () => {});
  return redactor;
}

/** A shorter key, such as Ollama's `ollama`, is a placeholder, not a secret. */
const MIN_SECRET_LENGTH = 16;

/** Replaces each byte of a secret by an asterisk, also where chunks split the secret. */
class SecretRedactor extends Transform {
  readonly #secret: Buffer;
  /** Last bytes received, if they may be the start of the secret. */
  #tail: Buffer = Buffer.alloc(0);

  constructor(secret: string) {
    super();
    this.#secret = Buffer.from(secret);
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const bytes = Buffer.concat([this.#tail, chunk]);
    for (let at = bytes.indexOf(this.#secret); at !== -1; at = bytes.indexOf(this.#secret, at)) {
      bytes.fill('*', at, at + this.#secret.length);
    }
    const passed = bytes.length - this.#partialMatchLength(bytes);
    this.#tail = bytes.subarray(passed);
    done(null, bytes.subarray(0, passed));
  }

  /** How many of the last bytes are a prefix of the secret. Only those are held back, as no more bytes may come. */
  #partialMatchLength(bytes: Buffer): number {
    let length = Math.min(bytes.length, this.#secret.length - 1);
    while (length > 0 && !bytes.subarray(-length).equals(this.#secret.subarray(0, length))) length--;
    return length;
  }

  override _flush(done: TransformCallback): void {
    done(null, this.#tail);
  }
}

/** Whether a provider's key is secret. */
function isSecret(apiKey: string | undefined): apiKey is string {
  return apiKey !== undefined && apiKey.length >= MIN_SECRET_LENGTH;
}

function isHtml({ headers }: IncomingMessage): boolean {
  return /^(text\/html|application\/xhtml\+xml)\b/i.test(headers['content-type'] ?? '');
}

/** Replaces a load balancer's HTML page by a JSON error, as clients expect; the page is not read. */
function errorPage(
  message: IncomingMessage,
  status: number,
  headers: ProviderAnswer['headers'],
): ProviderAnswer {
  message.destroy();
  const bytes = Buffer.from(JSON.stringify(new UpstreamErrorPageError(status)));
  return {
    status,
    headers: { ...headers, 'content-type': 'application/json', 'content-length': String(bytes.length) },
    received: message.headers,
    body: Readable.from([bytes]),
    idleTimeout: { touch: () => {}, pause: () => {} },
  };
}

/**
 * The error for a provider's answer about the account, not the request. What the provider said is its cause, for the
 * operator alone: it names the account. The key in it is redacted.
 */
function accountRefused(status: 400 | 401 | 402 | 403, body: string, usesByok: boolean): RouterError {
  // A 400 would blame the client's request.
  if (usesByok) return new ByokKeyRejectedError(status === 400 ? 401 : status);
  const error = new UpstreamError(
    'upstream_refused_credentials',
    `The model's provider rejected this server's own credentials (${status}). The operator has been notified.`,
  );
  const message = errorMessage(body);
  return message === '' ? error : Object.assign(error, { cause: new Error(message) });
}

async function accountError(
  answer: ProviderAnswer,
  client: ClientConnection,
  usesByok: boolean,
): Promise<RouterError> {
  const { text } = await peek(answer, client);
  return accountRefused(answer.status === 401 ? 401 : 402, text, usesByok);
}

/** Some providers reject a key with a 400, others with a 401. */
async function checkKeyError(
  answer: ProviderAnswer,
  client: ClientConnection,
  usesByok: boolean,
): Promise<ProviderAnswer> {
  const peeked = await peek(answer, client);
  if (saysKeyRefused(peeked.text)) throw accountRefused(400, peeked.text, usesByok);
  return peeked.answer;
}

/**
 * A 403 may be about the content of a request: then neither key nor target is ejected.
 */
async function forbiddenError(
  answer: ProviderAnswer,
  client: ClientConnection,
  usesByok: boolean,
): Promise<RouterError> {
  const { text } = await peek(answer, client);
  if (!saysContentRefused(text)) return accountRefused(403, text, usesByok);
  return new InvalidRequestError(
    'content_policy_violation',
    "The model's provider refused this request because of its content (403).",
  );
}

/** The answer, decompressed: the request asks for `identity`, but some providers compress anyway. */
export function decoded(message: IncomingMessage): Readable {
  const encoding = message.headers['content-encoding']?.toLowerCase() ?? 'identity';
  if (encoding === 'identity' || message.headers['content-length'] === '0' || message.statusCode === 204) {
    return message;
  }
  const createDecoder = DECODERS.get(encoding);
  if (!createDecoder) {
    throw new UpstreamError(
      'upstream_invalid_response',
      "The model's provider answered in an unsupported content encoding.",
    );
  }
  const decoder = createDecoder();
  // Errors of both streams surface on the decoder, where the relay listens.
  pipeline(message, decoder, () => {});
  return decoder;
}

/** 8 MiB, the maximum for HTTP (RFC 9659). */
const ZSTD_WINDOW_LOG = 23;

const DECODERS: ReadonlyMap<string, () => Duplex> = new Map<string, () => Duplex>([
  ['gzip', zlib.createGunzip],
  ['x-gzip', zlib.createGunzip],
  ['br', zlib.createBrotliDecompress],
  ['deflate', zlib.createInflate],
  // By default one answer could allocate a window of 128 MiB.
  [
    'zstd',
    (): Duplex =>
      zlib.createZstdDecompress({ params: { [zlib.constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } }),
  ],
]);

function isReset(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ECONNRESET' || code === 'EPIPE';
}

/** The code of a Node error, e.g. `ECONNREFUSED`; abort reasons have none. */
function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

function toUpstreamError(error: Error): Error {
  if (error instanceof RouterError) return error;
  const code = systemCode(error);
  // An abort reason, or Node's error about an invalid request, which is our bug.
  if (code === undefined || /^ERR_(?!SSL_|TLS_)/.test(code)) return error;
  const upstreamError = code.startsWith('HPE_')
    ? new UpstreamError('upstream_invalid_response', "The model's provider did not answer in valid HTTP.")
    : new UpstreamError(
        'upstream_unreachable',
        `The model's provider could not be reached, or closed the connection before answering (${code}).`,
      );
  return Object.assign(upstreamError, { cause: withoutAnswerBytes(error) });
}

/** The running attempts of a router. */
export class RunningAttempts {
  readonly #attempts = new SlotList<Abortable>();
  #closed = false;

  add(attempt: Abortable): Slot<Abortable> {
    if (this.#closed) attempt.abort(new RouterClosedError());
    return this.#attempts.add(attempt);
  }

  delete(slot: Slot<Abortable>): void {
    this.#attempts.delete(slot);
  }

  /** Aborts all attempts, also those that are added later. */
  close(): void {
    this.#closed = true;
    for (const attempt of this.#attempts.values()) attempt.abort(new RouterClosedError());
  }
}
