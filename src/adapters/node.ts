import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { Readable } from 'node:stream';

import type { ClientResponse, Exchange, RequestBody } from '../http/exchange.ts';

/**
 * The Node door: Express, Connect and `http.createServer` take it as it is, and servers of `node:http2`.
 * Resolves once the request is dealt with.
 */
export type NodeHandler = (
  request: NodeRequest,
  response: ServerResponse | Http2ServerResponse,
  next?: (error?: unknown) => void,
) => Promise<void>;

type NodeRequest = IncomingMessage | Http2ServerRequest;

/**
 * Turns Node's pair into an exchange.
 *
 * `next` is never called: whatever comes under the mount is answered here.
 */
export function createNodeHandler(
  handle: (exchange: Exchange, request: object) => Promise<void>,
  newId: () => string,
): NodeHandler {
  return (request, response) =>
    handle(
      {
        id: newId(),
        method: request.method ?? 'GET',
        url: urlOf(request),
        headers: headersOf(request),
        body: bodyOf(request),
        response: 'stream' in response ? http2Response(response) : response,
      },
      request,
    );
}

/** HTTP/2's response doesn't say that it is destroyed, and if it is, its client sees a good end. */
function http2Response(response: Http2ServerResponse): ClientResponse {
  const { stream } = response;
  const own = {
    destroyed: { configurable: true, get: () => stream.destroyed },
    destroy: {
      configurable: true,
      value: () => {
        stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      },
    },
  };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its types know neither `flushHeaders` nor each form of `end`
  return Object.defineProperties(response as unknown as ClientResponse, own);
}

/** A mount by wildcard (NestJS's `forRoutes('/v1/*path')`) takes the whole path away; what it was is kept beside. */
function urlOf(request: NodeRequest & { readonly originalUrl?: unknown }): string {
  const { url = '/', originalUrl } = request;
  return /^\/?(\?|$)/.test(url) && typeof originalUrl === 'string' ? originalUrl : url;
}

/** Node keeps the first of two keys, and a proxy before us may have judged the second: two are joined, and so none. */
function headersOf({ headers, rawHeaders }: NodeRequest): IncomingHttpHeaders {
  const keys = rawHeaders.filter(
    (_value, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === 'authorization',
  );
  return keys.length > 1 ? { ...headers, authorization: keys.join(', ') } : headers;
}

/** What a body parser may have left on the request. */
export interface ParsedRequest {
  readonly rawBody?: unknown;
  readonly body?: unknown;
}

/** Puts what a framework's parsers left on a request of its own where Express's leave it, if they read the body. */
export function copyParsedBody(request: IncomingMessage, { rawBody, body }: ParsedRequest): void {
  if (request.readableDidRead) Object.assign(request, { rawBody, body });
}

/** What to do behind a parser that keeps the body on a request of its framework's own (Hapi, Adonis). */
const REMEDY =
  'Mount the router before body parsers, or set what they read on the Node request that the router is given: ' +
  'req.rawBody to its bytes or text, or req.body to its JSON.';

/**
 * The unread stream, or what a parser before us made of it: the raw bytes where it kept them,
 * else its text, else its object written as JSON again.
 */
function bodyOf(request: NodeRequest & ParsedRequest): RequestBody {
  if (!request.readableDidRead) return { kind: 'stream', stream: request };
  // What a hook pipes the request through.
  if (request.body instanceof Readable && !request.body.readableDidRead)
    return { kind: 'stream', stream: request.body };
  for (const kept of [request.rawBody, request.body]) {
    if (Buffer.isBuffer(kept)) return { kind: 'bytes', bytes: kept, exact: true };
    if (kept instanceof Uint8Array) return { kind: 'bytes', bytes: Buffer.from(kept), exact: true };
    if (typeof kept === 'string') return { kind: 'bytes', bytes: Buffer.from(kept), exact: true };
  }
  try {
    const rendered: unknown = JSON.stringify(request.body);
    if (typeof rendered === 'string') return { kind: 'bytes', bytes: Buffer.from(rendered), exact: false };
  } catch {
    // A parser of its own kind left what JSON can't say, e.g. a bigint.
  }
  return { kind: 'lost', remedy: REMEDY };
}
