import * as v from 'valibot';

import type { ProviderStatus } from '../observability/provider-status.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { providerNotFound } from '../json-api/errors.ts';
import { inJson } from '../json-api/in-json.ts';
import type { AdministeredRouter } from './options.ts';
import { at, component, described, integer, object, type Schema, textOf, whole } from '../json-api/schema.ts';

/** Providers as this process sees them. What is changed holds for all processes that share the store. */

/** A list that is only read. */
function rows<Row>(row: Schema<Row>): Schema<readonly Row[]> {
  return v.array(row);
}

const states = ['healthy', 'degraded', 'ejected'] as const;

const stopAtEntries = {
  amount: described('USD', v.string()),
  per: v.picklist(['hour', 'day', 'week', 'month']),
};

const stopAt = component('StopAt', 'What a provider may cost in a period.', v.object(stopAtEntries));

const budget = component(
  'ProviderBudget',
  'What a provider may cost in a period, and has cost in this one, in all processes.',
  v.object({
    ...stopAtEntries,
    spent: described('USD, in this period', v.string()),
    until: described('when the period ends', at),
    resumed: v.optional(
      described('an operator has readmitted it: it isn’t ejected before the period ends', v.literal(true)),
    ),
  }),
);

const ejection = component(
  'Ejection',
  'An operator has ejected a provider or a target, or a provider has cost what its stopAt allows.',
  v.object({
    at,
    by: v.optional(described('the name that authorize returned', v.string())),
    reason: v.optional(v.string()),
    until: v.optional(described('when it ends by itself', at)),
    stop_at: v.optional(described('not by an operator: the provider has cost so much', stopAt)),
  }),
);

const statsEntries = {
  requests: described('requests that were over; not those whose client left first', whole),
  errors: described('of those, the ones that the provider failed', whole),
  error_rate: v.optional(v.number()),
  first_byte_p50_ms: v.optional(described('rounded up to a step of a fifth', whole)),
  first_byte_p95_ms: v.optional(whole),
  tokens_per_second: v.optional(
    described('of answers that ended well; of streams from their first event on', v.number()),
  ),
  prompt_tokens: v.optional(described('as the provider counts them', whole)),
  cached_tokens: v.optional(described('of those, the ones that it read from its prompt cache', whole)),
};

const stats = component(
  'AttemptStats',
  'Sums over the requests to a provider in the last five minutes.',
  v.object(statsEntries),
);

const stateEntries = {
  since: v.optional(described('since when it has the state', at)),
  retry_at: v.optional(described('when it is tried again; missing until an operator readmits it', at)),
  retry_in_ms: v.optional(whole),
  ejection: v.optional(ejection),
  running: described('requests that are running there now', whole),
  recent: stats,
};

const target = component(
  'ProviderTarget',
  'A model of a provider.',
  v.object({
    model: v.string(),
    state: v.picklist(states),
    ...stateEntries,
    some_accounts_only: v.optional(
      described('ejected after failures of few accounts: others choose it as usual', v.literal(true)),
    ),
    failures_in_a_row: whole,
    probing: v.optional(v.literal(true)),
  }),
);

const fault = component(
  'ProviderFault',
  'An error of a provider. The message is the provider’s own, with secrets masked; it may quote a prompt.',
  v.object({
    at,
    model: v.string(),
    request_id: v.string(),
    status: v.optional(described('of the provider’s answer', whole)),
    code: described('the router’s code', v.string()),
    provider_code: v.optional(v.string()),
    message: v.string(),
  }),
);

const key = component(
  'ProviderKey',
  'An API key of a provider: its last four characters, and what is left of its rate limits by its last answers.',
  v.object({
    name: v.string(),
    masked: v.optional(v.string()),
    state: v.picklist(['available', 'rate_limited', 'refused']),
    until: v.optional(
      described('when it is used again; missing for the only key, which is used all the same', at),
    ),
    limits: rows(
      v.object({
        model: v.string(),
        name: v.string(),
        limit: v.optional(v.number()),
        remaining: v.number(),
        reset_at: v.optional(at),
        at,
      }),
    ),
  }),
);

const use = component(
  'LimitUse',
  'What is used of a limit.',
  v.object({
    limit: whole,
    used: described('in the last minute; of concurrent_requests, now', whole),
    left: described('neither used, nor granted to one of several processes', whole),
  }),
);

const limit = component(
  'ProviderLimit',
  'What is used of the limits of a provider or of a target, by one key.',
  v.object({
    key: v.optional(described('missing for a provider without keys', v.string())),
    model: v.optional(described('missing: all models of the provider together', v.string())),
    processes: v.optional(
      described(
        'how many count together, by their last word; missing: what the process that answers used',
        whole,
      ),
    ),
    requests_per_minute: v.optional(use),
    tokens_per_minute: v.optional(use),
    concurrent_requests: v.optional(use),
  }),
);

const provider = component(
  'ProviderStatus',
  'A provider, as this process has seen it since its start.',
  v.object({
    name: v.string(),
    state: v.picklist([...states, 'unused']),
    ...stateEntries,
    stop_at: v.optional(budget),
    changes_reach: described(
      'what ejecting and readmitting changes: all processes that share the store, or the one that answers',
      v.picklist(['all_processes', 'this_process']),
    ),
    history: described(
      'the last 60 minutes, oldest first, without those that had no request',
      rows(v.object({ at, ...statsEntries })),
    ),
    errors: described('the last 20, newest first', rows(fault)),
    keys: rows(key),
    limits: described('for all models first, then for each target', rows(limit)),
    targets: described('those that were used, or ejected by an operator', rows(target)),
    unused_targets: whole,
  }),
);

const providers = component(
  'Providers',
  'The providers, as this process has seen them since its start.',
  v.object({
    object: v.literal('list'),
    data: v.array(provider),
    waiting: described(
      'requests that wait in the process that answers, for each model with the option wait',
      rows(v.object({ model: v.string(), waiting: whole, most: described('as many as may wait', whole) })),
    ),
  }),
);

const params = object({ name: textOf(1, 256) });
const targetName = described('a model of the provider; default: the whole provider', textOf(1, 256));
const MAX_FOR_MS = 366 * 86_400_000;

export const providerEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listProviders',
    method: 'GET',
    path: '/providers',
    summary: 'List providers with their state, history, errors and keys',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: providers,
    run: async (_input, router) => ({
      answer: {
        ...list(router.providers.list().map((status) => answerOf(status))),
        waiting: router.providers.waiting(),
      },
    }),
  }),
  endpoint({
    operation: 'ejectProvider',
    method: 'POST',
    path: '/providers/{name}/eject',
    summary: 'Eject a provider, or one of its targets',
    params,
    query: nothing,
    body: component(
      'EjectProvider',
      'What is ejected, why, and for how long.',
      object({
        target: v.optional(targetName),
        reason: v.optional(textOf(1, 200)),
        for_ms: v.optional(integer(1, MAX_FOR_MS)),
      }),
    ),
    bodyIsOptional: true,
    answer: provider,
    errorStatuses: [404],
    change: {
      action: 'providers.eject',
      needs: 'providers',
      repeat: 'Ejects again: reason and time are those of the last request.',
    },
    async run({ params: { name }, body, caller: operator }, router) {
      const before = find(router, name);
      const { target, reason, for_ms: forMs } = body;
      const after = await router.providers.eject(name, {
        by: operator.name,
        ...(target !== undefined && { target }),
        ...(reason !== undefined && { reason }),
        ...(forMs !== undefined && { forMs }),
      });
      return changed(before, after, target);
    },
  }),
  endpoint({
    operation: 'readmitProvider',
    method: 'POST',
    path: '/providers/{name}/readmit',
    summary: 'Readmit a provider with all its targets, or one target',
    params,
    query: nothing,
    body: component('ReadmitProvider', 'What is readmitted.', object({ target: v.optional(targetName) })),
    bodyIsOptional: true,
    answer: provider,
    errorStatuses: [404],
    change: { action: 'providers.readmit', needs: 'providers', repeat: 'Changes nothing.' },
    async run({ params: { name }, body: { target } }, router) {
      const before = find(router, name);
      const after = await router.providers.readmit(name, target === undefined ? {} : { target });
      return changed(before, after, target);
    },
  }),
];

function answerOf(status: ProviderStatus): v.InferOutput<typeof provider> {
  return inJson(status);
}

/** @throws {NotFoundError} */
function find(router: AdministeredRouter, name: string): ProviderStatus {
  const all = router.providers.list();
  const found = all.find((status) => status.name === name);
  if (!found)
    throw providerNotFound(
      name,
      all.map((status) => status.name),
    );
  return found;
}

function changed(
  before: ProviderStatus,
  after: ProviderStatus,
  model: string | undefined,
): { answer: v.InferOutput<typeof provider>; target: string; before: unknown; after: unknown } {
  return {
    answer: answerOf(after),
    target: model === undefined ? after.name : `${after.name}/${model}`,
    before: stateFor(before, model),
    after: stateFor(after, model),
  };
}

/** For the audit. */
function stateFor(
  { name, state, ejection: whole, targets }: ProviderStatus,
  model: string | undefined,
): object {
  const target = targets.find((each) => each.model === model);
  if (model === undefined) return { name, state, ...(whole && { ejection: inJson(whole) }) };
  const { state: ofTarget, ejection: byHand } = target ?? {};
  return { name, model, ...(ofTarget && { state: ofTarget }), ...(byHand && { ejection: inJson(byHand) }) };
}
