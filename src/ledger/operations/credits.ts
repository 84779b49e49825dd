import { creditsEntry, type CreditsEntry, exportAccount } from './journal-entries.ts';
import type { AdjustResult, GrantResult, LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd, parseUsd } from '../contract/money.ts';

/** Prepaid credits of accounts, as their host manages them. Amounts are decimal strings in USD. */
export interface Credits {
  /**
   * Adds credits to an account, which it makes if there is none.
   *
   * Idempotent by `id`, as a payment's: repeat it until it resolves.
   *
   * @throws {TypeError} naming the argument that can only be a mistake
   * @throws {CreditsConflictError} when the id was used with other parameters, or the account can't take it
   * @throws {AccountLostError} when this process has known the account, and the store has lost it: see `recreate`
   */
  grant(account: string, amount: string, options: GrantOptions): Promise<CreditsChange>;
  /**
   * Corrects a balance: up, or down to 0 at most. Idempotent by `id`, of which a grant's is none.
   *
   * @throws {TypeError} naming the argument that can only be a mistake
   * @throws {CreditsConflictError} also when there is no such account, or it has less than is to be taken
   * @throws {AccountLostError} when this process has known the account, and the store has lost it
   */
  adjust(account: string, delta: string, options: AdjustOptions): Promise<CreditsChange>;
  /** What an account has; all is 0.00 of one that isn't known. */
  balance(account: string): Promise<CreditsBalance>;
  /** What changed an account's balance, oldest first. */
  journal(account: string, options?: JournalOptions): Promise<readonly CreditsEntry[]>;
  /**
   * Journals as JSON, each entry a line with its newline: pipe them into a file, or send them on.
   *
   * A line is complete by itself: beside the entry it has its `account`, and an `event`, which is the same
   * whenever the same thing is exported again. Read it while the store is in use, and again from where it ended.
   */
  exportJournal(options?: ExportJournalOptions): AsyncGenerator<string, void, undefined>;
  /** Folds an account's entries up to a position into sums: call it with what was exported, to make room. */
  compact(account: string, through: number): Promise<void>;
  /** Ids of all accounts, in no particular order. */
  accounts(): AsyncIterable<string>;
}

export interface GrantOptions {
  readonly id: string;
  /**
   * When what is left of it expires.
   *
   * @default never
   */
  readonly expiresAt?: Date | number;
  /**
   * Grants with a smaller number are used first, from 0 to 100.
   *
   * @default 50
   */
  readonly priority?: number;
  /**
   * Make the account again, without what it had, if this process has known it and the store has lost it. For an operator
   * who has decided so: without it such a grant is refused with `account_lost`, and nothing is made.
   *
   * @default false
   */
  readonly recreate?: boolean;
}

export interface AdjustOptions {
  readonly id: string;
  /** Kept in the journal. */
  readonly reason: string;
}

export interface CreditsChange {
  /** What the account can spend now. */
  readonly available: string;
  /** It was made before, by a call with the same id; nothing changed now. */
  readonly duplicate: boolean;
  /**
   * Whether it is on a disk or on as many replicas as was asked for: repeat the call while it is false.
   * Undefined where the store can't tell.
   */
  readonly durable?: boolean;
}

export interface CreditsBalance {
  /** What can be spent now. */
  readonly balance: string;
  /** What running requests hold. */
  readonly held: string;
  readonly totalUsed: string;
  readonly totalGranted: string;
}

export interface JournalOptions {
  /**
   * Position after which to begin: the last one already seen.
   *
   * @default 0
   */
  readonly after?: number;
  /**
   * The most entries to return, from 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number;
}

export interface ExportJournalOptions {
  /** @default all accounts */
  readonly account?: string;
  /**
   * Position after which to begin: the last one already exported. Of all accounts, it is asked for by account.
   *
   * @default 0
   */
  readonly after?: number | ((account: string) => number | Promise<number>);
}

/** A change that an account's credits refuse; `code` is stable and says why. */
export class CreditsConflictError extends Error {
  override readonly name = 'CreditsConflictError';
  readonly code: 'conflict' | 'too_big' | 'too_many_lots' | 'below_floor' | 'no_account';

  constructor(code: CreditsConflictError['code'], account: string, id: string) {
    super(`${id} was not applied to account ${account}: ${REASONS[code]}`);
    this.code = code;
  }
}

const REASONS: Record<CreditsConflictError['code'], string> = {
  conflict: 'the id was used before with other parameters',
  too_big: 'the balance would pass the largest amount there is',
  too_many_lots: 'the account has as many unused grants as it may',
  below_floor: 'the account has less than that available',
  no_account: 'there is no such account',
};

const MAX_ENTRIES = 1000;

export function createCredits(store: LedgerStore, now: () => number = Date.now): Credits {
  return {
    async grant(account, amount, { id, expiresAt, priority, recreate }) {
      const granted = parseUsd(amount, 'amount');
      if (granted <= 0n) throw new TypeError(`amount must be more than 0, got ${amount}`);
      // One that was made when it was still to come may be repeated for ever.
      if (Number(expiresAt) <= now() && !(await hasGrant(store, account, id))) {
        throw new TypeError(
          `expiresAt must be in the future, got ${new Date(Number(expiresAt)).toISOString()}`,
        );
      }
      const result = await store.grant({
        account,
        id,
        amount: granted,
        ...(expiresAt !== undefined && { expiresAt: Number(expiresAt) }),
        ...(priority !== undefined && { priority }),
        ...(recreate !== undefined && { recreate }),
      });
      return creditsChange(result, account, id);
    },

    async adjust(account, delta, { id, reason }) {
      const result = await store.adjust({ account, id, delta: parseUsd(delta, 'delta'), reason });
      return creditsChange(result, account, id);
    },

    async balance(account) {
      const balance = await store.balance(account);
      return {
        balance: formatUsd(balance?.available ?? 0n),
        held: formatUsd(balance?.held ?? 0n),
        totalUsed: formatUsd(balance?.spent ?? 0n),
        totalGranted: formatUsd(balance?.granted ?? 0n),
      };
    },

    async journal(account, { after = 0, limit = 100 } = {}) {
      checkPosition('after', after);
      if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_ENTRIES) {
        throw new TypeError(`limit must be an integer from 1 to ${MAX_ENTRIES}, got ${limit}`);
      }
      const lines = await store.journal(account, BigInt(after), limit);
      return lines.map(creditsEntry);
    },

    async *exportJournal({ account, after = 0 } = {}) {
      if (account === undefined && typeof after === 'number' && after !== 0) {
        throw new TypeError('after must be a function where journals of all accounts are exported');
      }
      for await (const each of account === undefined ? store.accounts() : [account]) {
        const begin = typeof after === 'function' ? await after(each) : after;
        checkPosition('after', begin);
        yield* exportAccount(store, each, begin);
      }
    },

    async compact(account, through) {
      checkPosition('through', through);
      await store.compact(account, BigInt(through));
    },

    accounts: () => store.accounts(),
  };
}

async function hasGrant(store: LedgerStore, account: string, id: string): Promise<boolean> {
  for (let after = 0n; ;) {
    const lines = await store.journal(account, after, MAX_ENTRIES);
    if (lines.some((line) => line.type === 'g' && line.id === id)) return true;
    const last = lines.at(-1);
    if (!last) return false;
    after = last.seq;
  }
}

function checkPosition(name: string, position: number): void {
  if (!Number.isSafeInteger(position) || position < 0) {
    throw new TypeError(`${name} must be an entry's position, got ${position}`);
  }
}

function creditsChange(result: GrantResult | AdjustResult, account: string, id: string): CreditsChange {
  if (result.code !== 'ok' && result.code !== 'duplicate') {
    throw new CreditsConflictError(result.code, account, id);
  }
  const { code, available, durable } = result;
  return {
    available: formatUsd(available),
    duplicate: code === 'duplicate',
    ...(durable !== undefined && { durable }),
  };
}
