import { isDeepStrictEqual } from 'node:util';

import * as v from 'valibot';

import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { accountNotFound } from './errors.ts';
import { accountId, component, flag, integerInQuery, object, usd } from './schema.ts';
import { inJson } from './in-json.ts';
import { accountLimits, accountPolicy, accountPolicyChange, policyOfBody } from './key-schemas.ts';
import type { AdministeredRouter } from './options.ts';

const CHANGE_WANTED = 'an object of frozen, policy, or both';

const books = {
  id: v.string(),
  /** Available to new requests. */
  balance: usd,
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
  'frozen: true rejects new completions of the account; running ones continue and are charged. policy: limits of all its keys together. What isn’t given stays.',
  v.pipe(
    object({ frozen: v.exactOptional(flag()), policy: v.exactOptional(accountPolicyChange) }),
    v.check(({ frozen, policy }) => frozen !== undefined || policy !== undefined, CHANGE_WANTED),
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
    operation: 'updateAccount',
    method: 'PATCH',
    path: '/accounts/{account}',
    summary: 'Freeze or unfreeze an account, or change its policy',
    params,
    query: nothing,
    body: accountChange,
    answer: accountDetails,
    errorStatuses: [404],
    change: {
      action: 'accounts.update',
      repeat: 'the same answer: the account is as the request says.',
    },
    async run({ params: { account: id }, body: { frozen, policy } }, router) {
      const before = changeable(await getAccountAnswer(router, id));
      // Checked and changed first: if it is invalid, the account is not frozen either.
      if (policy && !(await router.accounts.update(id, policyOfBody(policy)))) throw accountNotFound(id);
      if (frozen === true) await router.accounts.freeze(id);
      if (frozen === false) await router.accounts.unfreeze(id);
      const answer = await getAccountAnswer(router, id);
      const after = changeable(answer);
      return { answer, before, after, repeated: isDeepStrictEqual(before, after) };
    },
  }),
];

function changeable({ frozen, policy }: AccountAnswer): object {
  return { frozen, policy };
}

type AccountAnswer = v.InferOutput<typeof accountDetails>;

async function getAccountAnswer(router: AdministeredRouter, id: string): Promise<AccountAnswer> {
  const found = await router.accounts.get(id);
  if (!found) throw accountNotFound(id);
  return inJson(found);
}
