import * as v from 'valibot';

import { ALLOWANCE_PERIODS, ROLLOVERS } from '../ledger/contract/allowances.ts';
import { toConflictError } from './credit-endpoints.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { accountNotFound, NotFoundError } from '../json-api/errors.ts';
import { inJson } from '../json-api/in-json.ts';
import type { AdministeredRouter } from './options.ts';
import {
  accountId,
  allowanceId,
  amount,
  at,
  balanceAfter,
  component,
  described,
  durable,
  integer,
  object,
  oneOf,
  recreate,
  requestId,
  textOf,
  time,
  usd,
  whole,
} from '../json-api/schema.ts';

/** Allowances and refunds. */

const newAllowance = component(
  'NewAllowance',
  'Credits that are granted in each period. With the id of an existing allowance, its new terms; per and anchor can not change.',
  object({
    amount,
    per: oneOf(ALLOWANCE_PERIODS),
    anchor: v.optional(described('a time at which a period begins', time)),
    rollover: v.optional(oneOf(ROLLOVERS)),
    priority: v.optional(integer(0, 100)),
    until: v.optional(time),
    change: v.optional(oneOf(['next_period', 'prorate'])),
    recreate: v.optional(recreate),
  }),
);

const allowance = component(
  'Allowance',
  'Credits that are granted in each period. amount is that of the next period, granted that of the current one.',
  v.object({
    id: v.string(),
    amount: usd,
    granted: usd,
    remaining: usd,
    per: v.picklist(ALLOWANCE_PERIODS),
    anchor: at,
    rollover: v.picklist(ROLLOVERS),
    priority: whole,
    until: v.optional(at),
    period_start: at,
    resets_at: at,
  }),
);

const allowances = component(
  'Allowances',
  'The allowances of an account.',
  v.object({ object: v.literal('list'), data: v.array(allowance) }),
);

const newRefund = component(
  'NewRefund',
  'A refund of one request, at most its charge, which is the default.',
  object({ amount: v.optional(amount), reason: textOf(1, 500) }),
);

const refund = component(
  'Refund',
  'A refund of one request. duplicate: true means that an earlier request made it.',
  v.object({
    request_id: v.string(),
    amount: usd,
    account: v.string(),
    available: balanceAfter,
    duplicate: v.boolean(),
    durable: v.optional(durable),
  }),
);

const account = object({ account: accountId });
const accountAllowance = object({ account: accountId, allowance: allowanceId });

export const planEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listAllowances',
    method: 'GET',
    path: '/accounts/{account}/allowances',
    summary: 'List the allowances of an account',
    params: account,
    query: nothing,
    body: nothing,
    answer: allowances,
    errorStatuses: [404],
    async run({ params: { account: id } }, { accounts, credits }) {
      const found = await credits.allowances(id);
      if (found.length === 0 && !(await accounts.get(id))) throw accountNotFound(id);
      return { answer: list(found.map((each) => inJson(each))) };
    },
  }),
  endpoint({
    operation: 'setAllowance',
    method: 'POST',
    path: '/accounts/{account}/allowances/{allowance}',
    summary: 'Create an allowance, or change it',
    params: accountAllowance,
    query: nothing,
    body: newAllowance,
    answer: allowance,
    errorStatuses: [409],
    change: {
      action: 'allowances.set',
      needs: 'credits',
      repeat: 'the same answer: the allowance has these terms.',
    },
    async run({ params: { account: id, allowance: name }, body }, router) {
      const { anchor, until } = body;
      const before = await findAllowance(router, id, name);
      const change = await router.credits
        .allow(id, {
          id: name,
          amount: body.amount,
          per: body.per,
          ...(body.rollover !== undefined && { rollover: body.rollover }),
          ...(body.priority !== undefined && { priority: body.priority }),
          ...(body.change !== undefined && { change: body.change }),
          ...(body.recreate !== undefined && { recreate: body.recreate }),
          ...(anchor !== undefined && { anchor: new Date(anchor) }),
          ...(until !== undefined && { until: new Date(until) }),
        })
        .catch((error: unknown) => {
          throw toConflictError(error, id, false);
        });
      const answer = await findAllowance(router, id, name);
      if (!answer) throw allowanceNotFound(id, name);
      return { answer, target: name, before, after: answer, repeated: change.duplicate };
    },
  }),
  endpoint({
    operation: 'endAllowance',
    method: 'DELETE',
    path: '/accounts/{account}/allowances/{allowance}',
    summary: 'End an allowance at the end of its period, or now',
    params: accountAllowance,
    query: object({ at: v.optional(oneOf(['period_end', 'now'])) }),
    body: nothing,
    answer: component(
      'AllowanceEnd',
      'An allowance that has ended, or will with its period.',
      v.object({
        id: v.string(),
        account: v.string(),
        available: balanceAfter,
        duplicate: v.boolean(),
        durable: v.optional(durable),
      }),
    ),
    errorStatuses: [404],
    change: {
      action: 'allowances.end',
      needs: 'credits',
      repeat: 'the same answer: the allowance has ended.',
    },
    async run({ params: { account: id, allowance: name }, query: { at: when = 'period_end' } }, { credits }) {
      const ended = await credits.endAllowance(id, name, { at: when }).catch((error: unknown) => {
        throw toConflictError(error, id, false);
      });
      return { answer: { id: name, account: id, ...ended }, target: name, repeated: ended.duplicate };
    },
  }),
  endpoint({
    operation: 'refundRequest',
    method: 'POST',
    path: '/accounts/{account}/requests/{request}/refund',
    summary: 'Refund a request',
    params: object({ account: accountId, request: requestId }),
    query: nothing,
    body: newRefund,
    answer: refund,
    status: 201,
    errorStatuses: [404, 409],
    change: {
      action: 'requests.refund',
      needs: 'credits',
      repeat: '200 with duplicate: true; a request is refunded once.',
    },
    async run({ params: { account: id, request }, body: { amount: wanted, reason } }, { credits }) {
      const options = { account: id, reason, ...(wanted !== undefined && { amount: wanted }) };
      const made = await credits.refund(request, options).catch((error: unknown) => {
        throw toConflictError(error, id, false);
      });
      if (!made) {
        throw new NotFoundError('request_not_found', `Account ${id} has no request ${request}.`);
      }
      return { answer: { request_id: request, ...made }, target: request, repeated: made.duplicate };
    },
  }),
];

async function findAllowance(
  { credits }: AdministeredRouter,
  account: string,
  id: string,
): Promise<v.InferOutput<typeof allowance> | undefined> {
  const found = (await credits.allowances(account)).find((each) => each.id === id);
  return found && inJson(found);
}

function allowanceNotFound(account: string, id: string): NotFoundError {
  return new NotFoundError('allowance_not_found', `Account ${account} has no allowance ${id}.`);
}
