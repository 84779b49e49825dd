import { type KeyPolicy, MAX_METADATA, POLICY_FIELDS, type PolicyBudget } from '../../../keys/key-policy.ts';
import { termsOf } from '../../../keys/key-terms.ts';
import { isAccount } from '../../../ledger/contract/account-ids.ts';
import {
  type BudgetPeriod,
  type CountLimit,
  COUNT_LIMIT_NAMES,
  MAX_COUNT_LIMIT,
  MAX_NAME_LENGTH,
} from '../../../ledger/contract/key-records.ts';
import { formatUsd, MAX_AMOUNT } from '../../../ledger/contract/money.ts';
import { MAX_MODEL_PATTERNS, MODEL_PATTERN } from '../../../options/model-patterns.ts';
import { isRecord, nonEmptyText, type Notes, positive, records, strings, type YamlRecord } from './values.ts';

/** Model names of LiteLLM that stand for all models. */
const ALL_MODELS = ['all-team-models', 'all-proxy-models', '*'];

const PERIOD_OF: readonly (readonly [RegExp, BudgetPeriod])[] = [
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
    const policy = usablePolicy(withBudget(key), now, what, notes);
    if (typeof policy === 'string') {
      notes.add(what, `left out: ${policy}`);
      return [];
    }
    accounts.add(account);
    const creation = command('keys create', [account], `${optionsOf(id, policy)} --json${env}`);
    return [`exists ${shellQuoted(account)} ${id} || ${creation}`];
  });
  const grants = [...accounts].map(
    (account) => `# ${command('credits grant', [account, '10.00'], `--id litellm${env}`)}`,
  );
  const head = [
    '#!/bin/sh',
    '# Creates the virtual keys of LiteLLM. Each new secret is printed once: one line of JSON per key.',
    '# It can be run again: keys that exist already stay as they are.',
    'set -e',
    'exists() {',
    `  npx chat-completions-router keys get --json${env} -- "$1" "$2" >/dev/null 2>&1 || return 1`,
    '  echo "$1: key $2 exists already" >&2',
    '}',
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

/** A key with the limits of its budget, where it has none of its own. */
function withBudget(key: YamlRecord): YamlRecord {
  const budget = key['litellm_budget_table'];
  if (!isRecord(budget)) return key;
  // A period belongs to an amount.
  const names = isGiven(key['max_budget']) ? BUDGET_LIMITS : [...BUDGET_LIMITS, 'budget_duration'];
  const shared = names.filter((name) => !isGiven(key[name])).map((name) => [name, budget[name]] as const);
  return { ...key, ...Object.fromEntries(shared) };
}

/** What a key may do, or why nothing can be bought with it. */
function usablePolicy(key: YamlRecord, now: Date, what: string, notes: Notes): KeyPolicy | string {
  const why = whyUnusable(key, now);
  if (why !== undefined) return why;
  const policy = policyOf(key, what, notes);
  try {
    termsOf(policy);
  } catch (error) {
    if (error instanceof TypeError) return error.message.slice(0, 200);
    throw error;
  }
  noteUnused(key, what, notes);
  return policy;
}

/** Undefined if something can be bought with a key. */
function whyUnusable(key: YamlRecord, now: Date): string | undefined {
  if (key['blocked'] === true) return 'it is blocked';
  const expires = nonEmptyText(key['expires']);
  const expiry = expires === undefined ? Infinity : utcTime(expires);
  if (Number.isNaN(expiry)) return 'its expiry is not a time';
  if (expiry <= now.getTime()) return 'it has expired';
  const models = limitedModels(key);
  if (models.length > MAX_MODEL_PATTERNS) {
    return `it has ${models.length} models: at most ${MAX_MODEL_PATTERNS} are possible, in which * matches any characters`;
  }
  if (models.length > 0 && !models.some(isPattern)) return 'none of its models can be the ID of one here';
  const limits = ['max_budget', ...Object.keys(LIMITS)].map((name) => [name, key[name]] as const);
  const budgets = records(key['budget_limits']).map((each) => ['budget_limits', each['max_budget']] as const);
  const [name, value] = [...limits, ...budgets].find(([, each]) => isGiven(each) && Number(each) <= 0) ?? [];
  return name && `its ${name} is ${String(value)}, which allows nothing`;
}

/** A line of the script. An account that begins as an option does stands behind all options. */
function command(name: string, [account = '', ...others]: readonly string[], options: string): string {
  const positionals = [account, ...others].map(shellQuoted).join(' ');
  const words = account.startsWith('-') ? `${options} -- ${positionals}` : `${positionals} ${options}`;
  return `npx chat-completions-router ${name} ${words}`;
}

/** The options of `keys create`. */
function optionsOf(
  id: string,
  { name, budget = [], models = [], expiresAt, metadata, ...policy }: KeyPolicy,
): string {
  const budgets = [budget].flat().map(({ amount, per }) => `${amount}/${per}`);
  const pairs = Object.entries(metadata ?? {}).map((pair) => pair.join('='));
  const options = [
    ['id', id],
    ['name', name ?? ''],
    ['budget', budgets.join(',')],
    ['models', models.join(',')],
    ...COUNT_LIMIT_NAMES.map(
      (limit) => [POLICY_FIELDS[limit].option[0], String(policy[limit] ?? '')] as const,
    ),
    ['expires', expiresAt?.toISOString() ?? ''],
    ['metadata', pairs.join(',')],
  ] as const;
  return options
    .filter(([, value]) => value !== '')
    .map(([option, value]) => `--${option}${value.startsWith('-') ? '=' : ' '}${shellQuoted(value)}`)
    .join(' ');
}

function policyOf(key: YamlRecord, what: string, notes: Notes): KeyPolicy {
  const name = nonEmptyText(key['key_alias']) ?? nonEmptyText(key['key_name']);
  const budget = budgetsOf(key, what, notes);
  const models = limitedModels(key);
  const usable = models.filter(isPattern);
  if (usable.length < models.length) {
    notes.add(
      `${what}: models`,
      'names that no model can have here are left out: they have spaces, commas or over 256 characters',
    );
  }
  const counts = Object.entries(LIMITS).flatMap(([theirs, ours]) => {
    const limit = positive(key[theirs]);
    if (limit === undefined) return [];
    if (limit > MAX_COUNT_LIMIT)
      notes.add(`${what}: ${theirs}`, `became ${MAX_COUNT_LIMIT}, the highest limit`);
    return [[ours, Math.min(Math.ceil(limit), MAX_COUNT_LIMIT)] as const];
  });
  const expires = nonEmptyText(key['expires']);
  const metadata = metadataOf(key['metadata'], what, notes);
  return {
    ...(name !== undefined && { name: name.slice(0, MAX_NAME_LENGTH) }),
    ...(budget.length > 0 && { budget }),
    ...(usable.length > 0 && { models: usable }),
    ...Object.fromEntries(counts),
    ...(expires !== undefined && { expiresAt: new Date(utcTime(expires)) }),
    ...(Object.keys(metadata).length > 0 && { metadata }),
  };
}

/** Limits that a key has of its own or shares with others by its budget. */
const LIMITS: Readonly<Record<string, CountLimit>> = {
  rpm_limit: 'requestsPerMinute',
  tpm_limit: 'tokensPerMinute',
  max_parallel_requests: 'concurrentRequests',
};

const NO_TEAM =
  'limits and models of a team are not in this export: set them for its account with accounts update';
const NO_BUDGET = 'the limits of this budget are not in this export: set them with keys update';

const UNUSED = [
  ['aliases', 'aliases are per model, not per key'],
  ['model_max_budget', 'budgets are per key, not per model: create a key for each model'],
  ['model_rpm_limit', 'limits are per key, not per model: create a key for each model'],
  ['model_tpm_limit', 'limits are per key, not per model: create a key for each model'],
  ['tpd_limit', 'tokens are limited per minute, not per day'],
  [
    'access_group_ids',
    'the models of access groups are not in this export: set them with keys update --models',
  ],
  ['allowed_routes', 'limit paths in your reverse proxy or app'],
  [
    'soft_budget',
    'alerts are at shares of budgets, of all keys: thresholds.budgetAt and the hook onThreshold',
  ],
  ['permissions', 'no equivalent'],
  ['spend', 'past spending stays in LiteLLM: budgets begin at 0'],
] as const;

const BUDGET_LIMITS = ['max_budget', 'soft_budget', 'model_max_budget', 'tpd_limit', ...Object.keys(LIMITS)];

/** Notes what a key has beyond its policy. */
function noteUnused(key: YamlRecord, what: string, notes: Notes): void {
  for (const [each, why] of UNUSED) {
    const value = key[each];
    if (isGiven(value) && value !== 0) notes.add(`${what}: ${each}`, why);
  }
  const team = nonEmptyText(key['team_id']);
  if (team !== undefined) notes.add(`team ${team}`, NO_TEAM);
  if (strings(key['models']).includes('all-team-models')) notes.add(`${what}: models`, NO_TEAM);
  const budget = nonEmptyText(key['budget_id']);
  if (budget !== undefined && !isRecord(key['litellm_budget_table'])) {
    notes.add(`${what}: budget_id ${budget}`, NO_BUDGET);
  }
}

/** Whether it is a number, also in a text, or a list or mapping that is not empty. */
function isGiven(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isRecord(value)) return Object.keys(value).length > 0;
  return typeof value === 'number' || nonEmptyText(value) !== undefined;
}

/** The only models that a key may use; none if it may use all. */
function limitedModels(key: YamlRecord): readonly string[] {
  const models = strings(key['models']);
  return models.some((model) => ALL_MODELS.includes(model)) ? [] : models;
}

/** Whether a key can be limited to it; the command line has commas between models. */
function isPattern(model: string): boolean {
  return MODEL_PATTERN.test(model) && !model.includes(',');
}

/** LiteLLM's times without a zone are UTC. NaN if it is not a time. */
function utcTime(text: string): number {
  return Date.parse(/[T ][\d:.]+$/.test(text) ? `${text}Z` : text);
}

/** One budget for each period: the smallest of several. */
function budgetsOf(key: YamlRecord, what: string, notes: Notes): readonly PolicyBudget[] {
  const amounts = new Map<BudgetPeriod, number>();
  for (const each of [key, ...records(key['budget_limits'])]) {
    const amount = positive(each['max_budget']);
    if (amount === undefined) continue;
    const per = periodOf(nonEmptyText(each['budget_duration']), what, notes);
    amounts.set(per, Math.min(amount, amounts.get(per) ?? Infinity));
  }
  return [...amounts].map(([per, amount]) => {
    const isTooLarge = amount * 1e9 >= Number(MAX_AMOUNT);
    const most = formatUsd(MAX_AMOUNT);
    if (isTooLarge) notes.add(`${what}: max_budget`, `became ${most}, the largest amount`);
    return { amount: isTooLarge ? most : amount.toFixed(9).replace(/0{1,7}$/, ''), per };
  });
}

function periodOf(duration: string | undefined, what: string, notes: Notes): BudgetPeriod {
  if (duration === undefined) return 'lifetime';
  const period = PERIOD_OF.find(([pattern]) => pattern.test(duration))?.[1];
  if (period === undefined) {
    notes.add(
      `${what}: budget_duration ${duration}`,
      'became a budget per month: periods are an hour, day, week or month',
    );
  }
  return period ?? 'month';
}

/** Notes of a key, of which only texts and numbers can be kept. */
function metadataOf(given: unknown, what: string, notes: Notes): Readonly<Record<string, string>> {
  const pairs = Object.entries(isRecord(given) ? given : {});
  const kept = pairs
    .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '')
    .map(([name, value]) => [name, String(value)] as const)
    .filter(
      ([name, value]) =>
        /^[^=,]+$/.test(name) &&
        name.length <= MAX_METADATA.name &&
        value.length <= MAX_METADATA.value &&
        !value.includes(','),
    )
    .slice(0, MAX_METADATA.entries);
  if (kept.length < pairs.length) {
    notes.add(
      `${what}: metadata`,
      'only texts and numbers without commas are kept: at most 16, names up to 64 and values up to 512 characters',
    );
  }
  return Object.fromEntries(kept);
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
