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
  modelId,
  usd,
  whole,
} from '../json-api/schema.ts';
import { inJson } from '../json-api/in-json.ts';
import type { TagDimension } from '../ledger/contract/usage.ts';
import type { UsageGroup } from '../ledger/operations/usage-queries.ts';

const usageRow = component(
  'UsageRow',
  'Sums over the requests that ended on a day, in UTC; with the members that they are grouped by.',
  v.object({
    day: v.optional(day),
    account: v.optional(v.string()),
    key: v.optional(v.string()),
    model: v.optional(v.string()),
    user: v.optional(described('empty for none; (other) for those beyond 1,000 on a day', v.string())),
    provider: v.optional(
      described('the one that answered, or was asked last; empty where it was not counted', v.string()),
    ),
    tag: v.optional(described('the value of the tag, as user', v.string())),
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
  'Usage by day, account, key or model, or by end user, provider or tag.',
  v.object({ object: v.literal('list'), data: v.array(usageRow) }),
);

const TAGS = {
  wanted: 'tag:NAME',
  pattern: 'tag:[A-Za-z][A-Za-z0-9_-]{0,31}',
  is: (group: string): group is TagDimension => group.startsWith('tag:'),
};

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
      model: v.optional(modelId),
      group_by: v.optional(
        listInQuery<UsageGroup>(['day', 'account', 'key', 'model', 'user', 'provider'], TAGS),
      ),
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
