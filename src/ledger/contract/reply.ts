import type { NanoDollars } from './money.ts';

/** Every reply says when it was, and the account's journal position. */
export interface ReplyMeta {
  /** The store's clock, in ms: callers learn its offset from theirs. */
  readonly now: number;
  readonly seq: bigint;
  /** One of the command's witnesses isn't there: the account went back in time. */
  readonly rolledBack?: true;
}

/** What an operator did can be told apart by how safe it is. */
export interface DurabilityInfo {
  /**
   * Whether it is on a disk or on as many replicas as was asked for: repeat the command until it is.
   * Undefined where the store can't tell.
   */
  readonly durable?: boolean;
}

/**
 * A change that was acknowledged to the sender of a command, which the account must still have: a line of its journal,
 * a request, or the id of a grant or adjustment. Without it the account has lost all that came after it, too.
 */
export type Witness =
  | { readonly type: 'line'; readonly seq: bigint; readonly at: number; readonly id: string }
  /** It is there, and in the end that is named; while it is held, its hold is at least `hold`. */
  | { readonly type: 'request'; readonly id: string; readonly state: 'held'; readonly hold: NanoDollars }
  | {
      readonly type: 'request';
      readonly id: string;
      readonly state: 'settled' | 'voided';
      /** Of a charge of 0, which is forgotten sooner; as is what was voided. */
      readonly isFree?: boolean;
    }
  | { readonly type: 'payment'; readonly id: string };

/** What commands of an account can carry. */
export interface Witnessed {
  /** An admit is refused where one of them is missing; any other reply says so. */
  readonly witnesses?: readonly Witness[];
}

/** What makes an account where there is none. */
export interface MakesAccount {
  /** Is refused with `no_account` where there is none. */
  readonly mustExist?: boolean;
  /** Of a store that remembers which accounts there were: make again one that was lost, without what it had. */
  readonly recreate?: boolean;
}
