import * as v from 'valibot';

import type { TargetStatus } from '../observability/hooks.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { inJson } from '../json-api/in-json.ts';
import { at, component, described, whole } from '../json-api/schema.ts';

/** Status of this process only: each process reports its own. */

const target = component(
  'Target',
  'A model of a provider that this process has sent requests to.',
  v.object({
    provider: v.string(),
    model: v.string(),
    state: v.picklist(['healthy', 'ejected', 'probing']),
    failures_in_a_row: whole,
    retry_at: v.optional(described('when an ejected target is tried again', at)),
    first_byte_ms: v.optional(described('recent time to first byte', v.number())),
    running: described('requests that are running there now', whole),
  }),
);

const targets = component(
  'Targets',
  'Health of the targets that this process has sent requests to.',
  v.object({ object: v.literal('list'), data: v.array(target) }),
);

const runningRequest = component(
  'RunningRequest',
  'A running completion; model and streaming are missing until its body has arrived.',
  v.object({
    id: v.string(),
    account: v.string(),
    key: v.string(),
    model: v.optional(v.string()),
    provider: v.optional(v.string()),
    started_at: at,
    streaming: v.optional(v.boolean()),
  }),
);

const runningRequests = component(
  'RunningRequests',
  'The running completions of this process, oldest first.',
  v.object({ object: v.literal('list'), data: v.array(runningRequest) }),
);

export const runtimeStatusEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listTargets',
    method: 'GET',
    path: '/health',
    summary: 'List the health of the targets',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: targets,
    run: async (_input, router) => ({
      answer: list(router.health().map(targetAnswer)),
    }),
  }),
  endpoint({
    operation: 'listRunningRequests',
    method: 'GET',
    path: '/running',
    summary: 'List running completions',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: runningRequests,
    run: async (_input, router) => ({
      answer: list(router.requests().map((request) => inJson(request))),
    }),
  }),
];

function targetAnswer(status: TargetStatus): v.InferOutput<typeof target> {
  const { failuresInARow, retryAt, firstByteMs, provider, model, state, running } = status;
  return {
    provider,
    model,
    state,
    failures_in_a_row: failuresInARow,
    ...(retryAt !== undefined && { retry_at: new Date(retryAt).toISOString() }),
    ...(firstByteMs !== undefined && { first_byte_ms: firstByteMs }),
    running,
  };
}
