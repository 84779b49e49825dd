import type { BucketRow, CountersRow } from './account-rows.ts';
import {
  type Budget,
  type BudgetPeriod,
  type BudgetStatus,
  type Counters,
  type KeyLimits,
  type KeyRate,
  WINDOW_PERIODS,
  type WindowPeriod,
} from '../contract/key-records.ts';
import type { NanoDollars } from '../contract/money.ts';
import { DAY_MS } from '../contract/usage.ts';

/**
 * Counters, and what is left of limits: requests and tokens per minute (token buckets), concurrent
 * requests, and budgets per window.
 *
 * Buckets are integers: a level is in units times 60,000, so that a limit of n
 * per minute refills n per ms. They start full. A bucket may be in debt, by at
 * most an hour's worth, which only delays later requests. Times are clamped to
 * the latest one seen: a clock that steps back by a minute refills nothing, and begins no earlier window again.
 * After a longer step, buckets are full, and windows that it left begin again: to wait until the clock has
 * caught up could take days.
 */

export const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const MAX_DEBT_MINUTES = 60;
/** A time in a row that is further ahead was counted before the clock was set back. */
const MAX_AHEAD_MS = MINUTE_MS;

export function newCounters(limits: KeyLimits, now: number): CountersRow {
  return {
    held: 0n,
    running: 0,
    spent: 0n,
    countedAt: now,
    spentBefore: { hour: 0n, day: 0n, week: 0n, month: 0n },
    ...fullBuckets(limits, now),
  };
}

/** The time whose windows count: the latest one seen, unless it is from before the clock was set back. */
export function countingTime(countedAt: number, now: number): number {
  return countedAt > now + MAX_AHEAD_MS ? now : Math.max(countedAt, now);
}

/** Begins those windows of a time that the row isn't in. */
export function enterWindows(row: CountersRow, time: number): void {
  if (time === row.countedAt) return;
  if (!isSameWindow('hour', time, row.countedAt)) {
    for (const per of WINDOW_PERIODS) {
      if (!isSameWindow(per, time, row.countedAt)) row.spentBefore[per] = row.spent;
    }
  }
  row.countedAt = time;
}

/** Counts the charge, or a refund, of a request that was admitted at a time. */
export function countCharge(row: CountersRow, amount: NanoDollars, admittedAt: number): void {
  row.spent += amount;
  if (isSameWindow('hour', admittedAt, row.countedAt)) return;
  for (const per of WINDOW_PERIODS) {
    if (!isSameWindow(per, admittedAt, row.countedAt)) row.spentBefore[per] += amount;
  }
}

/** The part of `spent` of each window of `countedAt`. */
export function spentIn({ spent, spentBefore }: CountersRow): Counters['spentIn'] {
  const { hour, day, week, month } = spentBefore;
  return { hour: spent - hour, day: spent - day, week: spent - week, month: spent - month };
}

type Spending = Pick<Counters, 'held' | 'spent' | 'countedAt'> & {
  readonly spentBefore: Readonly<Record<WindowPeriod, NanoDollars>>;
};

/** The rest of a budget in the window of `now`; negative if overrun. */
export function budgetLeft({ amount, per }: Budget, row: Spending, now: number): NanoDollars {
  return amount - spentOf(per, row, now) - row.held;
}

function spentOf(per: BudgetPeriod, { spent, spentBefore, countedAt }: Spending, now: number): NanoDollars {
  if (per === 'lifetime') return spent;
  return isSameWindow(per, countingTime(countedAt, now), countedAt) ? spent - spentBefore[per] : 0n;
}

/** The state of each budget at `now`. */
export function budgetStates({ budgets = [] }: KeyLimits, row: Spending, now: number): BudgetStatus[] {
  return budgets.map((budget) => {
    const { per } = budget;
    const left = budgetLeft(budget, row, now);
    const resetsAt = per === 'lifetime' ? undefined : windowEnd(per, countingTime(row.countedAt, now));
    return {
      ...budget,
      spent: spentOf(per, row, now),
      left: left > 0n ? left : 0n,
      ...(resetsAt !== undefined && { resetsAt }),
    };
  });
}

/** Whether new counters would count the same: nothing runs, the windows of all budgets are over, and the buckets are full. */
export function isAsNew(row: CountersRow, limits: KeyLimits, now: number): boolean {
  const { budgets = [], requestsPerMinute, tokensPerMinute } = limits;
  return (
    row.running === 0 &&
    budgets.every(({ per }) => !isSameWindow(per, countingTime(row.countedAt, now), row.countedAt)) &&
    waitMs(row.requestBucket, requestsPerMinute, Infinity, now) === 0 &&
    waitMs(row.tokenBucket, tokensPerMinute, Infinity, now) === 0
  );
}

export function countRequest(row: CountersRow, { requestsPerMinute }: KeyLimits, now: number): void {
  take(row.requestBucket, requestsPerMinute, 1, now);
}

/** Takes tokens from the bucket; returns them if negative. */
export function countTokens(
  row: CountersRow,
  { tokensPerMinute }: KeyLimits,
  tokens: number,
  now: number,
): void {
  if (tokens !== 0) take(row.tokenBucket, tokensPerMinute, tokens, now);
}

type Buckets = Pick<CountersRow, 'requestBucket' | 'tokenBucket'>;

function fullBuckets({ requestsPerMinute, tokensPerMinute }: KeyLimits, now: number): Buckets {
  return { requestBucket: fullBucket(requestsPerMinute, now), tokenBucket: fullBucket(tokensPerMinute, now) };
}

/** The buckets under new limits: the bucket of a changed limit starts full. */
export function bucketsUnder(
  limits: KeyLimits,
  row: Buckets & { readonly limits: KeyLimits },
  now: number,
): Buckets {
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
): Pick<Counters, 'requestBucket' | 'tokenBucket'> {
  return {
    ...(requestsPerMinute !== undefined && { requestBucket: { ...requestBucket } }),
    ...(tokensPerMinute !== undefined && { tokenBucket: { ...tokenBucket } }),
  };
}

function fullBucket(limit: number | undefined, now: number): BucketRow {
  return { level: (limit ?? 0) * MINUTE_MS, at: now };
}

export function rateOf(bucket: BucketRow, limit: number | undefined, now: number): KeyRate | undefined {
  if (limit === undefined) return undefined;
  const level = levelAt(bucket, limit, now);
  return {
    limit,
    remaining: Math.max(0, Math.floor(level / MINUTE_MS)),
    resetMs: Math.ceil((limit * MINUTE_MS - level) / limit),
  };
}

/** Start of the window of a time, in ms, UTC; weeks begin on Monday. */
export function windowStart(per: WindowPeriod, time: number): number {
  switch (per) {
    case 'hour':
      return Math.floor(time / HOUR_MS) * HOUR_MS;
    case 'day':
      return Math.floor(time / DAY_MS) * DAY_MS;
    case 'week': {
      const day = Math.floor(time / DAY_MS);
      return (day - ((day + THURSDAY) % 7)) * DAY_MS;
    }
    default: {
      const date = new Date(time);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
    }
  }
}

/** Whether two times are in the same window. */
export function isSameWindow(per: BudgetPeriod, one: number, other: number): boolean {
  return per === 'lifetime' || windowStart(per, one) === windowStart(per, other);
}

/** End of the window of a time, in ms. */
export function windowEnd(per: WindowPeriod, time: number): number {
  const start = windowStart(per, time);
  switch (per) {
    case 'hour':
      return start + HOUR_MS;
    case 'day':
      return start + DAY_MS;
    case 'week':
      return start + 7 * DAY_MS;
    default: {
      const date = new Date(start);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
    }
  }
}

/** Day 0 of the Unix epoch was a Thursday: 3 days after Monday. */
const THURSDAY = 3;

function levelAt(bucket: BucketRow, limit: number, now: number): number {
  if (bucket.at > now + MAX_AHEAD_MS) return limit * MINUTE_MS;
  // Enough to refill the deepest debt; more could exceed the safe integers.
  const elapsed = Math.min(Math.max(0, now - bucket.at), (MAX_DEBT_MINUTES + 1) * MINUTE_MS);
  return Math.min(limit * MINUTE_MS, bucket.level + elapsed * limit);
}

/** Time until `count` fits, in ms. A count above the limit fits when the bucket is full, else it never would. */
export function waitMs(bucket: BucketRow, limit: number | undefined, count: number, now: number): number {
  if (limit === undefined) return 0;
  const missing = Math.min(count, limit) * MINUTE_MS - levelAt(bucket, limit, now);
  return missing <= 0 ? 0 : Math.ceil(missing / limit);
}

function take(bucket: BucketRow, limit: number | undefined, count: number, now: number): void {
  if (limit === undefined) return;
  const full = limit * MINUTE_MS;
  const level = levelAt(bucket, limit, now) - count * MINUTE_MS;
  bucket.level = Math.max(-MAX_DEBT_MINUTES * full, Math.min(full, level));
  bucket.at = countingTime(bucket.at, now);
}
