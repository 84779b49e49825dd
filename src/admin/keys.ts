import * as z from 'zod';

import type { ApiKeyInfo } from '../accounts/api-keys.ts';
import { type AdministeredRouter, type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { noAccount, noKey } from './errors.ts';
import { accountId, at, component, described, keyId, textOf } from './fields.ts';

const apiKey = component(
  'ApiKey',
  'An API key, without its secret.',
  z.object({
    id: z.string(),
    account: z.string(),
    name: z.string(),
    state: z.enum(['active', 'revoked', 'expired']),
    created_at: at,
  }),
);

const createdApiKey = component(
  'CreatedApiKey',
  'An API key and its secret, which can be had this once.',
  apiKey.extend({ key: described('sk-ccr-…: give it to its user now', z.string()) }),
);

const apiKeys = component(
  'ApiKeys',
  'The keys of an account, revoked ones too.',
  z.object({ object: z.literal('list'), data: z.array(apiKey) }),
);

const newApiKey = component(
  'NewApiKey',
  'A key for an account, which is made if there is none.',
  z.strictObject({ name: textOf(0, 200).optional() }),
);

const ofAccount = z.strictObject({ account: accountId });
const ofKey = z.strictObject({ account: accountId, id: keyId });

export const keyEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listKeys',
    method: 'GET',
    path: '/accounts/{account}/keys',
    summary: 'List the API keys of an account',
    params: ofAccount,
    query: nothing,
    body: nothing,
    answer: apiKeys,
    refuses: [404],
    async run({ params: { account } }, { accounts, keys }) {
      const found = await keys.list(account);
      if (found.length === 0 && !(await accounts.get(account))) throw noAccount(account);
      return { answer: list(found.map(keyAnswer)) };
    },
  }),
  endpoint({
    operation: 'createKey',
    method: 'POST',
    path: '/accounts/{account}/keys',
    summary: 'Make an API key, and show it once',
    params: ofAccount,
    query: nothing,
    body: newApiKey,
    bodyIsOptional: true,
    answer: createdApiKey,
    status: 201,
    change: { action: 'keys.create', repeat: 'Another key is made.' },
    async run({ params: { account }, body: { name } }, { keys }) {
      const { key, ...created } = await keys.create({ account, ...(name !== undefined && { name }) });
      const after = keyAnswer(created);
      return { answer: { ...after, key }, target: created.id, after };
    },
  }),
  endpoint({
    operation: 'revokeKey',
    method: 'DELETE',
    path: '/accounts/{account}/keys/{id}',
    summary: 'Revoke an API key',
    params: ofKey,
    query: nothing,
    body: nothing,
    answer: apiKey,
    refuses: [404],
    change: { action: 'keys.revoke', repeat: 'The same: the key is revoked.' },
    async run({ params: { account, id } }, router) {
      const before = await find(router, account, id);
      if (!(await router.keys.revoke(account, id))) throw noKey(account, id);
      const answer = await find(router, account, id);
      return { answer, target: id, before, after: answer, repeated: before.state === 'revoked' };
    },
  }),
];

async function find(
  router: AdministeredRouter,
  account: string,
  id: string,
): Promise<z.output<typeof apiKey>> {
  const found = (await router.keys.list(account)).find((key) => key.id === id);
  if (!found) throw noKey(account, id);
  return keyAnswer(found);
}

function keyAnswer({ createdAt, id, account, name, state }: ApiKeyInfo): z.output<typeof apiKey> {
  return { id, account, name, state, created_at: createdAt.toISOString() };
}
