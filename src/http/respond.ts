import { InternalError, RouterError } from '../errors/router-error.ts';
import type { Exchange } from './exchange.ts';

/** Sends JSON that is already serialised. */
export function sendJson(
  exchange: Exchange,
  status: number,
  body: Buffer,
  headers?: Readonly<Record<string, string>>,
): void {
  exchange.response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': String(body.length),
    'x-request-id': exchange.id,
    ...exchange.corsHeaders,
    ...exchange.rateLimitHeaders,
    ...headers,
  });
  exchange.response.end(body);
}

/** Sends JSON that the client may keep and ask for again by its ETag: a 304 if it has these bytes. */
export function sendTagged(
  exchange: Exchange,
  { body, etag }: { readonly body: Buffer; readonly etag: string },
  headers?: Readonly<Record<string, string>>,
): void {
  const { corsHeaders } = exchange;
  const validators = {
    etag,
    // Each caller has its own list: no shared cache may keep it.
    'cache-control': 'private, no-cache',
    vary: corsHeaders?.['vary'] === undefined ? 'authorization' : `${corsHeaders['vary']}, authorization`,
    ...headers,
  };
  if (!matchesTag(exchange.headers['if-none-match'], etag)) {
    sendJson(exchange, 200, body, validators);
    return;
  }
  exchange.response.writeHead(304, { 'x-request-id': exchange.id, ...corsHeaders, ...validators });
  exchange.response.end();
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
