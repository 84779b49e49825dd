import { InternalError, RouterError } from '../errors/router-error.ts';
import type { Exchange } from './exchange.ts';

/** Answers with JSON that was serialised before. */
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

/** Answers with an error in OpenAI's shape; once the head is out, only resetting the connection is honest. */
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

/** Whatever was thrown, as something a client may see. */
export function toRouterError(thrown: unknown): RouterError {
  return thrown instanceof RouterError ? thrown : new InternalError(thrown);
}
