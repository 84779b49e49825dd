import type { DeletedAccount, LedgerStore, RequestLogStore } from '../contract/ledger-store.ts';
import { formatUsd } from '../contract/money.ts';
import { topUpClaim } from '../contract/reserved-ids.ts';
import { optionsObject } from '../../platform/options-object.ts';
import { type Finding, verifyListed } from './verify.ts';

/** Accounts, for their operator. An account is created by its first grant or its first key. */
export interface Accounts {
  /**
   * A page of accounts, ordered by id.
   *
   * Reads the ids of all accounts for each page, and the balances of those on it.
   *
   * @throws {TypeError} that names an invalid option
   */
  list(options?: ListAccountsOptions): Promise<AccountPage>;
  /** Undefined when there is no such account. */
  get(account: string): Promise<AccountInfo | undefined>;
  /**
   * Refuses new requests of an account; running ones continue and are charged.
   *
   * @returns whether there is such an account
   */
  freeze(account: string): Promise<boolean>;
  /** Admits its requests again. */
  unfreeze(account: string): Promise<boolean>;
  /**
   * Deletes an account with its keys, names, usage and journal. Its sums stay, under an ID that says nothing of it, so that
   * the totals over all accounts don't change. The account's ID can be used for a new account.
   *
   * Freeze the account before, and wait until its requests have ended. Idempotent: repeat the call until it resolves.
   *
   * @returns undefined when there is no such account
   * @throws {AccountBusyError} while requests of the account run
   */
  delete(account: string): Promise<AccountDeletion | undefined>;
  /**
   * Recomputes the totals of accounts from their records and journals, as `verifyLedger` does: all accounts a page at a time, or one
   * account. A page ends after `limit` accounts, or with the first one after two seconds.
   *
   * @throws {TypeError} that names an invalid option
   */
  verify(options?: VerifyAccountsOptions): Promise<VerifiedAccounts>;
  /** The sums of deleted accounts, in no particular order. */
  deleted(): AsyncIterable<DeletedAccountInfo>;
}

/** Amounts are decimal strings in USD: `granted` is the sum of `balance`, `spent` and `expired`. */
export interface DeletedAccountInfo {
  /** Made when the account was deleted. */
  readonly id: string;
  readonly deletedAt: Date;
  readonly balance: string;
  readonly spent: string;
  readonly granted: string;
  readonly expired: string;
  readonly writtenOff: string;
}

export interface AccountDeletion extends DeletedAccountInfo {
  /** Whether it is on a disk or on the requested number of replicas; else a failover could lose it. Undefined where unknown. */
  readonly durable?: boolean;
}

/** The account can't be deleted, because requests of it run. */
export class AccountBusyError extends Error {
  override readonly name = 'AccountBusyError';
  readonly code = 'requests_running';

  constructor(account: string, requests: number) {
    super(
      `account ${account} can't be deleted: ${requests} of its requests run. Freeze it, and try again when they have ended`,
    );
  }
}

export interface ListAccountsOptions {
  /**
   * Maximum of accounts to return, from 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number;
  /** `cursor` of the previous page. */
  readonly cursor?: string;
}

export interface VerifyAccountsOptions extends ListAccountsOptions {
  /** Only this one. */
  readonly account?: string;
}

export interface VerifiedAccounts {
  /** Number of accounts that were verified. */
  readonly accounts: number;
  /** Number of their journal lines. */
  readonly lines: number;
  /** Empty if nothing is wrong; at most the first hundred of an account. */
  readonly findings: readonly Finding[];
  /** For the next page; undefined on the last one. */
  readonly cursor?: string;
}

export interface AccountPage {
  readonly accounts: readonly AccountInfo[];
  /** For the next page; undefined on the last one. */
  readonly cursor?: string;
}

/** Amounts are decimal strings in USD: `granted` is the sum of `balance`, `held`, `spent` and `expired`. */
export interface AccountInfo {
  readonly id: string;
  /** What was granted and not used; negative for what is owed. */
  readonly balance: string;
  /** How much may be owed: the balance can be spent down to minus this. */
  readonly creditLimit: string;
  /** Sum of the holds of running requests. */
  readonly held: string;
  /** Total of all charges. */
  readonly spent: string;
  /** Total of all grants and adjustments. */
  readonly granted: string;
  /** Grants that expired unused. */
  readonly expired: string;
  /** What was consumed beyond the balance, and not charged. */
  readonly writtenOff: string;
  readonly frozen: boolean;
}

const MAX_ACCOUNTS = 1000;
/** Balances that are read concurrently: a page must not block the store for requests. */
const AT_ONCE = 20;
/** A page of `verify` begins no account after this. */
const MAX_VERIFY_MS = 2000;
/** Nor once it has this number of findings. */
const MAX_FINDINGS = 1000;

/** @param requestLog - the log of requests, which forgets a deleted account too */
export function createAccounts(
  store: LedgerStore,
  requestLog: Pick<RequestLogStore, 'forget'> | undefined = store.requestLog,
): Accounts {
  async function get(id: string): Promise<AccountInfo | undefined> {
    const balance = await store.balance(id);
    if (!balance) return undefined;
    const { available, floor, held, spent, granted, expired, writtenOff, frozen } = balance;
    return {
      id,
      balance: formatUsd(available),
      creditLimit: formatUsd(-floor),
      held: formatUsd(held),
      spent: formatUsd(spent),
      granted: formatUsd(granted),
      expired: formatUsd(expired),
      writtenOff: formatUsd(writtenOff),
      frozen,
    };
  }

  /** The IDs of a page, in order, and the cursor of the next one. @throws {TypeError} */
  async function pageOfIds(
    options: ListAccountsOptions,
  ): Promise<{ page: string[]; next: string | undefined }> {
    const { limit = 100, cursor = '' } = options;
    if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_ACCOUNTS) {
      throw new TypeError(`limit must be an integer from 1 to ${MAX_ACCOUNTS}, got ${limit}`);
    }
    if (typeof cursor !== 'string') throw new TypeError(`cursor must be a string, got ${typeof cursor}`);
    const ids = await firstAfter(store.accounts(), cursor, limit + 1);
    const page = ids.slice(0, limit);
    return { page, next: ids.length > limit ? page.at(-1) : undefined };
  }

  async function verify(options: VerifyAccountsOptions = {}): Promise<VerifiedAccounts> {
    const { account } = optionsObject(options, { account: true, limit: true, cursor: true });
    const { page, next } =
      account === undefined ? await pageOfIds(options) : { page: [account], next: undefined };
    const startedAt = performance.now();
    const findings: Finding[] = [];
    let [accounts, lines] = [0, 0];
    for (const id of page) {
      const verified = await verifyListed(store, id);
      lines += verified.lines;
      findings.push(...verified.findings);
      accounts += 1;
      const isEnough = performance.now() - startedAt > MAX_VERIFY_MS || findings.length >= MAX_FINDINGS;
      if (isEnough && accounts < page.length) return { accounts, lines, findings, cursor: id };
    }
    return { accounts, lines, findings, ...(next !== undefined && { cursor: next }) };
  }

  return {
    get,
    verify,

    async list(options = {}) {
      const { page, next } = await pageOfIds(optionsObject(options, { limit: true, cursor: true }));
      const accounts: AccountInfo[] = [];
      for (let at = 0; at < page.length; at += AT_ONCE) {
        const found = await Promise.all(page.slice(at, at + AT_ONCE).map(get));
        accounts.push(...found.filter((account) => account !== undefined));
      }
      return { accounts, ...(next !== undefined && { cursor: next }) };
    },

    freeze: (account) => store.freeze(account, true),
    unfreeze: (account) => store.freeze(account, false),

    async delete(account) {
      const result = await store.deleteAccount(account);
      if (result.code === 'running') throw new AccountBusyError(account, result.requests);
      // It has the account's ID, and an ID for a payment that a new account must not have.
      await store.claim?.(topUpClaim(account), 0);
      // Also of an account that is gone: an earlier call may have failed here.
      await requestLog?.forget(account);
      if (result.code === 'no_account') return undefined;
      const { deleted, durable } = result;
      return { ...deletedInfo(deleted), ...(durable !== undefined && { durable }) };
    },

    async *deleted() {
      for await (const each of store.deletedAccounts()) yield deletedInfo(each);
    },
  };
}

function deletedInfo(account: DeletedAccount): DeletedAccountInfo {
  const { id, deletedAt, available, spent, granted, expired, writtenOff } = account;
  return {
    id,
    deletedAt: new Date(deletedAt),
    balance: formatUsd(available),
    spent: formatUsd(spent),
    granted: formatUsd(granted),
    expired: formatUsd(expired),
    writtenOff: formatUsd(writtenOff),
  };
}

/** The first `count` ids after `after`, in order. A store returns them in any order, and possibly twice. */
async function firstAfter(ids: AsyncIterable<string>, after: string, count: number): Promise<string[]> {
  let found = new Set<string>();
  for await (const id of ids) {
    if (id <= after) continue;
    found.add(id);
    if (found.size >= 2 * count) found = new Set([...found].sort().slice(0, count));
  }
  return [...found].sort().slice(0, count);
}
