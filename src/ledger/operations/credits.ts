import { type Allowances, createAllowances } from './allowances.ts';
import { CreditsConflictError } from './credits-conflict.ts';
import { creditsEntry, type CreditsEntry, exportAccount } from './journal-entries.ts';
import { allowanceOf } from '../contract/allowances.ts';
import type { AdjustResult, GrantResult, JournalLine, LedgerStore, Lot } from '../contract/ledger-store.ts';
import { formatUsd, parseUsd } from '../contract/money.ts';
import { type CreditsRefund, type RefundOptions, refundRequest } from './refunds.ts';
import { makeStatement, type Statement } from './statement.ts';
import { optionsObject } from '../../platform/options-object.ts';

/** Credits of accounts, for your app. Amounts are decimal strings in USD. */
export interface Credits extends Allowances {
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
   * Adjusts a balance: up, or down to 0 or the credit limit at most. Idempotent by `id`, which no grant may have.
   *
   * @throws {TypeError} that names an invalid argument
   * @throws {CreditsConflictError} also when there is no such account, or it has less than the adjustment takes
   * @throws {AccountLostError} when the store has lost an account that this process knows
   */
  adjust(account: string, delta: string, options: AdjustOptions): Promise<CreditsChange>;
  /**
   * Takes back what a request was charged, once: from the balance, the usage, and the budgets of key, account and end user whose
   * window still runs.
   *
   * Idempotent: a repeated refund of the same amount is a duplicate.
   *
   * @returns undefined when there is no such request
   * @throws {TypeError} that names an invalid argument
   * @throws {CreditsConflictError} when it was charged less, was refunded with another amount, or is not settled yet
   */
  refund(requestId: string, options: RefundOptions): Promise<CreditsRefund | undefined>;
  /**
   * Sets how much an account may owe: its balance can be spent down to minus this amount. Idempotent.
   *
   * @param limit - '0.00' for an account that pays in advance. A debt beyond it stays; until it is paid, nothing is admitted
   * @throws {TypeError} that names an invalid argument
   * @throws {CreditsConflictError} when there is no such account
   */
  setCreditLimit(account: string, limit: string): Promise<CreditLimitChange>;
  /**
   * What happened in a month, UTC, from the journal.
   *
   * @param month - as '2026-11'
   * @returns undefined when there is no such account
   * @throws {TypeError} that names an invalid argument
   * @throws {StatementCompactedError} when lines of that month were compacted
   */
  statement(account: string, month: string): Promise<Statement | undefined>;
  /** The balance of an account; 0.00 throughout for an unknown one. */
  balance(account: string): Promise<CreditsBalance>;
  /** What is left of an account's grants and when it ends, in the order in which it is spent; empty for an unknown one. */
  lots(account: string): Promise<readonly CreditLot[]>;
  /** The changes of an account's balance, in the order that is asked for. */
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
  /**
   * Take also what the account does not have, as after a chargeback. The account is frozen.
   *
   * @default false
   */
  readonly force?: boolean;
}

export interface CreditLimitChange {
  readonly creditLimit: string;
  /** Before the change. */
  readonly previous: string;
  readonly available: string;
  /** As of `CreditsChange`. */
  readonly durable?: boolean;
}

export interface CreditsChange {
  /** The balance after the change. */
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
  /** What was granted and not used; negative for what is owed. */
  readonly balance: string;
  /** How much may be owed. */
  readonly creditLimit: string;
  /** Sum of the holds of running requests. */
  readonly held: string;
  readonly totalUsed: string;
  readonly totalGranted: string;
}

/** What is left of a grant. Amounts are decimal strings in USD. */
export interface CreditLot {
  /** That of the grant, such as a payment's. */
  readonly id: string;
  readonly amount: string;
  readonly remaining: string;
  readonly priority: number;
  /** When the rest expires; undefined if it doesn't. */
  readonly expiresAt?: Date;
  /** The allowance that granted it. */
  readonly allowance?: string;
}

export interface JournalOptions {
  /**
   * Position after which to start: that of the last entry already read.
   *
   * @default the beginning of the order
   */
  readonly after?: number;
  /** @default 'oldest', first */
  readonly order?: 'oldest' | 'newest';
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

const MAX_ENTRIES = 1000;

const GRANT_MEMBERS: Record<keyof GrantOptions, true> = {
  id: true,
  expiresAt: true,
  priority: true,
  recreate: true,
};
const ADJUST_MEMBERS: Record<keyof AdjustOptions, true> = { id: true, reason: true, force: true };
const JOURNAL_MEMBERS: Record<keyof JournalOptions, true> = { after: true, order: true, limit: true };
const EXPORT_MEMBERS: Record<keyof ExportJournalOptions, true> = { account: true, after: true };

export function createCredits(store: LedgerStore, now: () => number = Date.now): Credits {
  return {
    ...createAllowances(store),

    async grant(account, amount, options) {
      const { id, expiresAt, priority, recreate } = optionsObject(
        options,
        GRANT_MEMBERS,
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
      const { id, reason, force } = optionsObject(
        options,
        ADJUST_MEMBERS,
        "{ id, reason }, as { id: 'refund-1', reason: 'refund' }",
      );
      const change = { account, id, delta: parseUsd(delta, 'delta'), reason };
      if (change.delta === 0n) throw new TypeError(`delta must not be 0, got ${delta}`);
      const result = await store.adjust({ ...change, ...(force !== undefined && { force }) });
      return creditsChange(result, account, id);
    },

    refund: (requestId, options) => refundRequest(store, requestId, options),

    setCreditLimit: (account, limit) => setCreditLimit(store, account, limit),
    statement: (account, month) => makeStatement(store, account, month),

    async balance(account) {
      const balance = await store.balance(account);
      return {
        balance: formatUsd(balance?.available ?? 0n),
        creditLimit: formatUsd(-(balance?.floor ?? 0n)),
        held: formatUsd(balance?.held ?? 0n),
        totalUsed: formatUsd(balance?.spent ?? 0n),
        totalGranted: formatUsd(balance?.granted ?? 0n),
      };
    },

    async lots(account) {
      const { lots = [] } = (await store.balance(account)) ?? {};
      return lots.map(creditLot);
    },

    journal: (account, options) => readJournal(store, account, options),

    async *exportJournal(options = {}) {
      const { account, after = 0 } = optionsObject(options, EXPORT_MEMBERS);
      if (account === undefined && typeof after === 'number' && after !== 0) {
        throw new TypeError('after must be a function when journals of all accounts are exported');
      }
      for await (const each of account === undefined ? store.accounts() : [account]) {
        const begin = typeof after === 'function' ? await after(each) : after;
        checkPosition('after', begin);
        for await (const entry of exportAccount(store, each, begin)) yield `${JSON.stringify(entry)}\n`;
      }
    },

    async compact(account, through) {
      checkPosition('through', through);
      await store.compact(account, BigInt(through));
    },

    accounts: () => store.accounts(),
  };
}

function creditLot({ id, amount, remaining, priority, expiresAt }: Lot): CreditLot {
  const allowance = allowanceOf(id);
  return {
    id,
    amount: formatUsd(amount),
    remaining: formatUsd(remaining),
    priority,
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
    ...(allowance !== undefined && { allowance }),
  };
}

async function setCreditLimit(
  store: LedgerStore,
  account: string,
  limit: string,
): Promise<CreditLimitChange> {
  const amount = parseUsd(limit, 'creditLimit');
  if (amount < 0n) throw new TypeError(`creditLimit must be 0 or more, got ${limit}`);
  const result = await store.setFloor({ account, floor: -amount });
  if (result.code !== 'ok') throw new CreditsConflictError('no_account', account, 'creditLimit');
  const { before, available, durable } = result;
  return {
    creditLimit: formatUsd(amount),
    previous: formatUsd(-before),
    available: formatUsd(available),
    ...(durable !== undefined && { durable }),
  };
}

async function readJournal(
  store: LedgerStore,
  account: string,
  options: JournalOptions = {},
): Promise<readonly CreditsEntry[]> {
  const { after, limit = 100, order = 'oldest' } = optionsObject(options, JOURNAL_MEMBERS);
  if (after !== undefined) checkPosition('after', after);
  if (order !== 'oldest' && order !== 'newest') {
    throw new TypeError(`order must be 'oldest' or 'newest', got ${JSON.stringify(order)}`);
  }
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_ENTRIES) {
    throw new TypeError(`limit must be an integer from 1 to ${MAX_ENTRIES}, got ${limit}`);
  }
  const lines =
    order === 'newest'
      ? await newestLines(store, account, after, limit)
      : await store.journal(account, BigInt(after ?? 0), limit);
  return lines.map(creditsEntry);
}

/** The newest lines before a position, or of all, the newest first: positions have no gaps. */
async function newestLines(
  store: LedgerStore,
  account: string,
  before: number | undefined,
  limit: number,
): Promise<readonly JournalLine[]> {
  const end = before === undefined ? ((await store.balance(account))?.seq ?? 0n) : BigInt(before) - 1n;
  if (end <= 0n) return [];
  const after = end > BigInt(limit) ? end - BigInt(limit) : 0n;
  // Where the first of them are compacted, the store goes on after the end.
  const lines = await store.journal(account, after, Number(end - after));
  return lines.filter(({ seq }) => seq <= end).toReversed();
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
