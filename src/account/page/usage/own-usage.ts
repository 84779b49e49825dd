import type { Api } from '../../../page/api.ts';
import { lastDays } from '../../../page/format.ts';
import type { RangeUsage, UsageRow } from '../../../page/usage/range-usage.ts';
import type { Candidate } from '../../../page/usage/ranking.ts';
import { sum } from '../../../page/usage/sums.ts';
import { keyNameOf, readKeyNames } from '../key-names.ts';

/** Usage of a range of days, as the view shows it. */
export interface OwnUsage {
  readonly range: RangeUsage;
  /** By end user; undefined if usage isn't counted by it. */
  readonly users: readonly UsageRow[] | undefined;
  /** ID of a key → its name, where it has one. */
  readonly keyNames: ReadonlyMap<string, string>;
  readonly from: string;
  readonly to: string;
}

export interface OwnUsageQuery {
  readonly days: number;
  /** `key`, `model`. */
  readonly filters: Readonly<Record<string, string>>;
  readonly hasUsers: boolean;
}

/** @throws {ApiError} */
export async function readUsage(api: Api, query: OwnUsageQuery): Promise<OwnUsage> {
  const { filters, hasUsers } = query;
  const now = Date.now();
  const days = lastDays(query.days, now);
  const [before = ''] = lastDays(query.days * 2, now);
  const [from = '', to = ''] = [days[0], days.at(-1)];
  const [models, keys, users, keyNames] = await Promise.all([
    api.list<UsageRow>('usage', { from: before, to, group_by: 'day,model', ...filters }),
    api.list<UsageRow>('usage', { from, to, group_by: 'key', ...filters }),
    hasUsers ? api.list<UsageRow>('usage', { from, to, group_by: 'user', ...filters }) : undefined,
    readKeyNames(api),
  ]);
  return {
    range: {
      days,
      models: models.data.filter(({ day = '' }) => day >= from),
      keys: keys.data,
      chargedBefore: sum(models.data.filter(({ day = '' }) => day < from)).charged,
      keyNames,
    },
    users: users?.data,
    keyNames,
    from,
    to,
  };
}

/** The days of what was read, by model and key. @throws {ApiError} */
export function usageCsv(
  api: Api,
  { from, to }: Pick<OwnUsage, 'from' | 'to'> = { from: '', to: '' },
  filters: OwnUsageQuery['filters'],
): Promise<string> {
  return api.text('usage', { from, to, group_by: 'day,model,key', format: 'csv', ...filters });
}

/** The address of a view with one more filter. */
export type HrefTo = (filter: 'key' | 'model', value: string) => string;

export function keyCandidates({ range: { keys }, keyNames }: OwnUsage, hrefTo: HrefTo): Candidate[] {
  return keys.map((row) => {
    const { key = '' } = row;
    return {
      name: keyNameOf(keyNames, key),
      tone: 'tone-0',
      rows: [row],
      href: hrefTo('key', key),
      about: [{ name: 'Key', value: key }],
    };
  });
}

export function userCandidates({ users = [] }: OwnUsage): Candidate[] {
  return users.map((row) => ({ name: row.user || 'No end user named', tone: 'tone-1', rows: [row] }));
}
