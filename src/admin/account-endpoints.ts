import * as v from 'valibot';

import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { accountNotFound, ConflictError } from './errors.ts';
import { accountId, at, component, flag, integerInQuery, limit, object, usd } from './schema.ts';
import { inJson } from './in-json.ts';
import type { AdministeredRouter } from './options.ts';

const account = component(
  'Account',
  'An account and its money: granted is the sum of balance, held, spent and expired.',
  v.object({
    id: v.string(),
    balance: usd,
    /** The balance can be spent down to minus this. */
    credit_limit: usd,
    held: usd,
    spent: usd,
    granted: usd,
    expired: usd,
    written_off: usd,
    frozen: flag(),
  }),
);

const accountPage = component(
  'AccountPage',
  'Accounts by id. next_cursor is where the next page begins, null on the last one.',
  v.object({
    object: v.literal('list'),
    data: v.array(account),
    next_cursor: v.nullable(v.string()),
  }),
);

const accountChange = component(
  'AccountChange',
  'frozen: true rejects new completions of the account; running ones continue and are charged. credit_limit is how much it may owe: the balance can be spent down to minus this amount.',
  object({ frozen: v.optional(flag()), credit_limit: v.optional(limit) }),
);

const params = object({ account: accountId });

export const accountEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listAccounts',
    method: 'GET',
    path: '/accounts',
    summary: 'List accounts with their balances',
    params: nothing,
    query: object({
      limit: v.optional(integerInQuery(1, 1000)),
      cursor: v.optional(accountId),
    }),
    body: nothing,
    answer: accountPage,
    async run({ query: { limit, cursor } }, router) {
      const page = await router.accounts.list({
        ...(limit !== undefined && { limit }),
        ...(cursor !== undefined && { cursor }),
      });
      return {
        answer: {
          ...list(page.accounts.map((found) => inJson(found))),
          next_cursor: page.cursor ?? null,
        },
      };
    },
  }),
  endpoint({
    operation: 'getAccount',
    method: 'GET',
    path: '/accounts/{account}',
    summary: 'Get the balance of an account',
    params,
    query: nothing,
    body: nothing,
    answer: account,
    errorStatuses: [404],
    run: async ({ params: { account: id } }, router) => ({ answer: await getAccountAnswer(router, id) }),
  }),
  endpoint({
    operation: 'updateAccount',
    method: 'PATCH',
    path: '/accounts/{account}',
    summary: 'Freeze or unfreeze an account, or set how much it may owe',
    params,
    query: nothing,
    body: accountChange,
    answer: account,
    errorStatuses: [404],
    change: {
      action: 'accounts.update',
      repeat: 'the same answer: the account is as the request says.',
    },
    async run({ params: { account: id }, body: { frozen, credit_limit: creditLimit } }, router) {
      const before = await getAccountAnswer(router, id);
      if (creditLimit !== undefined) await router.credits.setCreditLimit(id, creditLimit);
      if (frozen !== undefined) await (frozen ? router.accounts.freeze(id) : router.accounts.unfreeze(id));
      const answer = await getAccountAnswer(router, id);
      return {
        answer,
        before: changeable(before),
        after: changeable(answer),
        repeated: before.frozen === answer.frozen && before.credit_limit === answer.credit_limit,
      };
    },
  }),
  endpoint({
    operation: 'deleteAccount',
    method: 'DELETE',
    path: '/accounts/{account}',
    summary:
      'Delete an account: its keys, names, usage and journal. Its sums stay, under an id that says nothing of it',
    params,
    query: nothing,
    body: nothing,
    answer: component(
      'DeletedAccount',
      'The sums of a deleted account: granted is the sum of balance, spent and expired.',
      v.object({
        id: v.string(),
        deleted_at: at,
        balance: usd,
        spent: usd,
        granted: usd,
        expired: usd,
        written_off: usd,
        durable: v.optional(v.boolean()),
      }),
    ),
    errorStatuses: [404, 409],
    change: { action: 'accounts.delete', repeat: '404 account_not_found: the account is deleted.' },
    async run({ params: { account: id } }, { accounts }) {
      const deleted = await accounts.delete(id).catch((error: unknown) => {
        if (!(error instanceof Error) || error.name !== 'AccountBusyError') throw error;
        throw new ConflictError('requests_running', `${error.message}.`);
      });
      if (!deleted) throw accountNotFound(id);
      return { answer: inJson(deleted) };
    },
  }),
];

async function getAccountAnswer(
  router: AdministeredRouter,
  id: string,
): Promise<v.InferOutput<typeof account>> {
  const found = await router.accounts.get(id);
  if (!found) throw accountNotFound(id);
  return inJson(found);
}

function changeable({
  frozen,
  credit_limit,
}: v.InferOutput<typeof account>): v.InferOutput<typeof accountChange> {
  return { frozen, credit_limit };
}
