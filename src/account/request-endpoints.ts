import * as v from 'valibot';

import { csvLine } from '../platform/csv-line.ts';
import { NotFoundError } from '../json-api/errors.ts';
import { inJson } from '../json-api/in-json.ts';
import { ownRequestQuery, searchOf } from '../json-api/request-query.ts';
import { at, component, described, object, requestId, usd, whole } from '../json-api/schema.ts';
import type { LoggedRequest } from '../request-log/logged-request.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import type { Holder } from './holder.ts';

const tokens = v.object({
  prompt_tokens: whole,
  cached_tokens: v.optional(whole),
  completion_tokens: whole,
  reasoning_tokens: v.optional(whole),
});

const ms = described('ms', v.number());

const row = {
  id: described('the x-request-id of its response', v.string()),
  created_at: described('when it arrived', at),
  key: described('the ID of the API key', v.string()),
  endpoint: v.picklist(['completions', 'metered']),
  status: described('of its response; 499 if the client left before', whole),
  code: v.optional(described('of its error', v.string())),
  model: v.optional(v.string()),
  streamed: v.boolean(),
  first_byte_ms: v.optional(ms),
  duration_ms: ms,
  ending: v.optional(v.string()),
  finish_reason: v.optional(v.string()),
  state: described(
    'refused: it never ran; unsettled: its charge is not posted yet; voided: nothing is charged',
    v.picklist(['refused', 'unsettled', 'voided', 'settled']),
  ),
  charged: usd,
  client_request_id: v.optional(described("the client's own x-request-id", v.string())),
};

const ownRequest = component(
  'OwnRequest',
  'One request: what it was, and what was charged. It holds no prompt and no answer.',
  v.object({
    ...row,
    usage: v.optional(tokens),
    user: v.optional(described('the end user', v.string())),
  }),
);

const ownRequests = component(
  'OwnRequests',
  'Requests of the account, the newest first.',
  v.object({
    object: v.literal('list'),
    data: v.array(ownRequest),
    next_cursor: described(
      'for cursor, where there may be more; null: there are no more',
      v.nullable(v.string()),
    ),
  }),
);

export const requestEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listRequests',
    method: 'GET',
    path: '/requests',
    summary: 'Search the requests of the account, as JSON or CSV',
    params: nothing,
    query: ownRequestQuery,
    body: nothing,
    answer: ownRequests,
    hasCsv: true,
    async run({ query: { format, ...query }, caller: { account, onlyKey } }, { router: { requestLog } }) {
      const key = onlyKey ?? query.key;
      const found = await requestLog.search({
        ...searchOf(query),
        account,
        ...(key !== undefined && { key }),
      });
      const answer = { ...list(found.requests.map(ownAnswer)), next_cursor: found.cursor ?? null };
      return {
        answer,
        ...(format === 'csv' && { csv: requestsCsv(answer.data), nextCursor: found.cursor }),
      };
    },
  }),
  endpoint({
    operation: 'getRequest',
    method: 'GET',
    path: '/requests/{request}',
    summary: 'Get a request of the account',
    params: object({ request: requestId }),
    query: nothing,
    body: nothing,
    answer: ownRequest,
    errorStatuses: [404],
    async run({ params: { request: id }, caller }, { router: { requestLog } }) {
      const request = await requestLog.find(id);
      if (request && isOf(caller, request)) return { answer: ownAnswer(request) };
      // The same for that of another account.
      throw new NotFoundError(
        'request_not_found',
        `There is no request ${id} of this account in the log: it is running, or too old.`,
      );
    },
  }),
];

const CSV_COLUMNS = [
  'id',
  'created_at',
  'key',
  'user',
  'endpoint',
  'model',
  'streamed',
  'status',
  'code',
  'first_byte_ms',
  'duration_ms',
  'ending',
  'finish_reason',
  ...Object.keys(tokens.entries),
  'state',
  'charged',
  'client_request_id',
];

function requestsCsv(requests: readonly v.InferOutput<typeof ownRequest>[]): string {
  const lines = requests.map(({ usage, ...request }) => {
    const values = { ...request, ...usage };
    return CSV_COLUMNS.map((name) => String(Reflect.get(values, name) ?? ''));
  });
  return [CSV_COLUMNS, ...lines].map((line) => `${csvLine(line)}\r\n`).join('');
}

function isOf({ account, onlyKey }: Holder, request: LoggedRequest): boolean {
  return request.account === account && (onlyKey === undefined || request.key === onlyKey);
}

/** Named one by one: where it went, what that cost and what its price was is the operator's. */
function ownAnswer(request: LoggedRequest): v.InferOutput<typeof ownRequest> {
  const { usage, dimensions } = request;
  const user = dimensions?.['user'];
  return {
    ...inJson(request, Object.keys(row)),
    ...(usage && { usage: inJson(usage, Object.keys(tokens.entries)) }),
    ...(user !== undefined && { user }),
  };
}
