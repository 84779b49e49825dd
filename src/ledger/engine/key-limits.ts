import type { BucketRow, KeyRow } from './account-rows.ts';
import type { Admit, AdmitResult } from '../contract/ledger-store.ts';
import type { KeyRate, KeyRates, KeyState, KeyLimits } from '../contract/key-records.ts';
import type { NanoDollars } from '../contract/money.ts';
import { DAY_MS } from '../contract/usage.ts';

/**
 * Limits of a key: requests and tokens per minute (token buckets), concurrent
 * requests, and a budget per window.
 *
 * Buckets are integers: a level is in units times 60,000, so that a limit of n
 * per minute refills n per ms. They start full. A bucket may be in debt, by at
 * most an hour's worth, which only delays later requests. Times are clamped to
 * the latest one seen: a clock that steps back refills nothing.
 */

export const MINUTE_MS = 60_000;
const MAX_DEBT_MINUTES = 60;

/** The limit that refuses a request now, if any. Changes nothing. */
export function exceededLimit(
  key: KeyRow,
  { want, min, tokens }: Pick<Admit, 'want' | 'min' | 'tokens'>,
  now: number,
):
  | Pick<Extract<AdmitResult, { code: 'concurrency' }>, 'code'>
  | Pick<Extract<AdmitResult, { code: 'requests_per_minute' | 'tokens_per_minute' }>, 'code' | 'retryAfterMs'>
  | Pick<Extract<AdmitResult, { code: 'budget' }>, 'code' | 'left'>
  | undefined {
  const { concurrentRequests, requestsPerMinute, tokensPerMinute } = key.limits;
  if (concurrentRequests !== undefined && key.running >= concurrentRequests) return { code: 'concurrency' };

  const forRequest = waitMs(key.requestBucket, requestsPerMinute, 1, now);
  if (forRequest > 0) return { code: 'requests_per_minute', retryAfterMs: forRequest };
  const forTokens = waitMs(key.tokenBucket, tokensPerMinute, tokens, now);
  if (forTokens > 0) return { code: 'tokens_per_minute', retryAfterMs: forTokens };

  const left = budgetLeft(key, now);
  if (left !== undefined && want > 0n && (left <= 0n || left < min)) {
    return { code: 'budget', left: left > 0n ? left : 0n };
  }
  return undefined;
}

/** The rest of the key's budget in the window of `now`; negative if overrun, undefined without a budget. */
export function budgetLeft(
  key: Pick<KeyRow, 'limits' | 'window' | 'spent' | 'held'>,
  now: number,
): NanoDollars | undefined {
  const { budget } = key.limits;
  if (!budget) return undefined;
  const spent = windowStart(key.limits, now) > key.window ? 0n : key.spent;
  return budget.amount - spent - key.held;
}

/** Moves the key's budget to the window of `now`, never back to an earlier one. */
export function enterWindow(key: KeyRow, now: number): void {
  const start = windowStart(key.limits, now);
  if (start <= key.window) return;
  key.window = start;
  key.spent = 0n;
}

export function countRequest(key: KeyRow, now: number): void {
  take(key.requestBucket, key.limits.requestsPerMinute, 1, now);
}

/** Takes tokens from the key's bucket; returns them if negative. */
export function countTokens(key: KeyRow, tokens: number, now: number): void {
  if (tokens !== 0) take(key.tokenBucket, key.limits.tokensPerMinute, tokens, now);
}

/** State of the key's limits per minute; undefined when it has none. */
export function ratesOf(
  { limits, requestBucket, tokenBucket }: RateLimited,
  now: number,
): KeyRates | undefined {
  const { requestsPerMinute, tokensPerMinute } = limits;
  if (requestsPerMinute === undefined && tokensPerMinute === undefined) return undefined;
  const requests = requestBucket && rateOf(requestBucket, requestsPerMinute, now);
  const tokens = tokenBucket && rateOf(tokenBucket, tokensPerMinute, now);
  return { ...(requests && { requests }), ...(tokens && { tokens }) };
}

interface RateLimited {
  readonly limits: KeyLimits;
  readonly requestBucket?: BucketRow;
  readonly tokenBucket?: BucketRow;
}

type Buckets = Pick<KeyRow, 'requestBucket' | 'tokenBucket'>;

export function fullBuckets({ requestsPerMinute, tokensPerMinute }: KeyLimits, now: number): Buckets {
  return { requestBucket: fullBucket(requestsPerMinute, now), tokenBucket: fullBucket(tokensPerMinute, now) };
}

/** The key's buckets under new limits: the bucket of a changed limit starts full. */
export function bucketsUnder(limits: KeyLimits, row: KeyRow, now: number): Buckets {
  const { requestBucket, tokenBucket } = fullBuckets(limits, now);
  return {
    requestBucket:
      limits.requestsPerMinute === row.limits.requestsPerMinute ? row.requestBucket : requestBucket,
    tokenBucket: limits.tokensPerMinute === row.limits.tokensPerMinute ? row.tokenBucket : tokenBucket,
  };
}

/** The buckets that count for a limit. */
export function limitedBuckets(
  { requestsPerMinute, tokensPerMinute }: KeyLimits,
  { requestBucket, tokenBucket }: Buckets,
): Pick<KeyState, 'requestBucket' | 'tokenBucket'> {
  return {
    ...(requestsPerMinute !== undefined && { requestBucket: { ...requestBucket } }),
    ...(tokensPerMinute !== undefined && { tokenBucket: { ...tokenBucket } }),
  };
}

function fullBucket(limit: number | undefined, now: number): BucketRow {
  return { level: (limit ?? 0) * MINUTE_MS, at: now };
}

function rateOf(bucket: BucketRow, limit: number | undefined, now: number): KeyRate | undefined {
  if (limit === undefined) return undefined;
  const level = levelAt(bucket, limit, now);
  return {
    limit,
    remaining: Math.max(0, Math.floor(level / MINUTE_MS)),
    resetMs: Math.ceil((limit * MINUTE_MS - level) / limit),
  };
}

/** Start of the budget window of `now`, in ms, UTC; weeks begin on Monday. 0 for a window that never ends. */
export function windowStart({ budget }: KeyLimits, now: number): number {
  switch (budget?.per) {
    case 'day':
      return Math.floor(now / DAY_MS) * DAY_MS;
    case 'week': {
      const day = Math.floor(now / DAY_MS);
      return (day - ((day + THURSDAY) % 7)) * DAY_MS;
    }
    case 'month': {
      const date = new Date(now);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
    }
    default:
      return 0;
  }
}

/** End of the budget window that begins at `start`, in ms; undefined: never. */
export function windowEnd({ budget }: KeyLimits, start: number): number | undefined {
  switch (budget?.per) {
    case 'day':
      return windowStart({ budget }, start) + DAY_MS;
    case 'week':
      return windowStart({ budget }, start) + 7 * DAY_MS;
    case 'month': {
      const date = new Date(start);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
    }
    default:
      return undefined;
  }
}

/** Day 0 of the Unix epoch was a Thursday: 3 days after Monday. */
const THURSDAY = 3;

function levelAt(bucket: BucketRow, limit: number, now: number): number {
  // Enough to refill the deepest debt; more could exceed the safe integers.
  const elapsed = Math.min(Math.max(0, now - bucket.at), (MAX_DEBT_MINUTES + 1) * MINUTE_MS);
  return Math.min(limit * MINUTE_MS, bucket.level + elapsed * limit);
}

/** Time until `count` fits, in ms. A count above the limit fits when the bucket is full, else it never would. */
function waitMs(bucket: BucketRow, limit: number | undefined, count: number, now: number): number {
  if (limit === undefined) return 0;
  const missing = Math.min(count, limit) * MINUTE_MS - levelAt(bucket, limit, now);
  return missing <= 0 ? 0 : Math.ceil(missing / limit);
}

function take(bucket: BucketRow, limit: number | undefined, count: number, now: number): void {
  if (limit === undefined) return;
  const full = limit * MINUTE_MS;
  const level = levelAt(bucket, limit, now) - count * MINUTE_MS;
  bucket.level = Math.max(-MAX_DEBT_MINUTES * full, Math.min(full, level));
  bucket.at = Math.max(bucket.at, now);
}
