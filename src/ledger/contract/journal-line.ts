import type { NanoDollars } from './money.ts';
import type { Dimensions, SettledUsage } from './usage.ts';

/**
 * One change of an account's totals: g grant, r refund, s settle, l late settle or void
 * (after the lease expired) or, without usage, a further part of a charge, o
 * orphan settle, e lease expiry, x credit expiry, a adjustment.
 */
export interface JournalLine {
  readonly type: 'g' | 's' | 'l' | 'o' | 'e' | 'x' | 'a' | 'r';
  readonly seq: bigint;
  readonly at: number;
  /** The request's, grant's or adjustment's id. */
  readonly id: string;
  /**
   * The amount granted, charged, expired or adjusted, signed; of a refund, negative. A late settle or
   * void has the difference to what the expiry charged. Each line of a charge in
   * parts has its own part.
   */
  readonly amount: NanoDollars;
  /** `available` after the change. */
  readonly available: NanoDollars;
  readonly hold?: NanoDollars;
  readonly writtenOff?: NanoDollars;
  readonly key?: string;
  readonly model?: string;
  readonly usage?: SettledUsage;
  readonly dimensions?: Dimensions;
  readonly reason?: string;
}
