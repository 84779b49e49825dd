import type { KeyRates } from '../ledger/contract/key-records.ts';

/** The remaining requests and tokens of a key's limits per minute, as OpenAI's `x-ratelimit-*` headers. */
export function rateLimitHeaders({ requests, tokens }: KeyRates): Readonly<Record<string, string>> {
  return {
    ...(requests && {
      'x-ratelimit-limit-requests': String(requests.limit),
      'x-ratelimit-remaining-requests': String(requests.remaining),
      'x-ratelimit-reset-requests': duration(requests.resetMs),
    }),
    ...(tokens && {
      'x-ratelimit-limit-tokens': String(tokens.limit),
      'x-ratelimit-remaining-tokens': String(tokens.remaining),
      'x-ratelimit-reset-tokens': duration(tokens.resetMs),
    }),
  };
}

/** A duration in Go's format, which OpenAI uses: `20ms`, `8.64s`, `6m0s`, `1h0m0s`. */
export function duration(ms: number): string {
  if (ms > 0 && ms < 1000) return `${ms}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${(ms - minutes * 60_000) / 1000}s`;
  if (minutes === 0) return seconds;
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}
