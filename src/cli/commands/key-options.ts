import {
  type KeyPolicy,
  type KeyPolicyChanges,
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
} from '../../keys/key-policy.ts';
import { BUDGET_PERIODS, everyCount } from '../../ledger/contract/key-records.ts';
import { notOneOf } from '../../platform/did-you-mean.ts';
import { type CommandOption, wholeNumber, date, UsageError } from './command.ts';

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
  ...everyCount(() => wholeNumber),
  markup: (factor) => ({ factor }),
  expiresAt: date,
  metadata: pairsFrom,
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

function budgetFrom(text: string): NonNullable<KeyPolicy['budget']> {
  const [, amount = '', period = ''] = /^([\d.]+)\/(\w+)$/.exec(text) ?? [];
  const per = BUDGET_PERIODS.find((each) => each === period);
  if (per) return { amount, per };
  throw new UsageError(
    `--budget must be as 5.00/month, of a day, week, month or lifetime, got ${JSON.stringify(text)}`,
  );
}

function pairsFrom(text: string): Readonly<Record<string, string>> {
  const pairs = text.split(',').map((pair) => {
    const [name = '', ...value] = pair.split('=');
    if (name === '' || value.length === 0) {
      throw new UsageError(`--metadata must be as plan=pro,team=search, got ${JSON.stringify(text)}`);
    }
    return [name, value.join('=')] as const;
  });
  const notes = Object.fromEntries(pairs);
  if (Object.keys(notes).length < pairs.length) {
    throw new UsageError(`--metadata must name each note once, got ${JSON.stringify(text)}`);
  }
  return notes;
}
