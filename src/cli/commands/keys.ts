import {
  type ApiKeyDetails,
  type ApiKeyInfo,
  type ApiKeys,
  type CreatedApiKey,
  createApiKeys,
} from '../../keys/api-keys.ts';
import { policyText } from '../../keys/key-policy.ts';
import { escapeControlCharacters } from '../terminal/escape-control-characters.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import { count, type StoreCommand, type StoreInvocation, UsageError } from './command.ts';
import { POLICY_OPTIONS, policyChanges, policyFrom } from './key-options.ts';
import { table } from '../terminal/table.ts';

export const createKeyCommand: StoreCommand = {
  name: 'keys create',
  summary: 'Make an API key, and its account if there is none; it is shown this once',
  store: 'may be new',
  positionals: 'ACCOUNT',
  options: {
    ...POLICY_OPTIONS,
    id: { value: 'ID', help: "the key's own id, so that a repeated creation is found; random by default" },
  },
  async run({ positionals: [account = ''], options, store, print }) {
    const { id } = options;
    const policy = policyFrom(options);
    const created = await keysOf(store).create({ account, ...policy, ...(id !== undefined && { id }) });
    print(
      `${created.key}\n${account}: key ${created.id} is made; what stands above is shown only now`,
      created,
    );
    return true;
  },
};

export const listKeysCommand: StoreCommand = {
  name: 'keys list',
  summary: "Show an account's API keys, without what they were made of",
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {},
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
  summary: 'Show an API key, with what it has spent, holds and runs',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {},
  async run(invocation) {
    const { account, id } = named(invocation);
    const found = await keysOf(invocation.store).get(account, id);
    if (!found) return noKey(invocation);
    invocation.print(details(found), found);
    return true;
  },
};

export const updateKeyCommand: StoreCommand = {
  name: 'keys update',
  summary: 'Change what an API key may do, from the next completion on',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {
    ...POLICY_OPTIONS,
    remove: { value: 'NAMES', help: 'take these options away from it, as --remove budget,expires' },
  },
  async run(invocation) {
    const { account, id } = named(invocation);
    const changes = policyChanges(invocation.options);
    if (Object.keys(changes).length === 0) throw new UsageError('nothing is to be changed: give an option');
    const changed = await keysOf(invocation.store).update(account, id, changes);
    if (!changed) return noKey(invocation);
    invocation.print(`${account}: key ${id}: ${policyText(changed) || 'without limits'}`, changed);
    return true;
  },
};

export const rotateKeyCommand: StoreCommand = {
  name: 'keys rotate',
  summary: 'Give an API key another secret, which is shown this once; all else stays',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {
    overlap: { value: 'SECONDS', help: 'the secret of now works for so much longer; 0 by default' },
  },
  async run(invocation) {
    const { account, id } = named(invocation);
    const overlapMs = count(invocation.options['overlap'] ?? '0', '--overlap') * 1000;
    const rotated: CreatedApiKey | undefined = await keysOf(invocation.store).rotate(account, id, {
      overlapMs,
    });
    if (!rotated) return noKey(invocation);
    const old =
      rotated.overlapUntil && overlapMs > 0 ? `works until ${time(rotated.overlapUntil)}` : 'ends now';
    invocation.print(
      `${rotated.key}\n${account}: key ${id} has another secret, shown only now; the one before ${old}`,
      rotated,
    );
    return true;
  },
};

export const revokeKeyCommand: StoreCommand = {
  name: 'keys revoke',
  summary: 'Refuse an API key from now on, for good; requests that run go on, and are charged',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {},
  async run(invocation) {
    const { account, id } = named(invocation);
    if (!(await keysOf(invocation.store).revoke(account, id))) return noKey(invocation);
    invocation.print(`${account}: key ${id} is revoked`, { account, id, state: 'revoked' });
    return true;
  },
};

/** No other process is told: each asks the store again before it admits a completion. */
function keysOf(store: LedgerStore): ApiKeys {
  return createApiKeys(store, { invalidate: () => {}, forget: () => {} });
}

function named({ positionals: [account = '', id = ''] }: StoreInvocation): {
  readonly account: string;
  readonly id: string;
} {
  return { account, id };
}

function noKey(invocation: StoreInvocation): false {
  const { account, id } = named(invocation);
  invocation.print(`There is no key ${id} of ${account}`, { account, id, error: 'no_key' });
  return false;
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
    ['policy', policyText(key) || 'without limits'],
    ['spent', key.spent],
    ['held', key.held],
    ['running', key.running],
    [
      'budget left',
      budgetLeft && (budgetResetsAt ? `${budgetLeft}, until ${time(budgetResetsAt)}` : budgetLeft),
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
