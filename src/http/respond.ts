import { nextTurn } from '../async/slices.ts';
import { InternalError, RouterError } from '../errors/router-error.ts';
import type { ClientResponse, Exchange } from './exchange.ts';

/** Sends JSON that is already serialised. */
export function sendJson(
  exchange: Exchange,
  status: number,
  body: Buffer,
  headers?: Readonly<Record<string, string>>,
): void {
  writeHead(exchange, status, body.length, headers);
  exchange.response.end(body);
}

function writeHead(
  { id, response, corsHeaders, rateLimitHeaders, waitHeaders }: Exchange,
  status: number,
  length: number,
  headers: Readonly<Record<string, string>> | undefined,
): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': String(length),
    'x-request-id': id,
    ...corsHeaders,
    ...rateLimitHeaders,
    ...waitHeaders,
    ...headers,
  });
}

/** The header `vary` with these names, and with those of CORS and of middleware, which it would replace. */
export function varyBy({ response, corsHeaders }: Exchange, names: string): string {
  const before = corsHeaders?.['vary'] ?? response.getHeader?.('vary');
  return before === undefined ? names : `${[before].flat().join(', ')}, ${names}`;
}

/** JSON with its strong ETag. */
export interface TaggedBody {
  readonly etag: string;
  /** In bytes. */
  readonly length: number;
  /** At least one, each made when it is sent. */
  readonly pieces: () => Iterable<Buffer>;
}

/** Sends JSON that the client may keep and ask for again by its ETag: a 304 if it has these bytes.
 *
 * Resolves once all pieces were written, each in another turn of the event loop and only while the client reads, or once
 * the client has left.
 */
export async function sendTagged(
  exchange: Exchange,
  { etag, length, pieces }: TaggedBody,
  headers?: Readonly<Record<string, string>>,
): Promise<void> {
  const { corsHeaders, response } = exchange;
  const validators = {
    etag,
    // Each caller has its own list: no shared cache may keep it.
    'cache-control': 'private, no-cache',
    vary: varyBy(exchange, 'authorization'),
    ...headers,
  };
  if (matchesTag(exchange.headers['if-none-match'], etag)) {
    response.writeHead(304, { 'x-request-id': exchange.id, ...corsHeaders, ...validators });
    response.end();
    return;
  }
  writeHead(exchange, 200, length, validators);
  if (exchange.method === 'HEAD') response.end();
  else await writePieces(response, pieces());
}

async function writePieces(response: ClientResponse, pieces: Iterable<Buffer>): Promise<void> {
  let last: Buffer | undefined;
  for (const piece of pieces) {
    if (last) {
      if (!response.write(last)) await drained(response);
      await nextTurn();
    }
    if (response.destroyed) return;
    last = piece;
  }
  response.end(last);
}

/** Resolves once the client reads again, or has left. */
export function drained(response: ClientResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.on('drain', done);
    response.on('close', done);
  });
}

/** By weak comparison, as a proxy that compresses the answer makes its ETag weak (RFC 9110, 13.1.2). */
function matchesTag(given: string | undefined, etag: string): boolean {
  if (given === undefined) return false;
  return given.split(',').some((each) => each.trim() === '*' || each.trim().replace(/^W\//, '') === etag);
}

/** Sends an error in OpenAI's shape; if the head was already sent, resets the connection. */
export function sendError(exchange: Exchange, error: RouterError): void {
  if (exchange.response.destroyed) return;
  if (exchange.response.headersSent) {
    exchange.response.destroy();
    return;
  }
  sendJson(exchange, error.status, Buffer.from(JSON.stringify(error)), {
    'x-should-retry': String(error.shouldRetry),
    ...error.headers,
  });
}

/** A thrown value as an error that a client may see. */
export function toRouterError(thrown: unknown): RouterError {
  return thrown instanceof RouterError ? thrown : new InternalError(thrown);
}
