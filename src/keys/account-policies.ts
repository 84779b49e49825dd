import { ACCOUNT_POLICY } from '../ledger/contract/key-records.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import type { AccountInfo, Accounts as AccountBooks } from '../ledger/operations/accounts.ts';
import { optionsObject } from '../platform/options-object.ts';
import { ApiKeyConflictError, type KeyCache } from './api-keys.ts';
import type { KeyPolicy, KeyPolicyChanges } from './key-policy.ts';
import { policyOfTerms, termsOf, withChanges } from './key-terms.ts';
import { type LimitCounters, limitCounters } from './limit-counters.ts';

/** What an account may do, with all of its keys together, and what is noted of it. What isn't given isn't limited. */
export type AccountPolicy = Omit<KeyPolicy, 'expiresAt' | 'markup'>;

/** An AccountPolicy in part: what is `null` is taken away, what isn't there stays as it is. */
export type AccountPolicyChanges = { readonly [Field in keyof AccountPolicy]?: AccountPolicy[Field] | null };

/** An account with its policy and what counts against it. */
export interface AccountDetails extends AccountInfo {
  /** Without `name` and `metadata` where there are none; empty while the account has no policy. */
  readonly policy: AccountPolicy;
  /** Since the account has had a policy; undefined while it has none. */
  readonly limits?: LimitCounters;
}

/** What counts for one end user. */
export interface EndUserCounters extends LimitCounters {
  readonly endUser: string;
  /** The key whose `endUsers` limits it; undefined where those of the account do. */
  readonly key?: string;
  /** It has no counters of its own, as there are `endUsers.max` others: these are of all who share. */
  readonly shared: boolean;
}

/** Accounts, for their operator. An account is created by its first grant or its first key. */
export interface Accounts extends AccountBooks {
  /** The balance, policy and counters of an account; undefined when there is no such account. */
  get(account: string): Promise<AccountDetails | undefined>;
  /**
   * What counts for an end user: of the account, or with a key of it whose `endUsers` replaces that of the account. Without
   * requests in the current windows, the counters are those of a new one.
   *
   * @returns undefined where neither limits end users, and when there is no such account
   * @throws {TypeError} naming what is invalid
   */
  endUser(
    account: string,
    endUser: string,
    options?: { readonly key?: string },
  ): Promise<EndUserCounters | undefined>;
  /**
   * Changes the given fields of an account's policy, and removes those that are `null`; undefined if there is no such
   * account. A request must keep within the limits of its key and of its account: the tighter one refuses. What `authenticate`
   * authenticates counts too.
   *
   * Counters begin with the first policy and stay. A changed limit per minute starts full.
   *
   * @throws {TypeError} naming the invalid field; nothing was changed
   * @throws {ApiKeyConflictError} `key_changing`, if it is modified concurrently all the time
   */
  update(account: string, changes: AccountPolicyChanges): Promise<AccountDetails | undefined>;
}

/** Attempts before giving up on a concurrently modified policy (optimistic locking). */
const MAX_ATTEMPTS = 10;

export function createAccountPolicies(
  store: LedgerStore,
  books: AccountBooks,
  cache: Pick<KeyCache, 'invalidate'>,
): Accounts {
  async function get(account: string): Promise<AccountDetails | undefined> {
    const info = await books.get(account);
    if (!info) return undefined;
    const status = await store.keyState(account, ACCOUNT_POLICY);
    if (!status) return { ...info, policy: {} };
    const { name, ...policy } = policyOfTerms(status);
    return {
      ...info,
      policy: { ...(name !== '' && { name }), ...policy },
      limits: limitCounters(status),
    };
  }

  return {
    ...books,
    get,
    async endUser(account, endUser, options = {}) {
      const status = await store.endUserState(account, endUser, optionsObject(options, { key: true }).key);
      if (!status) return undefined;
      const { key, sharesEndUser: shared = false } = status;
      return { endUser, ...(key !== undefined && { key }), shared, ...limitCounters(status) };
    },
    async delete(account) {
      const deleted = await books.delete(account);
      cache.invalidate(account, ACCOUNT_POLICY);
      return deleted;
    },
    async update(account, changes) {
      // Validates first, so that invalid changes throw even if there is no such account.
      accountTermsOf(withChanges({}, optionsObject(changes)));
      for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
        const status = await store.keyState(account, ACCOUNT_POLICY);
        const known = status ? policyOfTerms(status) : {};
        const { code } = await store.updateKey({
          account,
          key: ACCOUNT_POLICY,
          version: status?.version ?? 0,
          ...accountTermsOf(withChanges(known, changes)),
        });
        cache.invalidate(account, ACCOUNT_POLICY);
        if (code === 'ok') return get(account);
        if (code === 'no_key') return undefined;
      }
      throw new ApiKeyConflictError('key_changing', account, ACCOUNT_POLICY);
    },
  };
}

/** @throws {TypeError} naming the field that can't be right */
function accountTermsOf(policy: KeyPolicyChanges & KeyPolicy): ReturnType<typeof termsOf> {
  for (const field of ['expiresAt', 'markup'] as const) {
    if (policy[field] !== undefined) throw new TypeError(`${field} is no field of an account's policy`);
  }
  return termsOf(policy);
}
