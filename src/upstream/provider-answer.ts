import type { IncomingHttpHeaders } from 'node:http';
import { type Duplex, pipeline, Transform } from 'node:stream';
import * as zlib from 'node:zlib';

import { UpstreamError, UpstreamErrorPageError } from '../errors/upstream-errors.ts';
import { type AnswerBody, bodyOfChunks, bodyOfStream, streamOf } from '../http/answer-body.ts';
import type { ProviderAnswer } from '../http/relay.ts';
import { SecretRedactor } from '../http/secret-redactor.ts';
import type { AnswerHead } from './transport/transport.ts';
import { nominatedHeaders } from './upstream-request.ts';

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

const FORWARDED = Object.entries(FORWARDED_RESPONSE_HEADERS);

/**
 * The answer for the client: with the headers that it may have, decompressed, and without the provider's key.
 *
 * @throws {UpstreamError} if it can't be used
 */
export function toAnswer(
  head: AnswerHead,
  idleTimeout: ProviderAnswer['idleTimeout'],
  apiKey: string | undefined,
): ProviderAnswer {
  const { statusCode: status, headers: received } = head;
  if (status < 200 || (status >= 300 && status < 400)) {
    throw new UpstreamError(
      'upstream_invalid_response',
      `The model's provider answered with the unexpected status ${status}.`,
    );
  }
  const headers: Record<string, string> = {};
  const nominated = nominatedHeaders(received);
  for (const [name, sentAs] of FORWARDED) {
    const value = received[name];
    if (typeof value !== 'string' || nominated.includes(name)) continue;
    if (!isSecret(apiKey) || !value.includes(apiKey)) headers[sentAs] = value;
  }
  if (status >= 400 && isHtml(received)) return errorPage(head, headers);
  const plain = decoded(head);
  const { 'content-length': length } = received;
  if (plain === head.body && length !== undefined) headers['content-length'] = length;
  const secret = isSecret(apiKey) ? apiKey : undefined;
  const isError = status >= 400;
  const body = isError && secret !== undefined ? redacted(plain, secret) : plain;
  return { status, headers, received, body, idleTimeout, secret: isError ? undefined : secret };
}

/** Redacts the key in an error body: servers in debug mode echo the request. */
function redacted(body: AnswerBody, apiKey: string): AnswerBody {
  const redactor = new SecretRedactor(apiKey);
  const transform = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      for (const passed of redactor.write(chunk)) this.push(passed);
      done();
    },
    flush(done) {
      for (const rest of redactor.end()) this.push(rest);
      done();
    },
  });
  return through(body, transform);
}

/** A shorter key, such as Ollama's `ollama`, is a placeholder, not a secret. */
const MIN_SECRET_LENGTH = 16;

/** Whether a provider's key is secret. */
function isSecret(apiKey: string | undefined): apiKey is string {
  return apiKey !== undefined && apiKey.length >= MIN_SECRET_LENGTH;
}

function isHtml(headers: IncomingHttpHeaders): boolean {
  return /^(text\/html|application\/xhtml\+xml)\b/i.test(headers['content-type'] ?? '');
}

/** Replaces a load balancer's HTML page by a JSON error, as clients expect; the page is not read. */
function errorPage(
  { statusCode: status, headers: received, body }: AnswerHead,
  headers: ProviderAnswer['headers'],
): ProviderAnswer {
  body.destroy();
  const error = new UpstreamErrorPageError(status);
  const bytes = Buffer.from(JSON.stringify(error));
  return {
    status,
    headers: {
      ...headers,
      'content-type': 'application/json',
      'content-length': String(bytes.length),
      'x-should-retry': String(error.shouldRetry),
    },
    received,
    body: bodyOfChunks([bytes]),
    idleTimeout: { touch: () => {}, pause: () => {} },
  };
}

/** The answer, decompressed: the request asks for `identity`, but some providers compress anyway. */
export function decoded({ statusCode, headers, body }: AnswerHead): AnswerBody {
  const named = headers['content-encoding'];
  if (named === undefined || headers['content-length'] === '0' || statusCode === 204) return body;
  const encodings = named.split(',').map((encoding) => encoding.trim().toLowerCase());
  const encoding = encodings.filter((each) => !NO_ENCODINGS.has(each)).join();
  if (encoding === '') return body;
  const createDecoder = DECODERS.get(encoding);
  if (!createDecoder) {
    throw new UpstreamError(
      'upstream_invalid_response',
      "The model's provider answered in an unsupported content encoding.",
    );
  }
  return through(body, createDecoder());
}

/** The body, transformed. Errors of both sides surface on the result. */
function through(body: AnswerBody, transform: Duplex): AnswerBody {
  pipeline(streamOf(body), transform, () => {});
  return bodyOfStream(transform);
}

/** How servers and proxies name plain bytes; two of them join theirs. */
const NO_ENCODINGS: ReadonlySet<string> = new Set(['', 'identity', 'none']);

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
