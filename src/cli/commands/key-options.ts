import {
  type EndUserPolicy,
  type KeyPolicy,
  type KeyPolicyChanges,
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
} from '../../keys/key-policy.ts';
import type { Markup } from '../../metering/markup.ts';
import { BUDGET_PERIODS, COUNT_LIMIT_NAMES, everyCount } from '../../ledger/contract/key-records.ts';
import { notOneOf } from '../../platform/did-you-mean.ts';
import { type CommandOption, positiveNumber, date, UsageError } from './command.ts';

/** What an API key may do, as the command line says it. */
export const POLICY_OPTIONS: Readonly<Record<string, CommandOption>> = Object.fromEntries(
  Object.values(POLICY_FIELDS).map(({ option: [name, value, help] }) => [name, { value, help }]),
);

/** What a field's option is read by. */
const PARSERS: {
  readonly [Field in keyof KeyPolicy]-?: (text: string, option: string) => NonNullable<KeyPolicy[Field]>;
} = {
  name: (text) => text,
  budget: budgetFrom,
  models: (text) => text.split(','),
  require: labelsFrom,
  ...everyCount(() => positiveNumber),
  markup: markupFrom,
  expiresAt: date,
  metadata: (text) => pairsFrom(text, '--metadata', 'plan=pro,team=search'),
  endUsers: endUsersFrom,
};

type Options = Readonly<Record<string, string | undefined>>;

/** @throws {UsageError} naming the option that can't be right */
export function policyFrom(options: Options): KeyPolicy {
  const given = POLICY_FIELD_NAMES.map((field) => {
    const text = options[optionOf(field)];
    return [field, text === undefined ? undefined : PARSERS[field](text, `--${optionOf(field)}`)];
  });
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

/** What is given, and what `--remove` takes away. */
export function policyChanges(options: Options): KeyPolicyChanges {
  const removed = (options['remove']?.split(',') ?? []).map((option) => {
    const field = POLICY_FIELD_NAMES.find((each) => optionOf(each) === option);
    if (!field) throw new UsageError(notOneOf('--remove', Object.keys(POLICY_OPTIONS), option));
    if (options[option] !== undefined) throw new UsageError(`--${option} is given, and to be removed`);
    return [field, null] as const;
  });
  return { ...policyFrom(options), ...Object.fromEntries(removed) };
}

function optionOf(field: keyof KeyPolicy): string {
  return POLICY_FIELDS[field].option[0];
}

/** A factor, a fee after a +, or both. */
function markupFrom(text: string): Markup {
  const [factor = '', ...fee] = text.split('+');
  if (fee.length === 0) return { factor };
  return { ...(factor !== '' && { factor }), fee: fee.join('+') };
}

/** One budget, or several with commas. */
function budgetFrom(text: string, option: string): NonNullable<KeyPolicy['budget']> {
  const [first, ...more] = text.split(',').map((each) => {
    const [, amount = '', period = ''] = /^([\d.]+)\/(\w+)$/.exec(each) ?? [];
    const per = BUDGET_PERIODS.find((known) => known === period);
    if (per) return { amount, per };
    throw new UsageError(
      `${option} must be as 5.00/month, of an hour, day, week, month or lifetime, got ${JSON.stringify(text)}`,
    );
  });
  if (!first || more.length > 0) return first ? [first, ...more] : [];
  return first;
}

/** Limits by the names of their own options; several budgets have a + between them. */
function endUsersFrom(text: string, option: string): EndUserPolicy {
  const pairs = pairsFrom(text, option, 'budget=1.00/day,requests-per-minute=10,max=500');
  const { budget, max, ...rest } = pairs;
  const counts = Object.entries(rest).map(([name, value]) => {
    const limit = COUNT_LIMIT_NAMES.find((each) => optionOf(each) === name);
    if (limit) return [limit, positiveNumber(value, `${name} of ${option}`)] as const;
    throw new UsageError(
      notOneOf(option, ['budget', ...COUNT_LIMIT_NAMES.map((each) => optionOf(each)), 'max'], name),
    );
  });
  return {
    ...(budget !== undefined && { budget: budgetFrom(budget.replaceAll('+', ','), `budget of ${option}`) }),
    ...Object.fromEntries(counts),
    ...(max !== undefined && { max: positiveNumber(max, `max of ${option}`) }),
  };
}

/** Several values of a label have a + between them. */
export function labelsFrom(text: string, option: string): NonNullable<KeyPolicy['require']> {
  const pairs = Object.entries(pairsFrom(text, option, 'region=eu+ch,zdr=true'));
  const valueOf = (word: string): string | boolean =>
    word === 'true' || word === 'false' ? word === 'true' : word;
  return Object.fromEntries(
    pairs.map(([name, words]) => {
      const [first = '', ...more] = words.split('+').map(valueOf);
      return [name, more.length > 0 ? [first, ...more] : first];
    }),
  );
}

function pairsFrom(text: string, option: string, example: string): Readonly<Record<string, string>> {
  const pairs = text.split(',').map((pair) => {
    const [name = '', ...value] = pair.split('=');
    if (name === '' || value.length === 0) {
      throw new UsageError(`${option} must be as ${example}, got ${JSON.stringify(text)}`);
    }
    return [name, value.join('=')] as const;
  });
  const notes = Object.fromEntries(pairs);
  if (Object.keys(notes).length < pairs.length) {
    throw new UsageError(`${option} must name each once, got ${JSON.stringify(text)}`);
  }
  return notes;
}
