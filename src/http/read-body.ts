import { EventEmitter } from 'node:events';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';

import type { Answer } from '../async/answer.ts';
import { PassingMap } from '../async/passing-map.ts';
import { Timeout } from '../async/timeout.ts';
import {
  InvalidRequestError,
  RequestTimeoutError,
  RequestTooLargeError,
  UnsupportedMediaTypeError,
  RequestBuffersFullError,
} from '../errors/request-errors.ts';
import { asError } from '../platform/as-error.ts';
import type { ChatRequest, OptionalFields } from './chat-request.ts';
import { ChatRequestScanner, scanAtOnce, scanWhole } from './scan-request.ts';
import type { Exchange, RequestBody } from './exchange.ts';
import {
  type BodyChunks,
  byteLength,
  ChunkCollector,
  concatChunks,
  MIN_FREED_BYTES,
  NO_CHUNKS,
} from './body-chunks.ts';
import { MAX_PART_BYTES, Turns, readBuffered } from './turns.ts';

export interface BodyLimits extends SizeLimits, OptionalFields {}

export interface SizeLimits {
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
}

/** A chat completion request and its bytes. A long stream keeps neither: the bytes are released first. */
export class ReadRequest {
  /** Neither the app nor a tool has the bytes, too. */
  readonly isExclusive: boolean;
  #body: BodyChunks;
  #request: ChatRequest | undefined;

  constructor(body: BodyChunks, request: ChatRequest, isExclusive: boolean) {
    this.#body = body;
    this.#request = request;
    this.isExclusive = isExclusive;
  }

  /** Empty once it was released. */
  get body(): BodyChunks {
    return this.#body;
  }

  /** What was read of the bytes. */
  get request(): ChatRequest {
    if (!this.#request) throw new TypeError('The request was released');
    return this.#request;
  }

  /** An answer has begun: the bytes are not sent again. */
  releaseBody(): void {
    this.#body = NO_CHUNKS;
  }

  /** The answer is on its way to the client. */
  release(): void {
    this.#body = NO_CHUNKS;
    this.#request = undefined;
  }
}

/**
 * Reads the request's bytes, or takes those that a body parser has read, and scans them as they arrive.
 *
 * @param buffer - counts the bytes; the caller releases them
 * @throws a RouterError if the body is too large, too slow, cut, compressed, or not a chat completion request, or if the
 *   limit of buffered bytes is reached
 */
export function readChatRequest(
  exchange: Exchange,
  limits: BodyLimits,
  buffer: Pick<BodyBuffer, 'hold'>,
): Answer<ReadRequest> {
  const { body, headers } = exchange;
  checkContentType(headers['content-type']);
  if (body.kind !== 'stream') {
    const bytes = takeBufferedBody(headers, body, limits);
    buffer.hold(bytes.length);
    return scanBuffer(bytes, limits);
  }
  checkAnnounced(headers, limits);
  const { stream } = body;
  const length = headers['content-length'];
  const isExclusive = Number(length) >= MIN_FREED_BYTES && hasOnlyListeners(stream, 0);
  const whole = readBuffered(stream, length);
  if (!whole) return scanStream(stream, headers, limits, buffer);
  buffer.hold(whole.length);
  return scanBuffer(whole, limits, isExclusive);
}

/** Scans a small body at once, a large one in several turns of the event loop. */
export function scanBuffer(
  bytes: Buffer,
  limits: BodyLimits,
  isExclusive: boolean = false,
): Answer<ReadRequest> {
  const body = [bytes];
  if (bytes.length > MAX_PART_BYTES) {
    return scanWhole(bytes, limits).then((request) => new ReadRequest(body, request, isExclusive));
  }
  return new ReadRequest(body, scanAtOnce(bytes, limits), isExclusive);
}

/** Scans a body as it arrives. */
async function scanStream(
  stream: Readable,
  headers: Exchange['headers'],
  limits: BodyLimits,
  buffer: Pick<BodyBuffer, 'hold'>,
): Promise<ReadRequest> {
  const scanner = new ChatRequestScanner(limits);
  const { chunks: body, isExclusive } = await collect(stream, limits, { scanner, buffer });
  checkComplete(byteLength(body), headers['content-length']);
  return new ReadRequest(body, scanner.end(), isExclusive);
}

/**
 * Reads the request's bytes, or takes those that a body parser has read, without scanning them.
 *
 * @param buffer - counts the bytes; the caller releases them
 * @throws a RouterError if the body is too large, too slow, cut, or compressed
 */
export async function readBytes(
  { headers, body }: Pick<Exchange, 'headers' | 'body'>,
  limits: SizeLimits,
  buffer?: Pick<BodyBuffer, 'hold'>,
): Promise<Buffer> {
  if (body.kind !== 'stream') {
    const bytes = takeBufferedBody(headers, body, limits);
    buffer?.hold(bytes.length);
    return bytes;
  }
  checkAnnounced(headers, limits);
  const { chunks } = await collect(body.stream, limits, buffer && { buffer });
  const bytes = concatChunks(chunks);
  checkComplete(bytes.length, headers['content-length']);
  return bytes;
}

/** The bytes that a body parser in front of the router has read. */
function takeBufferedBody(
  headers: Exchange['headers'],
  body: Exclude<RequestBody, { kind: 'stream' }>,
  { maxBodyBytes }: SizeLimits,
): Buffer {
  if (body.kind === 'lost') {
    throw new InvalidRequestError(
      'truncated_body',
      `The request body was consumed before it reached the router. ${body.remedy}`,
    );
  }
  const { bytes, exact } = body;
  if (bytes.length > maxBodyBytes) throw new RequestTooLargeError(maxBodyBytes);
  if (exact && !headers['content-encoding']) checkComplete(bytes.length, headers['content-length']);
  return bytes;
}

/** Checks the headers before any byte is read. */
function checkAnnounced(headers: Exchange['headers'], { maxBodyBytes }: SizeLimits): void {
  checkContentEncoding(headers['content-encoding']);
  if (Number(headers['content-length']) > maxBodyBytes) throw new RequestTooLargeError(maxBodyBytes);
}

/** Receive each chunk of a body, and may reject it by throwing. */
interface ChunkObservers {
  readonly scanner?: ChatRequestScanner;
  readonly buffer?: Pick<BodyBuffer, 'hold'>;
}

/** Reads a stream to its end and passes each chunk to the observers; if one throws, reading ends with that error. */
function collect(
  stream: Readable,
  limits: SizeLimits,
  { scanner, buffer }: ChunkObservers = {},
): Promise<Pick<ReadRequest, 'isExclusive'> & { readonly chunks: BodyChunks }> {
  return new Promise((resolve, reject) => {
    const chunks = new ChunkCollector();
    let isExclusive = hasOnlyListeners(stream, 0);
    let length = 0;
    let rejection: unknown;
    let isEnded = false;
    const turns = new Turns(stream, {
      inspect: (part) => {
        attempt(() => scanner?.write(part));
      },
      forward: settleIfRejected,
      canContinue: () => true,
    });
    const timeout = new Timeout(limits.bodyTimeoutMs, () => {
      settle(() => {
        reject(new RequestTimeoutError(length, limits.bodyTimeoutMs));
      });
    });

    function settle(outcome: () => void): void {
      timeout.clear();
      turns.stop();
      stream.off('data', onData).off('end', onEnd).off('error', onCut).off('close', onCut);
      // The rest is read and discarded, so that the client can read the response.
      if (!stream.readableEnded && !stream.destroyed) stream.on('error', ignore).resume();
      outcome();
    }

    function attempt(act: () => void): void {
      if (rejection !== undefined) return;
      try {
        act();
      } catch (error) {
        rejection = error;
      }
    }

    function settleIfRejected(): void {
      if (rejection === undefined) return;
      settle(() => {
        reject(asError(rejection));
      });
    }

    function onData(given: Buffer | string): void {
      // Middleware may have called `setEncoding`.
      const chunk =
        typeof given === 'string' ? Buffer.from(given, stream.readableEncoding ?? undefined) : given;
      length += chunk.length;
      isExclusive &&= hasOnlyListeners(stream, 1);
      attempt(() => {
        if (length > limits.maxBodyBytes) throw new RequestTooLargeError(limits.maxBodyBytes);
        buffer?.hold(chunk.length);
        chunks.add(chunk);
      });
      turns.take(chunk);
    }

    function onEnd(): void {
      isEnded = true;
      turns.end(() => {
        settle(() => {
          resolve({ chunks: chunks.take(), isExclusive });
        });
      });
    }

    function onCut(error?: unknown): void {
      // A stream that ended normally is closed, too.
      if (isEnded) return;
      settle(() => {
        reject(
          asHostLimitError(error) ??
            new InvalidRequestError('truncated_body', `The request body was cut after ${length} bytes.`),
        );
      });
    }

    stream.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut);
    // A parser that was there first has seen the end of an empty body.
    if (stream.readableEnded) onEnd();
    else if (stream.destroyed) onCut();
  });
}

/** As they were when the router was loaded. */
// oxlint-disable typescript/unbound-method -- they are compared only
const { on, push, read } = Readable.prototype;
const { emit } = EventEmitter.prototype;
// oxlint-enable typescript/unbound-method

/**
 * Whether this many listeners, and nothing else, get a body's bytes. Node makes them for the listeners of a request that came by a socket. Others
 * may have those of another stream, or of a request whose methods were replaced, as tools of observability do.
 */
function hasOnlyListeners(stream: Readable, count: number): boolean {
  return (
    stream instanceof IncomingMessage &&
    stream.socket instanceof Socket &&
    stream.socket.bytesRead > 0 &&
    stream.listenerCount('data') === count &&
    stream.listenerCount('readable') === 0 &&
    stream.on === on &&
    stream.push === push &&
    stream.read === read &&
    stream.emit === emit
  );
}

function ignore(): void {}

/** Accepts any JSON type, `text/plain` or none: clients send all of these, and the bytes decide. */
function checkContentType(header: string | undefined): void {
  if (header === undefined || header === 'application/json') return;
  const [type = '', ...parameters] = header.toLowerCase().split(';');
  const charset = parameters.map((parameter) => parameter.trim()).find((p) => p.startsWith('charset='));
  if (charset && !/^charset="?(utf-?8|us-ascii)"?$/.test(charset)) {
    throw new UnsupportedMediaTypeError(
      'unsupported_content_type',
      `The request body must be UTF-8, not ${JSON.stringify(charset.slice(8, 60))}.`,
    );
  }
  if (!/^(application\/([\w.-]+\+)?json|text\/plain|)$/.test(type.trim())) {
    throw new UnsupportedMediaTypeError(
      'unsupported_content_type',
      `The request body must be application/json, not ${JSON.stringify(type.trim().slice(0, 60))}; with curl: -H 'content-type: application/json'.`,
    );
  }
}

function checkContentEncoding(header: string | undefined): void {
  if (header === undefined || header.toLowerCase() === 'identity') return;
  throw new UnsupportedMediaTypeError(
    'unsupported_content_encoding',
    `The request body must not be compressed, but is ${JSON.stringify(header.slice(0, 60))}.`,
  );
}

/** Frameworks abort a body that exceeds their limit: SvelteKit and srvx with a 413, Astro with a message. */
function asHostLimitError(error: unknown): RequestTooLargeError | undefined {
  if (!(error instanceof Error)) return undefined;
  const isLimit =
    ('status' in error && error.status === 413) || error.message.startsWith('Body size limit exceeded');
  if (!isLimit) return undefined;
  return new RequestTooLargeError(
    "The request body exceeds the limit of the server in front of the router: BODY_SIZE_LIMIT in SvelteKit's " +
      'adapter-node, bodySizeLimit in @astrojs/node, maxRequestBodySize in srvx (h3, Nitro).',
  );
}

/** Some frameworks (Next.js beyond its proxyClientMaxBodySize) truncate a long body silently. */
function checkComplete(received: number, contentLength: string | undefined): void {
  if (contentLength === undefined || Number(contentLength) === received) return;
  const counts = `The request body should have ${contentLength} bytes, but the router received ${received}`;
  if (received > 0 && received < Number(contentLength)) {
    throw new RequestTooLargeError(
      `${counts}: it was truncated on the way. With a proxy.ts of Next.js, ` +
        'the limit is experimental.proxyClientMaxBodySize.',
    );
  }
  throw new InvalidRequestError('truncated_body', `${counts}.`);
}

/** A key may hold one of this many equal shares. */
const SHARES = 4;

export interface BufferLimits {
  readonly maxBodyBytes: number;
  readonly maxBufferedBytes: number;
}

/**
 * Bounds the bytes buffered for requests that aren't admitted yet: in total, and for each key to a quarter of that, but
 * never to less than one body of the maximum size.
 */
export class BufferedBytes {
  readonly #maxBytes: number;
  readonly #maxBytesPerKey: number;
  readonly #keys = new PassingMap<KeyBuffers>();
  #held = 0;

  constructor({ maxBodyBytes, maxBufferedBytes }: BufferLimits) {
    this.#maxBytes = maxBufferedBytes;
    this.#maxBytesPerKey = Math.max(maxBodyBytes, Math.floor(maxBufferedBytes / SHARES));
  }

  /** In bytes. */
  get held(): number {
    return this.#held;
  }

  /** Starts counting for a body that begins to arrive; the caller must call `release`. */
  reserveFor(account: string, key: string): BodyBuffer {
    const name = `${account} ${key}`;
    const holder = this.#keys.get(name) ?? { bodies: 0, held: 0 };
    this.#keys.set(name, holder);
    holder.bodies += 1;
    return new HeldBody(this, name, holder);
  }

  /** @throws {RequestBuffersFullError} if a limit would be exceeded; then nothing is added */
  add(more: number, key: KeyBuffers): void {
    if (key.held + more > this.#maxBytesPerKey)
      throw new RequestBuffersFullError('key', this.#maxBytesPerKey);
    if (this.#held + more > this.#maxBytes) throw new RequestBuffersFullError('server', this.#maxBytes);
    key.held += more;
    this.#held += more;
  }

  release(bytes: number, name: string, key: KeyBuffers): void {
    key.held -= bytes;
    this.#held -= bytes;
    key.bodies -= 1;
    if (key.bodies === 0) this.#keys.delete(name);
  }
}

class HeldBody implements BodyBuffer {
  readonly #all: BufferedBytes;
  readonly #name: string;
  readonly #key: KeyBuffers;
  #bytes = 0;

  constructor(all: BufferedBytes, name: string, key: KeyBuffers) {
    this.#all = all;
    this.#name = name;
    this.#key = key;
  }

  hold(more: number): void {
    this.#all.add(more, this.#key);
    this.#bytes += more;
  }

  release(): void {
    this.#all.release(this.#bytes, this.#name, this.#key);
  }
}

/** Counts the bytes of one body while it arrives, and until the ledger has admitted its request. */
export interface BodyBuffer {
  /** @throws {RequestBuffersFullError} if a limit would be exceeded; then nothing is added */
  hold(more: number): void;
  /** The request was admitted or ended. Called once. */
  release(): void;
}

/** The buffered bodies of one key. */
interface KeyBuffers {
  bodies: number;
  held: number;
}
