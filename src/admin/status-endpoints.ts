import * as v from 'valibot';

import { type Endpoint, endpoint, nothing } from './endpoint.ts';
import { accountNotFound } from '../json-api/errors.ts';
import { inJson } from '../json-api/in-json.ts';
import { accountId, at, component, described, integerInQuery, object, whole } from '../json-api/schema.ts';

const status = component(
  'Status',
  'The process that answers: its store, what waits for it, and what it has logged since it started.',
  v.object({
    started_at: at,
    running: described('requests that it answers now', whole),
    store: v.object({
      name: described('its URL, without a password', v.string()),
      state: v.picklist(['available', 'unavailable']),
      answer_ms: v.number(),
      error: v.optional(described('why it is unavailable', v.string())),
    }),
    waiting_charges: described('that the store has not answered yet', whole),
    waiting: described(
      'the oldest 100 of them',
      v.pipe(
        v.array(
          v.object({ account: v.string(), request_id: v.string(), waiting_ms: described('how long', whole) }),
        ),
        v.readonly(),
      ),
    ),
    outbox: v.optional(
      v.object({
        folder: v.string(),
        error: v.optional(described('why nothing can be written there', v.string())),
      }),
    ),
    request_log: v.object({
      written: whole,
      waiting: whole,
      refusals_left_out: described('beyond 100 a minute of an account', whole),
      lost: described('as the store was unavailable for too long', whole),
    }),
  }),
);

const verification = component(
  'Verification',
  'Accounts whose totals were recomputed from their records and journals, and what is wrong with them.',
  v.object({
    accounts: described('that were verified', whole),
    lines: described('of their journals, that were read', whole),
    findings: v.array(
      v.object({
        account: v.string(),
        invariant: v.picklist(['I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7']),
        request_id: v.optional(described('of the request that it is about', v.string())),
        message: v.string(),
      }),
    ),
    next_cursor: v.nullable(v.string()),
  }),
);

export const statusEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'getStatus',
    method: 'GET',
    path: '/status',
    summary: 'Get the status of the process and its store',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: status,
    run: async (_input, router) => ({ answer: inJson(await router.status()) }),
  }),
  endpoint({
    operation: 'verifyAccounts',
    method: 'GET',
    path: '/verification',
    summary: 'Verify the balances of accounts against their journals, a page at a time',
    params: nothing,
    query: object({
      account: v.exactOptional(accountId),
      limit: v.exactOptional(integerInQuery(1, 1000)),
      cursor: v.exactOptional(accountId),
    }),
    body: nothing,
    answer: verification,
    errorStatuses: [404],
    async run({ query }, { accounts }) {
      const { account } = query;
      if (account !== undefined && !(await accounts.get(account))) throw accountNotFound(account);
      const { cursor, ...verified } = await accounts.verify(query);
      return {
        answer: {
          ...inJson(verified),
          findings: verified.findings.map((finding) => inJson(finding)),
          next_cursor: cursor ?? null,
        },
      };
    },
  }),
];
