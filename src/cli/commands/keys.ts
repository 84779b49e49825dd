import { type ApiKeyDetails, type ApiKeys, type CreatedApiKey, createApiKeys } from '../../keys/api-keys.ts';
import { policyText } from '../../keys/key-policy.ts';
import type { LimitCounters } from '../../keys/limit-counters.ts';
import { escapeControlCharacters } from '../terminal/escape-control-characters.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import {
  wholeNumber,
  NotFoundError,
  requireAccount,
  type StoreCommand,
  type StoreInvocation,
  usd,
  UsageError,
} from './command.ts';
import { POLICY_OPTIONS, policyChanges, policyFrom } from './key-options.ts';

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
  printsRows: true,
  examples: ['keys list acme', 'keys list acme --csv > keys.csv'],
  async run({ positionals: [account = ''], store, list }) {
    const rows = await keysOf(store).list(account);
    await list({
      columns: [
        'id',
        'name',
        'state',
        { name: 'createdAt', head: 'CREATED', value: ({ createdAt }) => createdAt },
        { name: 'policy', value: policyText },
      ],
      rows,
      none: `${account}: no keys`,
    });
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
  summary: 'Show which API keys have a secret, such as one that has leaked, or an id',
  store: 'exists',
  positionals: 'SECRET|ID',
  options: {},
  examples: ['keys find sk-ccr-…', 'keys find 7fXk2LmQ9a'],
  async run({ positionals: [secretOrId = ''], store, print }) {
    const keys = keysOf(store);
    const found = await keys.find(secretOrId);
    if (found.length === 0) throw noKeyFound();
    for (const [n, { account, id }] of found.entries()) {
      const key = await keys.get(account, id);
      if (key) print(n === 0 ? details(key) : `\n${details(key)}`, key);
    }
    return true;
  },
};

export const pauseKeyCommand: StoreCommand = {
  name: 'keys pause',
  summary: 'Reject an API key until it is resumed; running requests continue and are charged',
  ...pausing('pause'),
};

export const resumeKeyCommand: StoreCommand = {
  name: 'keys resume',
  summary: 'Accept a paused API key again',
  ...pausing('resume'),
};

function pausing(verb: 'pause' | 'resume'): Omit<StoreCommand, 'name' | 'summary'> {
  return {
    store: 'exists',
    positionals: 'ACCOUNT ID',
    options: {},
    examples: [`keys ${verb} acme prod`],
    async run(invocation) {
      const { account, id } = named(invocation);
      const changed = await keysOf(invocation.store)[verb](account, id);
      if (!changed) throw noKey(invocation);
      invocation.print(`${account}: key ${id} is ${changed.state}`, changed);
      return true;
    },
  };
}

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
    const keys = keysOf(invocation.store);
    // The option may say a part of the markup: the rest stays.
    const known = changes.markup && (await keys.get(account, id))?.markup;
    const markup = changes.markup && { markup: { ...known, ...changes.markup } };
    const changed = await keys.update(account, id, { ...changes, ...markup });
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
  positionals: 'SECRET|ACCOUNT [ID]',
  options: {},
  examples: ['keys revoke acme prod', 'keys revoke sk-ccr-…'],
  async run(invocation) {
    const { account, id } = named(invocation);
    if (id === '') {
      const revoked = await keysOf(invocation.store).revokeFound(account);
      if (!revoked) throw noKeyFound();
      invocation.print(`${revoked.account}: revoked key ${revoked.id}`, revoked);
      return true;
    }
    await requireAccount(invocation.store, account);
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

/** The message doesn't show what was given: it may be a secret. */
function noKeyFound(): NotFoundError {
  return new NotFoundError('no key has this secret or id, or it was rotated since', { error: 'no_key' });
}

function details(key: ApiKeyDetails): string {
  const { metadata = {} } = key;
  const notes = Object.entries(metadata).map((pair) => pair.join('='));
  return factsText([
    ['id', key.id],
    ['account', key.account],
    ['name', key.name || undefined],
    ['metadata', notes.join(',') || undefined],
    ['state', key.state],
    ['created', time(key.createdAt)],
    ['revoked', key.revokedAt && time(key.revokedAt)],
    ['policy', policyText(key) || 'no limits'],
    ...counterFacts(key),
  ]);
}

type Fact = readonly [name: string, value: string | number | undefined];

/** What counts against the limits of a key or an account. */
export function counterFacts(counters: LimitCounters): readonly Fact[] {
  const {
    spent,
    held,
    running,
    budgetLeft,
    budgetResetsAt,
    budgets = [],
    requestsLeft,
    tokensLeft,
  } = counters;
  const single = { left: budgetLeft, resetsAt: budgetResetsAt };
  const states = budgets.length > 0 ? budgets : [single];
  return [
    ['spent', usd(spent)],
    ['held', usd(held)],
    ['running', running],
    ...states.map(({ left, resetsAt }): Fact => [
      'budget left',
      left && (resetsAt ? `${usd(left)}, until ${time(resetsAt)}` : usd(left)),
    ]),
    ['requests left', requestsLeft],
    ['tokens left', tokensLeft],
  ];
}

/** Facts, one a line, without those that there are none of. */
export function factsText(facts: readonly Fact[]): string {
  return facts
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name.padEnd(13)}  ${escapeControlCharacters(String(value))}`)
    .join('\n');
}

function time(date: Date): string {
  return `${date.toISOString().slice(0, 16)}Z`;
}
