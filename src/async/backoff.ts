/** Parameters of an exponential backoff. */
export interface BackoffOptions {
  /** Longest delay before the first retry, in ms; it doubles with each further retry. */
  readonly firstMs: number;
  /** Longest delay before any retry, in ms. Default: none. */
  readonly maxMs?: number;
  /** The share of a delay that is random, from 0 to 1: 100 ms with 0.25 is 75 to 100 ms. Default: 0.5. */
  readonly jitter?: number;
  /** Returns from 0 to below 1. Default: `Math.random`. */
  readonly random?: () => number;
}

/**
 * The delay before a retry, in ms: exponential, bounded, and with jitter, so that clients that failed together don't
 * retry together.
 *
 * @param retries - how many retries came before: 0 for the first
 */
export function backoff(
  retries: number,
  { firstMs, maxMs = Infinity, jitter = 0.5, random = Math.random }: BackoffOptions,
): number {
  return Math.min(maxMs, firstMs * 2 ** retries) * (1 - jitter * random());
}
