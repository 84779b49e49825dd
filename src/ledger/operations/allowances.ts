import { type Allowance, type AllowancePeriod, allowanceOf, type Rollover } from '../contract/allowances.ts';
import type { LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd, parseUsd } from '../contract/money.ts';
import { optionsObject } from '../../platform/options-object.ts';
import { CreditsConflictError } from './credits-conflict.ts';

/** Credits that are granted again in each period, as of a plan. Part of `Credits`. */
export interface Allowances {
  /**
   * Creates an allowance, and the account if there is none; or changes the allowance with this `id`. The amount of the
   * current period is granted at once, that of each later period when it begins.
   *
   * Idempotent: repeat the call until it resolves.
   *
   * @throws {TypeError} that names an invalid argument
   * @throws {CreditsConflictError} also when `per` or `anchor` differ from those of the allowance
   */
  allow(account: string, allowance: AllowOptions): Promise<AllowanceChange>;
  /** The allowances of an account, in the order in which they were created. */
  allowances(account: string): Promise<readonly AllowanceInfo[]>;
  /**
   * Ends an allowance: at the end of its period, or now, when also its unused rest expires.
   *
   * @throws {CreditsConflictError} when there is no such account or allowance
   */
  endAllowance(account: string, id: string, options?: EndAllowanceOptions): Promise<AllowanceEnded>;
}

export interface AllowOptions {
  /** Of the allowance, as of a plan: `pro`. Letters, digits, `.`, `_` and `-`. */
  readonly id: string;
  /** USD per period. */
  readonly amount: string;
  /** Months are calendar months. All periods are in UTC. */
  readonly per: AllowancePeriod;
  /**
   * A time at which a period begins, to the second. Months begin on its day, or on the last day of a shorter month.
   *
   * @default the anchor of the allowance, else full hours, midnight, Mondays, the first of the month
   */
  readonly anchor?: Date | number;
  /**
   * What becomes of the unused rest at the end of a period: it expires (`none`), it is kept for one more period (`once`),
   * or permanently (`all`).
   *
   * @default 'none'
   */
  readonly rollover?: Rollover;
  /**
   * Credits with a smaller number are used first, from 0 to 100.
   *
   * @default 50
   */
  readonly priority?: number;
  /**
   * No period begins at or after this time.
   *
   * @default none: it does not end
   */
  readonly until?: Date | number;
  /**
   * When an existing allowance changes: from its next period on; or at once, in proportion to the time that is left of the
   * period, rounded toward zero to a nano-dollar. What was used or is held isn't taken back.
   *
   * @default 'next_period'
   */
  readonly change?: 'prorate' | 'next_period';
  /** As of `grant`. @default false */
  readonly recreate?: boolean;
}

export interface EndAllowanceOptions {
  /** @default 'period_end' */
  readonly at?: 'now' | 'period_end';
}

export interface AllowanceEnded {
  /** The balance after the change. */
  readonly available: string;
  /** It had these terms, or had ended: nothing was changed. */
  readonly duplicate: boolean;
  /** As of `CreditsChange`. */
  readonly durable?: boolean;
}

export interface AllowanceChange extends AllowanceEnded {
  /** When the current period ends. */
  readonly resetsAt: Date;
}

/** Amounts are decimal strings in USD. */
export interface AllowanceInfo {
  readonly id: string;
  /** Per period, from the next one on. */
  readonly amount: string;
  /** For the current period. */
  readonly granted: string;
  /** What its lots have left, including those of earlier periods. */
  readonly remaining: string;
  readonly per: AllowancePeriod;
  readonly anchor: Date;
  readonly rollover: Rollover;
  readonly priority: number;
  readonly until?: Date;
  readonly periodStart: Date;
  /** When the current period ends. */
  readonly resetsAt: Date;
}

const ALLOW_MEMBERS: Record<keyof AllowOptions, true> = {
  id: true,
  amount: true,
  per: true,
  anchor: true,
  rollover: true,
  priority: true,
  until: true,
  change: true,
  recreate: true,
};

/** Monday, the 5th of January 1970. */
const FIRST_MONDAY = 4 * 24 * 60 * 60 * 1000;

export function createAllowances(store: LedgerStore): Allowances {
  return {
    async allow(account, allowance) {
      const {
        id,
        per,
        rollover = 'none',
        priority = 50,
        until,
        recreate,
      } = optionsObject(
        allowance,
        ALLOW_MEMBERS,
        "{ id, amount, per }, as { id: 'pro', amount: '20.00', per: 'month' }",
      );
      const amount = parseUsd(allowance.amount, 'amount');
      if (amount <= 0n) throw new TypeError(`amount must be more than 0, got ${allowance.amount}`);
      const result = await store.allow({
        account,
        id,
        amount,
        per,
        anchor: await anchorOf(store, account, allowance),
        rollover,
        priority,
        ...(until !== undefined && { until: Number(until) }),
        change: allowance.change ?? 'next_period',
        ...(recreate !== undefined && { recreate }),
      });
      if (result.code !== 'ok' && result.code !== 'duplicate') {
        throw new CreditsConflictError(result.code, account, id);
      }
      return { ...changeOf(result), resetsAt: new Date(result.resetsAt) };
    },

    async allowances(account) {
      const balance = await store.balance(account);
      if (!balance) return [];
      return balance.allowances.map((allowance) => allowanceInfo(allowance, balance.lots));
    },

    async endAllowance(account, id, options = {}) {
      const { at = 'period_end' } = optionsObject(options, { at: true });
      const result = await store.endAllowance({ account, id, at });
      if (result.code !== 'ok' && result.code !== 'duplicate') {
        throw new CreditsConflictError(result.code, account, id);
      }
      return changeOf(result);
    },
  };
}

/** To the second. An existing allowance keeps its anchor. */
async function anchorOf(
  store: LedgerStore,
  account: string,
  { id, per, anchor }: AllowOptions,
): Promise<number> {
  if (anchor !== undefined) return Math.floor(Number(anchor) / 1000) * 1000;
  const known = (await store.balance(account))?.allowances.find((each) => each.id === id);
  return known?.anchor ?? (per === 'week' ? FIRST_MONDAY : 0);
}

function changeOf({
  code,
  available,
  durable,
}: {
  readonly code: string;
  readonly available: bigint;
  readonly durable?: boolean;
}): AllowanceEnded {
  return {
    available: formatUsd(available),
    duplicate: code === 'duplicate',
    ...(durable !== undefined && { durable }),
  };
}

function allowanceInfo(
  { id, amount, granted, per, anchor, rollover, priority, until, periodStart, resetsAt }: Allowance,
  lots: readonly { readonly id: string; readonly remaining: bigint }[],
): AllowanceInfo {
  const own = lots.filter((lot) => allowanceOf(lot.id) === id);
  return {
    id,
    amount: formatUsd(amount),
    granted: formatUsd(granted),
    remaining: formatUsd(own.reduce((total, lot) => total + lot.remaining, 0n)),
    per,
    anchor: new Date(anchor),
    rollover,
    priority,
    ...(until !== undefined && { until: new Date(until) }),
    periodStart: new Date(periodStart),
    resetsAt: new Date(resetsAt),
  };
}
