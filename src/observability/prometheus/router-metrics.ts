import type { Hooks, ResponseEnded } from '../hooks.ts';
import { OpenRouters, type TargetGauges } from '../open-routers.ts';
import type { Registry } from './registry.ts';

/** Labels with one value per customer: off by default. */
export type CustomerLabel = 'account' | 'key';

/** In seconds: from an immediate error to a long answer. */
const DURATION_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const FIRST_BYTE_BUCKETS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/** Value of a label that doesn't apply. */
const NONE = 'none';

type MetricHooks<Name extends keyof Hooks> = Required<Pick<Hooks, Name>>;

/** Adds the metrics of routers to a registry; returns the hooks that update them. */
export function routerMetrics(registry: Registry, customerLabels: readonly CustomerLabel[]): Hooks {
  const routers = new OpenRouters();
  const requests = requestMetrics(registry, customerLabels);
  const attempts = attemptMetrics(registry);
  const settlements = settlementMetrics(registry, customerLabels);
  const events = eventMetrics(registry);
  addGauges(registry, routers);
  return {
    keepsDefaultLog: true,
    onRouter: (router) => {
      routers.add(router);
    },
    onRequest: requests.onRequest,
    onResponse: (ended) => {
      requests.onResponse(ended);
      attempts.onResponse(ended);
    },
    ...settlements,
    ...events,
  };
}

function requestMetrics(
  registry: Registry,
  customerLabels: readonly CustomerLabel[],
): MetricHooks<'onRequest' | 'onResponse'> {
  let running = 0;
  const requests = registry.counter('ccr_requests_total', 'Finished requests.', [
    'endpoint',
    'method',
    'status',
    'code',
    'model',
    'provider',
    ...customerLabels,
  ]);
  registry.gauge('ccr_requests_running', 'Requests in progress.', [], () => [[{}, running]]);
  const durations = registry.histogram(
    'ccr_request_duration_seconds',
    'Time from a request to the end of its response.',
    ['endpoint', 'model', 'provider', 'stream'],
    DURATION_BUCKETS,
  );
  const firstBytes = registry.histogram(
    'ccr_time_to_first_byte_seconds',
    'Time from a request to the first byte of its response body.',
    ['model', 'provider', 'stream'],
    FIRST_BYTE_BUCKETS,
  );
  const sticky = registry.counter(
    'ccr_sticky_requests_total',
    'Answers to turns of conversations, by whether the target and key of the last turn served them.',
    ['model', 'provider', 'result'],
  );
  const waits = registry.histogram(
    'ccr_wait_seconds',
    'Time that requests waited in line for a target with room.',
    ['model', 'outcome'],
    FIRST_BYTE_BUCKETS,
  );
  const hookCalls = registry.histogram(
    'ccr_hook_duration_seconds',
    'Time of the calls of route and guard.',
    ['hook', 'result'],
    DURATION_BUCKETS,
  );
  return {
    onRequest: () => {
      running += 1;
    },
    onResponse: (ended) => {
      running -= 1;
      const { provider = NONE, account = NONE, key = NONE, endpoint = NONE } = ended;
      const model = modelLabel(ended);
      const stream = String(ended.stream);
      requests.add(1, {
        endpoint,
        method: METHODS.includes(ended.method) ? ended.method : 'other',
        status: String(ended.status),
        code: ended.errorCode ?? NONE,
        model,
        provider,
        account,
        key,
      });
      durations.observe(ended.durationMs / 1000, { endpoint, model, provider, stream });
      if (ended.sticky) sticky.add(1, { model, provider, result: ended.sticky });
      if (ended.waited) waits.observe(ended.waited.ms / 1000, { model, outcome: ended.waited.outcome });
      for (const { hook, durationMs, result } of ended.hookCalls ?? []) {
        hookCalls.observe(durationMs / 1000, { hook, result });
      }
      if (ended.firstByteMs !== undefined) {
        firstBytes.observe(ended.firstByteMs / 1000, { model, provider, stream });
      }
    },
  };
}

function attemptMetrics(registry: Registry): MetricHooks<'onResponse'> {
  const attempts = registry.counter('ccr_attempts_total', 'Requests sent to providers.', [
    'provider',
    'upstream_model',
    'status',
    'code',
  ]);
  const durations = registry.histogram(
    'ccr_attempt_duration_seconds',
    'Time from a request to a provider to the end of its answer.',
    ['provider', 'upstream_model'],
    DURATION_BUCKETS,
  );
  const failovers = registry.counter('ccr_failovers_total', 'Requests that failed over to another target.', [
    'model',
    'from_provider',
    'to_provider',
  ]);
  const retries = registry.counter('ccr_retries_total', 'Requests retried at the same target.', [
    'model',
    'provider',
  ]);
  return {
    onResponse: (ended) => {
      const model = modelLabel(ended);
      for (const [index, attempt] of ended.attempts.entries()) {
        const upstream = { provider: attempt.provider, upstream_model: attempt.wildcard ?? attempt.model };
        const status = attempt.status === undefined ? NONE : String(attempt.status);
        attempts.add(1, { ...upstream, status, code: attempt.errorCode ?? NONE });
        durations.observe(attempt.durationMs / 1000, upstream);
        const before = ended.attempts[index - 1];
        if (!before) continue;
        const isSame = before.provider === attempt.provider && before.model === attempt.model;
        if (isSame) retries.add(1, { model, provider: attempt.provider });
        else failovers.add(1, { model, from_provider: before.provider, to_provider: attempt.provider });
      }
    },
  };
}

function settlementMetrics(
  registry: Registry,
  customerLabels: readonly CustomerLabel[],
): MetricHooks<'onSettled'> {
  const labelNames = ['model', 'provider', ...customerLabels] as const;
  const tokens = registry.counter(
    'ccr_tokens_total',
    'Charged tokens by class; cached ones are part of the prompt, reasoning is part of the completion.',
    ['model', 'provider', 'class', ...customerLabels],
  );
  const charged = registry.counter('ccr_charged_usd_total', 'Amounts charged to accounts.', labelNames);
  const cost = registry.counter(
    'ccr_cost_usd_total',
    'Amounts billed by providers, where their price is known.',
    labelNames,
  );
  const writtenOff = registry.counter(
    'ccr_written_off_usd_total',
    'Amounts not charged because a balance was exhausted.',
    labelNames,
  );
  const settlements = registry.counter(
    'ccr_settlements_total',
    'Holds charged or voided, by how their requests ended.',
    ['outcome', 'ending', 'usage'],
  );
  return {
    onSettled: (settled) => {
      const { model: id, wildcard: model = id, provider, account, key, usage } = settled;
      const labels = { model, provider, account, key };
      const outcome = settled.voided ? 'voided' : 'charged';
      settlements.add(1, { outcome, ending: settled.ending, usage: settled.usageSource });
      charged.add(Number(settled.charged), labels);
      if (settled.cost !== undefined) cost.add(Number(settled.cost), labels);
      writtenOff.add(Number(settled.writtenOff), labels);
      if (!usage) return;
      tokens.add(usage.promptTokens, { ...labels, class: 'prompt' });
      tokens.add(usage.cachedTokens, { ...labels, class: 'cached' });
      tokens.add(usage.completionTokens, { ...labels, class: 'completion' });
      tokens.add(usage.reasoningTokens, { ...labels, class: 'reasoning' });
    },
  };
}

function eventMetrics(registry: Registry): MetricHooks<'onError' | 'onLedgerEvent' | 'onHealthChange'> {
  const errors = registry.counter('ccr_errors_total', 'Errors passed to onError.', ['code']);
  const ledgerEvents = registry.counter('ccr_ledger_events_total', 'Ledger events.', ['type']);
  const changes = registry.counter('ccr_target_changes_total', 'Targets ejected or recovered.', [
    'provider',
    'upstream_model',
    'type',
  ]);
  return {
    onError: (error) => {
      errors.add(1, { code: errorLabel(error) });
    },
    onLedgerEvent: ({ type }) => {
      ledgerEvents.add(1, { type });
    },
    onHealthChange: ({ provider, model, type }) => {
      changes.add(1, { provider, upstream_model: model, type });
    },
  };
}

/** Gauges that are read from the routers on each scrape. */
function addGauges(registry: Registry, routers: OpenRouters): void {
  registry.gauge(
    'ccr_charges_waiting',
    'Charges waiting for the store, including those in the outbox.',
    [],
    () => [[{}, routers.sum((router) => router.waitingCharges())]],
  );
  registry.gauge('ccr_requests_waiting', 'Requests that wait in line for a target with room.', [], () => [
    [{}, routers.sum((router) => router.waitingRequests())],
  ]);
  const addTargetGauge = (name: string, help: string, read: (target: TargetGauges) => number): void => {
    registry.gauge(name, help, ['provider', 'upstream_model'], () =>
      routers
        .targets()
        .map((target) => [{ provider: target.provider, upstream_model: target.model }, read(target)]),
    );
  };
  addTargetGauge('ccr_target_up', 'Whether a target is in use; 0 while it is ejected.', ({ state }) =>
    state === 'ejected' ? 0 : 1,
  );
  addTargetGauge(
    'ccr_target_failures_in_a_row',
    'Consecutive failures of a target.',
    ({ failuresInARow }) => failuresInARow,
  );
  addTargetGauge(
    'ccr_target_requests_running',
    'Requests in progress at a target.',
    ({ running }) => running,
  );
}

/** Clients choose what a wildcard stands for, so that its pattern is the label. */
function modelLabel({ wildcard, model }: ResponseEnded): string {
  return wildcard ?? model ?? NONE;
}

/** The router's own code; the class name of any other error, whose code may be anything. */
function errorLabel(error: Error): string {
  const hasCode = 'code' in error && typeof error.code === 'string' && /^[a-z_]+$/.test(error.code);
  return hasCode ? String(error.code) : error.name;
}
