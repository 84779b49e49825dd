import { nanos } from '../../../page/format.ts';
import { type AccountUsage, leftOf } from './data.ts';

/** An account as a line of the table. */
export interface AccountLine {
  readonly account: string;
  readonly balance: bigint;
  readonly held: bigint;
  readonly charged: bigint;
  readonly requests: number;
  readonly byDay: readonly number[];
  readonly lasts: number | undefined;
  readonly state: 'frozen' | 'empty' | 'low' | 'fine';
}

export type AccountColumn = 'account' | 'charged' | 'requests' | 'held' | 'balance' | 'lasts';

/** Filter and order of the accounts table. */
export interface AccountFilter {
  readonly sort: AccountColumn;
  readonly descending: boolean;
  readonly search: string;
  readonly onlyLow: boolean;
}

const LOW_DAYS = 3;

export function accountLine({ account, charged, requests, byDay, lasts }: AccountUsage): AccountLine {
  // An account that was never given anything is new, not empty.
  const isNew = nanos(account.granted) === 0n && nanos(account.credit_limit) === 0n;
  const isEmpty = leftOf(account) <= 0n && !isNew;
  const isLow = lasts !== undefined && lasts < LOW_DAYS;
  return {
    account: account.id,
    balance: nanos(account.balance),
    held: nanos(account.held),
    charged,
    requests,
    byDay: byDay.map(Number),
    lasts,
    state: account.frozen ? 'frozen' : isEmpty ? 'empty' : isLow ? 'low' : 'fine',
  };
}

/** Whether what can be spent is used up, or will be soon. */
export function isLow({ state }: AccountLine): boolean {
  return state === 'low' || state === 'empty';
}

export function filterAccounts(lines: readonly AccountLine[], filter: AccountFilter): AccountLine[] {
  const search = filter.search.trim().toLowerCase();
  return lines
    .filter((line) => line.account.toLowerCase().includes(search) && (!filter.onlyLow || isLow(line)))
    .sort((one, other) => compare(one, other, filter));
}

function compare(one: AccountLine, other: AccountLine, { sort, descending }: AccountFilter): number {
  const [a, b] = [sortKey(one, sort), sortKey(other, sort)];
  const order = a < b ? -1 : a > b ? 1 : 0;
  return (descending ? -order : order) || (one.account < other.account ? -1 : 1);
}

function sortKey(line: AccountLine, sort: AccountColumn): bigint | number | string {
  return sort === 'lasts' ? (line.lasts ?? Infinity) : line[sort];
}

export function lastsFor({ lasts, state }: AccountLine): string {
  if (state === 'empty') return 'nothing left';
  if (lasts === undefined) return '–';
  if (lasts < 1) return 'under a day';
  if (lasts > 365) return 'over a year';
  return lasts < 2 ? '1 day' : `${Math.floor(lasts)} days`;
}
