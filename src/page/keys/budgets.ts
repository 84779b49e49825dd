import type { AccountPolicy, ApiKeyDetails, Budget } from '../../client/admin-api.generated.ts';
import { periodText } from '../format.ts';

/** Budgets of a key or an account, and what is left of them. */
export type LimitedBudgets = Pick<ApiKeyDetails, 'budget' | 'budgets' | 'budget_left' | 'budget_resets_at'>;

interface BudgetLeft extends Budget {
  readonly left: string;
  readonly resets_at?: string;
}

/** Each budget with what is left of it, which the API doesn't list where there is only one. */
export function budgetsLeft(limited: LimitedBudgets): readonly BudgetLeft[] {
  const { budget, budgets, budget_left: left, budget_resets_at: at } = limited;
  if (budgets) return budgets;
  const [only] = [budget ?? []].flat();
  if (!only || left === undefined) return [];
  return [{ ...only, left, ...(at !== undefined && { resets_at: at }) }];
}

/** `$5.00 a day, $20.00 a month` */
export function budgetText(budget: AccountPolicy['budget']): string | undefined {
  const budgets = [budget ?? []].flat();
  return budgets.map(({ amount, per }) => `$${amount} ${periodText(per)}`).join(', ') || undefined;
}
