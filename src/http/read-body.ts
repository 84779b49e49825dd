import type { Readable } from 'node:stream';

import { Timeout } from '../async/timeout.ts';
import {
  InvalidRequestError,
  RequestTimeoutError,
  RequestTooLargeError,
  UnsupportedMediaTypeError,
} from '../errors/request-errors.ts';
import { asError } from '../platform/as-error.ts';
import { type ChatRequest, ChatRequestScanner, scanWhole } from './chat-request.ts';
import type { ClientRoutingFields } from '../options/resolve-options.ts';
import type { BodyBuffer } from './buffered-bytes.ts';
import type { Exchange, RequestBody } from './exchange.ts';
import { concatChunks, byteLength, ChunkCollector, type BodyChunks } from './body-chunks.ts';
import { MAX_PART_BYTES, Turns } from './turns.ts';
import { readBuffered } from './whole-body.ts';

export interface BodyLimits extends SizeLimits {
  readonly clientRouting: ClientRoutingFields;
}

export interface SizeLimits {
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
}

/** A chat completion request and its bytes. */
export interface ReadRequest {
  /** Given up once an answer has begun: what runs for minutes keeps no prompt. */
  body: BodyChunks;
  readonly request: ChatRequest;
}

/**
 * Takes the request's bytes, whoever read them first, and scans them as they arrive.
 *
 * @param buffer - holds its bytes; the caller gives them back
 * @throws a RouterError if the body is too large, too slow, cut, compressed, or not a chat completion request, and where
 *   there is no room for it
 */
export async function readChatRequest(
  exchange: Exchange,
  limits: BodyLimits,
  buffer: Pick<BodyBuffer, 'hold'>,
): Promise<ReadRequest> {
  const { body, headers } = exchange;
  checkContentType(headers['content-type']);
  if (body.kind !== 'stream') {
    const bytes = takeBufferedBody(headers, body, limits);
    buffer.hold(bytes.length);
    return { body: [bytes], request: await scanWhole(bytes, limits.clientRouting) };
  }
  checkAnnounced(headers, limits);
  const scanner = new ChatRequestScanner(limits.clientRouting);
  const whole = readBuffered(body.stream, headers['content-length']);
  if (whole) {
    buffer.hold(whole.length);
    if (whole.length <= MAX_PART_BYTES) scanner.write(whole);
    else await scanner.writeInTurns(whole);
    return { body: [whole], request: scanner.end() };
  }
  const chunks = await collect(body.stream, limits, { scanner, buffer });
  checkComplete(byteLength(chunks), headers['content-length']);
  return { body: chunks, request: scanner.end() };
}

/**
 * Takes the request's bytes, whoever read them first, without a look at them.
 *
 * @throws a RouterError if the body is too large, too slow, cut, or compressed
 */
export async function readBytes(
  { headers, body }: Pick<Exchange, 'headers' | 'body'>,
  limits: SizeLimits,
): Promise<Buffer> {
  if (body.kind !== 'stream') return takeBufferedBody(headers, body, limits);
  checkAnnounced(headers, limits);
  const bytes = concatChunks(await collect(body.stream, limits));
  checkComplete(bytes.length, headers['content-length']);
  return bytes;
}

/** What somebody before us read. */
function takeBufferedBody(
  headers: Exchange['headers'],
  body: Exclude<RequestBody, { kind: 'stream' }>,
  { maxBodyBytes }: SizeLimits,
): Buffer {
  if (body.kind === 'lost') {
    throw new InvalidRequestError(
      'truncated_body',
      `The request body was read before it reached this router, which found nothing of it. ${body.remedy}`,
    );
  }
  const { bytes, exact } = body;
  if (bytes.length > maxBodyBytes) throw new RequestTooLargeError(maxBodyBytes);
  if (exact && !headers['content-encoding']) checkComplete(bytes.length, headers['content-length']);
  return bytes;
}

/** What headers say already. */
function checkAnnounced(headers: Exchange['headers'], { maxBodyBytes }: SizeLimits): void {
  checkContentEncoding(headers['content-encoding']);
  if (Number(headers['content-length']) > maxBodyBytes) throw new RequestTooLargeError(maxBodyBytes);
}

/** What sees each chunk of a body, and may refuse it. */
interface ChunkObservers {
  readonly scanner?: ChatRequestScanner;
  readonly buffer?: Pick<BodyBuffer, 'hold'>;
}

/** Reads a stream to its end, showing each chunk to its watchers on the way; their refusal ends it. */
function collect(
  stream: Readable,
  limits: SizeLimits,
  { scanner, buffer }: ChunkObservers = {},
): Promise<BodyChunks> {
  return new Promise((resolve, reject) => {
    const chunks = new ChunkCollector();
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
      // What is still to come is read and forgotten, so that the client gets to read our answer.
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

    function onData(chunk: Buffer): void {
      length += chunk.length;
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
          resolve(chunks.take());
        });
      });
    }

    function onCut(error?: unknown): void {
      // What ended well is closed as well.
      if (isEnded) return;
      settle(() => {
        reject(
          asHostLimitError(error) ??
            new InvalidRequestError('truncated_body', `The request body was cut after ${length} bytes.`),
        );
      });
    }

    stream.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut);
    if (stream.destroyed) onCut();
  });
}

function ignore(): void {}

/** JSON by any name, or no name: SDKs and curl users disagree about it, and the bytes decide. */
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
      `The request body must be application/json, not ${JSON.stringify(type.trim().slice(0, 60))}.`,
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

/** Hosts break a body off that is longer than they take: SvelteKit and srvx with a 413, Astro with words. */
function asHostLimitError(error: unknown): RequestTooLargeError | undefined {
  if (!(error instanceof Error)) return undefined;
  const isLimit =
    ('status' in error && error.status === 413) || error.message.startsWith('Body size limit exceeded');
  if (!isLimit) return undefined;
  return new RequestTooLargeError(
    "The server before this router takes no body of this size. Its limit is BODY_SIZE_LIMIT in SvelteKit's " +
      'adapter-node, bodySizeLimit in @astrojs/node, maxRequestBodySize in srvx (h3, Nitro).',
  );
}

/** Some hosts (Next.js beyond its proxyClientMaxBodySize) end a long body early without saying so. */
function checkComplete(received: number, contentLength: string | undefined): void {
  if (contentLength === undefined || Number(contentLength) === received) return;
  const counts = `The request body should have ${contentLength} bytes, but ${received} reached the router`;
  if (received > 0 && received < Number(contentLength)) {
    throw new RequestTooLargeError(
      `${counts}: something before it cut the rest. In Next.js behind a proxy.ts or middleware.ts, ` +
        'the limit is experimental.proxyClientMaxBodySize.',
    );
  }
  throw new InvalidRequestError('truncated_body', `${counts}.`);
}
