import type { LedgerEvent } from './ledger/events.ts';
import type { Ending } from './ledger/ledger.ts';
import type { Usage } from './metering/usage-dialects.ts';

/** Told what happens; may be async, can't break a request. */
export interface Hooks {
  /** A request's charge was posted, or its hold was given back (`charged` is `'0.00'`, `voided` true). */
  readonly onSettled?: (settled: Settled) => unknown;
  /** Something went wrong that the host should know of: our own bugs, providers' faults, a store that is away. */
  readonly onError?: (error: Error, context: { readonly requestId?: string }) => unknown;
  /** Something happened to the ledger that its operator should know of. */
  readonly onLedgerEvent?: (event: LedgerEvent) => unknown;
  /** A target was set aside for failing, or came back. */
  readonly onHealthChange?: (change: HealthChange) => unknown;
}

export interface Settled {
  readonly requestId: string;
  readonly account: string;
  readonly key: string;
  readonly model: string;
  readonly provider: string;
  readonly upstreamModel: string;
  /** USD, as a decimal string. */
  readonly charged: string;
  /** What the charge lacked because the balance ended; USD, as a decimal string. */
  readonly writtenOff: string;
  /** What the provider bills; USD, as a decimal string; undefined where no `cost` is configured. */
  readonly cost?: string;
  readonly voided: boolean;
  readonly usage?: Usage;
  readonly usageSource: 'upstream' | 'estimated' | 'none';
  readonly ending: Ending;
}

/** A target was set aside, or came back. */
export interface HealthChange {
  readonly type: 'target_ejected' | 'target_recovered';
  readonly provider: string;
  readonly model: string;
  readonly failuresInARow: number;
  readonly retryAt?: number;
}
