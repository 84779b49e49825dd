import { creditsEntry, type CreditsEntry, exportAccount } from './journal-entries.ts';
import type { AdjustResult, GrantResult, LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd, parseUsd } from '../contract/money.ts';
import { optionsObject } from '../../platform/options-object.ts';

/** Prepaid credits of accounts, for your app. Amounts are decimal strings in USD. */
export interface Credits {
  /**
   * Adds credits to an account, which is created if there is none.
   *
   * Idempotent by `id`, such as a payment's: repeat the call until it resolves.
   *
   * @throws {TypeError} that names an invalid argument
   * @throws {CreditsConflictError} when the id was used with other parameters, or the account can't take the grant
   * @throws {AccountLostError} when the store has lost an account that this process knows: see `recreate`
   */
  grant(account: string, amount: string, options: GrantOptions): Promise<CreditsChange>;
  /**
   * Adjusts a balance: up, or down to 0 at most. Idempotent by `id`, which no grant may have.
   *
   * @throws {TypeError} that names an invalid argument
   * @throws {CreditsConflictError} also when there is no such account, or it has less than the adjustment takes
   * @throws {AccountLostError} when the store has lost an account that this process knows
   */
  adjust(account: string, delta: string, options: AdjustOptions): Promise<CreditsChange>;
  /** The balance of an account; 0.00 throughout for an unknown one. */
  balance(account: string): Promise<CreditsBalance>;
  /** The changes of an account's balance, oldest first. */
  journal(account: string, options?: JournalOptions): Promise<readonly CreditsEntry[]>;
  /**
   * Journals as JSON lines, each with its newline.
   *
   * Each line is self-contained: it has the entry, its `account`, and an `event` id that is the same in every export. The
   * store may be in use meanwhile; a later export can continue where this one ended.
   */
  exportJournal(options?: ExportJournalOptions): AsyncGenerator<string, void, undefined>;
  /** Replaces an account's entries, up to and including a position, by their sums. Export them first. */
  compact(account: string, through: number): Promise<void>;
  /** Ids of all accounts, in no particular order. */
  accounts(): AsyncIterable<string>;
}

export interface GrantOptions {
  readonly id: string;
  /**
   * When the unused rest expires; a number is in ms.
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
   * Recreate, without its former contents, an account that this process knows and the store has lost. This needs an
   * operator's decision: without it such a grant is refused with `account_lost`, and nothing is created.
   *
   * @default false
   */
  readonly recreate?: boolean;
}

export interface AdjustOptions {
  readonly id: string;
  /** Recorded in the journal. */
  readonly reason: string;
}

export interface CreditsChange {
  /** What the account can spend now. */
  readonly available: string;
  /** An earlier call with the same id made the change; this one changed nothing. */
  readonly duplicate: boolean;
  /**
   * Whether the change is on a disk or on the requested number of replicas: repeat the call while it is false.
   * Undefined where the store can't know.
   */
  readonly durable?: boolean;
}

export interface CreditsBalance {
  /** What can be spent now. */
  readonly balance: string;
  /** Sum of the holds of running requests. */
  readonly held: string;
  readonly totalUsed: string;
  readonly totalGranted: string;
}

export interface JournalOptions {
  /**
   * Position after which to start: that of the last entry already read.
   *
   * @default 0
   */
  readonly after?: number;
  /**
   * Maximum of entries to return, from 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number;
}

export interface ExportJournalOptions {
  /** @default all accounts */
  readonly account?: string;
  /**
   * Position after which to start: that of the last entry already exported. For all accounts: a function of the account.
   *
   * @default 0
   */
  readonly after?: number | ((account: string) => number | Promise<number>);
}

/** An account refused a change of its credits; `code` is stable and says why. */
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
  too_big: 'the balance would exceed the largest supported amount',
  too_many_lots: 'the account has the maximum number of unused grants',
  below_floor: 'the account has less than that available',
  no_account: 'there is no such account',
};

const MAX_ENTRIES = 1000;

export function createCredits(store: LedgerStore, now: () => number = Date.now): Credits {
  return {
    async grant(account, amount, options) {
      const { id, expiresAt, priority, recreate } = optionsObject(
        options,
        "{ id } with the id of the grant, as { id: 'payment-1' }",
      );
      const granted = parseUsd(amount, 'amount');
      if (granted <= 0n) throw new TypeError(`amount must be more than 0, got ${amount}`);
      // A grant that was made before its expiry may be repeated at any time.
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

    async adjust(account, delta, options) {
      const { id, reason } = optionsObject(
        options,
        "{ id, reason }, as { id: 'refund-1', reason: 'refund' }",
      );
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

    async journal(account, options = {}) {
      const { after = 0, limit = 100 } = optionsObject(options);
      checkPosition('after', after);
      if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_ENTRIES) {
        throw new TypeError(`limit must be an integer from 1 to ${MAX_ENTRIES}, got ${limit}`);
      }
      const lines = await store.journal(account, BigInt(after), limit);
      return lines.map(creditsEntry);
    },

    async *exportJournal(options = {}) {
      const { account, after = 0 } = optionsObject(options);
      if (account === undefined && typeof after === 'number' && after !== 0) {
        throw new TypeError('after must be a function when journals of all accounts are exported');
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
