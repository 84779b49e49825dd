import type { Exchange } from './exchange.ts';

type HeaderMap = Readonly<Record<string, string>>;

/** The provider's headers, overlaid with the router's. An event stream must not be cached, buffered or compressed in transit. */
export function headFor(answered: HeaderMap, exchange: Exchange, edited: boolean): HeaderMap {
  const { id, corsHeaders, rateLimitHeaders } = exchange;
  const headers: Record<string, string> = {
    ...answered,
    'x-request-id': id,
    ...corsHeaders,
    ...rateLimitHeaders,
  };
  const stream = isEventStream(headers);
  if (stream) {
    headers['cache-control'] = 'no-cache, no-transform';
    headers['x-accel-buffering'] = 'no';
  }
  if (stream || edited) delete headers['content-length'];
  return headers;
}

/** Judged by the `content-type` header. */
export function isEventStream(headers: HeaderMap): boolean {
  return /^text\/event-stream\b/i.test(headers['content-type'] ?? '');
}
