import { readFileSync } from 'node:fs';
import * as http from 'node:http';

import { describe, expect, it, onTestFinished } from 'vitest';

import type { Hooks } from '../../../src/index.ts';
import { createPrometheusMetrics } from '../../../src/prometheus.ts';
import { Registry } from '../../../src/observability/prometheus/registry.ts';
import { error as refuse } from '../../../src/testing.ts';
import { startTwoTargets } from '../faults/two-targets.ts';
import { listen, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { parsePrometheus, valueOf } from '../../helpers/prometheus-text.ts';
import { answerJson, answerStream, STREAM } from '../../helpers/provider.ts';
import { collectTold } from '../../helpers/told.ts';

describe('metrics of a router', () => {
  it('count a completion, its tokens and its money', async () => {
    const metrics = createPrometheusMetrics();
    const gateway = await startGateway({ hooks: [metrics.hooks] });
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    await settled;
    const read = parsePrometheus(metrics.text());
    const labels = { model: 'acme/fast', provider: 'loopback' };
    const request = { ...labels, endpoint: 'completions', method: 'POST', status: '200', code: 'none' };
    expect(valueOf(read, 'ccr_requests_total', request)).toBe(1);
    expect(valueOf(read, 'ccr_requests_running')).toBe(0);
    expect(valueOf(read, 'ccr_request_duration_seconds_count', { ...labels, stream: 'false' })).toBe(1);
    expect(valueOf(read, 'ccr_time_to_first_byte_seconds_count', labels)).toBe(1);
    expect(valueOf(read, 'ccr_tokens_total', { ...labels, class: 'prompt' })).toBe(9);
    expect(valueOf(read, 'ccr_tokens_total', { ...labels, class: 'completion' })).toBe(12);
    expect(valueOf(read, 'ccr_charged_usd_total', labels)).toBe(0.000045);
    expect(valueOf(read, 'ccr_written_off_usd_total', labels)).toBe(0);
    const settlement = { outcome: 'charged', ending: 'finished', usage: 'upstream' };
    expect(valueOf(read, 'ccr_settlements_total', settlement)).toBe(1);
    const upstream = { provider: 'loopback', upstream_model: 'upstream-model' };
    expect(valueOf(read, 'ccr_attempts_total', { ...upstream, status: '200' })).toBe(1);
    expect(valueOf(read, 'ccr_target_up', upstream)).toBe(1);
    expect(valueOf(read, 'ccr_charges_waiting')).toBe(0);
    await gateway.close();
  });

  it('count the models of a wildcard as one: clients choose their names', async () => {
    const metrics = createPrometheusMetrics();
    const gateway = await startGateway({
      hooks: [metrics.hooks],
      models: { 'acme/*': { targets: ['loopback/up-*'], pricing: PRICING, maxOutputTokens: 1000 } },
    });
    for (const model of ['acme/one', 'acme/two']) {
      const settled = gateway.nextSettled();
      await gateway.post({ ...QUESTION, model });
      await settled;
    }
    const read = parsePrometheus(metrics.text());
    const labels = { model: 'acme/*', provider: 'loopback' };
    expect(valueOf(read, 'ccr_requests_total', labels)).toBe(2);
    expect(valueOf(read, 'ccr_request_duration_seconds_count', labels)).toBe(2);
    expect(valueOf(read, 'ccr_tokens_total', { ...labels, class: 'prompt' })).toBe(18);
    expect(valueOf(read, 'ccr_charged_usd_total', labels)).toBe(0.00009);
    expect(valueOf(read, 'ccr_attempts_total', { upstream_model: 'up-*', status: '200' })).toBe(2);
    await gateway.close();
  });

  it('count refusals by their code, and unauthenticated clients', async () => {
    const metrics = createPrometheusMetrics();
    const told = collectTold();
    const gateway = await startGateway({ hooks: [metrics.hooks, told.hooks] });
    for (const ask of [
      () => gateway.post({ ...QUESTION, model: 'acme/none' }),
      () => gateway.fetch('/models', { headers: { authorization: 'Bearer sk-none' } }),
      () => gateway.fetch('/unknown', { method: 'PURGE' }),
    ]) {
      const next = told.next();
      await ask();
      await next;
    }
    const read = parsePrometheus(metrics.text());
    const counted = (labels: Record<string, string>): number | undefined =>
      valueOf(read, 'ccr_requests_total', labels);
    expect(counted({ endpoint: 'completions', status: '404', code: 'model_not_found', model: 'none' })).toBe(
      1,
    );
    expect(counted({ endpoint: 'models', status: '401', code: 'invalid_api_key' })).toBe(1);
    expect(counted({ endpoint: 'none', method: 'other', code: 'unknown_endpoint' })).toBe(1);
    await gateway.close();
  });

  it('time the calls of route and guard, by what came of them', async () => {
    const metrics = createPrometheusMetrics();
    const told = collectTold();
    const gateway = await startGateway({
      hooks: [metrics.hooks, told.hooks],
      route: () => undefined,
      guard: () => ({ refuse: { code: 'flagged', message: 'No.' } }),
    });
    const next = told.next();
    await gateway.post(QUESTION);
    await next;
    const read = parsePrometheus(metrics.text());
    const counted = (hook: string, result: string): number | undefined =>
      valueOf(read, 'ccr_hook_duration_seconds_count', { hook, result });
    expect([counted('route', 'passed'), counted('guard', 'refused')]).toEqual([1, 1]);
    expect(valueOf(read, 'ccr_requests_total', { status: '400', code: 'flagged' })).toBe(1);
    await gateway.close();
  });

  it('show what runs, and streams apart', async () => {
    const metrics = createPrometheusMetrics();
    const told = collectTold();
    const gateway = await startGateway({ hooks: [metrics.hooks, told.hooks] });
    gateway.provider.script = answerStream(STREAM, 10);
    const next = told.next();
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(valueOf(parsePrometheus(metrics.text()), 'ccr_requests_running')).toBe(1);
    await response.text();
    await next;
    const read = parsePrometheus(metrics.text());
    expect(valueOf(read, 'ccr_requests_running')).toBe(0);
    expect(valueOf(read, 'ccr_request_duration_seconds_count', { stream: 'true' })).toBe(1);
    await gateway.close();
  });

  it('count a failover, a target that was set aside, and what went wrong', async () => {
    const metrics = createPrometheusMetrics();
    const two = await startTwoTargets({ hooks: [metrics.hooks], health: { failures: 1 } });
    two.primary.answer(refuse(503));
    await two.hear();
    const way = { model: 'acme/fast', from_provider: 'primary', to_provider: 'fallback' };
    await expect.poll(() => valueOf(parsePrometheus(metrics.text()), 'ccr_failovers_total', way)).toBe(1);
    const read = parsePrometheus(metrics.text());
    const primary = { provider: 'primary', upstream_model: 'main-model' };
    expect(valueOf(read, 'ccr_attempts_total', { ...primary, status: '503' })).toBe(1);
    expect(valueOf(read, 'ccr_target_up', primary)).toBe(0);
    expect(valueOf(read, 'ccr_target_up', { provider: 'fallback' })).toBe(1);
    expect(valueOf(read, 'ccr_target_changes_total', { ...primary, type: 'target_ejected' })).toBe(1);
    await two.close();
  });

  it('count a retry of the same target apart from failovers', async () => {
    const metrics = createPrometheusMetrics();
    const gateway = await startGateway({ hooks: [metrics.hooks] });
    let asked = 0;
    gateway.provider.script = (response, request) => {
      asked += 1;
      const script = asked === 1 ? answerJson('{}', 503, { 'retry-after-ms': '1' }) : answerJson('{}', 400);
      return script(response, request);
    };
    await gateway.post(QUESTION);
    const read = parsePrometheus(metrics.text());
    expect(valueOf(read, 'ccr_retries_total', { model: 'acme/fast', provider: 'loopback' })).toBe(1);
    expect(read.get('ccr_failovers_total')?.samples).toEqual([]);
    await gateway.close();
  });

  it('count what the ledger tells, and errors by their code', async () => {
    const metrics = createPrometheusMetrics();
    const gateway = await startGateway({ hooks: [metrics.hooks] });
    await gateway.store.freeze('acct', true);
    await gateway.post(QUESTION);
    await gateway.store.freeze('acct', false);
    gateway.provider.script = answerJson('{}', 401);
    await gateway.post(QUESTION);
    const read = parsePrometheus(metrics.text());
    expect(valueOf(read, 'ccr_ledger_events_total', { type: 'frozen' })).toBe(1);
    expect(valueOf(read, 'ccr_errors_total', { code: 'upstream_refused_credentials' })).toBe(1);
    await gateway.close();
  });

  it('name neither accounts nor keys unless they are asked for', async () => {
    const plain = createPrometheusMetrics();
    const asked = createPrometheusMetrics({ labels: ['account'] });
    const gateway = await startGateway({ hooks: [plain.hooks, asked.hooks] });
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    await settled;
    expect(plain.text()).not.toContain('acct');
    expect(valueOf(parsePrometheus(asked.text()), 'ccr_charged_usd_total', { account: 'acct' })).toBe(
      0.000045,
    );
    expect(asked.text()).not.toContain('key=');
    await gateway.close();
  });

  it('of two routers are those of both', async () => {
    const metrics = createPrometheusMetrics();
    const gateways = [
      await startGateway({ hooks: [metrics.hooks] }),
      await startGateway({ hooks: [metrics.hooks] }),
    ];
    for (const gateway of gateways) {
      await gateway.fetch('/models');
      await gateway.post(QUESTION);
    }
    const read = parsePrometheus(metrics.text());
    expect(valueOf(read, 'ccr_requests_total', { endpoint: 'models' })).toBe(2);
    expect(valueOf(read, 'ccr_target_up', { provider: 'loopback' })).toBe(1);
    for (const gateway of gateways) await gateway.close();
  });

  it('of a target that two routers have say the worst of its states, and the requests of both', async () => {
    const metrics = createPrometheusMetrics();
    const gateways = [
      await startGateway({ hooks: [metrics.hooks] }),
      await startGateway({ hooks: [metrics.hooks] }),
    ];
    const responses: Response[] = [];
    for (const gateway of gateways) {
      gateway.provider.script = answerStream(STREAM, 10);
      responses.push(await gateway.post({ ...QUESTION, stream: true }));
    }
    await gateways[1]?.router.providers.eject('loopback', { reason: 'test' });
    const read = parsePrometheus(metrics.text());
    expect(valueOf(read, 'ccr_target_requests_running', { provider: 'loopback' })).toBe(2);
    expect(valueOf(read, 'ccr_target_up', { provider: 'loopback' })).toBe(0);
    for (const response of responses) await response.text();
    for (const gateway of gateways) await gateway.close();
  });

  it('show no target of a router that is closed, and go on counting', async () => {
    const metrics = createPrometheusMetrics();
    const use = async (): Promise<() => Promise<void>> => {
      const two = await startTwoTargets({ hooks: [metrics.hooks], health: { failures: 1 } });
      two.primary.answer(refuse(503));
      await two.hear();
      return async () => {
        await Promise.all([two.gateway.close(), two.primary.close(), two.fallback.close()]);
      };
    };
    const failed = (): (number | undefined)[] => {
      const read = parsePrometheus(metrics.text());
      const name = 'ccr_target_failures_in_a_row';
      return ['primary', 'fallback'].map((provider) => valueOf(read, name, { provider }));
    };
    const close = await use();
    expect(failed()).toEqual([1, 0]);
    await close();
    expect(failed()).toEqual([undefined, undefined]);
    const closeOther = await use();
    expect(failed()).toEqual([1, 0]);
    expect(valueOf(parsePrometheus(metrics.text()), 'ccr_failovers_total')).toBe(2);
    await closeOther();
  });
});

describe('the table of metrics in the docs', () => {
  const page = readFileSync(new URL('../../../docs/observability.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| `(ccr_\w+)`( ●)? +\| (\w+) +\|([^|]*)\|/gm)];

  it('has each metric with its type, and no other', () => {
    const metrics = parsePrometheus(createPrometheusMetrics().text());
    const documented = rows.map(([, name = '', , type = '']) => `${type} ${name}`);
    const served = [...metrics].map(([name, { type }]) => `${type} ${name}`);
    expect(documented.toSorted()).toEqual(served.toSorted());
  });

  it('has the labels of each, and marks those that can name customers', async () => {
    const metrics = createPrometheusMetrics({ labels: ['account', 'key'] });
    await provokeAll(metrics.hooks);
    const read = parsePrometheus(metrics.text());
    for (const [, name = '', mark, , labels = ''] of rows) {
      const documented = [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label);
      const { le: _bound, ...used } = read.get(name)?.samples[0]?.labels ?? {};
      expect(Object.keys(used), name).toEqual(mark ? [...documented, 'account', 'key'] : documented);
    }
  });
});

/** Has each metric counted once. */
async function provokeAll(hooks: Hooks): Promise<void> {
  const two = await startTwoTargets({
    hooks: [hooks],
    health: { failures: 1 },
    guard: () => undefined,
    sticky: { by: ['prefix'] },
    models: {
      'acme/fast': {
        targets: ['primary/main-model', { provider: 'fallback', model: 'other-model', cost: PRICING }],
        pricing: PRICING,
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
    },
  });
  two.primary.answer(refuse(503));
  await two.hear();
  await two.gateway.store.freeze('acct', true);
  await two.gateway.post(QUESTION);
  onTestFinished(() => two.close());
  const gateway = await startGateway({ hooks: [hooks] });
  gateway.provider.script = answerJson('{}', 503, { 'retry-after-ms': '1' });
  await gateway.post(QUESTION);
  gateway.provider.script = answerJson('{}', 401);
  await gateway.post(QUESTION);
  onTestFinished(() => gateway.close());
  const full = await startGateway({
    hooks: [hooks],
    provider: { limits: { requestsPerMinute: 1 } },
    models: {
      'acme/fast': { targets: ['loopback/m'], wait: { upToMs: 1 }, pricing: PRICING, maxOutputTokens: 1000 },
    },
  });
  for (let n = 0; n < 2; n++) await full.post(QUESTION);
  await full.close();
}

describe('the text of a registry', () => {
  it('is what the format says, to the byte', () => {
    const registry = new Registry(100);
    registry.counter('a_total', 'Things\\that\nare.', ['of']).add(2, { of: 'a "b"\\\n' });
    const sizes = registry.histogram('size_bytes', 'Sizes.', [], [1, 2.5]);
    for (const size of [1, 2, 3, 4]) sizes.observe(size, {});
    registry.gauge('level', 'Level.', ['at'], () => [[{ at: 'top' }, 0.5]]);
    const text = String.raw`# HELP a_total Things\\that\nare.
# TYPE a_total counter
a_total{of="a \"b\"\\\n"} 2
# HELP size_bytes Sizes.
# TYPE size_bytes histogram
size_bytes_bucket{le="1"} 1
size_bytes_bucket{le="2.5"} 2
size_bytes_bucket{le="+Inf"} 4
size_bytes_sum 10
size_bytes_count 4
# HELP level Level.
# TYPE level gauge
level{at="top"} 0.5
`;
    expect(registry.text()).toBe(text);
    expect(valueOf(parsePrometheus(text), 'a_total', { of: 'a "b"\\\n' })).toBe(2);
  });

  it('begins at 0 where there can be one series only', () => {
    const registry = new Registry(100);
    registry.counter('a_total', 'Things.', []);
    expect(valueOf(parsePrometheus(registry.text()), 'a_total')).toBe(0);
  });

  it('has no more series than it may, and loses nothing of what is counted', () => {
    const registry = new Registry(3);
    const counter = registry.counter('a_total', 'Things.', ['of', 'by']);
    for (let n = 0; n < 10; n++) counter.add(1, { of: `of-${n}`, by: 'me' });
    counter.add(1, { of: 'of-0', by: 'me' });
    expect(parsePrometheus(registry.text()).get('a_total')?.samples).toEqual([
      { name: 'a_total', labels: { of: 'of-0', by: 'me' }, value: 2 },
      { name: 'a_total', labels: { of: 'of-1', by: 'me' }, value: 1 },
      { name: 'a_total', labels: { of: 'other', by: 'other' }, value: 8 },
    ]);
  });
});

describe('the handler of metrics', () => {
  const metrics = createPrometheusMetrics({
    authorize: ({ headers }) => headers.authorization === 'Bearer scraper',
  });

  it('serves them on node:http to whom it may', async () => {
    const server = await listen(
      http.createServer((request, response) => void metrics.handler(request, response)),
      '/metrics',
    );
    const allowed = await fetch(server.baseURL, { headers: { authorization: 'Bearer scraper' } });
    expect(allowed.status).toBe(200);
    expect(allowed.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await allowed.text()).toBe(metrics.text());
    const refused = await fetch(server.baseURL);
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toBe('Bearer');
    expect(await refused.text()).not.toContain('ccr_');
    await server.close();
  });

  it('serves them as a Web handler', async () => {
    const ask = (init: RequestInit): Promise<Response> =>
      metrics.fetch(new Request('http://gateway.test/metrics', init));
    const authorization = 'Bearer scraper';
    const allowed = await ask({ headers: { authorization } });
    expect(await allowed.text()).toBe(metrics.text());
    expect((await ask({})).status).toBe(401);
    expect((await ask({ method: 'POST', headers: { authorization } })).status).toBe(405);
    const head = await ask({ method: 'HEAD', headers: { authorization } });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  it('lets no request in while the authorize hook fails', async () => {
    const broken = createPrometheusMetrics({ authorize: () => Promise.reject(new Error('boom')) });
    const response = await broken.fetch(new Request('http://gateway.test/metrics'));
    expect(response.status).toBe(500);
    expect(await response.text()).not.toMatch(/ccr_|boom/);
  });
});

describe('options of metrics', () => {
  it.each([
    [{ labels: ['request'] as never }, "labels must contain only 'account' and 'key', got [\"request\"]"],
    [{ maxSeries: 1 }, 'maxSeries must be an integer of at least 2, got 1'],
    [{ authorize: true as never }, 'authorize must be a function'],
  ])('that can not be right are refused: %j', (options, message) => {
    expect(() => createPrometheusMetrics(options)).toThrow(new TypeError(message));
  });
});
