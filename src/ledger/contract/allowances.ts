import type { NanoDollars } from './money.ts';
import type { DurabilityInfo, MakesAccount, ReplyMeta, Witnessed } from './reply.ts';

/** Lengths of a period. Months are calendar months, UTC. */
export const ALLOWANCE_PERIODS = ['hour', 'day', 'week', 'month'] as const;
export type AllowancePeriod = (typeof ALLOWANCE_PERIODS)[number];

/**
 * What becomes of the unused rest at the end of a period: it expires, it is kept for one more period, or it is kept
 * permanently, with the amounts of periods in which nothing was used.
 */
export const ROLLOVERS = ['none', 'once', 'all'] as const;
export type Rollover = (typeof ROLLOVERS)[number];

/** Maximum of allowances per account. */
export const MAX_ALLOWANCES = 10;

export interface AllowanceTerms {
  /** Granted once per period. */
  readonly amount: NanoDollars;
  readonly per: AllowancePeriod;
  /**
   * A time at which a period begins, in ms and whole seconds; all others follow from it. Months begin on its day of the
   * month, or on the last day of a shorter month.
   */
  readonly anchor: number;
  readonly rollover: Rollover;
  /** Of its lots: smaller numbers burn first. 0 to 100. */
  readonly priority: number;
  /** No period begins at or after this time, in ms; undefined: it does not end. */
  readonly until?: number;
}

/** Credit that is granted again in each period. */
export interface Allowance extends AllowanceTerms {
  readonly id: string;
  /** Incremented by each change. */
  readonly version: number;
  /** Start of the latest period that was granted, in ms. */
  readonly periodStart: number;
  /** End of that period, in ms: the next one begins, unless it has ended by then. */
  readonly resetsAt: number;
  /** The amount for the current period. Differs from `amount` after a change from the next period on. */
  readonly granted: NanoDollars;
}

/**
 * Creates an allowance, and grants the amount of the current period. With the id of an existing one, changes its terms,
 * except `per` and `anchor`.
 */
export interface Allow extends Witnessed, MakesAccount, AllowanceTerms {
  readonly account: string;
  readonly id: string;
  /**
   * Of an existing allowance: adjust the current period by the difference of the amounts, in proportion to the time that is left
   * of it, rounded toward zero to a whole nano-dollar; or change it from the next period on. What was used or is held isn't
   * taken back.
   */
  readonly change: 'prorate' | 'next_period';
  /** The version that this change made, to repeat one that may be lost: nothing is changed if the allowance has it. */
  readonly version?: number;
  /** Of an account that comes from another store: the start of the latest period that it was granted, and the amount. */
  readonly granted?: { readonly period: number; readonly amount: NanoDollars };
}

export type AllowResult = ReplyMeta &
  (
    | ({
        readonly code: 'ok' | 'duplicate';
        readonly available: NanoDollars;
        readonly version: number;
        readonly resetsAt: number;
      } & DurabilityInfo)
    /** The allowance has another period or anchor, which can't change. */
    | { readonly code: 'conflict' }
    /** `until` has passed, and there is no such allowance. */
    | { readonly code: 'ended' }
    | { readonly code: 'too_many_allowances' | 'no_account' }
  );

export interface EndAllowance extends Witnessed {
  readonly account: string;
  readonly id: string;
  /** `now` expires also the unused rest of its lots. */
  readonly at: 'now' | 'period_end';
  readonly version?: number;
}

export type EndAllowanceResult = ReplyMeta &
  (
    | ({
        readonly code: 'ok' | 'duplicate';
        readonly available: NanoDollars;
        readonly version: number;
      } & DurabilityInfo)
    | { readonly code: 'no_allowance' | 'no_account' }
  );

/** Prefix of the ids of an allowance's lots, which no grant or adjustment may have. */
export const ALLOWANCE_PREFIX = 'allowance:';

/** Id of the lot of an allowance for the period that begins at `start`: `allowance:pro:2026-11-01T00:00:00Z`. */
export function allowanceLotId(id: string, start: number): string {
  return `${lotPrefix(id)}${new Date(start).toISOString().slice(0, 19)}Z`;
}

/** Prefix of the ids of all lots of an allowance. */
export function lotPrefix(id: string): string {
  return `${ALLOWANCE_PREFIX}${id}:`;
}

/** The allowance that a lot is of; undefined for a lot of a grant. */
export function allowanceOf(lotId: string): string | undefined {
  return /^allowance:(.*):\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.exec(lotId)?.[1];
}
