import type { LedgerEvent } from '../ledger/contract/events.ts';
import type { SettleResult } from '../ledger/contract/ledger-store.ts';
import { formatUsd } from '../ledger/contract/money.ts';
import type { MovedBudget } from '../ledger/contract/key-records.ts';
import { SHARE_PARTS, type Thresholds } from '../options/resolve-thresholds.ts';
import type { TopUps } from './top-ups.ts';

export interface ThresholdWatchOptions {
  readonly thresholds: Thresholds;
  readonly topUps: TopUps | undefined;
  readonly tell: (event: LedgerEvent) => void;
  readonly onError: (error: Error, requestId?: string) => void;
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
    const { topUps, onError } = this.#options;
    try {
      this.#chargedBalance(account, requestId, result);
      this.#chargedBudgets(account, requestId, result.budgets);
    } catch (error) {
      onError(new Error(`The thresholds of account ${account} are not known`, { cause: error }), requestId);
    }
    topUps?.consider(account, result.unspent);
  }

  /** Whether a charge is to ask which budgets it moves. */
  get watchesBudgets(): boolean {
    return this.#options.thresholds.budgetAt !== undefined;
  }

  #chargedBalance(
    account: string,
    requestId: string,
    { unspent, unspentBefore, available }: Extract<SettleResult, { code: 'ok' }>,
  ): void {
    const { thresholds, tell } = this.#options;
    for (const threshold of thresholds.balanceBelow(account)) {
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
  }

  #chargedBudgets(account: string, requestId: string, budgets: readonly MovedBudget[] = []): void {
    const { thresholds, tell } = this.#options;
    if (budgets.length === 0) return;
    const shares = thresholds.budgetAt?.(account) ?? [];
    for (const { amount, spent, spentBefore, ...budget } of budgets) {
      for (const { text: share, parts } of shares) {
        const reached = amount * parts;
        if (spentBefore * SHARE_PARTS >= reached || spent * SHARE_PARTS < reached) continue;
        const amounts = { amount: formatUsd(amount), spent: formatUsd(spent) };
        tell({ type: 'budget_at', account, requestId, share, ...budget, ...amounts });
      }
    }
  }

  /** A charge was posted, but the answer that says what it left was lost: the top-up looks for itself. */
  chargedUnseen(account: string): void {
    this.#options.topUps?.consider(account, 0n);
  }

  /** A request was refused because the balance does not cover it. The reply says what a credit line adds to that. */
  refused(account: string): void {
    this.#options.topUps?.consider(account, 0n);
  }
}
