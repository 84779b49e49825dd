import * as z from 'zod';

import type { RunningRequest } from '../live-request.ts';
import type { TargetStatus } from '../hooks.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { at, component, described } from './fields.ts';

/** What one process knows: another one answers for itself. */

const target = component(
  'Target',
  'A model of a provider that this process asks.',
  z.object({
    provider: z.string(),
    model: z.string(),
    state: z.enum(['healthy', 'ejected', 'probing']),
    failures_in_a_row: z.int(),
    retry_at: described('when an ejected target is tried again', at.optional()),
    first_byte_ms: described('how long its answers lately took to begin', z.number().optional()),
    running: described('requests that run there now', z.int()),
  }),
);

const targets = component(
  'Targets',
  'How the targets do that this process has asked.',
  z.object({ object: z.literal('list'), data: z.array(target) }),
);

const runningRequest = component(
  'RunningRequest',
  'A completion that is not over; model and streaming are missing while its body is on its way.',
  z.object({
    id: z.string(),
    account: z.string(),
    key: z.string(),
    model: z.string().optional(),
    provider: z.string().optional(),
    started_at: at,
    streaming: z.boolean().optional(),
  }),
);

const runningRequests = component(
  'RunningRequests',
  'The completions that run in this process, oldest first.',
  z.object({ object: z.literal('list'), data: z.array(runningRequest) }),
);

export const stateEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listTargets',
    method: 'GET',
    path: '/health',
    summary: 'Say how the providers do',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: targets,
    run: async (_input, router) => ({
      answer: list(router.health().map(targetAnswer)),
    }),
  }),
  endpoint({
    operation: 'listRequests',
    method: 'GET',
    path: '/requests',
    summary: 'List what runs now',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: runningRequests,
    run: async (_input, router) => ({
      answer: list(router.requests().map(requestAnswer)),
    }),
  }),
];

function targetAnswer(status: TargetStatus): z.output<typeof target> {
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

function requestAnswer({ startedAt, ...same }: RunningRequest): z.output<typeof runningRequest> {
  return { ...same, started_at: startedAt.toISOString() };
}
