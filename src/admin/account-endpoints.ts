import { isDeepStrictEqual } from 'node:util';

import * as v from 'valibot';

import { assertMay, type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { accountNotFound, ConflictError, endUsersNotLimited } from '../json-api/errors.ts';
import {
  accountId,
  at,
  component,
  endUserId,
  flag,
  integerInQuery,
  keyId,
  limit,
  object,
  usd,
} from '../json-api/schema.ts';
import { inJson } from '../json-api/in-json.ts';
import { withConflictErrors } from '../json-api/key-calls.ts';
import {
  accountLimits,
  accountPolicy,
  accountPolicyChange,
  endUserCounters,
  policyOfBody,
} from '../json-api/key-schemas.ts';
import type { AdministeredRouter } from './options.ts';

const CHANGE_WANTED = 'an object of frozen, policy or credit_limit, or several of them';

const books = {
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
};

const account = component(
  'Account',
  'An account and its money: granted is the sum of balance, held, spent and expired.',
  v.object(books),
);

const accountDetails = component(
  'AccountDetails',
  'An account with its policy, and what counts against that.',
  v.object({ ...books, policy: accountPolicy, limits: v.exactOptional(accountLimits) }),
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
  'frozen: true rejects new completions of the account. policy: limits of all its keys together. credit_limit: how much it may owe. What isn’t given stays.',
  v.pipe(
    object({
      frozen: v.exactOptional(flag()),
      policy: v.exactOptional(accountPolicyChange),
      credit_limit: v.exactOptional(limit),
    }),
    v.check((change) => Object.keys(change).length > 0, CHANGE_WANTED),
  ),
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
    summary: 'Get the balance and the policy of an account',
    params,
    query: nothing,
    body: nothing,
    answer: accountDetails,
    errorStatuses: [404],
    run: async ({ params: { account: id } }, router) => ({ answer: await getAccountAnswer(router, id) }),
  }),
  endpoint({
    operation: 'getEndUser',
    method: 'GET',
    path: '/accounts/{account}/end-users/{end_user}',
    summary: 'Get what counts for an end user of an account, or of one of its keys',
    params: object({ account: accountId, end_user: endUserId }),
    query: object({ key: v.exactOptional(keyId) }),
    body: nothing,
    answer: endUserCounters,
    errorStatuses: [404],
    async run({ params: { account: id, end_user: endUser }, query }, { accounts }) {
      const found = await accounts.endUser(id, endUser, query);
      if (found) return { answer: inJson(found) };
      throw (await accounts.get(id)) ? endUsersNotLimited(id) : accountNotFound(id);
    },
  }),
  endpoint({
    operation: 'updateAccount',
    method: 'PATCH',
    path: '/accounts/{account}',
    summary: 'Freeze or unfreeze an account, change its policy, or set how much it may owe',
    params,
    query: nothing,
    body: accountChange,
    answer: accountDetails,
    errorStatuses: [404, 409],
    change: {
      action: 'accounts.update',
      needs: 'accounts',
      repeat: 'the same answer: the account is as the request says.',
    },
    async run(
      { params: { account: id }, body: { frozen, policy, credit_limit: creditLimit }, caller: operator },
      router,
    ) {
      if (creditLimit !== undefined) assertMay(operator, 'credits');
      const before = changeable(await getAccountAnswer(router, id));
      // Checked and changed first: if it is invalid, the account is not frozen either.
      if (policy) {
        const updated = await withConflictErrors(router.accounts.update(id, policyOfBody(policy)));
        if (!updated) throw accountNotFound(id);
      }
      if (creditLimit !== undefined) await router.credits.setCreditLimit(id, creditLimit);
      if (frozen === true) await router.accounts.freeze(id);
      if (frozen === false) await router.accounts.unfreeze(id);
      const answer = await getAccountAnswer(router, id);
      const after = changeable(answer);
      return { answer, before, after, repeated: isDeepStrictEqual(before, after) };
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
    change: {
      action: 'accounts.delete',
      needs: 'accounts',
      repeat: '404 account_not_found: the account is deleted.',
    },
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

function changeable({ frozen, policy, credit_limit }: AccountAnswer): object {
  return { frozen, policy, credit_limit };
}

type AccountAnswer = v.InferOutput<typeof accountDetails>;

async function getAccountAnswer(router: AdministeredRouter, id: string): Promise<AccountAnswer> {
  const found = await router.accounts.get(id);
  if (!found) throw accountNotFound(id);
  return inJson(found);
}
