import type { AccountPolicy, Budget } from '../../client/admin-api.generated.ts';
import { ApiError } from '../api.ts';
import type { Field } from '../dialog.tsx';
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

/** What is in each field, in JSON: nothing is `null`. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  name: (text) => (text === '' ? null : text),
  ...Object.fromEntries(LIMITS.map(({ name, label }) => [name, (text: string) => numberOf(text, label)])),
  budget: (text) => (text === '' ? null : budgetsOf(text)),
  models: (text) => (partsOf(text).length === 0 ? null : partsOf(text)),
  require: requirementsOf,
};

/**
 * The values that are not as the form was opened: the others may have changed elsewhere meanwhile, and may not be
 * this caller's to set.
 */
export function changedValues(fields: readonly Field[], values: Values): Values {
  // As an input of one line has them, and `formValues` reads them.
  const opened = new Map(fields.map(({ name, value = '' }) => [name, value.replace(/[\r\n]/g, '').trim()]));
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== opened.get(name)));
}

/** A change of the policy's fields among these. @throws {ApiError} naming the wrong field */
export function policyChange(values: Values): object {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, text]) => {
      const read = READERS[name];
      return read ? [[name, read(text)]] : [];
    }),
  );
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

/** Nothing is `null`. @throws {ApiError} naming the field */
export function numberOf(text: string, label: string): number | null {
  if (text === '') return null;
  if (!/^\d+$/.test(text))
    throw new ApiError(0, `${label} must be a whole number, got ${JSON.stringify(text)}.`);
  return Number(text);
}

/** A month is meant only of a single amount: `1,500/day` has a comma too much, and is no budget of 1 a month. */
function budgetsOf(text: string): readonly Budget[] {
  const parts = partsOf(text);
  if (parts.length > 1 && !parts.every((part) => part.includes('/'))) {
    throw new ApiError(
      0,
      `Each of several budgets must have a period, and an amount no comma: 1.00/hour, 1500.00/month; got ${JSON.stringify(text)}.`,
    );
  }
  return parts.map(budgetOf);
}

function budgetOf(text: string): Budget {
  const [, amount = '', period = 'month'] = /^([^/]*)(?:\/(.*))?$/.exec(text) ?? [];
  const per = PERIODS.find((each) => each === period);
  if (!per)
    throw new ApiError(
      0,
      `The period of a budget must be one of ${PERIODS.join(', ')}, got ${JSON.stringify(period)}.`,
    );
  return { amount, per };
}
