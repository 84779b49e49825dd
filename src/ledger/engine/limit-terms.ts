import {
  type Budget,
  BUDGET_PERIODS,
  COUNT_LIMIT_NAMES,
  countLimits,
  type EndUserLimits,
} from '../contract/key-records.ts';

/**
 * Limits as stores keep them: "amounts periods" of the budgets, each with commas, then the counts in their order, then,
 * for end users, how many there may be. A dash stands for none.
 */
export function limitTerms({ budgets = [], max, ...counts }: EndUserLimits): string {
  const amounts = budgets.map(({ amount }) => amount).join(',');
  const periods = budgets.map(({ per }) => per).join(',');
  const terms = [amounts, periods, ...COUNT_LIMIT_NAMES.map((limit) => counts[limit])];
  const text = terms.map((term) => (term === undefined || term === '' ? NONE : term)).join(' ');
  return max === undefined ? text : `${text} ${max}`;
}

/** Equal limits have equal terms. */
export function limitsOfTerms(text: string): EndUserLimits {
  const [amounts = NONE, periods = NONE, ...counts] = text.split(' ');
  const max = countOf(counts[COUNT_LIMIT_NAMES.length]);
  return {
    ...(amounts !== NONE && { budgets: budgetsOf(amounts, periods) }),
    ...countLimits((_, index) => countOf(counts[index])),
    ...(max !== undefined && { max }),
  };
}

function budgetsOf(amounts: string, periods: string): Budget[] {
  const names = periods.split(',');
  return amounts.split(',').map((amount, n) => {
    const per = BUDGET_PERIODS.find((each) => each === names[n]);
    if (!per) throw new Error(`The ledger is damaged: ${periods} are no periods of budgets`);
    return { amount: BigInt(amount), per };
  });
}

const NONE = '-';

function countOf(text: string = NONE): number | undefined {
  return text === NONE ? undefined : Number(text);
}
