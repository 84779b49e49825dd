import * as z from 'zod';

import type { UsageSummary } from '../ledger/operations/usage-queries.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { accountId, component, day, described, keyId, listInQuery, text, usd } from './fields.ts';

const usageRow = component(
  'UsageRow',
  'Requests that ended on a day, in UTC, summed; with the members that they are grouped by.',
  z.object({
    day: day.optional(),
    account: z.string().optional(),
    key: z.string().optional(),
    model: z.string().optional(),
    requests: z.int(),
    errors: z.int(),
    aborted: described('whose client left before the end', z.int()),
    prompt_tokens: z.int(),
    cached_tokens: z.int(),
    completion_tokens: z.int(),
    reasoning_tokens: z.int(),
    charged: described('what accounts paid, in USD', usd),
    cost: described('what providers bill, in USD, where that is known', usd),
  }),
);

const usageRows = component(
  'UsageRows',
  'Usage by day, account, key or model.',
  z.object({ object: z.literal('list'), data: z.array(usageRow) }),
);

export const usageEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'queryUsage',
    method: 'GET',
    path: '/usage',
    summary: 'Say what was used, and what it came to',
    params: nothing,
    query: z.strictObject({
      from: day.optional(),
      to: day.optional(),
      account: accountId.optional(),
      key: keyId.optional(),
      model: text('a model ID of 1 to 256 characters without blanks', /^[^\s\p{Cc}]{1,256}$/u).optional(),
      group_by: listInQuery(['day', 'account', 'key', 'model']).optional(),
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
      return { answer: list(rows.map(rowAnswer)) };
    },
  }),
];

function rowAnswer(row: UsageSummary): z.output<typeof usageRow> {
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens, ...same } = row;
  return {
    ...same,
    prompt_tokens: promptTokens,
    cached_tokens: cachedTokens,
    completion_tokens: completionTokens,
    reasoning_tokens: reasoningTokens,
  };
}
