import type { IncomingHttpHeaders } from 'node:http';
import { type Duplex, pipeline, Transform, type TransformCallback } from 'node:stream';
import * as zlib from 'node:zlib';

import { UpstreamError, UpstreamErrorPageError } from '../errors/upstream-errors.ts';
import { type AnswerBody, bodyOfChunks, bodyOfStream, streamOf } from '../http/answer-body.ts';
import type { ProviderAnswer } from '../http/relay.ts';
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
  const body = status >= 400 && isSecret(apiKey) ? redacted(plain, apiKey) : plain;
  return { status, headers, received, body, idleTimeout };
}

/** Redacts the key in an error body: servers in debug mode echo the request. */
function redacted(body: AnswerBody, apiKey: string): AnswerBody {
  return through(body, new SecretRedactor(apiKey));
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

function isHtml(headers: IncomingHttpHeaders): boolean {
  return /^(text\/html|application\/xhtml\+xml)\b/i.test(headers['content-type'] ?? '');
}

/** Replaces a load balancer's HTML page by a JSON error, as clients expect; the page is not read. */
function errorPage(
  { statusCode: status, headers: received, body }: AnswerHead,
  headers: ProviderAnswer['headers'],
): ProviderAnswer {
  body.destroy();
  const bytes = Buffer.from(JSON.stringify(new UpstreamErrorPageError(status)));
  return {
    status,
    headers: { ...headers, 'content-type': 'application/json', 'content-length': String(bytes.length) },
    received,
    body: bodyOfChunks([bytes]),
    idleTimeout: { touch: () => {}, pause: () => {} },
  };
}

/** The answer, decompressed: the request asks for `identity`, but some providers compress anyway. */
export function decoded({ statusCode, headers, body }: AnswerHead): AnswerBody {
  const encoding = headers['content-encoding']?.toLowerCase() ?? 'identity';
  if (encoding === 'identity' || headers['content-length'] === '0' || statusCode === 204) {
    return body;
  }
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
