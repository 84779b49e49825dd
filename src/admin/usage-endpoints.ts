import * as v from 'valibot';

import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import {
  accountId,
  component,
  day,
  described,
  keyId,
  listInQuery,
  object,
  matching,
  usd,
  whole,
} from './schema.ts';
import { inJson } from './in-json.ts';

const usageRow = component(
  'UsageRow',
  'Sums over the requests that ended on a day, in UTC; with the members that they are grouped by.',
  v.object({
    day: v.optional(day),
    account: v.optional(v.string()),
    key: v.optional(v.string()),
    model: v.optional(v.string()),
    requests: whole,
    errors: whole,
    aborted: described('requests whose client disconnected before the end', whole),
    prompt_tokens: whole,
    cached_tokens: whole,
    completion_tokens: whole,
    reasoning_tokens: whole,
    charged: described('what accounts paid, in USD', usd),
    cost: described('what providers bill, in USD, where known', usd),
  }),
);

const usageRows = component(
  'UsageRows',
  'Usage by day, account, key or model.',
  v.object({ object: v.literal('list'), data: v.array(usageRow) }),
);

export const usageEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'queryUsage',
    method: 'GET',
    path: '/usage',
    summary: 'Query usage and charges',
    params: nothing,
    query: object({
      from: v.optional(day),
      to: v.optional(day),
      account: v.optional(accountId),
      key: v.optional(keyId),
      model: v.optional(
        matching('a model ID of 1 to 256 characters without blanks', /^[^\s\p{Cc}]{1,256}$/u),
      ),
      group_by: v.optional(listInQuery(['day', 'account', 'key', 'model'])),
    }),
    body: nothing,
    answer: usageRows,
    async run({ query: { from, to, account, key, model, group_by: groupBy } }, router) {
      const rows = await router.usage.query({
        ...(from !== undefined && { from }),
        ...(to !== undefined && { to }),
        ...(account !== undefined && { account }),
        ...(key !== undefined && { key }),
        ...(model !== undefined && { model }),
        ...(groupBy !== undefined && { groupBy }),
      });
      return { answer: list(rows.map((row) => inJson(row))) };
    },
  }),
];
