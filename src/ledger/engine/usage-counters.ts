import type { AccountRows, RequestRow } from './account-rows.ts';
import type { Dimensions, Ending, SettledUsage } from '../contract/ledger-store.ts';
import type { NanoDollars } from '../contract/money.ts';
import { requestTime } from '../contract/request-ids.ts';
import { dayOf, MAX_DIMENSION_VALUES, type UsageCounts, type UsageRow } from '../contract/usage.ts';

/** How a request ended, for the usage counters. */
export interface Ended {
  readonly model: string;
  /** Undefined where unknown: its gateway died, or gave up an admit without a reply. */
  readonly ending: Ending | undefined;
  /** What was consumed, if the request is charged. */
  readonly usage?: SettledUsage | undefined;
  readonly dimensions?: Dimensions | undefined;
}

/** Whether the request counts as failed: it is neither known to have succeeded, nor was its client disconnected. */
export function isError({ ending, usage }: Pick<Ended, 'ending' | 'usage'>): boolean {
  const isFine = ending === 'finished' && usage !== undefined && usage.finishReason !== 'error';
  return !isFine && !isAborted({ ending });
}

export function isAborted({ ending }: Pick<Ended, 'ending'>): boolean {
  return ending === 'client_gone';
}

/**
 * Adds an ended request to its rows. Called once per id, because the record shows that it has ended.
 *
 * @returns the dimensions in which it shares a row with others
 */
export function countEnd(
  account: AccountRows,
  { id, key }: Pick<RequestRow, 'id' | 'key'>,
  ended: Ended,
  charged: NanoDollars,
): readonly string[] {
  const { model, usage, dimensions } = ended;
  const day = dayOf(requestTime(id));
  // Listed, here and below: made by a spread, with the others added, a row takes twice the memory.
  const row: UsageRow = {
    day,
    key,
    model,
    requests: 1,
    errors: isError(ended) ? 1 : 0,
    aborted: isAborted(ended) ? 1 : 0,
    promptTokens: usage?.promptTokens ?? 0,
    cachedTokens: usage?.cachedTokens ?? 0,
    completionTokens: usage?.completionTokens ?? 0,
    reasoningTokens: usage?.reasoningTokens ?? 0,
    charged,
    cost: usage?.cost ?? 0n,
  };
  account.count(row);
  return countDimensions(account, day, dimensions, row);
}

const NO_DIMENSIONS: readonly string[] = [];

/** Adds to the row of each dimension; returns those in which that is the shared row. */
function countDimensions(
  { dimensions: rows }: AccountRows,
  day: string,
  dimensions: Dimensions | undefined,
  counts: UsageCounts,
): readonly string[] {
  if (!dimensions) return NO_DIMENSIONS;
  const { requests, errors, aborted, charged, cost } = counts;
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = counts;
  const shared: string[] = [];
  for (const [dimension, value] of Object.entries(dimensions)) {
    const isShared = !rows.has(day, dimension, value) && rows.values(day, dimension) >= MAX_DIMENSION_VALUES;
    if (isShared) shared.push(dimension);
    rows.count({
      day,
      dimension,
      value: isShared ? '' : value,
      requests,
      errors,
      aborted,
      promptTokens,
      cachedTokens,
      completionTokens,
      reasoningTokens,
      charged,
      cost,
    });
  }
  return shared;
}

/** Undoes the counts of an expiry, now that the real end of the request is known. Its dimensions were not known then. */
export function uncountExpiry(
  account: AccountRows,
  { id, key, model }: Pick<RequestRow, 'id' | 'key' | 'model'>,
  charged: NanoDollars,
): void {
  const nothing = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0, cost: 0n };
  const day = dayOf(requestTime(id));
  account.count({ day, key, model, requests: -1, errors: -1, aborted: 0, ...nothing, charged: -charged });
}

/** Adds to the charge of a request that was counted before. */
export function countMore(
  account: AccountRows,
  { id, key, model }: Pick<RequestRow, 'id' | 'key' | 'model'>,
  charged: NanoDollars,
  dimensions?: Dimensions,
): void {
  const day = dayOf(requestTime(id));
  const counts = { ...NO_COUNTS, charged };
  account.count({ day, key, model, ...counts });
  countDimensions(account, day, dimensions, counts);
}

export const NO_COUNTS: UsageCounts = {
  requests: 0,
  errors: 0,
  aborted: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  charged: 0n,
  cost: 0n,
};

/** Counts that go on counting. */
export type Mutable<Counts> = { -readonly [Name in keyof Counts]: Counts[Name] };

/** Adds to the counts in place. */
export function addCounts(counts: Mutable<UsageCounts>, more: UsageCounts): void {
  counts.requests += more.requests;
  counts.errors += more.errors;
  counts.aborted += more.aborted;
  counts.promptTokens += more.promptTokens;
  counts.cachedTokens += more.cachedTokens;
  counts.completionTokens += more.completionTokens;
  counts.reasoningTokens += more.reasoningTokens;
  counts.charged += more.charged;
  counts.cost += more.cost;
}
