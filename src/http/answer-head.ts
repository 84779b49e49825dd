import type { Exchange } from './exchange.ts';

type Headers = Readonly<Record<string, string>>;

/** The headers of a provider's answer, ours over them; an event stream must not be cached, buffered or compressed on its way. */
export function headFor(answered: Headers, exchange: Exchange, edited: boolean): Headers {
  const { id, corsHeaders: crossOrigin, rateLimitHeaders: rateLimit } = exchange;
  const headers: Record<string, string> = { ...answered, 'x-request-id': id, ...crossOrigin, ...rateLimit };
  const stream = isEventStream(headers);
  if (stream) {
    headers['cache-control'] = 'no-cache, no-transform';
    headers['x-accel-buffering'] = 'no';
  }
  if (stream || edited) delete headers['content-length'];
  return headers;
}

/** By what its headers say. */
export function isEventStream(headers: Headers): boolean {
  return /^text\/event-stream\b/i.test(headers['content-type'] ?? '');
}
