import {
  type ApiKeyDetails,
  type ApiKeyInfo,
  type ApiKeys,
  type CreatedApiKey,
  createApiKeys,
} from '../../keys/api-keys.ts';
import { policyText } from '../../keys/key-policy.ts';
import { hashApiKey } from '../../keys/key-secret.ts';
import { escapeControlCharacters } from '../terminal/escape-control-characters.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import {
  wholeNumber,
  NotFoundError,
  type StoreCommand,
  type StoreInvocation,
  usd,
  UsageError,
} from './command.ts';
import { POLICY_OPTIONS, policyChanges, policyFrom } from './key-options.ts';
import { table } from '../terminal/table.ts';

export const createKeyCommand: StoreCommand = {
  name: 'keys create',
  summary: 'Create an API key (and the account, if needed); the secret is shown only once',
  store: 'may-be-new',
  positionals: 'ACCOUNT',
  options: {
    ...POLICY_OPTIONS,
    id: { value: 'ID', help: 'id of the key, to detect a repeated creation; default: random' },
  },
  examples: ['keys create acme', "keys create acme --id prod --budget 5.00/month --models 'openai/*'"],
  async run({ positionals: [account = ''], options, store, print, note }) {
    const { id } = options;
    const policy = policyFrom(options);
    const created = await keysOf(store).create({ account, ...policy, ...(id !== undefined && { id }) });
    print(created.key, created);
    note(`${account}: created key ${created.id}; its secret is shown only once`);
    return true;
  },
};

export const listKeysCommand: StoreCommand = {
  name: 'keys list',
  summary: 'List the API keys of an account, without secrets',
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {},
  examples: ['keys list acme'],
  async run({ positionals: [account = ''], options: { json }, store, print }) {
    const keys = await keysOf(store).list(account);
    if (json !== undefined) for (const key of keys) print('', key);
    else if (keys.length === 0) print(`${account}: no keys`, {});
    else
      for (const line of table(['ID', 'NAME', 'STATE', 'CREATED', 'POLICY'], keys.map(row))) print(line, {});
    return true;
  },
};

export const getKeyCommand: StoreCommand = {
  name: 'keys get',
  summary: 'Show an API key with its charges, holds and running requests',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {},
  examples: ['keys get acme prod'],
  async run(invocation) {
    const { account, id } = named(invocation);
    const found = await keysOf(invocation.store).get(account, id);
    if (!found) throw noKey(invocation);
    invocation.print(details(found), found);
    return true;
  },
};

export const findKeyCommand: StoreCommand = {
  name: 'keys find',
  summary: 'Show which API key a secret belongs to, such as one that has leaked',
  store: 'exists',
  positionals: 'SECRET',
  options: {},
  examples: ['keys find sk-ccr-…'],
  async run({ positionals: [secret = ''], store, print }) {
    const record = await store.findKey(hashApiKey(secret));
    const found = record && (await keysOf(store).get(record.account, record.key));
    if (!found) {
      throw new NotFoundError('no key has this secret, or it was rotated since', { error: 'no_key' });
    }
    print(details(found), found);
    return true;
  },
};

export const updateKeyCommand: StoreCommand = {
  name: 'keys update',
  summary: 'Change the limits of an API key, from the next completion on',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {
    ...POLICY_OPTIONS,
    remove: {
      value: 'NAMES',
      choices: Object.keys(POLICY_OPTIONS),
      isList: true,
      help: 'options to remove, e.g. --remove budget,expires',
    },
  },
  examples: ['keys update acme prod --budget 20.00/month --remove models'],
  async run(invocation) {
    const { account, id } = named(invocation);
    const changes = policyChanges(invocation.options);
    if (Object.keys(changes).length === 0)
      throw new UsageError('nothing to change; give at least one option');
    const changed = await keysOf(invocation.store).update(account, id, changes);
    if (!changed) throw noKey(invocation);
    invocation.print(`${account}: key ${id}: ${policyText(changed) || 'no limits'}`, changed);
    return true;
  },
};

export const rotateKeyCommand: StoreCommand = {
  name: 'keys rotate',
  summary: 'Replace the secret of an API key; the new one is shown only once',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {
    overlap: { value: 'SECONDS', help: 'how much longer the current secret works; default: 0' },
  },
  examples: ['keys rotate acme prod --overlap 3600'],
  async run(invocation) {
    const { account, id } = named(invocation);
    const overlapMs = wholeNumber(invocation.options['overlap'] ?? '0', '--overlap') * 1000;
    const rotated: CreatedApiKey | undefined = await keysOf(invocation.store).rotate(account, id, {
      overlapMs,
    });
    if (!rotated) throw noKey(invocation);
    const previous =
      rotated.overlapUntil && overlapMs > 0 ? `works until ${time(rotated.overlapUntil)}` : 'has expired';
    invocation.print(rotated.key, rotated);
    invocation.note(
      `${account}: rotated key ${id}; its secret is shown only once, the previous one ${previous}`,
    );
    return true;
  },
};

export const revokeKeyCommand: StoreCommand = {
  name: 'keys revoke',
  summary: 'Revoke an API key permanently; running requests continue and are charged',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {},
  examples: ['keys revoke acme prod'],
  async run(invocation) {
    const { account, id } = named(invocation);
    if (!(await keysOf(invocation.store).revoke(account, id))) throw noKey(invocation);
    invocation.print(`${account}: revoked key ${id}`, { account, id, state: 'revoked' });
    return true;
  },
};

/** Without a cache to invalidate: every process checks a key's version in the store when it admits a completion. */
function keysOf(store: LedgerStore): ApiKeys {
  return createApiKeys(store, { invalidate: () => {}, forget: () => {} });
}

function named({ positionals: [account = '', id = ''] }: StoreInvocation): {
  readonly account: string;
  readonly id: string;
} {
  return { account, id };
}

function noKey(invocation: StoreInvocation): NotFoundError {
  const { account, id } = named(invocation);
  return new NotFoundError(`account ${account} has no key ${id}`, { account, id, error: 'no_key' });
}

function row(key: ApiKeyInfo): readonly string[] {
  return [key.id, key.name, key.state, time(key.createdAt), policyText(key)];
}

function details(key: ApiKeyDetails): string {
  const { budgetLeft, budgetResetsAt, requestsLeft, tokensLeft, metadata = {} } = key;
  const notes = Object.entries(metadata).map((pair) => pair.join('='));
  const facts: readonly (readonly [string, string | number | undefined])[] = [
    ['id', key.id],
    ['account', key.account],
    ['name', key.name || undefined],
    ['metadata', notes.join(',') || undefined],
    ['state', key.state],
    ['created', time(key.createdAt)],
    ['revoked', key.revokedAt && time(key.revokedAt)],
    ['policy', policyText(key) || 'no limits'],
    ['spent', usd(key.spent)],
    ['held', usd(key.held)],
    ['running', key.running],
    [
      'budget left',
      budgetLeft && (budgetResetsAt ? `${usd(budgetLeft)}, until ${time(budgetResetsAt)}` : usd(budgetLeft)),
    ],
    ['requests left', requestsLeft],
    ['tokens left', tokensLeft],
  ];
  return facts
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name.padEnd(13)}  ${escapeControlCharacters(String(value))}`)
    .join('\n');
}

function time(date: Date): string {
  return `${date.toISOString().slice(0, 16)}Z`;
}
