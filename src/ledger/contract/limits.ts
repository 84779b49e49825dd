import type { NanoDollars } from './money.ts';

/** What a key may be limited in: one table, from which checks, rows, commands and the admin API derive. */

/** Limits of a key; what isn't given isn't limited. */
export interface KeyLimits {
  readonly budget?: { readonly amount: NanoDollars; readonly per: BudgetPeriod };
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly concurrentRequests?: number;
}

export type BudgetPeriod = 'day' | 'week' | 'month' | 'lifetime';
export const BUDGET_PERIODS: readonly BudgetPeriod[] = ['day', 'week', 'month', 'lifetime'];

/** A limit that is a count, as all are but the budget. */
export type CountLimit = Exclude<keyof KeyLimits, 'budget'>;

/** Limit → its column. The order is that of a Redis key's record, which the Lua scripts read. */
export const COUNT_LIMITS: Readonly<Record<CountLimit, string>> = {
  requestsPerMinute: 'requests_per_minute',
  tokensPerMinute: 'tokens_per_minute',
  concurrentRequests: 'concurrent_requests',
};

/** The longest name of a key, in UTF-16 units. */
export const MAX_NAME_LENGTH = 200;

/** The largest count: as a limit per minute it keeps every level of a bucket a safe integer. */
export const MAX_COUNT_LIMIT = 1_000_000_000;

export const COUNT_LIMIT_NAMES: readonly CountLimit[] = Object.keys(COUNT_LIMITS).filter(isCountLimit);

function isCountLimit(name: string): name is CountLimit {
  return Object.hasOwn(COUNT_LIMITS, name);
}

/** A value for each count. */
export function everyCount<Value>(of: (limit: CountLimit) => Value): Readonly<Record<CountLimit, Value>> {
  return Object.fromEntries(COUNT_LIMIT_NAMES.map((limit) => [limit, of(limit)] as readonly unknown[]));
}

/** The counts that `read` finds. */
export function countLimits(
  read: (limit: CountLimit, index: number) => number | undefined,
): Pick<KeyLimits, CountLimit> {
  const counts = COUNT_LIMIT_NAMES.map((limit, index) => [limit, read(limit, index)]);
  return Object.fromEntries(counts.filter(([, count]) => count !== undefined));
}

export function sameLimits(one: KeyLimits, other: KeyLimits): boolean {
  return (
    one.budget?.amount === other.budget?.amount &&
    one.budget?.per === other.budget?.per &&
    COUNT_LIMIT_NAMES.every((limit) => one[limit] === other[limit])
  );
}
