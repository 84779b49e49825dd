import type { HealthChange, Hooks, ResponseEnded, RouterGauges, Settled } from '../hooks.ts';
import type { Registry } from './registry.ts';

/** Labels whose values are as many as your customers: none of them by default. */
export type CustomerLabel = 'account' | 'key';

/** In seconds: from an error that needed nobody to an answer that took its time. */
const DURATION_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const FIRST_BYTE_BUCKETS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/** The value of a label where there is nothing to say. */
const NONE = 'none';

/** Puts the metrics of routers into a registry; the hooks keep them. */
export function routerMetrics(registry: Registry, customerLabels: readonly CustomerLabel[]): Hooks {
  const routers: RouterGauges[] = [];
  let running = 0;
  const requests = registry.counter('ccr_requests_total', 'Requests that are over.', [
    'endpoint',
    'method',
    'status',
    'code',
    'model',
    'provider',
    ...customerLabels,
  ]);
  registry.gauge('ccr_requests_running', 'Requests that are not over.', [], () => [[{}, running]]);
  const durations = registry.histogram(
    'ccr_request_duration_seconds',
    'From a request to the end of its response.',
    ['endpoint', 'model', 'provider', 'stream'],
    DURATION_BUCKETS,
  );
  const firstBytes = registry.histogram(
    'ccr_time_to_first_byte_seconds',
    "From a request to the first byte of its answer's body.",
    ['model', 'provider', 'stream'],
    FIRST_BYTE_BUCKETS,
  );
  const attempts = registry.counter('ccr_attempts_total', 'Requests that were sent to providers.', [
    'provider',
    'upstream_model',
    'status',
    'code',
  ]);
  const attemptDurations = registry.histogram(
    'ccr_attempt_duration_seconds',
    'From a request to a provider to the end of its answer.',
    ['provider', 'upstream_model'],
    DURATION_BUCKETS,
  );
  const failovers = registry.counter('ccr_failovers_total', 'Requests that went on to another target.', [
    'model',
    'from_provider',
    'to_provider',
  ]);
  const retries = registry.counter('ccr_retries_total', 'Requests that were sent again to the same target.', [
    'model',
    'provider',
  ]);
  const tokens = registry.counter(
    'ccr_tokens_total',
    'Tokens that were paid for, by class: cached ones are among those of the prompt, reasoning among those of the completion.',
    ['model', 'provider', 'class', ...customerLabels],
  );
  const charged = registry.counter('ccr_charged_usd_total', 'What accounts were charged.', [
    'model',
    'provider',
    ...customerLabels,
  ]);
  const cost = registry.counter('ccr_cost_usd_total', 'What providers bill, where their price is known.', [
    'model',
    'provider',
    ...customerLabels,
  ]);
  const writtenOff = registry.counter(
    'ccr_written_off_usd_total',
    'What charges lacked because a balance had ended.',
    ['model', 'provider', ...customerLabels],
  );
  const settlements = registry.counter(
    'ccr_settlements_total',
    'Holds that were charged, or voided, by how their requests ended.',
    ['outcome', 'ending', 'usage'],
  );
  const errors = registry.counter('ccr_errors_total', 'Errors that the host was told of.', ['code']);
  const ledgerEvents = registry.counter('ccr_ledger_events_total', 'Events of the ledger.', ['type']);
  const changes = registry.counter('ccr_target_changes_total', 'Targets that were set aside, or came back.', [
    'provider',
    'upstream_model',
    'type',
  ]);
  registry.gauge(
    'ccr_charges_waiting',
    'Charges that the store has not answered, those of the outbox included.',
    [],
    () => [[{}, routers.reduce((sum, router) => sum + router.waitingCharges(), 0)]],
  );
  const targetGauge = (
    name: string,
    help: string,
    read: (target: ReturnType<RouterGauges['health']>[number]) => number,
  ): void => {
    registry.gauge(name, help, ['provider', 'upstream_model'], () =>
      targetsOf(routers).map((target) => [
        { provider: target.provider, upstream_model: target.model },
        read(target),
      ]),
    );
  };
  targetGauge('ccr_target_up', 'Whether a target is asked: 0 while it is set aside.', ({ state }) =>
    state === 'ejected' ? 0 : 1,
  );
  targetGauge(
    'ccr_target_failures_in_a_row',
    'Failures of a target since it last answered.',
    ({ failuresInARow }) => failuresInARow,
  );
  targetGauge(
    'ccr_target_requests_running',
    'Requests that run at a target.',
    ({ running: atTarget }) => atTarget,
  );

  function onResponse(ended: ResponseEnded): void {
    running -= 1;
    const { provider = NONE, account = NONE, key = NONE } = ended;
    const model = ended.wildcard ?? ended.model ?? NONE;
    const endpoint = ended.endpoint ?? NONE;
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
    if (ended.firstByteMs !== undefined) {
      firstBytes.observe(ended.firstByteMs / 1000, { model, provider, stream });
    }
    for (const [index, attempt] of ended.attempts.entries()) {
      const upstream = { provider: attempt.provider, upstream_model: attempt.wildcard ?? attempt.model };
      const status = attempt.status === undefined ? NONE : String(attempt.status);
      attempts.add(1, { ...upstream, status, code: attempt.errorCode ?? NONE });
      attemptDurations.observe(attempt.durationMs / 1000, upstream);
      const before = ended.attempts[index - 1];
      if (!before) continue;
      const isSame = before.provider === attempt.provider && before.model === attempt.model;
      if (isSame) retries.add(1, { model, provider: attempt.provider });
      else failovers.add(1, { model, from_provider: before.provider, to_provider: attempt.provider });
    }
  }

  function onSettled(settled: Settled): void {
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
  }

  return {
    keepsDefaultLog: true,
    onRouter: (router) => routers.push(router),
    onRequest: () => {
      running += 1;
    },
    onResponse,
    onSettled,
    onError: (error) => {
      errors.add(1, { code: errorLabel(error) });
    },
    onLedgerEvent: ({ type }) => {
      ledgerEvents.add(1, { type });
    },
    onHealthChange: ({ provider, model, type }: HealthChange) => {
      changes.add(1, { provider, upstream_model: model, type });
    },
  };
}

/** The targets of all routers; of two that are the same, the one that does worse. */
function targetsOf(routers: readonly RouterGauges[]): ReturnType<RouterGauges['health']> {
  const [only] = routers;
  if (only && routers.length === 1) return only.health();
  const worst = new Map<string, ReturnType<RouterGauges['health']>[number]>();
  for (const target of routers.flatMap((router) => router.health())) {
    const name = `${target.provider}/${target.model}`;
    const known = worst.get(name);
    if (!known || target.failuresInARow > known.failuresInARow) worst.set(name, target);
  }
  return [...worst.values()];
}

/** Ours have one; those of others may be anything. */
function errorLabel(error: Error): string {
  const isOurs = 'code' in error && typeof error.code === 'string' && /^[a-z_]+$/.test(error.code);
  return isOurs ? String(error.code) : error.name;
}
