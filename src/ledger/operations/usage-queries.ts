import { addCounts, NO_COUNTS } from '../engine/usage-counters.ts';
import { commandError, checkAccount, checkKey } from '../engine/validate-commands.ts';
import { findGeneration, type Generation } from './generation.ts';
import type { LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd } from '../contract/money.ts';
import { DAY_MS, dayOf, isDay, isDimension, type UsageCounts } from '../contract/usage.ts';
import { forEachInSlices } from '../../async/slices.ts';
import { optionsObject } from '../../platform/options-object.ts';

/** Usage of requests, aggregated by UTC day of arrival, account, key and model, or by end user, provider or a tag. */
export interface UsageQueries {
  /**
   * Sums over a range of days, of one account or all.
   *
   * Reads 50 accounts at a time, so its memory is bounded by their rows and those that it returns, and sums them in slices.
   *
   * @throws {TypeError} that names an invalid field
   */
  query(query?: UsageQuery): Promise<readonly UsageSummary[]>;
  /** What requests are counted by beside day, key and model: `user`, `provider`, `tag:feature`; undefined if that is not known. */
  readonly dimensions?: readonly string[];
  /**
   * The outcome of one request, by the `x-request-id` of its answer.
   *
   * @returns undefined where the account has no such request. Records are kept for 24 hours after the end of the request, or 10 minutes if it cost nothing
   * @throws {TypeError} for an invalid account or id
   */
  generation(account: string, id: string): Promise<Generation | undefined>;
}

export interface UsageQuery {
  /** @default all accounts */
  readonly account?: string;
  /** Id of an API key. @default all keys */
  readonly key?: string;
  /** @default all models */
  readonly model?: string;
  /**
   * First day, UTC: `2026-11-21`, or any time on it.
   *
   * @default 29 days before `to`
   */
  readonly from?: string | Date;
  /**
   * Last day, inclusive.
   *
   * @default today
   */
  readonly to?: string | Date;
  /**
   * Dimensions of the rows. An empty list returns one row for everything. `user`, `provider` or a tag, as `tag:feature`, goes with
   * `day` and `account` alone, and without `key` and `model`: see the option `dimensions`.
   *
   * @default ['day']
   */
  readonly groupBy?: readonly UsageGroup[];
}

export type UsageGroup = 'day' | 'account' | 'key' | 'model' | 'user' | 'provider' | `tag:${string}`;

/** Has the members named in `groupBy`. Rows without requests are omitted. */
export interface UsageSummary extends Omit<UsageCounts, 'charged' | 'cost'> {
  readonly day?: string;
  readonly account?: string;
  /** Id of the API key, which is unique in its account: group by `account` too. */
  readonly key?: string;
  readonly model?: string;
  /** Empty for requests without one, `(other)` for those beyond the 1,000 that an account has rows for on a day. */
  readonly user?: string;
  /** The provider that answered, or was asked last; empty where it was not counted. */
  readonly provider?: string;
  /** The value of the tag, as `user`. */
  readonly tag?: string;
  /** USD, as a decimal string. */
  readonly charged: string;
  /** What providers bill, as far as known; USD, as a decimal string. */
  readonly cost: string;
}

/**
 * @param now - clock in ms, for the default range
 * @param dimensions - those that requests are counted by; undefined if they are not known
 */
export function createUsageQueries(
  store: LedgerStore,
  now: () => number,
  dimensions?: readonly string[],
): UsageQueries {
  return {
    ...(dimensions && { dimensions }),
    async query(query = {}) {
      const parsed = parseQuery(optionsObject(query, QUERY_MEMBERS), now(), dimensions);
      const groups = new Map<string, Group>();
      for await (const ids of parsed.account === undefined
        ? inBatches(store.accounts())
        : [[parsed.account]]) {
        const rows = await Promise.all(ids.map((id) => rowsOf(store, id, parsed)));
        for (const ofAccount of rows) {
          await forEachInSlices(ofAccount, (row) => addToGroup(groups, row, parsed.groupBy));
        }
      }
      return [...groups.values()]
        .filter(({ counts }) => counts.requests > 0 || counts.charged !== 0n)
        .toSorted((a, b) => compareNames(a.names, b.names))
        .map(({ names, counts }) => usageSummary(names, counts, parsed.groupBy));
    },

    generation: (account, id) => findGeneration(store, account, id),
  };
}

/** A row of an account, with the names that rows can be grouped by. */
type NamedRow = UsageCounts & Readonly<Partial<Record<UsageGroup, string>>>;

/** Accounts that are read at once: Redis answers a batch in one round trip. */
const AT_ONCE = 50;

async function* inBatches(accounts: AsyncIterable<string>): AsyncGenerator<readonly string[]> {
  let batch: string[] = [];
  for await (const account of accounts) {
    if (batch.push(account) < AT_ONCE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function rowsOf(store: LedgerStore, account: string, query: ParsedQuery): Promise<readonly NamedRow[]> {
  const { key, model, from, to, dimension } = query;
  // Read first: what ends meanwhile is without a value then.
  const byValue = dimension ? await store.usageBy(account, dimension, from, to) : [];
  const rows: NamedRow[] = [];
  await forEachInSlices(await store.usage(account, from, to, key), (row) => {
    if (model !== undefined && row.model !== model) return;
    rows.push({ ...row, account, ...(dimension && { [dimension]: '' }) });
  });
  if (!dimension) return rows;
  await forEachInSlices(byValue, (row) => {
    const { day, value, dimension: _, ...counts } = row;
    rows.push({ ...counts, day, account, [dimension]: value === '' ? OTHERS : value });
    rows.push({ ...negated(counts), day, account, [dimension]: '' });
  });
  return rows;
}

/** The row of all values beyond the maximum. */
const OTHERS = '(other)';

function negated(counts: UsageCounts): UsageCounts {
  return {
    requests: -counts.requests,
    errors: -counts.errors,
    aborted: -counts.aborted,
    promptTokens: -counts.promptTokens,
    cachedTokens: -counts.cachedTokens,
    completionTokens: -counts.completionTokens,
    reasoningTokens: -counts.reasoningTokens,
    charged: -counts.charged,
    cost: -counts.cost,
  };
}

const GROUPS: readonly UsageGroup[] = ['day', 'account', 'key', 'model'];
const DEFAULT_DAYS = 30;

const QUERY_MEMBERS: Record<keyof UsageQuery, true> = {
  account: true,
  key: true,
  model: true,
  from: true,
  to: true,
  groupBy: true,
};

interface ParsedQuery {
  readonly account: string | undefined;
  readonly key: string | undefined;
  readonly model: string | undefined;
  readonly from: string;
  readonly to: string;
  readonly groupBy: readonly UsageGroup[];
  /** The one of `groupBy` that is none of `GROUPS`. */
  readonly dimension: UsageGroup | undefined;
}

function parseQuery(query: UsageQuery, now: number, dimensions?: readonly string[]): ParsedQuery {
  const { account, key, model, groupBy = ['day'] } = query;
  if (account !== undefined) checkAccount(account);
  if (key !== undefined) checkKey(key);
  if (model !== undefined && typeof model !== 'string') throw commandError('model', 'a string', model);
  const dimension = checkGroups(groupBy, dimensions);
  if (dimension) {
    for (const [name, value] of Object.entries({ key, model })) {
      if (value !== undefined) throw commandError(name, `undefined with groupBy "${dimension}"`, value);
    }
  }

  const to = query.to === undefined ? dayOf(now) : dayFrom('to', query.to);
  const from =
    query.from === undefined
      ? dayOf(Date.parse(to) - (DEFAULT_DAYS - 1) * DAY_MS)
      : dayFrom('from', query.from);
  if (from > to) throw commandError('from', `a day not after to (${to})`, from);
  return { account, key, model, from, to, groupBy, dimension };
}

/** Returns the one that is `user` or a tag, if there is one. */
function checkGroups(
  groupBy: readonly UsageGroup[],
  dimensions: readonly string[] | undefined,
): UsageGroup | undefined {
  const names = [...GROUPS, ...(dimensions ?? ['user', 'provider', 'tag:NAME'])];
  const wanted = `a list of some of ${names.map((group) => `"${group}"`).join(', ')}, each once`;
  if (!Array.isArray(groupBy)) throw commandError('groupBy', wanted, groupBy);
  const isKnown = (group: string): boolean => (dimensions ? dimensions.includes(group) : isDimension(group));
  for (const group of groupBy) {
    if (!GROUPS.includes(group) && !isKnown(group)) throw commandError('groupBy', wanted, group);
  }
  if (new Set(groupBy).size < groupBy.length) throw commandError('groupBy', wanted, groupBy.join(', '));
  const dimension = groupBy.find((group) => !GROUPS.includes(group));
  const unfit = groupBy.find((group) => group !== dimension && group !== 'day' && group !== 'account');
  if (dimension !== undefined && unfit !== undefined) {
    throw commandError('groupBy', `"${dimension}" with "day" and "account" alone`, groupBy.join(', '));
  }
  return dimension;
}

function dayFrom(name: string, value: string | Date): string {
  if (value instanceof Date && !Number.isNaN(value.getTime())) return dayOf(value.getTime());
  if (typeof value === 'string') {
    if (isDay(value)) return value;
    // Only with a time zone: the day must not depend on this machine's.
    const time = /T[^T]*(?:Z|[+-]\d\d:\d\d)$/.test(value) ? Date.parse(value) : Number.NaN;
    if (!Number.isNaN(time)) return dayOf(time);
  }
  throw commandError(name, 'a day as "2026-11-21", a time as "2026-11-21T09:00:00Z", or a Date', value);
}

/** Sums for one combination of names, in the order of `groupBy`. */
interface Group {
  readonly names: readonly string[];
  counts: UsageCounts;
}

function addToGroup(groups: Map<string, Group>, row: NamedRow, groupBy: readonly UsageGroup[]): void {
  const names = groupBy.map((group) => row[group] ?? '');
  const id = JSON.stringify(names);
  let group = groups.get(id);
  if (!group) groups.set(id, (group = { names, counts: { ...NO_COUNTS } }));
  addCounts(group.counts, row);
}

function usageSummary(
  names: readonly string[],
  { charged, cost, ...counts }: UsageCounts,
  groupBy: readonly UsageGroup[],
): UsageSummary {
  return {
    ...Object.fromEntries(groupBy.map((group, n) => [memberOf(group), names[n]])),
    ...counts,
    charged: formatUsd(charged),
    cost: formatUsd(cost),
  };
}

/** The member of a summary that has the name. */
export function memberOf(
  group: UsageGroup,
): 'day' | 'account' | 'key' | 'model' | 'user' | 'provider' | 'tag' {
  return isTag(group) ? 'tag' : group;
}

function isTag(group: UsageGroup): group is `tag:${string}` {
  return group.startsWith('tag:');
}

function compareNames(a: readonly string[], b: readonly string[]): number {
  for (const [n, name] of a.entries()) {
    const other = b[n] ?? '';
    if (name !== other) return name < other ? -1 : 1;
  }
  return 0;
}
