import type { LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd } from '../contract/money.ts';

/** Accounts as their operator sees them. An account is made by its first grant or its first key. */
export interface Accounts {
  /**
   * A page of accounts, by id.
   *
   * Reads the ids of all accounts for each page, and the balances of those on it.
   *
   * @throws {TypeError} naming the option that can only be a mistake
   */
  list(options?: ListAccountsOptions): Promise<AccountPage>;
  /** Undefined when there is no such account. */
  get(account: string): Promise<AccountInfo | undefined>;
  /**
   * Refuses new requests of an account; those that run go on, and are charged.
   *
   * @returns whether there is such an account
   */
  freeze(account: string): Promise<boolean>;
  /** Admits its requests again. */
  unfreeze(account: string): Promise<boolean>;
}

export interface ListAccountsOptions {
  /**
   * The most accounts to return, from 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number;
  /** Where the page before ended: its `cursor`. */
  readonly cursor?: string;
}

export interface AccountPage {
  readonly accounts: readonly AccountInfo[];
  /** Where the next page begins; undefined when this is the last one. */
  readonly cursor?: string;
}

/** Amounts are decimal strings in USD: `granted` is the sum of `balance`, `held`, `spent` and `expired`. */
export interface AccountInfo {
  readonly id: string;
  /** What can be spent now. */
  readonly balance: string;
  /** What running requests hold. */
  readonly held: string;
  /** All that was ever charged. */
  readonly spent: string;
  /** All that was ever granted, adjustments included. */
  readonly granted: string;
  /** What was granted and not used in time. */
  readonly expired: string;
  /** What was consumed beyond the balance, and is charged to nobody. */
  readonly writtenOff: string;
  readonly frozen: boolean;
}

const MAX_ACCOUNTS = 1000;
/** Balances that are asked for at once: a page must not keep a store from its requests. */
const AT_ONCE = 20;

export function createAccounts(store: LedgerStore): Accounts {
  async function get(id: string): Promise<AccountInfo | undefined> {
    const balance = await store.balance(id);
    if (!balance) return undefined;
    const { available, held, spent, granted, expired, writtenOff, frozen } = balance;
    return {
      id,
      balance: formatUsd(available),
      held: formatUsd(held),
      spent: formatUsd(spent),
      granted: formatUsd(granted),
      expired: formatUsd(expired),
      writtenOff: formatUsd(writtenOff),
      frozen,
    };
  }

  return {
    get,

    async list({ limit = 100, cursor = '' } = {}) {
      if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_ACCOUNTS) {
        throw new TypeError(`limit must be an integer from 1 to ${MAX_ACCOUNTS}, got ${limit}`);
      }
      if (typeof cursor !== 'string') throw new TypeError(`cursor must be a string, got ${typeof cursor}`);
      const ids = await firstAfter(store.accounts(), cursor, limit + 1);
      const page = ids.slice(0, limit);
      const accounts: AccountInfo[] = [];
      for (let at = 0; at < page.length; at += AT_ONCE) {
        const found = await Promise.all(page.slice(at, at + AT_ONCE).map(get));
        accounts.push(...found.filter((account) => account !== undefined));
      }
      const last = page.at(-1);
      return { accounts, ...(ids.length > limit && last !== undefined && { cursor: last }) };
    },

    freeze: (account) => store.freeze(account, true),
    unfreeze: (account) => store.freeze(account, false),
  };
}

/** The least `count` ids above one, in order: a store gives them in any order, and may give one twice. */
async function firstAfter(ids: AsyncIterable<string>, after: string, count: number): Promise<string[]> {
  let found = new Set<string>();
  for await (const id of ids) {
    if (id <= after) continue;
    found.add(id);
    if (found.size >= 2 * count) found = new Set([...found].sort().slice(0, count));
  }
  return [...found].sort().slice(0, count);
}
