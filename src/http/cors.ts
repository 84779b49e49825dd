import type { Cors } from '../options/resolve-options.ts';
import type { Exchange } from './exchange.ts';
import { varyBy } from './respond.ts';

/** Response headers that a page may read. */
const EXPOSED = [
  'x-request-id',
  'x-upstream-request-id',
  'x-ccr-max-tokens',
  'x-ccr-waited-ms',
  'openai-processing-ms',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  ...['limit', 'remaining', 'reset'].flatMap((what) => [
    `x-ratelimit-${what}-requests`,
    `x-ratelimit-${what}-tokens`,
  ]),
].join(', ');

/**
 * The headers that let a page of an allowed origin read a response, or, for a preflight, send its request.
 *
 * @param methods - those of the endpoint
 */
export function corsHeaders(
  exchange: Exchange,
  cors: Cors,
  methods: readonly string[],
): Readonly<Record<string, string>> {
  const vary: Record<string, string> = cors.origins === 'any' ? {} : { vary: varyBy(exchange, 'origin') };
  const { method, headers } = exchange;
  const { origin } = headers;
  if (origin === undefined || (cors.origins !== 'any' && !cors.origins.has(origin))) return vary;
  const allowed = { ...vary, 'access-control-allow-origin': cors.origins === 'any' ? '*' : origin };
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
  if (!isPreflight) return { ...allowed, 'access-control-expose-headers': EXPOSED };
  const requestedHeaders = headers['access-control-request-headers'];
  return {
    ...allowed,
    'access-control-allow-methods': methods.join(', '),
    // Client libraries send their own headers; none of them grants more than the key does.
    ...(requestedHeaders !== undefined && { 'access-control-allow-headers': requestedHeaders }),
    'access-control-max-age': String(cors.maxAgeSeconds),
  };
}
