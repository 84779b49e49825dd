import type { NanoDollars } from './money.ts';

/** Part of every reply: the store's time, and the account's journal position. */
export interface ReplyMeta {
  /** The store's clock, in ms: callers derive its offset from theirs. */
  readonly now: number;
  readonly seq: bigint;
  /** One of the command's witnesses is missing: the account was rolled back. */
  readonly rolledBack?: true;
  /** There is no such account, because it was deleted a short while ago. For stores that can lose accounts. */
  readonly deleted?: true;
}

/** How safe an operator's change is. */
export interface DurabilityInfo {
  /**
   * Whether the change is on a disk or on the requested number of replicas: repeat the command until it is.
   * Undefined where the store can't know.
   */
  readonly durable?: boolean;
}

/**
 * A change that was acknowledged to the sender of a command, so that the account must still have it: a line of its
 * journal, a request, or the id of a grant or adjustment. If it is missing, so is everything after it.
 */
export type Witness =
  | { readonly type: 'line'; readonly seq: bigint; readonly at: number; readonly id: string }
  /** The request exists. If it is still held, its hold is at least `hold`. */
  | { readonly type: 'request'; readonly id: string; readonly state: 'held'; readonly hold: NanoDollars }
  | {
      readonly type: 'request';
      readonly id: string;
      readonly state: 'settled' | 'voided';
      /** The charge was 0, so its record is deleted sooner, like that of a voided request. */
      readonly isFree?: boolean;
    }
  | { readonly type: 'payment'; readonly id: string };

/** Commands that can carry witnesses. */
export interface Witnessed {
  /** If one is missing, an admit is refused; the reply of any other command has `rolledBack`. */
  readonly witnesses?: readonly Witness[];
}

/** Commands that create the account if it does not exist. */
export interface MakesAccount {
  /** Refuse with `no_account` if the account does not exist. */
  readonly mustExist?: boolean;
  /** Recreate, empty, an account that the store had and lost. For stores that remember which accounts existed. */
  readonly recreate?: boolean;
}
