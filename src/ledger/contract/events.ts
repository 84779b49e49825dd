import type { BudgetPeriod, LimitHolder } from './key-records.ts';

/**
 * Events of the ledger for its operator.
 *
 * They need no answer: the totals stay correct without a listener. Amounts are
 * decimal strings in USD; times are in ms.
 */
export type LedgerEvent =
  /** A request was charged more than its hold. */
  | {
      readonly type: 'overrun';
      readonly account: string;
      readonly requestId: string;
      readonly held: string;
      readonly charged: string;
    }
  /** The balance did not cover a charge: `amount` of it was written off. */
  | {
      readonly type: 'write_off';
      readonly account: string;
      readonly requestId: string;
      readonly amount: string;
    }
  /** A charge took what an account has, with what is held, from above `threshold` to `unspent`. See `thresholds`. */
  | BalanceBelow
  /** A charge took what was spent of a budget to a share of it. See `thresholds`. */
  | BudgetAt
  /** A request was refused because its account is frozen, by its operator or because its totals did not add up. */
  | { readonly type: 'frozen'; readonly account: string; readonly requestId: string }
  /**
   * An account has as many end users with limits of their own as its policy allows (`endUsers.max`): the others share one.
   * Emitted once by each process.
   */
  | { readonly type: 'end_users_full'; readonly account: string }
  /**
   * An account has as many values of a dimension on a day as usage keeps rows for, 1,000: further ones share a row. Emitted
   * once by each process.
   */
  | { readonly type: 'dimension_full'; readonly account: string; readonly dimension: string }
  /** An account lost acknowledged changes, as by a failover; they are being replayed. */
  | {
      readonly type: 'rollback';
      readonly account: string;
      /** The acknowledged journal position, and the current one. `found` may be higher, where others wrote since. */
      readonly expected: string;
      readonly found: string;
    }
  /**
   * A known account is missing from the store. Its requests, grants, adjustments and new keys are refused and its charges
   * wait until it is restored, or recreated with `recreate`.
   */
  | { readonly type: 'account_lost'; readonly account: string }
  /** The replay after a rollback is complete. */
  | { readonly type: 'rollback_repaired'; readonly account: string; readonly reapplied: number }
  /**
   * A charge, grant or adjustment was lost in a rollback, and the account now rejects it with `code`. The operator may
   * adjust the balance by `amount`, which is signed.
   */
  | {
      readonly type: 'repair_refused';
      readonly account: string;
      /** Of the request, grant or adjustment. */
      readonly id: string;
      readonly amount: string;
      readonly code: string;
    }
  /** Charges wait for the store. Emitted each time that their number doubles. */
  | { readonly type: 'outbox_growth'; readonly waiting: number; readonly oldestMs: number }
  /** A charge waited too long to be posted automatically: it was moved to `file`, for an operator. */
  | {
      readonly type: 'dead_letter';
      readonly account: string;
      readonly requestId: string;
      readonly file: string;
    }
  /** The outbox can't be written: until it can, requests are refused, or charges are kept only in memory. */
  | { readonly type: 'outbox_failed'; readonly message: string }
  /** The outbox can be written again, and holds all waiting charges. */
  | { readonly type: 'outbox_recovered' }
  /** Lines of an outbox can't be read, and may have been charges. The others were recovered; the outbox is kept as `file`. */
  | { readonly type: 'outbox_damaged'; readonly file: string; readonly lines: number }
  /** The store stopped answering, or answers again. */
  | { readonly type: 'store_unavailable'; readonly message: string }
  | { readonly type: 'store_recovered'; readonly awayMs: number }
  /** Old lines of a journal, up to position `through`, were compacted into its account's checkpoint. */
  | { readonly type: 'journal_compacted'; readonly account: string; readonly through: string }
  /** A journal has at least `lines` lines: export and compact it. Emitted again when that number doubles. */
  | { readonly type: 'journal_long'; readonly account: string; readonly lines: number };

/** An account's credits run low. */
export interface BalanceBelow {
  readonly type: 'balance_below';
  readonly account: string;
  readonly requestId: string;
  readonly threshold: string;
  /** What the account has after the charge: `available`, and what running requests hold. */
  readonly unspent: string;
  readonly available: string;
}

/** Much of a budget is spent. */
export interface BudgetAt {
  readonly type: 'budget_at';
  readonly account: string;
  readonly requestId: string;
  /** The part of the budget that was reached: `0.8`. */
  readonly share: string;
  /** Whose budget it is. */
  readonly limitedBy: LimitHolder;
  /** Id of the key whose budget it is, or whose limits of end users; undefined for the account's. */
  readonly key?: string;
  /** Of whom the budget is, if of an end user; empty for all who share one. */
  readonly endUser?: string;
  readonly amount: string;
  readonly per: BudgetPeriod;
  /** In the current period, with the charge. */
  readonly spent: string;
  /** When the next period begins; undefined for a lifetime. */
  readonly resetsAt?: number;
}
