import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';

import type { Exchange, RequestBody } from '../http/exchange.ts';

/** The Node door: Express, Connect and `http.createServer` take it as it is. Resolves once the request is dealt with. */
export type NodeHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  next?: (error?: unknown) => void,
) => Promise<void>;

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
        headers: request.headers,
        body: bodyOf(request),
        response,
      },
      request,
    );
}

/** A mount by wildcard (NestJS's `forRoutes('/v1/*path')`) takes the whole path away; what it was is kept beside. */
function urlOf({ url = '/', originalUrl }: IncomingMessage & { readonly originalUrl?: unknown }): string {
  return /^\/?(\?|$)/.test(url) && typeof originalUrl === 'string' ? originalUrl : url;
}

/** What a body parser may have left on the request. */
export interface ParsedRequest {
  readonly rawBody?: unknown;
  readonly body?: unknown;
}

/** Puts what a framework's parsers left on a request of its own where Express's leave it, if they read the body. */
export function handOver(request: IncomingMessage, { rawBody, body }: ParsedRequest): void {
  if (request.readableDidRead) Object.assign(request, { rawBody, body });
}

/**
 * The unread stream, or what a parser before us made of it: the raw bytes where it kept them,
 * else its text, else its object written as JSON again.
 */
function bodyOf(request: IncomingMessage & ParsedRequest): RequestBody {
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
  return { kind: 'lost' };
}
