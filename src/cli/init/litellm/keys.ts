import { isAccount } from '../../../ledger/contract/account-ids.ts';
import { isRecord, type Notes, positive, strings, nonEmptyText, type YamlRecord } from './values.ts';

/** Model names of LiteLLM that stand for all models. */
const ALL_MODELS = ['all-team-models', 'all-proxy-models', '*'];

const PERIOD_OF: readonly (readonly [RegExp, string])[] = [
  [/^(1h|60m|3600s?)$/, 'hour'],
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
  const accountOf = accountsOf(keys, notes);
  const accounts = new Set<string>();
  const used = new Set<string>();
  const commands = keys.flatMap((key, n) => {
    const account = accountOf(key);
    const id = unique(`${account}/`, idOf(nonEmptyText(key['key_alias'])) ?? `key-${n + 1}`, used);
    const what = `key ${id} of ${account}`;
    const why = whyUnusable(key, now);
    if (why !== undefined) {
      notes.add(what, `left out: ${why}`);
      return [];
    }
    accounts.add(account);
    return [command('keys create', [account], `${optionsOf(key, id, what, notes)} --json${env}`)];
  });
  const grants = [...accounts].map(
    (account) => `# ${command('credits grant', [account, '10.00'], `--id litellm${env}`)}`,
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

/** Why nothing can be bought with a key; undefined if something can. */
function whyUnusable(key: YamlRecord, now: Date): string | undefined {
  if (key['blocked'] === true) return 'it is blocked';
  const expires = nonEmptyText(key['expires']);
  if (expires !== undefined && Date.parse(expires) <= now.getTime()) return 'it has expired';
  const none = ['max_budget', ...LIMITS.map(([theirs]) => theirs)].find((name) => {
    const value = key[name];
    return (typeof value === 'number' || nonEmptyText(value) !== undefined) && Number(value) <= 0;
  });
  return none && `its ${none} is ${String(key[none])}, which allows nothing`;
}

/** A line of the script. An account that begins as an option does stands behind all options. */
function command(name: string, [account = '', ...others]: readonly string[], options: string): string {
  const positionals = [account, ...others].map(shellQuoted).join(' ');
  const words = account.startsWith('-') ? `${options} -- ${positionals}` : `${positionals} ${options}`;
  return `npx chat-completions-router ${name} ${words}`;
}

function optionsOf(key: YamlRecord, id: string, what: string, notes: Notes): string {
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
  return options
    .map(([option, value]) => `--${option}${value.startsWith('-') ? '=' : ' '}${shellQuoted(value)}`)
    .join(' ');
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
  [
    'soft_budget',
    'alerts are at shares of budgets, of all keys: thresholds.budgetAt and the hook onThreshold',
  ],
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
      'became a budget per month: periods are an hour, day, week or month',
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

/** The account of each key: the team's ID, else the user's. Each has one of its own, also where its ID can't be an account's. */
function accountsOf(keys: readonly YamlRecord[], notes: Notes): (key: YamlRecord) => string {
  const payers = new Map(keys.map((key) => [JSON.stringify(payerOf(key)), payerOf(key)]));
  const accounts = new Map<string, string>();
  const used = new Set<string>();
  // What is valid stays as it is, so it goes first.
  const inOrder = [...payers].toSorted(
    ([, [, one]], [, [, other]]) => Number(isAccount(other)) - Number(isAccount(one)),
  );
  for (const [payer, [kind, id]] of inOrder) {
    const account = unique('', isAccount(id) ? id : (idOf(id) ?? kind), used);
    accounts.set(payer, account);
    if (account !== id) {
      notes.add(
        `${kind} ${JSON.stringify(id)}`,
        `became account ${account}: its ID is taken or no account's`,
      );
    }
  }
  return (key) => accounts.get(JSON.stringify(payerOf(key))) ?? 'default';
}

type Payer = readonly [kind: 'team' | 'user' | 'organization' | 'keys of no team or user', id: string];

function payerOf(key: YamlRecord): Payer {
  for (const kind of ['team', 'user', 'organization'] as const) {
    const id = nonEmptyText(key[`${kind}_id`]);
    if (id !== undefined) return id === 'default_user_id' ? DEFAULT_PAYER : [kind, id];
  }
  return DEFAULT_PAYER;
}

const DEFAULT_PAYER: Payer = ['keys of no team or user', 'default'];

/** An id that begins as no option, of the characters that a key's may have; undefined if nothing is left. */
function idOf(name: string | undefined): string | undefined {
  const words = name?.split(/[^A-Za-z0-9_]+/).filter((word) => word !== '');
  return words?.join('-').slice(0, 60) || undefined;
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
