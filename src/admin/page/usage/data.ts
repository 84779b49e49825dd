import type { Api } from '../../../page/api.ts';
import type { RangeUsage, UsageRow } from '../../../page/usage/range-usage.ts';
import type { AccountRow, LiveRow, TargetRow } from '../api-rows.ts';
import { lastDays, nanos } from '../../../page/format.ts';
import { allAccounts } from '../accounts/all-accounts.ts';
import { keysPath } from '../keys/key-address.ts';
import { sum } from '../../../page/usage/sums.ts';

/** An account with its usage in the shown range. */
export interface AccountUsage {
  readonly account: AccountRow;
  readonly charged: bigint;
  readonly requests: number;
  /** Charged by day; empty where there are more than `MAX_TRENDS` accounts. */
  readonly byDay: readonly bigint[];
  /** Days until the balance and the credit limit are used up, at the average of the last seven days (or of the range, without daily data); undefined without usage. */
  readonly lasts: number | undefined;
}

/** Current status of the process that answered. */
export interface LiveData {
  readonly requests: readonly LiveRow[];
  readonly targets: readonly TargetRow[];
}

/** With more accounts than this, usage by day is not queried. */
const MAX_TRENDS = 100;
/** Names are queried for the keys of this many rows. */
const NAMED_KEYS = 8;

/** Reads what the usage view shows. */
export class UsageData {
  readonly #api: Api;
  readonly #keyNames = new Map<string, string>();
  readonly #namedAccounts = new Set<string>();

  constructor(api: Api) {
    this.#api = api;
  }

  /** The usage of one account, or of all (`''`). */
  async range(length: number, account: string): Promise<RangeUsage> {
    const now = Date.now();
    const days = lastDays(length, now);
    const [before = ''] = lastDays(length * 2, now);
    const [from = '', to = ''] = [days[0], days.at(-1)];
    const filter = account && { account };
    const [models, keys] = await Promise.all([
      this.#api.list<UsageRow>('usage', { from: before, to, group_by: 'day,model', ...filter }),
      this.#api.list<UsageRow>('usage', { from, to, group_by: 'account,key', ...filter }),
    ]);
    await this.#nameKeys(keys.data);
    // The model is missing for requests that an earlier release admitted and never settled.
    const byModel = models.data.map((row) => ({ ...row, model: row.model || 'unknown' }));
    return {
      days,
      models: byModel.filter(({ day = '' }) => day >= from),
      keys: keys.data,
      chargedBefore: sum(byModel.filter(({ day = '' }) => day < from)).charged,
      keyNames: this.#keyNames,
    };
  }

  /** All accounts, with what they used. */
  async accounts(length: number): Promise<readonly AccountUsage[]> {
    const days = lastDays(length, Date.now());
    const accounts = await allAccounts(this.#api);
    const rows = await this.#api.list<UsageRow>('usage', {
      from: days[0] ?? '',
      to: days.at(-1) ?? '',
      group_by: accounts.length > MAX_TRENDS ? 'account' : 'day,account',
    });
    return accountUsages(accounts, rows.data, days);
  }

  /** The requests of one account, or of all (`''`); providers are always all. */
  async live(account: string): Promise<LiveData> {
    const [requests, targets] = await Promise.all([
      this.#api.list<LiveRow>('running'),
      this.#api.list<TargetRow>('health'),
    ]);
    return {
      requests: requests.data.filter((row) => account === '' || row.account === account),
      targets: targets.data,
    };
  }

  /** Loads the names of the shown keys, once for each account; a key without a name is shown by its id. */
  async #nameKeys(rows: readonly UsageRow[]): Promise<void> {
    const highest = rows.toSorted((one, other) => Number(other.charged) - Number(one.charged));
    const accounts = new Set(highest.slice(0, NAMED_KEYS).flatMap(({ account }) => account ?? []));
    const unnamed = [...accounts].filter((account) => !this.#namedAccounts.has(account));
    await Promise.allSettled(
      unnamed.map(async (account) => {
        const path = keysPath(account);
        const { data } = await this.#api.list<{ readonly id: string; readonly name?: string }>(path);
        this.#namedAccounts.add(account);
        for (const { id, name } of data) if (name) this.#keyNames.set(JSON.stringify([account, id]), name);
      }),
    );
  }
}

function accountUsages(
  accounts: readonly AccountRow[],
  rows: readonly UsageRow[],
  days: readonly string[],
): AccountUsage[] {
  const rowsOf = Map.groupBy(rows, ({ account }) => account);
  return accounts.map((account) => {
    const own = rowsOf.get(account.id) ?? [];
    const { charged, requests } = sum(own);
    const onDay = new Map(own.flatMap(({ day, charged }) => (day ? [[day, nanos(charged)]] : [])));
    const byDay = accounts.length > MAX_TRENDS ? [] : days.map((day) => onDay.get(day) ?? 0n);
    const pace = pacePerDay(byDay.slice(-7), charged, days.length);
    const lasts = pace > 0 ? Math.max(0, Number(leftOf(account))) / pace : undefined;
    return { account, charged, requests, byDay, lasts };
  });
}

/** What can still be spent; less than zero where the account owes more than it may. */
export function leftOf({ balance, credit_limit }: AccountRow): bigint {
  return nanos(balance) + nanos(credit_limit);
}

function pacePerDay(lastDays: readonly bigint[], charged: bigint, days: number): number {
  if (lastDays.length === 0) return Number(charged) / days;
  return Number(lastDays.reduce((sum, day) => sum + day, 0n)) / lastDays.length;
}
