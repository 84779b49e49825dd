import type { BudgetPeriod } from '../ledger/contract/key-records.ts';
import type { Markup } from '../metering/markup.ts';
import { type LabelRequirements, requirementsText } from '../options/labels.ts';

/** USD, as a decimal string, that may be spent in each hour, day, week (from Monday) or month, UTC, or at all. */
export interface PolicyBudget {
  readonly amount: string;
  readonly per: BudgetPeriod;
}

/** What isn't given isn't limited. */
export interface PolicyLimits {
  /** One budget, or several, of different periods: each holds. */
  readonly budget?: PolicyBudget | readonly PolicyBudget[];
  readonly requestsPerMinute?: number;
  /** Prompt and completion, as used: while a request runs, as estimated. */
  readonly tokensPerMinute?: number;
  readonly concurrentRequests?: number;
}

/** Limits of each end user: see the option `dimensions`. */
export interface EndUserPolicy extends PolicyLimits {
  /**
   * How many end users have limits of their own, from 1 to 100,000. Those that come later share one: all together may do
   * what one may.
   *
   * @default 10000
   */
  readonly max?: number;
}

/** What a key may do and what is noted of it; what isn't given isn't limited. */
export interface KeyPolicy extends PolicyLimits {
  /** For those who read a list of keys; at most 200 characters. */
  readonly name?: string;
  /** Notes of the host's: at most 16, of names up to 64 and values up to 512 characters. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** From then on the key is refused, with 401 `expired_api_key`. */
  readonly expiresAt?: Date;
  /** IDs of the only models that it may use, in which `*` stands for any characters: `openai/*`. */
  readonly models?: readonly string[];
  /** Labels of the only targets that its requests may be sent to: `{ region: ['eu', 'ch'], zdr: true }`. */
  readonly require?: LabelRequirements;
  /** Limits of each end user of the key, in place of those of its account. */
  readonly endUsers?: EndUserPolicy;
  /** Added to the prices that it pays. */
  readonly markup?: Markup;
}

/** A KeyPolicy in part: what is `null` is taken away, what isn't there stays as it is. */
export type KeyPolicyChanges = { readonly [Field in keyof KeyPolicy]?: KeyPolicy[Field] | null };

export type PolicyFieldName = keyof KeyPolicy;

/** A field of a policy, as the command line calls it and shows it. */
export interface PolicyField<Field extends PolicyFieldName> {
  /** Its option on the command line: the name, what stands for the value in the help, and the help. */
  readonly option: readonly [name: string, value: string, help: string];
  /** Its part of the line that sums a policy up. */
  readonly print?: (value: NonNullable<KeyPolicy[Field]>) => string;
}

/**
 * All that a policy can say, in the order in which it is said. What a field must be is in key-terms.ts; the admin API has a
 * schema for each field (`json-api/key-schemas.ts`), the command line a parser (`cli/commands/key-options.ts`).
 */
export const POLICY_FIELDS: { readonly [Field in PolicyFieldName]: PolicyField<Field> } = {
  name: {
    option: ['name', 'TEXT', 'display name'],
  },
  budget: {
    option: [
      'budget',
      'USD/PERIOD',
      'maximum spend per period, e.g. 5.00/month or 1.00/hour,20.00/month; hour, day, week, month or lifetime',
    ],
    print: budgetText,
  },
  models: {
    option: ['models', 'PATTERNS', 'allowed models, e.g. openai/*,acme/fast'],
    print: (models) => `models ${models.join(',')}`,
  },
  require: {
    option: ['require', 'LABELS', 'labels of the allowed targets, e.g. region=eu+ch,zdr=true'],
    print: (labels) => `requires ${requirementsText(labels)}`,
  },
  requestsPerMinute: {
    option: ['requests-per-minute', 'N', 'maximum requests per minute'],
    print: (limit) => `${limit} requests/min`,
  },
  tokensPerMinute: {
    option: ['tokens-per-minute', 'N', 'maximum tokens per minute, prompt and completion'],
    print: (limit) => `${limit} tokens/min`,
  },
  concurrentRequests: {
    option: ['concurrent-requests', 'N', 'maximum concurrent requests'],
    print: (limit) => `${limit} at a time`,
  },
  endUsers: {
    option: [
      'end-users',
      'LIMITS',
      'limits of each end user, e.g. budget=1.00/day,requests-per-minute=10,max=500',
    ],
    print: (limits) => `each end user ${limitsText(limits)}`,
  },
  markup: {
    option: [
      'markup',
      'FACTOR+FEE',
      'factor on its prices, USD for each request or both, e.g. 1.2, +0.001, 1.2+0.001',
    ],
    print: ({ factor, fee }) =>
      [factor && `× ${factor}`, fee && `+ $${fee} a request`].filter(Boolean).join(' · '),
  },
  expiresAt: {
    option: ['expires', 'DATE', 'expiry date, e.g. 2027-01-31T00:00Z'],
    print: (date) => `expires ${date.toISOString().slice(0, 16)}Z`,
  },
  metadata: {
    option: ['metadata', 'PAIRS', 'your notes, e.g. plan=pro,team=search'],
  },
};

export const POLICY_FIELD_NAMES: readonly PolicyFieldName[] =
  Object.keys(POLICY_FIELDS).filter(isPolicyField);

/** Whether it limits anything, or makes it dearer: its name and notes do not. */
export function hasLimits(policy: KeyPolicy): boolean {
  return POLICY_FIELD_NAMES.some(
    (field) => field !== 'name' && field !== 'metadata' && policy[field] !== undefined,
  );
}

export function isPolicyField(name: string): name is PolicyFieldName {
  return Object.hasOwn(POLICY_FIELDS, name);
}

/** The budgets of a policy as a list. */
export function budgetsOf({ budget = [] }: PolicyLimits): readonly PolicyBudget[] {
  return isList(budget) ? budget : [budget];
}

function isList(budget: NonNullable<PolicyLimits['budget']>): budget is readonly PolicyBudget[] {
  return Array.isArray(budget);
}

function budgetText(budget: NonNullable<PolicyLimits['budget']>): string {
  return budgetsOf({ budget })
    .map(({ amount, per }) => `$${amount}/${per}`)
    .join(' · ');
}

function limitsText({ max, ...limits }: EndUserPolicy): string {
  const text = policyText(limits) || 'no limits';
  return max === undefined ? `(${text})` : `(${text} · at most ${max} of them)`;
}

/** A policy on a line; empty where it limits nothing. */
export function policyText(policy: KeyPolicy): string {
  const parts = POLICY_FIELD_NAMES.map((field) => fieldText(field, policy[field]));
  return parts.filter((part) => part !== '').join(' · ');
}

function fieldText<Field extends PolicyFieldName>(field: Field, value: KeyPolicy[Field]): string {
  const { print }: PolicyField<Field> = POLICY_FIELDS[field];
  return value === undefined || !print ? '' : print(value);
}

/** What is noted of a key: the most notes, and the longest name and value of one. */
export const MAX_METADATA = { entries: 16, name: 64, value: 512 } as const;
/** Finishes "metadata must be". */
export const METADATA_WANTED: string = `an object of at most ${MAX_METADATA.entries} strings, with names of 1 to ${MAX_METADATA.name} characters and values of up to ${MAX_METADATA.value}`;

/** Among the notes of a key that the account's holder may change, by the account API. `made_by` says who made it. */
export const MANAGED_BY: Readonly<Record<'managed_by', 'customer'>> = { managed_by: 'customer' };

/** Whether the account's holder may change it. */
export function isManaged({ metadata }: Pick<KeyPolicy, 'metadata'>): boolean {
  return metadata?.['managed_by'] === MANAGED_BY.managed_by;
}
