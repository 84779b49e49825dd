import { type Attributes, type Meter, ValueType } from '@opentelemetry/api';

import type { Hooks, ResponseEnded, RouterGauges, Settled } from '../hooks.ts';
import { attemptAttributes, attemptError, providerName, responseError } from './conventions.ts';

/** Bounds that the semantic conventions recommend. */
const DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKENS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const TOKENS = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
];

/** Hooks that measure: the metrics of the GenAI conventions, and those of our own. */
export function metricHooks(
  meter: Meter,
): Required<
  Pick<Hooks, 'onRouter' | 'onRequest' | 'onResponse' | 'onSettled' | 'onError' | 'onLedgerEvent'>
> {
  const routers: RouterGauges[] = [];
  const histogram = (name: string, unit: string, description: string, bounds: number[]) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: bounds } });
  const counter = (name: string, unit: string, description: string) =>
    meter.createCounter(name, { unit, description, valueType: ValueType.DOUBLE });

  const operations = histogram(
    'gen_ai.client.operation.duration',
    's',
    'GenAI operation duration.',
    DURATIONS,
  );
  const tokens = histogram(
    'gen_ai.client.token.usage',
    '{token}',
    'Number of input and output tokens used.',
    TOKENS,
  );
  const firstTokens = histogram(
    'gen_ai.server.time_to_first_token',
    's',
    'Time to generate first token for successful responses.',
    FIRST_TOKENS,
  );
  const requests = histogram(
    'ccr.request.duration',
    's',
    'From a request to the end of its response.',
    DURATIONS,
  );
  const active = meter.createUpDownCounter('ccr.request.active', {
    unit: '{request}',
    description: 'Requests that are not over.',
  });
  const holds = counter('ccr.hold.settled', '{hold}', 'Holds that were charged, or voided.');
  const charged = counter('ccr.charged', '{USD}', 'What accounts were charged.');
  const cost = counter('ccr.cost', '{USD}', 'What providers bill, where their price is known.');
  const writtenOff = counter('ccr.written_off', '{USD}', 'What charges lacked because a balance had ended.');
  const failovers = counter('ccr.failover', '{failover}', 'Requests that went on to another target.');
  const ledgerEvents = counter('ccr.ledger.event', '{event}', 'Events of the ledger.');
  const errors = counter('ccr.error', '{error}', 'Errors that the host was told of.');

  meter
    .createObservableGauge('ccr.charge.waiting', {
      unit: '{charge}',
      description: 'Charges that the store has not answered, those of the outbox included.',
    })
    .addCallback((result) => {
      result.observe(routers.reduce((sum, router) => sum + router.waitingCharges(), 0));
    });
  meter
    .createObservableGauge('ccr.target.up', {
      unit: '1',
      description: 'Whether a target is asked: 0 while it is set aside.',
    })
    .addCallback((result) => {
      for (const { provider, model, state } of routers.flatMap((router) => router.health())) {
        result.observe(state === 'ejected' ? 0 : 1, targetAttributes(provider, model));
      }
    });

  function onResponse(ended: ResponseEnded): void {
    const { endpoint, status, firstByteMs, attempts, provider, upstreamModel } = ended;
    const model = ended.wildcard ?? ended.model;
    active.add(-1);
    requests.record(ended.durationMs / 1000, {
      'http.response.status_code': status,
      ...(endpoint && { 'ccr.endpoint': endpoint }),
      ...(model !== undefined && { 'ccr.model': model }),
      ...errorAttribute(responseError(ended)),
    });
    if (firstByteMs !== undefined && status < 300 && provider !== undefined && upstreamModel !== undefined) {
      const target = targetAttributes(provider, attempts.at(-1)?.wildcard ?? upstreamModel);
      firstTokens.record(firstByteMs / 1000, target);
    }
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
  }

  function onSettled(settled: Settled): void {
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
    // What nobody counted is not to be reported as if somebody had.
    if (!usage || usageSource !== 'upstream') return;
    const target = targetAttributes(provider, settled.upstreamWildcard ?? settled.upstreamModel);
    tokens.record(usage.promptTokens, { ...target, 'gen_ai.token.type': 'input' });
    tokens.record(usage.completionTokens, { ...target, 'gen_ai.token.type': 'output' });
  }

  return {
    onRouter: (router) => routers.push(router),
    onRequest: () => {
      active.add(1);
    },
    onResponse,
    onSettled,
    onError: (error) => {
      const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
      errors.add(1, { 'error.type': code });
    },
    onLedgerEvent: ({ type }) => {
      ledgerEvents.add(1, { 'ccr.ledger.event.type': type });
    },
  };
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
