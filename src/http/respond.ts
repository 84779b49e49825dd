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
