/**
 * What an operator should hear of the ledger.
 *
 * None of it asks for an answer: the books stay right whether anybody listens
 * or not. Amounts are USD, as decimal strings; times are milliseconds.
 */
export type LedgerEvent =
  /** A request was charged more than it held. */
  | {
      readonly type: 'overrun';
      readonly account: string;
      readonly requestId: string;
      readonly held: string;
      readonly charged: string;
    }
  /** The balance did not cover a charge: `amount` of it was given up. */
  | {
      readonly type: 'write_off';
      readonly account: string;
      readonly requestId: string;
      readonly amount: string;
    }
  /** A request was refused because its account is frozen, by its operator or by a failed check of its books. */
  | { readonly type: 'frozen'; readonly account: string; readonly requestId: string }
  /** An account of the store went back in time, as by a failover: what was acknowledged since is applied again. */
  | {
      readonly type: 'rollback';
      readonly account: string;
      /** The journal position that was acknowledged, and the one found; that is the higher one where others wrote since. */
      readonly expected: string;
      readonly found: string;
    }
  /**
   * An account that was known is not in the store any more: its requests, grants, adjustments and new keys are refused and
   * its charges wait until it is restored, or made again with `recreate`.
   */
  | { readonly type: 'account_lost'; readonly account: string }
  /** All that had to be applied again after a rollback has been. */
  | { readonly type: 'rollback_repaired'; readonly account: string; readonly reapplied: number }
  /**
   * A rollback took a charge, grant or adjustment, and the account as it is now can't take it again, for the reason
   * that `code` names: its operator may adjust the balance by `amount`, which has its sign.
   */
  | {
      readonly type: 'repair_refused';
      readonly account: string;
      /** Of the request, grant or adjustment. */
      readonly id: string;
      readonly amount: string;
      readonly code: string;
    }
  /** Charges wait for the store; told when the number of them doubles. */
  | { readonly type: 'outbox_growth'; readonly waiting: number; readonly oldestMs: number }
  /** A charge that waited for too long to be posted safely by itself: it is in `file`, for an operator. */
  | {
      readonly type: 'dead_letter';
      readonly account: string;
      readonly requestId: string;
      readonly file: string;
    }
  /** The outbox can't be written: until it can, requests are refused, or charges are kept in memory alone. */
  | { readonly type: 'outbox_failed'; readonly message: string }
  /** The outbox can be written again: all that waits is in it. */
  | { readonly type: 'outbox_recovered' }
  /** Lines of an outbox can't be read, and may have been charges; the rest was taken from it. It is kept as `file`. */
  | { readonly type: 'outbox_damaged'; readonly file: string; readonly lines: number }
  /** The store stopped or began to answer. */
  | { readonly type: 'store_unavailable'; readonly message: string }
  | { readonly type: 'store_recovered'; readonly awayMs: number }
  /** Old lines of a journal were folded into its account's checkpoint. */
  | { readonly type: 'journal_compacted'; readonly account: string; readonly through: string }
  /** A journal has at least so many lines: export and fold it; told again when it has twice as many. */
  | { readonly type: 'journal_long'; readonly account: string; readonly lines: number };
