import { isRecord, type Notes, positive, strings, nonEmptyText, type YamlRecord } from './values.ts';

/** Model names of LiteLLM that stand for all models. */
const ALL_MODELS = ['all-team-models', 'all-proxy-models', '*'];

const PERIOD_OF: readonly (readonly [RegExp, string])[] = [
  [/^(1d|24h|86400s?)$/, 'day'],
  [/^(7d|1w)$/, 'week'],
  [/^(28d|30d|31d|1mo)$/, 'month'],
];

/** The keys of an answer of `/key/list` or `/key/info`, or of a list of these. */
function keysIn(given: unknown): readonly YamlRecord[] {
  if (Array.isArray(given)) return given.flatMap(keysIn);
  if (!isRecord(given)) return [];
  if (Array.isArray(given['keys'])) return keysIn(given['keys']);
  if (isRecord(given['info'])) return [{ token: given['key'], ...given['info'] }];
  return 'token' in given || 'key_alias' in given ? [given] : [];
}

export interface ConvertedKeys {
  /** A shell script. */
  readonly script: string;
  readonly count: number;
}

/**
 * A shell script that creates keys with the limits of LiteLLM's. Their secrets change: LiteLLM stores only hashes.
 *
 * @throws {Error} if the export has no keys with their details
 */
export function convertKeys(
  given: unknown,
  { now, envFile }: { readonly now: Date; readonly envFile: string | undefined },
  notes: Notes,
): ConvertedKeys {
  const env = envFile === undefined ? '' : ` --env-file ${envFile}`;
  const keys = keysIn(given);
  if (keys.length === 0) {
    throw new Error('no keys with details in the export; get it by GET /key/list?return_full_object=true');
  }
  notes.add(
    'virtual keys',
    'LiteLLM stores only hashes of keys: each key gets a new secret, for you to hand out',
  );
  const accounts = new Set<string>();
  const used = new Set<string>();
  const commands = keys.flatMap((key, n) => {
    const account = accountOf(key);
    const id = unique(`${account}/`, idOf(nonEmptyText(key['key_alias'])) ?? `key-${n + 1}`, used);
    const what = `key ${id} of ${account}`;
    const expires = nonEmptyText(key['expires']);
    if (key['blocked'] === true) notes.add(what, 'left out: it is blocked');
    else if (expires !== undefined && Date.parse(expires) <= now.getTime())
      notes.add(what, 'left out: it has expired');
    else {
      accounts.add(account);
      return [commandOf(key, account, id, what, notes) + env];
    }
    return [];
  });
  const grants = [...accounts].map(
    (account) => `# npx chat-completions-router credits grant ${account} 10.00 --id litellm-${account}${env}`,
  );
  const head = [
    '#!/bin/sh',
    '# Creates the virtual keys of LiteLLM. Each new secret is printed once: one line of JSON per key.',
    'set -e',
    '',
  ];
  const tail = [
    '',
    '# Accounts are prepaid: without credits their requests get a 402. Set the amounts.',
    ...grants,
    '',
  ];
  return { script: [...head, ...commands, ...tail].join('\n'), count: commands.length };
}

function commandOf(key: YamlRecord, account: string, id: string, what: string, notes: Notes): string {
  const options: (readonly [name: string, value: string])[] = [['id', id]];
  const name = nonEmptyText(key['key_alias']) ?? nonEmptyText(key['key_name']);
  if (name !== undefined) options.push(['name', name]);
  const budget = positive(key['max_budget']);
  if (budget !== undefined)
    options.push(['budget', budgetOf(budget, nonEmptyText(key['budget_duration']), what, notes)]);
  const models = strings(key['models']);
  if (models.length > 0 && !models.some((model) => ALL_MODELS.includes(model))) {
    options.push(['models', models.join(',')]);
  }
  for (const [theirs, ours] of LIMITS) {
    const limit = positive(key[theirs]);
    if (limit !== undefined) options.push([ours, String(Math.ceil(limit))]);
  }
  const expires = nonEmptyText(key['expires']);
  if (expires !== undefined) options.push(['expires', new Date(expires).toISOString()]);
  const pairs = metadataOf(key['metadata'], what, notes);
  if (pairs !== '') options.push(['metadata', pairs]);
  for (const [each, why] of UNUSED) {
    const value = key[each];
    if (isRecord(value) ? Object.keys(value).length > 0 : positive(value) !== undefined)
      notes.add(`${what}: ${each}`, why);
  }
  const words = options.map(([option, value]) => `--${option} ${shellQuoted(value)}`);
  return `npx chat-completions-router keys create ${account} ${words.join(' ')} --json`;
}

const LIMITS = [
  ['rpm_limit', 'requests-per-minute'],
  ['tpm_limit', 'tokens-per-minute'],
  ['max_parallel_requests', 'concurrent-requests'],
] as const;

const UNUSED = [
  ['aliases', 'aliases are per model, not per key'],
  ['model_max_budget', 'budgets are per key, not per model: create a key for each model'],
  ['model_rpm_limit', 'limits are per key, not per model: create a key for each model'],
  ['model_tpm_limit', 'limits are per key, not per model: create a key for each model'],
  ['soft_budget', 'no alerts on budgets: watch them with the hook onSettled'],
  ['permissions', 'no equivalent'],
  ['spend', 'past spending stays in LiteLLM: budgets begin at 0'],
] as const;

function budgetOf(budget: number, duration: string | undefined, what: string, notes: Notes): string {
  const amount = budget.toFixed(9).replace(/0{1,7}$/, '');
  if (duration === undefined) return `${amount}/lifetime`;
  const period = PERIOD_OF.find(([pattern]) => pattern.test(duration))?.[1];
  if (period === undefined) {
    notes.add(
      `${what}: budget_duration ${duration}`,
      'became a budget per month: periods are a day, week or month',
    );
  }
  return `${amount}/${period ?? 'month'}`;
}

/** Notes of a key as pairs; only texts and numbers can be kept. */
function metadataOf(given: unknown, what: string, notes: Notes): string {
  const pairs = Object.entries(isRecord(given) ? given : {});
  const kept = pairs.filter(
    ([name, value]) =>
      (typeof value === 'number' ||
        typeof value === 'boolean' ||
        (typeof value === 'string' && value !== '')) &&
      !/[=,]/.test(name) &&
      !String(value).includes(','),
  );
  if (kept.length < pairs.length) notes.add(`${what}: metadata`, 'only texts and numbers are kept');
  return kept.map(([name, value]) => `${name}=${String(value)}`).join(',');
}

/** Who pays: the team, else the user. */
function accountOf(key: YamlRecord): string {
  const found = ['team_id', 'user_id', 'organization_id']
    .map((name) => idOf(nonEmptyText(key[name])))
    .find(Boolean);
  return found === undefined || found === 'default_user_id' ? 'default' : found;
}

/** A valid id, of the characters that accounts and keys may have; undefined for none. */
function idOf(name: string | undefined): string | undefined {
  return name?.replaceAll(/[^A-Za-z0-9_-]+/g, '-').slice(0, 60);
}

function unique(scope: string, id: string, used: Set<string>): string {
  let free = id;
  for (let n = 2; used.has(scope + free); n++) free = `${id}-${n}`;
  used.add(scope + free);
  return free;
}

function shellQuoted(value: string): string {
  return /^[\w./:-]+$/.test(value) ? value : `'${value.replaceAll("'", String.raw`'\''`)}'`;
}
