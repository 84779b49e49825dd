import type { AccountPolicy, Budget } from '../../client/admin-api.generated.ts';
import { ApiError } from '../api.ts';
import type { Field } from '../dialog.tsx';
import { periodText } from '../format.ts';
import { labelsFrom, labelsText, type Requirements } from './labels-text.ts';

type Values = Readonly<Record<string, string>>;

const LIMITS = [
  { name: 'requests_per_minute', label: 'Requests a minute' },
  { name: 'tokens_per_minute', label: 'Tokens a minute' },
  { name: 'concurrent_requests', label: 'Requests at once' },
] as const;
const PERIODS = ['hour', 'day', 'week', 'month', 'lifetime'] as const;

/** The fields of the policy of a key or an account. */
export function policyFields(policy: AccountPolicy = {}): readonly Field[] {
  return [
    { name: 'name', label: 'Name', value: policy.name ?? '' },
    ...LIMITS.map(({ name, label }) => ({ name, label, value: String(policy[name] ?? '') })),
    {
      name: 'budget',
      label: 'Budget in USD',
      value: [policy.budget ?? []]
        .flat()
        .map(({ amount, per }) => `${amount}/${per}`)
        .join(', '),
      hint: `A month, or by period: 1.00/hour, 20.00/month (${PERIODS.join(', ')}).`,
    },
    {
      name: 'models',
      label: 'Models',
      value: policy.models?.join(', ') ?? '',
      hint: 'IDs, * for any characters.',
    },
    {
      name: 'require',
      label: 'Labels of targets',
      value: labelsText(policy.require),
      hint: 'That a target must have: region=eu+ch, zdr=true.',
    },
  ];
}

/** A change of all these fields: what is empty is `null`. @throws {ApiError} naming the wrong field */
export function policyChange(values: Values): object {
  const { name = '', budget = '', models = '', require = '' } = values;
  const patterns = partsOf(models);
  return {
    name: name === '' ? null : name,
    ...Object.fromEntries(
      LIMITS.map((limit) => [limit.name, numberOf(values[limit.name] ?? '', limit.label)]),
    ),
    budget: budget === '' ? null : partsOf(budget).map(budgetOf),
    models: patterns.length === 0 ? null : patterns,
    require: requirementsOf(require),
  };
}

function requirementsOf(text: string): Requirements | null {
  const labels = labelsFrom(text);
  if (labels !== undefined) return labels;
  const wanted = 'Labels of targets must be as region=eu+ch, zdr=true, each name once';
  throw new ApiError(0, `${wanted}, got ${JSON.stringify(text)}.`);
}

function partsOf(list: string): readonly string[] {
  return list.split(/[\s,]+/).filter((part) => part !== '');
}

function numberOf(text: string, label: string): number | null {
  if (text === '') return null;
  if (!/^\d+$/.test(text))
    throw new ApiError(0, `${label} must be a whole number, got ${JSON.stringify(text)}.`);
  return Number(text);
}

function budgetOf(text: string): Budget {
  const [amount = '', period = 'month'] = text.split('/', 2);
  const per = PERIODS.find((each) => each === period);
  if (!per)
    throw new ApiError(
      0,
      `The period of a budget must be one of ${PERIODS.join(', ')}, got ${JSON.stringify(period)}.`,
    );
  return { amount, per };
}

/** `$5.00 a day, $20.00 a month` */
export function budgetText(budget: AccountPolicy['budget']): string | undefined {
  const budgets = [budget ?? []].flat();
  return budgets.map(({ amount, per }) => `$${amount} ${periodText(per)}`).join(', ') || undefined;
}
