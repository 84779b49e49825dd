import type { KeyPolicy, KeyPolicyChanges } from '../../keys/key-policy.ts';
import { type CommandOption, count, date, UsageError } from './command.ts';

/** What an API key may do, as the command line says it. */
export const POLICY_OPTIONS: Readonly<Record<string, CommandOption>> = {
  name: { value: 'TEXT', help: 'what tells it from others of the account' },
  budget: { value: 'USD/PERIOD', help: 'the most it may spend, as 5.00/month; day, week, month or lifetime' },
  models: { value: 'PATTERNS', help: 'the only models that it may use, as openai/*,acme/fast' },
  expires: { value: 'DATE', help: 'when it ends, e.g. 2027-01-31T00:00Z' },
  'requests-per-minute': { value: 'N', help: 'the most requests a minute' },
  'tokens-per-minute': { value: 'N', help: 'the most tokens a minute, prompt and completion' },
  'concurrent-requests': { value: 'N', help: 'the most requests at a time' },
  markup: { value: 'FACTOR', help: 'what its prices are multiplied by, as 1.2' },
  metadata: { value: 'PAIRS', help: 'notes of yours, as plan=pro,team=search' },
};

type Options = Readonly<Record<string, string | undefined>>;

/** Option → the field of the policy that it is. */
const FIELDS: Readonly<Record<string, keyof KeyPolicy>> = {
  name: 'name',
  budget: 'budget',
  models: 'models',
  expires: 'expiresAt',
  'requests-per-minute': 'requestsPerMinute',
  'tokens-per-minute': 'tokensPerMinute',
  'concurrent-requests': 'concurrentRequests',
  markup: 'markup',
  metadata: 'metadata',
};

/** @throws {UsageError} naming the option that can't be right */
export function policyFrom(options: Options): KeyPolicy {
  const { name, budget, models, expires, markup, metadata } = options;
  const number = (option: string): number | undefined => {
    const given = options[option];
    return given === undefined ? undefined : count(given, `--${option}`);
  };
  const [requestsPerMinute, tokensPerMinute, concurrentRequests] = [
    number('requests-per-minute'),
    number('tokens-per-minute'),
    number('concurrent-requests'),
  ];
  return {
    ...(name !== undefined && { name }),
    ...(budget !== undefined && { budget: budgetFrom(budget) }),
    ...(models !== undefined && { models: models.split(',') }),
    ...(expires !== undefined && { expiresAt: date(expires, '--expires') }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
    ...(concurrentRequests !== undefined && { concurrentRequests }),
    ...(markup !== undefined && { markup: { factor: markup } }),
    ...(metadata !== undefined && { metadata: pairsFrom(metadata) }),
  };
}

/** What is given, and what `--remove` takes away. */
export function policyChanges(options: Options): KeyPolicyChanges {
  const removed = (options['remove']?.split(',') ?? []).map((option) => {
    const field = Object.hasOwn(FIELDS, option) ? FIELDS[option] : undefined;
    if (!field)
      throw new UsageError(`--remove takes ${Object.keys(FIELDS).join(', ')}, got ${JSON.stringify(option)}`);
    if (options[option] !== undefined) throw new UsageError(`--${option} is given, and to be removed`);
    return [field, null] as const;
  });
  return { ...policyFrom(options), ...Object.fromEntries(removed) };
}

/** A policy on a line; empty where it limits nothing. */
export function policyText(policy: KeyPolicy): string {
  const { budget, models, expiresAt, requestsPerMinute, tokensPerMinute, concurrentRequests, markup } =
    policy;
  const parts = [
    budget && `${budget.amount}/${budget.per}`,
    models && `models ${models.join(',')}`,
    requestsPerMinute !== undefined && `${requestsPerMinute} requests/min`,
    tokensPerMinute !== undefined && `${tokensPerMinute} tokens/min`,
    concurrentRequests !== undefined && `${concurrentRequests} at a time`,
    markup?.factor !== undefined && `× ${markup.factor}`,
    markup?.fee !== undefined && `+ ${markup.fee} a request`,
    expiresAt && `expires ${expiresAt.toISOString().slice(0, 16)}Z`,
  ];
  return parts.filter((part) => typeof part === 'string').join(' · ');
}

function budgetFrom(text: string): NonNullable<KeyPolicy['budget']> {
  const [, amount = '', period = ''] = /^([\d.]+)\/(\w+)$/.exec(text) ?? [];
  const per = (['day', 'week', 'month', 'lifetime'] as const).find((each) => each === period);
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
