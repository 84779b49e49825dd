import type { BudgetPeriod, BudgetStatus, CountersStatus } from '../ledger/contract/key-records.ts';
import { formatUsd } from '../ledger/contract/money.ts';

/** The current counters of a key, an account or an end user; amounts are decimal strings in USD. */
export interface LimitCounters {
  /** Charged in the current period of the budget that has the least left; without a budget, in total. */
  readonly spent: string;
  /** Reserved by running requests. */
  readonly held: string;
  /** Number of running requests. */
  readonly running: number;
  /** Available to new requests: of several budgets, of the one that has the least left. */
  readonly budgetLeft?: string;
  /** When that budget resets. */
  readonly budgetResetsAt?: Date;
  /** Each budget, if there are several. */
  readonly budgets?: readonly BudgetCounters[];
  readonly requestsLeft?: number;
  readonly tokensLeft?: number;
}

export interface BudgetCounters {
  readonly amount: string;
  readonly per: BudgetPeriod;
  /** Charged in the current period. */
  readonly spent: string;
  /** Available to new requests. */
  readonly left: string;
  /** Undefined for a lifetime. */
  readonly resetsAt?: Date;
}

export function limitCounters({
  spent,
  held,
  running,
  budgets,
  rates,
}: Omit<CountersStatus, 'now'>): LimitCounters {
  const tightest = budgets.toSorted((a, b) => Number(a.left - b.left))[0];
  return {
    spent: formatUsd(tightest?.spent ?? spent),
    held: formatUsd(held),
    running,
    ...(tightest && { budgetLeft: formatUsd(tightest.left) }),
    ...(tightest?.resetsAt !== undefined && { budgetResetsAt: new Date(tightest.resetsAt) }),
    ...(budgets.length > 1 && { budgets: budgets.map(budgetCounters) }),
    ...(rates?.requests && { requestsLeft: rates.requests.remaining }),
    ...(rates?.tokens && { tokensLeft: rates.tokens.remaining }),
  };
}

function budgetCounters({ amount, per, spent, left, resetsAt }: BudgetStatus): BudgetCounters {
  return {
    amount: formatUsd(amount),
    per,
    spent: formatUsd(spent),
    left: formatUsd(left),
    ...(resetsAt !== undefined && { resetsAt: new Date(resetsAt) }),
  };
}
