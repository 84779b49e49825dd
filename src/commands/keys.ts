import { type ApiKeyInfo, type ApiKeys, createApiKeys } from '../accounts/api-keys.ts';
import type { LedgerStore } from '../ledger/ledger.ts';
import type { StoreCommand } from './command.ts';
import { table } from './table.ts';

export const createKeyCommand: StoreCommand = {
  name: 'keys create',
  summary: 'Make an API key, and its account if there is none; it is shown this once',
  store: 'may be new',
  positionals: 'ACCOUNT',
  options: { name: { value: 'TEXT', help: 'what tells it from others of the account' } },
  async run({ positionals: [account = ''], options: { name }, store, print }) {
    const created = await keysOf(store).create({ account, ...(name !== undefined && { name }) });
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
    else for (const line of table(['ID', 'NAME', 'STATE', 'CREATED'], keys.map(row))) print(line, {});
    return true;
  },
};

export const revokeKeyCommand: StoreCommand = {
  name: 'keys revoke',
  summary: 'Refuse an API key from now on; requests that run go on, and are charged',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: {},
  async run({ positionals: [account = '', id = ''], store, print }) {
    const isKnown = await keysOf(store).revoke(account, id);
    const text = isKnown ? `${account}: key ${id} is revoked` : `There is no key ${id} of ${account}`;
    print(text, isKnown ? { account, id, state: 'revoked' } : { account, id, error: 'no_key' });
    return isKnown;
  },
};

/** No other process is told: each asks the store again before it admits a completion. */
function keysOf(store: LedgerStore): ApiKeys {
  return createApiKeys(store, { invalidate: () => {}, forget: () => {} });
}

function row({ id, name, state, createdAt }: ApiKeyInfo): readonly string[] {
  return [id, name, state, createdAt.toISOString().slice(0, 16)];
}
