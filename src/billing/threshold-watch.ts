import type { LedgerEvent } from '../ledger/contract/events.ts';
import type { AdmitResult, SettleResult } from '../ledger/contract/ledger-store.ts';
import { formatUsd } from '../ledger/contract/money.ts';
import type { MovedBudget } from '../ledger/contract/key-records.ts';
import { SHARE_PARTS, type Thresholds } from '../options/resolve-thresholds.ts';
import type { TopUps } from './top-ups.ts';

export interface ThresholdWatchOptions {
  readonly thresholds: Thresholds;
  readonly topUps: TopUps | undefined;
  readonly tell: (event: LedgerEvent) => void;
}

/**
 * Finds the thresholds that a charge crosses.
 *
 * The store says what the account had before and after each charge, and what was spent of its budgets; no two charges have
 * an amount in common: of all processes, one finds each crossing.
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
    this.#chargedBudgets(account, requestId, result.budgets);
    topUps?.consider(account, unspent);
  }

  /** Whether a charge is to ask which budgets it moves. */
  get watchesBudgets(): boolean {
    return this.#options.thresholds.budgetAt.length > 0;
  }

  #chargedBudgets(account: string, requestId: string, budgets: readonly MovedBudget[] = []): void {
    const { thresholds, tell } = this.#options;
    for (const { amount, spent, spentBefore, ...budget } of budgets) {
      for (const { text: share, parts } of thresholds.budgetAt) {
        const reached = amount * parts;
        if (spentBefore * SHARE_PARTS >= reached || spent * SHARE_PARTS < reached) continue;
        const amounts = { amount: formatUsd(amount), spent: formatUsd(spent) };
        tell({ type: 'budget_at', account, requestId, share, ...budget, ...amounts });
      }
    }
  }

  /** A request was refused because the balance does not cover it. */
  refused(account: string, { available }: Extract<AdmitResult, { code: 'no_funds' }>): void {
    this.#options.topUps?.consider(account, available);
  }
}
