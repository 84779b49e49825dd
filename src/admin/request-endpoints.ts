import * as v from 'valibot';

import { requestQuery, searchOf } from '../json-api/request-query.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { NotFoundError } from '../json-api/errors.ts';
import { inJson } from '../json-api/in-json.ts';
import { at, component, described, object, requestId, usd, whole } from '../json-api/schema.ts';

const ms = described('ms', v.number());
const counts = v.record(v.string(), v.union([v.number(), v.string(), v.boolean()]));

const attempt = component(
  'Attempt',
  'A request to a provider.',
  v.object({
    provider: v.string(),
    model: described("the provider's name for the model", v.string()),
    after_ms: described("from the request's arrival until this was sent, in ms", v.number()),
    duration_ms: ms,
    status: v.optional(described("of the provider's answer; missing if there was none", whole)),
    code: v.optional(described('why there was no answer for the client', v.string())),
    upstream_code: v.optional(described("the provider's own code, or that of the connection", v.string())),
    upstream_request_id: v.optional(v.string()),
  }),
);

const loggedRequest = component(
  'LoggedRequest',
  'One request: what it was, where it went, and what it cost. It holds no prompt and no answer.',
  v.object({
    id: described('the x-request-id of its response', v.string()),
    created_at: described('when it arrived', at),
    account: v.string(),
    key: described('the ID of the API key', v.string()),
    endpoint: v.picklist(['completions', 'metered']),
    status: described('what the client got; 499 if it left before', whole),
    code: v.optional(described('of the error that the client got', v.string())),
    model: v.optional(v.string()),
    provider: v.optional(described('that answered, or was tried last', v.string())),
    upstream_model: v.optional(v.string()),
    byok: v.optional(described("the client's own key of the provider was used", v.boolean())),
    streamed: v.boolean(),
    attempts: v.pipe(v.array(attempt), v.readonly()),
    first_byte_ms: v.optional(ms),
    duration_ms: ms,
    ending: v.optional(v.string()),
    finish_reason: v.optional(v.string()),
    state: described(
      'refused: without a hold; unsettled: its charge is not posted yet; voided: nothing is charged',
      v.picklist(['refused', 'unsettled', 'voided', 'settled']),
    ),
    charged: usd,
    written_off: v.optional(usd),
    cost: v.optional(described('what the provider bills, in USD', usd)),
    price: v.optional(v.string()),
    usage: v.optional(described('counts of tokens, and their source', counts)),
    dimensions: v.optional(v.record(v.string(), v.string())),
    client_request_id: v.optional(described("the client's own x-request-id", v.string())),
  }),
);

const foundRequests = component(
  'FoundRequests',
  'Requests, the newest first.',
  v.object({
    object: v.literal('list'),
    data: v.array(loggedRequest),
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
    summary: 'Search the log of requests',
    params: nothing,
    query: requestQuery,
    body: nothing,
    answer: foundRequests,
    async run({ query }, router) {
      const { requests, cursor = null } = await router.requestLog.search(searchOf(query));
      const data = requests.map((request) => inJson(request));
      return { answer: { ...list(data), next_cursor: cursor } };
    },
  }),
  endpoint({
    operation: 'getRequest',
    method: 'GET',
    path: '/requests/{request}',
    summary: 'Get a request from the log',
    params: object({ request: requestId }),
    query: nothing,
    body: nothing,
    answer: loggedRequest,
    errorStatuses: [404],
    async run({ params: { request: id } }, router) {
      const request = await router.requestLog.find(id);
      if (!request) {
        throw new NotFoundError(
          'request_not_found',
          `There is no request ${id} in the log: it is running, or too old.`,
        );
      }
      return { answer: inJson(request) };
    },
  }),
];
