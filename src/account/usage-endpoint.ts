import * as v from 'valibot';

import { csvLine } from '../platform/csv-line.ts';
import type { UsageGroup, UsageSummary } from '../ledger/operations/usage-queries.ts';
import { NotPermittedError } from '../json-api/errors.ts';
import { inJson } from '../json-api/in-json.ts';
import {
  component,
  day,
  described,
  keyId,
  listInQuery,
  modelId,
  object,
  oneOf,
  usd,
  whole,
} from '../json-api/schema.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';

const GROUPS = ['day', 'key', 'model', 'user'] as const satisfies readonly UsageGroup[];

const row = {
  day: v.optional(day),
  key: v.optional(v.string()),
  model: v.optional(v.string()),
  user: v.optional(described('empty for none; (other) for those beyond 1,000 on a day', v.string())),
  requests: whole,
  errors: whole,
  aborted: described('requests whose client disconnected before the end', whole),
  prompt_tokens: whole,
  cached_tokens: whole,
  completion_tokens: whole,
  reasoning_tokens: whole,
  charged: usd,
};

const ownUsage = component(
  'OwnUsage',
  'Sums over the requests that ended on a day, in UTC, by day, key, model or end user.',
  v.object({ object: v.literal('list'), data: v.array(v.object(row)) }),
);

export const usageEndpoint: Endpoint = endpoint({
  operation: 'queryUsage',
  method: 'GET',
  path: '/usage',
  summary: 'Query usage and charges, as JSON or CSV',
  params: nothing,
  query: object({
    from: v.optional(day),
    to: v.optional(day),
    key: v.optional(keyId),
    model: v.optional(modelId),
    group_by: v.optional(listInQuery(GROUPS)),
    format: v.optional(oneOf(['json', 'csv'])),
  }),
  body: nothing,
  answer: ownUsage,
  hasCsv: true,
  async run({ query, caller: { account, name, may, onlyKey } }, { router }) {
    const { group_by: groupBy = ['day'], format, key = onlyKey, from, to, model } = query;
    // What other keys' end users have asked isn't this key's.
    if (onlyKey !== undefined && (key !== onlyKey || groupBy.includes('user'))) {
      throw new NotPermittedError(name, 'statements', may);
    }
    const rows = await router.usage.query({
      account,
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
      ...(key !== undefined && { key }),
      ...(model !== undefined && { model }),
      groupBy,
    });
    const answer = list(rows.map(rowAnswer));
    return { answer, ...(format === 'csv' && { csv: usageCsv(groupBy, answer.data) }) };
  },
});

type UsageRow = v.InferOutput<typeof ownUsage>['data'][number];

/** Named one by one: what the providers are and what they bill is the operator's. */
function rowAnswer(found: UsageSummary): UsageRow {
  return inJson(found, Object.keys(row));
}

function usageCsv(groupBy: readonly string[], rows: readonly UsageRow[]): string {
  const names = Object.keys(row).filter(
    (name) => groupBy.includes(name) || !GROUPS.some((each) => each === name),
  );
  const cells = rows.map((each) => names.map((name) => String(Reflect.get(each, name) ?? '')));
  return [names, ...cells].map((line) => `${csvLine(line)}\r\n`).join('');
}
