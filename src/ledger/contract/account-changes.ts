import type { Allow, AllowResult, EndAllowance, EndAllowanceResult } from './allowances.ts';
import type { NanoDollars } from './money.ts';
import type { DurabilityInfo, ReplyMeta, Witnessed } from './reply.ts';
import type { Dimensions } from './usage.ts';

/** What operators change of an account, besides grants, adjustments and keys. Part of `LedgerStore`. */
export interface AccountChanges {
  /** Sets the floor, the least that `available` may be: a credit line of 10 is a floor of -10. Idempotent. */
  setFloor(command: SetFloor): Promise<SetFloorResult>;
  /** Creates an allowance, or changes the one with this id. The first allowance creates the account. */
  allow(command: Allow): Promise<AllowResult>;
  /** Ends an allowance: no further period begins. Idempotent. */
  endAllowance(command: EndAllowance): Promise<EndAllowanceResult>;
  /** Takes back the charge of a settled request, in whole or in part, once. */
  refund(command: Refund): Promise<RefundResult>;
  /**
   * Deletes all of an account but its sums, which stay under a new id. Refused while requests run. To an account that is made
   * under its id within 24 hours, requests from before the deletion are `old`.
   */
  deleteAccount(account: string): Promise<DeleteAccountResult>;
  /** The sums of deleted accounts, in no particular order. */
  deletedAccounts(): AsyncIterable<DeletedAccount>;
}

export interface SetFloor {
  readonly account: string;
  /** From -MAX_AMOUNT to 0. */
  readonly floor: NanoDollars;
  /** Only if this is the floor now: to repeat a change that may be lost. */
  readonly from?: NanoDollars;
}

export type SetFloorResult = ReplyMeta &
  (
    | ({
        readonly code: 'ok';
        readonly before: NanoDollars;
        readonly available: NanoDollars;
      } & DurabilityInfo)
    /** The floor is neither `from` nor the new one. */
    | { readonly code: 'changed' | 'no_account' }
  );

export interface Refund extends Witnessed {
  readonly account: string;
  readonly requestId: string;
  /** More than 0, and at most the request's charge. */
  readonly amount: NanoDollars;
  /** The total of the request's lines in the journal: the maximum if its record was deleted. */
  readonly charged: NanoDollars;
  /** Of the request: for its usage row and budgets, if its record was deleted. */
  readonly key: string;
  readonly model: string;
  /** Of the request: also the end user whose budgets get it back, if its record was deleted. */
  readonly dimensions?: Dimensions | undefined;
  readonly reason: string;
}

export type RefundResult = ReplyMeta &
  (
    | ({ readonly code: 'ok' | 'duplicate'; readonly available: NanoDollars } & DurabilityInfo)
    /** The request was refunded before, with another amount. */
    | { readonly code: 'conflict' }
    /** It runs, or its lease ran out and its settlement may still come. */
    | { readonly code: 'not_settled' }
    | { readonly code: 'more_than_charged'; readonly charged: NanoDollars }
    | { readonly code: 'too_big' | 'no_account' }
  );

/** The sums of an account when it was deleted. `granted = available + spent + expired`. */
export interface DeletedAccount {
  /** Made for this purpose: it says nothing of the account. */
  readonly id: string;
  readonly deletedAt: number;
  readonly granted: NanoDollars;
  readonly available: NanoDollars;
  readonly spent: NanoDollars;
  readonly expired: NanoDollars;
  readonly writtenOff: NanoDollars;
}

export type DeleteAccountResult =
  | ({ readonly code: 'ok'; readonly deleted: DeletedAccount } & DurabilityInfo)
  | { readonly code: 'running'; readonly requests: number }
  | { readonly code: 'no_account' };
