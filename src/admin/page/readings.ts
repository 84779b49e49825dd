import type { AccountRow, Api, LiveRow, TargetRow, UsageRow } from './api.ts';
import type { Figures } from './figures.ts';

/** What the page knows of a range of days. */
export interface RangeUsage {
  /** In UTC, today the last one. */
  readonly days: readonly string[];
  /** By day and model. */
  readonly models: readonly UsageRow[];
  /** By account and key. */
  readonly keys: readonly UsageRow[];
  /** Charged in the same number of days before. */
  readonly chargedBefore: bigint;
  /** Account and key, as JSON → the key's name, where it has one. */
  readonly keyNames: ReadonlyMap<string, string>;
}

/** An account with what it used in the range that is shown. */
export interface AccountUsage {
  readonly account: AccountRow;
  readonly charged: bigint;
  readonly requests: number;
  /** Charged by day; of so many accounts that days would be too much to ask for, none. */
  readonly byDay: readonly bigint[];
  /** For how many days it lasts at the pace of the last ones, seven where they are known; undefined where nothing was used. */
  readonly lasts: number | undefined;
}

/** Reads what the page shows. */
export interface Readings {
  /** Of one account, or of all (`''`); accounts are always all. */
  range(days: number, account: string): Promise<{ usage: RangeUsage; accounts: readonly AccountUsage[] }>;
  now(account: string): Promise<{ requests: readonly LiveRow[]; targets: readonly TargetRow[] }>;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createReadings(api: Api, figures: Figures): Readings {
  const MOST_ACCOUNTS = 10_000;
  const NAMED_KEYS = 8;
  /** Of more, the days are not asked for. */
  const MOST_TRENDS = 100;
  const keyNames = new Map<string, string>();
  const namedAccounts = new Set<string>();

  async function allAccounts(): Promise<readonly AccountRow[]> {
    const rows: AccountRow[] = [];
    let cursor: string | null | undefined;
    do {
      const page = await api.list<AccountRow>('accounts', { limit: '1000', ...(cursor && { cursor }) });
      rows.push(...page.data);
      cursor = page.next_cursor;
    } while (cursor && rows.length < MOST_ACCOUNTS);
    return rows;
  }

  /** Asks for the names of the keys that are shown, once an account; without them, their ids do. */
  async function nameKeys(rows: readonly UsageRow[]): Promise<void> {
    const dearest = rows.toSorted((one, other) => Number(other.charged) - Number(one.charged));
    const accounts = new Set(dearest.slice(0, NAMED_KEYS).flatMap(({ account }) => account ?? []));
    const unnamed = [...accounts].filter((account) => !namedAccounts.has(account));
    await Promise.allSettled(
      unnamed.map(async (account) => {
        const path = `accounts/${encodeURIComponent(account)}/keys`;
        const { data } = await api.list<{ readonly id: string; readonly name?: string }>(path);
        namedAccounts.add(account);
        for (const { id, name } of data) if (name) keyNames.set(JSON.stringify([account, id]), name);
      }),
    );
  }

  function usedBy(
    accounts: readonly AccountRow[],
    rows: readonly UsageRow[],
    days: readonly string[],
  ): AccountUsage[] {
    const used = new Map<string, UsageRow[]>();
    for (const row of rows) {
      const own = used.get(row.account ?? '');
      if (own) own.push(row);
      else used.set(row.account ?? '', [row]);
    }
    return accounts.map((account) => {
      const own = used.get(account.id) ?? [];
      const { charged, requests } = figures.sum(own);
      const onDay = new Map(own.flatMap(({ day, charged }) => (day ? [[day, figures.nanos(charged)]] : [])));
      const byDay = accounts.length > MOST_TRENDS ? [] : days.map((day) => onDay.get(day) ?? 0n);
      const lately = byDay.slice(-7);
      const pace =
        lately.length === 0
          ? Number(charged) / days.length
          : Number(lately.reduce((sum, day) => sum + day, 0n)) / lately.length;
      const lasts = pace > 0 ? Math.max(0, Number(figures.nanos(account.balance))) / pace : undefined;
      return { account, charged, requests, byDay, lasts };
    });
  }

  return {
    async range(length, account) {
      const now = Date.now();
      const days = figures.days(length, now);
      const [before = ''] = figures.days(length * 2, now);
      const [from = '', to = ''] = [days[0], days.at(-1)];
      const filter = account && { account };
      const asked = allAccounts();
      const [models, keys, accounts, byAccount] = await Promise.all([
        api.list<UsageRow>('usage', { from: before, to, group_by: 'day,model', ...filter }),
        api.list<UsageRow>('usage', { from, to, group_by: 'account,key', ...filter }),
        asked,
        asked.then(({ length }) => {
          const group_by = length > MOST_TRENDS ? 'account' : 'day,account';
          return api.list<UsageRow>('usage', { from, to, group_by });
        }),
      ]);
      await nameKeys(keys.data);
      // A store's caller may have admitted requests without a model.
      const byModel = models.data.map((row) => ({ ...row, model: row.model || 'not known' }));
      return {
        usage: {
          days,
          models: byModel.filter(({ day = '' }) => day >= from),
          keys: keys.data,
          chargedBefore: figures.sum(byModel.filter(({ day = '' }) => day < from)).charged,
          keyNames,
        },
        accounts: usedBy(accounts, byAccount.data, days),
      };
    },

    async now(account) {
      const [requests, targets] = await Promise.all([
        api.list<LiveRow>('requests'),
        api.list<TargetRow>('health'),
      ]);
      return {
        requests: requests.data.filter((row) => account === '' || row.account === account),
        targets: targets.data,
      };
    },
  };
}
