import type { LedgerEvent } from '../ledger/contract/events.ts';
import type { AdmitResult, SettleResult } from '../ledger/contract/ledger-store.ts';
import { formatUsd } from '../ledger/contract/money.ts';
import type { Thresholds } from '../options/resolve-thresholds.ts';
import type { TopUps } from './top-ups.ts';

export interface ThresholdWatchOptions {
  readonly thresholds: Thresholds;
  readonly topUps: TopUps | undefined;
  readonly tell: (event: LedgerEvent) => void;
}

/**
 * Finds the thresholds that a charge crosses.
 *
 * The store says what the account had before and after each charge, and no two charges have an amount in common: of all
 * processes, one finds each crossing.
 */
export class ThresholdWatch {
  readonly #options: ThresholdWatchOptions;

  constructor(options: ThresholdWatchOptions) {
    this.#options = options;
  }

  charged(account: string, requestId: string, result: Extract<SettleResult, { code: 'ok' }>): void {
    const { thresholds, topUps, tell } = this.#options;
    const { unspent, unspentBefore, available } = result;
    for (const threshold of thresholds.balanceBelow) {
      if (threshold >= unspentBefore || threshold < unspent) continue;
      tell({
        type: 'balance_below',
        account,
        requestId,
        threshold: formatUsd(threshold),
        unspent: formatUsd(unspent),
        available: formatUsd(available),
      });
    }
    topUps?.consider(account, unspent);
  }

  /** A request was refused because the balance does not cover it. */
  refused(account: string, { available }: Extract<AdmitResult, { code: 'no_funds' }>): void {
    this.#options.topUps?.consider(account, available);
  }
}
