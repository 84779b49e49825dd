import type { IncomingMessage } from 'node:http';
import { type Duplex, pipeline, Readable } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from 'node:zlib';

import {
  InvalidRequestError,
  ByokKeyRejectedError,
  RouterError,
  UpstreamError,
  UpstreamErrorPageError,
  withoutBytes,
} from '../errors/errors.ts';
import { asError } from '../platform/as-error.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError } from '../http/exchange.ts';
import type { Answer } from '../http/relay.ts';
import { errorCodeOf, type AttemptTrace } from '../observability/request-trace.ts';
import type { Timeouts } from '../options/resolve-options.ts';
import type { AttemptProgress } from './attempt-progress.ts';
import { AttemptTimeouts } from './attempt-timeouts.ts';
import { peek } from './peek.ts';
import { saysContentRefused, saysKeyRefused } from './provider-errors.ts';
import { type Sending, proxyRequest, type UpstreamRequest } from './proxy-request.ts';
import { isSecret, SecretRedactor } from './redact-secret.ts';
import { nominatedHeaders } from './upstream-request.ts';

/**
 * The provider's headers that a client gets to see, all of them, with their names there.
 *
 * What acts on our own origin (cookies, CORS, HSTS), describes the provider's
 * connection, or tells of the operator's account (organization, rate limits)
 * stays here.
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
  /** What earlier attempts have used of the total time, in ms. */
  readonly spentMs: number;
  readonly client: ClientConnection;
  /** What becomes of the answer when the client disconnects. */
  readonly detached: DetachedRead;
  /** The request carries the client's own key: what the provider says of it is the client's matter. */
  readonly usesByok: boolean;
  readonly trace: AttemptTrace | undefined;
  readonly progress: AttemptProgress;
}

/** A kept connection that lives longer than this after a request was written was not being closed at that moment. */
const STALE_WITHIN_MS = 1000;

/**
 * Sends a request to its provider and waits for the head of an answer that the client may have.
 *
 * A kept connection that dies before a byte of an answer was probably being
 * closed by the provider as we wrote: that is tried once more, on a new one.
 *
 * @throws {ClientDisconnectedError} if the client leaves first, and the answer is not drained
 * @throws an UpstreamError or UpstreamTimeoutError if there is no answer that the client may have
 */
export async function attempt(
  request: UpstreamRequest,
  { timeouts, spentMs, client, detached, usesByok, trace, progress }: AttemptTerms,
): Promise<Answer> {
  for (let tries = 0; ; tries++) {
    client.throwIfDisconnected();
    // Assigned before any clock can run out.
    let sending: Sending | undefined = undefined as Sending | undefined;
    const clocks = new AttemptTimeouts(timeouts, spentMs, (error) => sending?.abort(error));
    let isSent = false;
    sending = proxyRequest(request, () => {
      isSent = true;
      clocks.connected();
      progress.dispatched();
    });
    const running = sending;
    const sentAt = performance.now();
    progress.attempting(running);
    client.onGone(() => {
      const abort = (reason: Error): void => {
        running.abort(reason);
      };
      // What the provider has none of costs nothing.
      if (!isSent || !detached.begin(abort)) abort(new ClientDisconnectedError());
    });
    try {
      const message = await running.answer;
      clocks.answered();
      trace?.answered(message, request.apiKey);
      message.once('close', () => {
        clocks.stop();
      });
      if (message.destroyed) clocks.stop();
      const { statusCode = 0 } = message;
      if (statusCode < 200 || statusCode >= 300) progress.rejected();
      const answer = toAnswer(message, clocks, usesByok, request.apiKey);
      if (answer.status === 403) throw await forbidden(answer, client, usesByok);
      return answer.status === 400 ? await unlessKeyRefused(answer, client, usesByok) : answer;
    } catch (error) {
      clocks.stop();
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
      client.onGone(undefined);
    }
  }
}

function toAnswer(
  message: IncomingMessage,
  clocks: AttemptTimeouts,
  usesByok: boolean,
  apiKey: string | undefined,
): Answer {
  const status = message.statusCode ?? 0;
  if (status === 401 || status === 402) throw accountRefused(status, usesByok);
  if (status < 200 || (status >= 300 && status < 400)) {
    throw new UpstreamError(
      'upstream_invalid_response',
      `The model's provider answered with status ${status}, which no completion has.`,
    );
  }
  const headers: Record<string, string> = {};
  const nominated = nominatedHeaders(message.headers);
  for (const name of Object.keys(message.headers)) {
    const value = message.headers[name];
    // A header may be called `constructor`.
    const sentAs = Object.hasOwn(FORWARDED_RESPONSE_HEADERS, name) && FORWARDED_RESPONSE_HEADERS[name];
    if (!sentAs || typeof value !== 'string' || nominated.includes(name)) continue;
    if (!isSecret(apiKey) || !value.includes(apiKey)) headers[sentAs] = value;
  }
  if (status >= 400 && isHtml(message)) return errorPage(message, status, headers);
  const plain = decoded(message);
  const { 'content-length': length } = message.headers;
  if (plain === message && length !== undefined) headers['content-length'] = length;
  const body = status >= 400 && isSecret(apiKey) ? redacted(plain, apiKey) : plain;
  return { status, headers, received: message.headers, body, idleClock: clocks };
}

/** A refusal without the key that was refused: servers that debug show what they got. */
function redacted(body: Readable, apiKey: string): Readable {
  const mask = new SecretRedactor(apiKey);
  pipeline(body, mask, () => {});
  return mask;
}

function isHtml({ headers }: IncomingMessage): boolean {
  return /^(text\/html|application\/xhtml\+xml)\b/i.test(headers['content-type'] ?? '');
}

/** What a load balancer says in place of the provider: clients await JSON, and its page is not read. */
function errorPage(message: IncomingMessage, status: number, headers: Answer['headers']): Answer {
  message.destroy();
  const bytes = Buffer.from(JSON.stringify(new UpstreamErrorPageError(status)));
  return {
    status,
    headers: { ...headers, 'content-type': 'application/json', 'content-length': String(bytes.length) },
    received: message.headers,
    body: Readable.from([bytes]),
    idleClock: { touch: () => {}, pause: () => {} },
  };
}

/** What is about an account at the provider, not about the client's request; its body shows keys. */
function accountRefused(status: 400 | 401 | 402 | 403, usesByok: boolean): RouterError {
  // A 400 would tell the client that its request is at fault.
  if (usesByok) return new ByokKeyRejectedError(status === 400 ? 401 : status);
  return new UpstreamError(
    'upstream_refused_credentials',
    `The model's provider refused this server's own account (${status}). Its operator has been told.`,
  );
}

/** Some say of a key with a 400 what others say with a 401. */
async function unlessKeyRefused(
  answer: Answer,
  client: ClientConnection,
  usesByok: boolean,
): Promise<Answer> {
  const peeked = await peek(answer, client);
  if (saysKeyRefused(peeked.text)) throw accountRefused(400, usesByok);
  return peeked.answer;
}

/** Some say so of a request's content: that sets no key and no target aside. Their words name the account, too. */
async function forbidden(answer: Answer, client: ClientConnection, usesByok: boolean): Promise<RouterError> {
  const { text } = await peek(answer, client);
  if (!saysContentRefused(text)) return accountRefused(403, usesByok);
  return new InvalidRequestError(
    'content_policy_violation',
    "The model's provider refused this request for what it says (403).",
  );
}

/** The answer's plain bytes: `identity` was asked for, but some compress all the same. */
function decoded(message: IncomingMessage): Readable {
  const encoding = message.headers['content-encoding']?.toLowerCase() ?? 'identity';
  if (encoding === 'identity' || message.headers['content-length'] === '0' || message.statusCode === 204) {
    return message;
  }
  const createDecoder = DECODERS.get(encoding);
  if (!createDecoder) {
    throw new UpstreamError(
      'upstream_invalid_response',
      "The model's provider answered in an encoding that nobody asked for.",
    );
  }
  const decoder = createDecoder();
  // Errors of either side surface on the decoder, where the relay listens.
  pipeline(message, decoder, () => {});
  return decoder;
}

/** 8 MiB, which is the most that HTTP allows (RFC 9659). */
const ZSTD_WINDOW_LOG = 23;

const DECODERS: ReadonlyMap<string, () => Duplex> = new Map<string, () => Duplex>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['br', createBrotliDecompress],
  ['deflate', createInflate],
  // Else one answer may ask for 128 MiB to be unpacked in.
  [
    'zstd',
    (): Duplex => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } }),
  ],
]);

function isReset(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ECONNRESET' || code === 'EPIPE';
}

/** The code of an error of Node's own, e.g. `ECONNREFUSED`; what an abort was given as its reason has none. */
function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

function toUpstreamError(error: Error): Error {
  if (error instanceof RouterError) return error;
  const code = systemCode(error);
  // What an abort was given as its reason; and what Node says of a request that we wrote wrongly.
  if (code === undefined || code.startsWith('ERR_')) return error;
  const upstreamError = code.startsWith('HPE_')
    ? new UpstreamError('upstream_invalid_response', "The model's provider did not answer in HTTP.")
    : new UpstreamError(
        'upstream_unreachable',
        `The model's provider could not be reached, or closed the connection before it answered (${code}).`,
      );
  return Object.assign(upstreamError, { cause: withoutBytes(error) });
}
