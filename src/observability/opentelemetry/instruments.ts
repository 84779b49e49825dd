import { type Attributes, type Counter, type Histogram, type Meter, ValueType } from '@opentelemetry/api';

import type { Hooks } from '../hooks.ts';
import { OpenRouters } from '../open-routers.ts';
import { attemptAttributes, attemptError, providerName, responseError } from './conventions.ts';

/** Bucket boundaries that the semantic conventions recommend. */
const DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKENS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const TOKENS = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
];

type MetricHooks<Name extends keyof Hooks> = Required<Pick<Hooks, Name>>;

/** Hooks that record the metrics of the GenAI semantic conventions, and those of the router. */
export function metricHooks(
  meter: Meter,
): MetricHooks<'onRouter' | 'onRequest' | 'onResponse' | 'onSettled' | 'onError' | 'onLedgerEvent'> {
  const routers = new OpenRouters();
  const requests = requestMetrics(meter);
  const routing = routingMetrics(meter);
  const attempts = attemptMetrics(meter);
  addGauges(meter, routers);
  return {
    onRouter: (router) => {
      routers.add(router);
    },
    onRequest: requests.onRequest,
    onResponse: (ended) => {
      requests.onResponse(ended);
      routing.onResponse(ended);
      attempts.onResponse(ended);
    },
    ...settlementMetrics(meter),
    ...eventMetrics(meter),
  };
}

function requestMetrics(meter: Meter): MetricHooks<'onRequest' | 'onResponse'> {
  const requests = histogram(
    meter,
    'ccr.request.duration',
    's',
    'Time from a request to the end of its response.',
    DURATIONS,
  );
  const firstTokens = histogram(
    meter,
    'gen_ai.server.time_to_first_token',
    's',
    'Time to generate first token for successful responses.',
    FIRST_TOKENS,
  );
  const hookCalls = histogram(
    meter,
    'ccr.hook.duration',
    's',
    'Time of the calls of route and guard.',
    DURATIONS,
  );
  const active = meter.createUpDownCounter('ccr.request.active', {
    unit: '{request}',
    description: 'Requests in progress.',
  });
  return {
    onRequest: () => {
      active.add(1);
    },
    onResponse: (ended) => {
      const { endpoint, status, firstByteMs, attempts, provider, upstreamModel } = ended;
      const model = ended.wildcard ?? ended.model;
      active.add(-1);
      requests.record(ended.durationMs / 1000, {
        'http.response.status_code': status,
        ...(endpoint && { 'ccr.endpoint': endpoint }),
        ...(model !== undefined && { 'ccr.model': model }),
        ...errorAttribute(responseError(ended)),
      });
      for (const { hook, durationMs, result } of ended.hookCalls ?? []) {
        hookCalls.record(durationMs / 1000, { 'ccr.hook': hook, 'ccr.hook.result': result });
      }
      if (
        firstByteMs !== undefined &&
        status < 300 &&
        provider !== undefined &&
        upstreamModel !== undefined
      ) {
        const target = targetAttributes(provider, attempts.at(-1)?.wildcard ?? upstreamModel);
        firstTokens.record(firstByteMs / 1000, target);
      }
    },
  };
}

function routingMetrics(meter: Meter): MetricHooks<'onResponse'> {
  const sticky = counter(
    meter,
    'ccr.request.sticky',
    '{request}',
    'Answers to turns of conversations, by whether the target and key of the last turn served them.',
  );
  const waits = histogram(meter, 'ccr.wait.duration', 's', 'Time that requests waited in line.', DURATIONS);
  return {
    onResponse: ({ wildcard, model: id, provider, sticky: result, waited }) => {
      const model = wildcard ?? id;
      const attributes = model === undefined ? {} : { 'ccr.model': model };
      if (result && provider !== undefined) {
        const name = providerName(provider);
        sticky.add(1, { ...attributes, 'gen_ai.provider.name': name, 'ccr.sticky': result });
      }
      if (waited) waits.record(waited.ms / 1000, { ...attributes, 'ccr.wait_outcome': waited.outcome });
    },
  };
}

function attemptMetrics(meter: Meter): MetricHooks<'onResponse'> {
  const operations = histogram(
    meter,
    'gen_ai.client.operation.duration',
    's',
    'GenAI operation duration.',
    DURATIONS,
  );
  const failovers = counter(
    meter,
    'ccr.failover',
    '{failover}',
    'Requests that failed over to another target.',
  );
  return {
    onResponse: ({ attempts, wildcard, model: id }) => {
      const model = wildcard ?? id;
      for (const [index, attempt] of attempts.entries()) {
        const labelled = { ...attempt, model: attempt.wildcard ?? attempt.model };
        const attributes = { ...attemptAttributes(labelled), ...errorAttribute(attemptError(attempt)) };
        operations.record(attempt.durationMs / 1000, attributes);
        const before = attempts[index - 1];
        if (!before || (before.provider === attempt.provider && before.model === attempt.model)) continue;
        failovers.add(1, {
          ...(model !== undefined && { 'ccr.model': model }),
          'ccr.failover.from': providerName(before.provider),
          'ccr.failover.to': providerName(attempt.provider),
        });
      }
    },
  };
}

function settlementMetrics(meter: Meter): MetricHooks<'onSettled'> {
  const tokens = histogram(
    meter,
    'gen_ai.client.token.usage',
    '{token}',
    'Number of input and output tokens used.',
    TOKENS,
  );
  const holds = counter(meter, 'ccr.hold.settled', '{hold}', 'Holds charged or voided.');
  const charged = counter(meter, 'ccr.charged', '{USD}', 'Amounts charged to accounts.');
  const cost = counter(
    meter,
    'ccr.cost',
    '{USD}',
    'Amounts billed by providers, where their price is known.',
  );
  const writtenOff = counter(
    meter,
    'ccr.written_off',
    '{USD}',
    'Amounts not charged because a balance was exhausted.',
  );
  return {
    onSettled: (settled) => {
      const { wildcard, model, provider, usage, usageSource, ending, voided } = settled;
      const attributes = { 'ccr.model': wildcard ?? model, 'gen_ai.provider.name': providerName(provider) };
      holds.add(1, {
        ...attributes,
        'ccr.ending': ending,
        'ccr.voided': voided,
        'ccr.usage_source': usageSource,
      });
      charged.add(Number(settled.charged), attributes);
      writtenOff.add(Number(settled.writtenOff), attributes);
      if (settled.cost !== undefined) cost.add(Number(settled.cost), attributes);
      // The conventions want counted tokens, not estimates.
      if (!usage || usageSource !== 'upstream') return;
      const target = targetAttributes(provider, settled.upstreamWildcard ?? settled.upstreamModel);
      tokens.record(usage.promptTokens, { ...target, 'gen_ai.token.type': 'input' });
      tokens.record(usage.completionTokens, { ...target, 'gen_ai.token.type': 'output' });
    },
  };
}

function eventMetrics(meter: Meter): MetricHooks<'onError' | 'onLedgerEvent'> {
  const errors = counter(meter, 'ccr.error', '{error}', 'Errors passed to onError.');
  const ledgerEvents = counter(meter, 'ccr.ledger.event', '{event}', 'Ledger events.');
  return {
    onError: (error) => {
      const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
      errors.add(1, { 'error.type': code });
    },
    onLedgerEvent: ({ type }) => {
      ledgerEvents.add(1, { 'ccr.ledger.event.type': type });
    },
  };
}

/** Gauges that are read from the routers at each collection. */
function addGauges(meter: Meter, routers: OpenRouters): void {
  meter
    .createObservableGauge('ccr.charge.waiting', {
      unit: '{charge}',
      description: 'Charges waiting for the store, including those in the outbox.',
    })
    .addCallback((result) => {
      result.observe(routers.sum((router) => router.waitingCharges()));
    });
  meter
    .createObservableGauge('ccr.request.waiting', {
      unit: '{request}',
      description: 'Requests that wait in line for a target with room.',
    })
    .addCallback((result) => {
      result.observe(routers.sum((router) => router.waitingRequests()));
    });
  meter
    .createObservableGauge('ccr.target.up', {
      unit: '1',
      description: 'Whether a target is in use; 0 while it is ejected.',
    })
    .addCallback((result) => {
      for (const { provider, model, state } of routers.targets()) {
        result.observe(state === 'ejected' ? 0 : 1, targetAttributes(provider, model));
      }
    });
}

function histogram(
  meter: Meter,
  name: string,
  unit: string,
  description: string,
  bounds: number[],
): Histogram {
  return meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: bounds } });
}

function counter(meter: Meter, name: string, unit: string, description: string): Counter {
  return meter.createCounter(name, { unit, description, valueType: ValueType.DOUBLE });
}

function targetAttributes(provider: string, model: string): Attributes {
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerName(provider),
    'gen_ai.request.model': model,
  };
}

function errorAttribute(errorType: string | undefined): Attributes {
  return errorType === undefined ? {} : { 'error.type': errorType };
}
