import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { Readable } from 'node:stream';

import type { ClientResponse, Exchange, RequestBody } from '../http/exchange.ts';

/** The Node handler, for Express, Connect, `http.createServer` and `node:http2`.
 * Resolves once the response is over.
 */
export type NodeHandler = (
  request: NodeRequest,
  response: ServerResponse | Http2ServerResponse,
  next?: (error?: unknown) => void,
) => Promise<void>;

type NodeRequest = IncomingMessage | Http2ServerRequest;

/** Makes an exchange of Node's request and response.
 *
 * `next` is never called: the router answers all paths under its mount.
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
        response: responseOf(request, response),
      },
      request,
    );
}

function responseOf(
  { httpVersion }: NodeRequest,
  response: ServerResponse | Http2ServerResponse,
): ClientResponse {
  if ('stream' in response) return http2Response(response);
  return httpVersion === '1.0' ? http10Response(response) : response;
}

/**
 * In HTTP/1.0 the end of the connection is the end of an answer without a length: a reset alone says that it was cut.
 * Node can't reset TLS and UNIX sockets: docs/reverse-proxies.md says so.
 */
function http10Response(response: ServerResponse): ClientResponse {
  const destroy = response.destroy.bind(response);
  const reset = (): ServerResponse => {
    try {
      response.socket?.resetAndDestroy();
    } catch {
      // Not a plain TCP socket: it is closed below.
    }
    return destroy();
  };
  return Object.defineProperty(response, 'destroy', { configurable: true, value: reset });
}

/** An HTTP/2 response has no `destroyed`, and its `destroy` looks like a normal end to the client. */
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
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its types lack `flushHeaders` and some forms of `end`
  return Object.defineProperties(response as unknown as ClientResponse, own);
}

/** A wildcard mount (NestJS's `forRoutes('/v1/*path')`) removes the whole path; `originalUrl` still has it. */
function urlOf(request: NodeRequest & { readonly originalUrl?: unknown }): string {
  const { url = '/', originalUrl } = request;
  return typeof originalUrl === 'string' && /^\/?(\?|$)/.test(url) ? originalUrl : url;
}

/** Node keeps the first of two keys, but a proxy may have checked the second: two are joined, which makes them invalid. */
function headersOf({ headers, rawHeaders }: NodeRequest): IncomingHttpHeaders {
  let first: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!isAuthorization(rawHeaders[i])) continue;
    if (first !== undefined) return { ...headers, authorization: keysOf(rawHeaders).join(', ') };
    first = rawHeaders[i + 1];
  }
  return headers;
}

function keysOf(rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter((_value, i) => i % 2 === 1 && isAuthorization(rawHeaders[i - 1]));
}

function isAuthorization(name = ''): boolean {
  return name.length === AUTHORIZATION.length && name.toLowerCase() === AUTHORIZATION;
}

const AUTHORIZATION = 'authorization';

/** Members that a body parser may have set on the request. */
export interface ParsedRequest {
  readonly rawBody?: unknown;
  readonly body?: unknown;
}

/** Copies a body that was parsed onto a framework's own request to the Node request, where Express parsers put it. */
export function copyParsedBody(request: IncomingMessage, { rawBody, body }: ParsedRequest): void {
  // A stream may wait for bytes that are still to come.
  if (request.readableDidRead || body instanceof Readable) Object.assign(request, { rawBody, body });
}

/** Hint for parsers that keep the body on their framework's own request (Hapi, Adonis). */
const REMEDY =
  'Mount the router before body parsers, or copy the body that they read to the Node request: ' +
  'set req.rawBody to the bytes or text, or req.body to the parsed JSON.';

/** The unread stream, or what a parser has left: the raw bytes if it kept them, else the text, else its
 * object, serialized again.
 */
function bodyOf(request: NodeRequest & ParsedRequest): RequestBody {
  // A stream through which a hook pipes the request.
  if (request.body instanceof Readable && !request.body.readableDidRead) {
    // It may fail while unread, for a client without a key: an error without a listener would end the process.
    request.body.on('error', () => {});
    return { kind: 'stream', stream: request.body };
  }
  if (!request.readableDidRead) return { kind: 'stream', stream: request };
  for (const kept of [request.rawBody, request.body]) {
    if (Buffer.isBuffer(kept)) return { kind: 'bytes', bytes: kept, exact: true };
    if (kept instanceof Uint8Array) return { kind: 'bytes', bytes: Buffer.from(kept), exact: true };
    if (typeof kept === 'string' && !isFromJson(kept, request)) {
      return { kind: 'bytes', bytes: Buffer.from(kept), exact: true };
    }
  }
  try {
    const rendered: unknown = JSON.stringify(request.body);
    if (typeof rendered === 'string') return { kind: 'bytes', bytes: Buffer.from(rendered), exact: false };
  } catch {
    // The parsed value can't be serialized, e.g. a bigint.
  }
  return { kind: 'lost', remedy: REMEDY };
}

/** Whether a text is a JSON string that was parsed, as `express.json({ strict: false })` does; judged by its length. */
function isFromJson(text: string, { headers }: NodeRequest): boolean {
  const length = Number(headers['content-length']);
  return Buffer.byteLength(text) !== length && Buffer.byteLength(JSON.stringify(text)) === length;
}
