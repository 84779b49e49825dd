import { readFileSync } from 'node:fs';
import * as http from 'node:http';

import {
  type Context,
  context,
  propagation,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  type DataPoint,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { MemoryStore, type ChatCompletionsRouter } from '../../../src/index.ts';
import { openTelemetryHooks } from '../../../src/opentelemetry.ts';
import { error as refuse } from '../../../src/testing.ts';
import { startTwoTargets } from '../faults/two-targets.ts';
import { type Gateway, listen, type Mount, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  STREAM,
  text,
} from '../../helpers/provider.ts';
import { collectTold } from '../../helpers/told.ts';

/** W3C Trace Context, as an SDK's own propagator writes it. */
const traceContext: TextMapPropagator = {
  inject: (from, carrier, setter) => {
    const span = trace.getSpanContext(from);
    if (!span) return;
    setter.set(carrier, 'traceparent', `00-${span.traceId}-${span.spanId}-0${span.traceFlags}`);
    const baggage = propagation.getBaggage(from)?.getAllEntries() ?? [];
    if (baggage.length > 0) {
      setter.set(carrier, 'baggage', baggage.map(([name, { value }]) => `${name}=${value}`).join());
    }
  },
  extract: (onto, carrier, getter): Context => {
    const [, traceId = '', spanId = '', flags = '0'] = String(getter.get(carrier, 'traceparent')).split('-');
    return trace.setSpanContext(onto, { traceId, spanId, traceFlags: Number(flags), isRemote: true });
  },
  fields: () => ['traceparent', 'baggage'],
};

const exporter = new InMemorySpanExporter();
const tracer = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }).getTracer(
  'test',
);
let gateway: Gateway;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(traceContext);
});

afterEach(async () => {
  await gateway.close();
  exporter.reset();
});

afterAll(() => {
  context.disable();
  propagation.disable();
});

/** The spans of a request, once all of it has ended. */
async function spansOf(count: number): Promise<ReadableSpan[]> {
  await expect.poll(() => exporter.getFinishedSpans()).toHaveLength(count);
  return exporter.getFinishedSpans();
}

function only(spans: readonly ReadableSpan[], kind: SpanKind): ReadableSpan {
  const found = spans.filter((span) => span.kind === kind);
  expect(found).toHaveLength(1);
  return found[0]!;
}

function milliseconds([seconds, nanos]: readonly [number, number]): number {
  return seconds * 1000 + nanos / 1e6;
}

describe('spans of a router', () => {
  it('tell of the end user and of tags', async () => {
    const dimensions = { user: true, tags: ['feature'] };
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })], dimensions });
    gateway.provider.script = answerJson(completionBody());
    await gateway.post({ ...QUESTION, user: 'ann', metadata: { feature: 'search' } });
    const { attributes } = only(await spansOf(2), SpanKind.SERVER);
    expect(attributes).toMatchObject({ 'ccr.user': 'ann', 'ccr.tag.feature': 'search' });
  });

  it('have one more for each call of route and guard, within the request', async () => {
    gateway = await startGateway({
      hooks: [openTelemetryHooks({ tracer })],
      route: () => 'acme/fast',
      guard: { run: async () => Promise.reject(new Error('down')), onError: 'pass' },
    });
    gateway.provider.script = answerJson(completionBody());
    await gateway.post({ ...QUESTION, model: 'auto' });
    const spans = await spansOf(4);
    const server = only(spans, SpanKind.SERVER);
    const calls = spans.filter(({ kind }) => kind === SpanKind.INTERNAL);
    expect(calls.map(({ name, attributes, status }) => [name, attributes, status.code])).toEqual([
      ['route', { 'ccr.hook': 'route', 'ccr.hook.result': 'changed' }, SpanStatusCode.UNSET],
      ['guard', { 'ccr.hook': 'guard', 'ccr.hook.result': 'failed' }, SpanStatusCode.ERROR],
    ]);
    for (const { parentSpanContext, startTime, endTime } of calls) {
      expect(parentSpanContext?.spanId).toBe(server.spanContext().spanId);
      expect(milliseconds(startTime)).toBeGreaterThanOrEqual(milliseconds(server.startTime));
      expect(milliseconds(endTime)).toBeLessThanOrEqual(milliseconds(server.endTime) + 1);
    }
  });

  it('tell of a completion by the GenAI conventions, and what it cost', async () => {
    const told = collectTold();
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer }), told.hooks] });
    gateway.provider.script = answerJson(completionBody(), 200, { 'x-request-id': 'req_77' });
    const response = await gateway.post(QUESTION);
    const spans = await spansOf(2);
    const server = only(spans, SpanKind.SERVER);
    const client = only(spans, SpanKind.CLIENT);
    const [key] = await gateway.router.keys.list('acct');
    expect(server.name).toBe('POST /chat/completions');
    expect(server.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/chat/completions',
      'http.response.status_code': 200,
      'url.path': '/v1/chat/completions',
      'gen_ai.provider.name': 'loopback',
      'ccr.request_id': response.headers.get('x-request-id'),
      'ccr.account': 'acct',
      'ccr.key': key?.id,
      'ccr.model': 'acme/fast',
      'ccr.ending': 'finished',
      'ccr.charged_usd': 0.000045,
      'ccr.written_off_usd': 0,
      'ccr.voided': false,
      'ccr.usage_source': 'upstream',
    });
    expect(client.name).toBe('chat upstream-model');
    expect(client.parentSpanContext?.spanId).toBe(server.spanContext().spanId);
    expect(client.attributes).toEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'loopback',
      'gen_ai.request.model': 'upstream-model',
      'gen_ai.request.stream': false,
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 9,
      'gen_ai.usage.output_tokens': 12,
      'gen_ai.usage.cache_read.input_tokens': 0,
      'gen_ai.usage.cache_creation.input_tokens': 0,
      'gen_ai.usage.reasoning.output_tokens': 0,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(gateway.provider.baseURL).port),
      'http.response.status_code': 200,
      'ccr.upstream_request_id': 'req_77',
    });
    expect([server.status.code, client.status.code]).toEqual([SpanStatusCode.UNSET, SpanStatusCode.UNSET]);
    const { startedAt, durationMs } = told.ended[0]!;
    expect(milliseconds(server.startTime)).toBeCloseTo(startedAt, 1);
    expect(milliseconds(server.endTime)).toBeCloseTo(startedAt + durationMs, 1);
  });

  it('end when the response did, and wait for the charge to say what it was', async () => {
    const store = new LateStore();
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })], store });
    const { key } = await gateway.router.keys.create({ account: 'acct', name: 'late' });
    await gateway.router.credits.grant('acct', '5.00', { id: 'late' });
    const settling = store.settling;
    await gateway.post(QUESTION, { headers: { authorization: `Bearer ${key}` } });
    await settling.promise;
    const over = Date.now();
    expect(exporter.getFinishedSpans()).toEqual([]);
    await expect.poll(() => Date.now()).toBeGreaterThan(over + 20);
    store.go.resolve();
    const server = only(await spansOf(2), SpanKind.SERVER);
    expect(server.attributes['ccr.charged_usd']).toBe(0.000045);
    expect(milliseconds(server.endTime)).toBeLessThan(over + 5);
  });

  it('have the charge also where it was settled before the response was over', async () => {
    const order: string[] = [];
    gateway = await startGateway({
      hooks: [
        openTelemetryHooks({ tracer }),
        { onSettled: () => order.push('settled'), onResponse: () => order.push('response') },
      ],
      // What is free needs no account, and so no answer of the store.
      authenticate: () => ({ account: 'nobody' }),
      models: { 'acme/fast': { targets: ['loopback/upstream-model'], pricing: 'free' } },
    });
    await gateway.post(QUESTION);
    const server = only(await spansOf(2), SpanKind.SERVER);
    expect(order).toEqual(['settled', 'response']);
    expect(server.attributes).toMatchObject({ 'ccr.charged_usd': 0, 'ccr.usage_source': 'upstream' });
  });

  it('say whether a conversation stayed where it was served', async () => {
    gateway = await startGateway({
      hooks: [openTelemetryHooks({ tracer })],
      sticky: { by: ['prompt_cache_key'] },
      models: { 'acme/fast': { targets: ['loopback/a', 'loopback/b'], pricing: 'free' } },
    });
    for (const result of ['new', 'kept']) {
      exporter.reset();
      await (await gateway.post({ ...QUESTION, prompt_cache_key: 'k1' })).text();
      const server = only(await spansOf(2), SpanKind.SERVER);
      expect(server.attributes).toMatchObject({ 'ccr.sticky': result });
    }
  });

  it('do not wait for a charge for ever', async () => {
    const store = new LateStore();
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer, chargeWaitMs: 30 })], store });
    const { key } = await gateway.router.keys.create({ account: 'acct', name: 'late' });
    await gateway.router.credits.grant('acct', '5.00', { id: 'late' });
    await gateway.post(QUESTION, { headers: { authorization: `Bearer ${key}` } });
    const server = only(await spansOf(2), SpanKind.SERVER);
    expect(server.attributes).toMatchObject({ 'ccr.ending': 'finished' });
    expect(server.attributes).not.toHaveProperty('ccr.charged_usd');
    store.go.resolve();
  });

  it('have one client span for each attempt of a failover', async () => {
    const two = await startTwoTargets({ hooks: [openTelemetryHooks({ tracer })] });
    ({ gateway } = two);
    two.primary.answer(refuse(503));
    await two.hear();
    const spans = await spansOf(3);
    const clients = spans.filter(({ kind }) => kind === SpanKind.CLIENT);
    expect(clients.map(({ name }) => name)).toEqual(['chat main-model', 'chat other-model']);
    expect(clients.map(({ status }) => status.code)).toEqual([SpanStatusCode.ERROR, SpanStatusCode.UNSET]);
    expect(clients[0]?.attributes).toMatchObject({ 'error.type': '503', 'http.response.status_code': 503 });
    expect(clients[0]?.attributes).not.toHaveProperty('gen_ai.usage.input_tokens');
    expect(clients[1]?.attributes).toMatchObject({ 'gen_ai.usage.output_tokens': 60 });
    const server = only(spans, SpanKind.SERVER);
    expect(clients.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
      server.spanContext().spanId,
      server.spanContext().spanId,
    ]);
    await Promise.all([two.primary.close(), two.fallback.close()]);
  });

  it('tell of a stream when its first chunk came', async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })] });
    gateway.provider.script = answerStream(STREAM, 10);
    await (await gateway.post({ ...QUESTION, stream: true })).text();
    const client = only(await spansOf(2), SpanKind.CLIENT);
    expect(client.attributes['gen_ai.request.stream']).toBe(true);
    const firstChunk = Number(client.attributes['gen_ai.response.time_to_first_chunk']);
    expect(firstChunk).toBeGreaterThanOrEqual(0);
    expect(firstChunk).toBeLessThan(milliseconds(client.duration) / 1000);
  });

  it('are an error where a stream was cut', async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })] });
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'), () => response.destroy());
    };
    await (await gateway.post({ ...QUESTION, stream: true })).text();
    for (const span of await spansOf(2)) {
      expect(span.status.code).toBe(SpanStatusCode.ERROR);
      expect(span.attributes).toMatchObject({
        'error.type': 'upstream_cut',
        'http.response.status_code': 200,
      });
    }
  });

  it('are no error where the client left', async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })] });
    gateway.provider.script = () => {};
    const controller = new AbortController();
    const arrived = gateway.provider.next();
    gateway.post(QUESTION, { signal: controller.signal }).catch(() => {});
    await arrived;
    controller.abort();
    const spans = await spansOf(2);
    for (const span of spans) expect(span.status.code).toBe(SpanStatusCode.UNSET);
    expect(only(spans, SpanKind.SERVER).attributes).toMatchObject({
      'http.response.status_code': 499,
      'ccr.ending': 'client_gone',
    });
  });

  it('tell of a refusal by its code, as no fault of the server', async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })] });
    await gateway.fetch('/models?key=sk-hidden', { headers: { authorization: 'Bearer sk-none' } });
    const [span] = await spansOf(1);
    expect(span?.name).toBe('GET /models');
    expect(span?.attributes).toEqual({
      'http.request.method': 'GET',
      'http.route': '/models',
      'http.response.status_code': 401,
      'url.path': '/v1/models',
      'error.type': 'invalid_api_key',
      'ccr.request_id': span?.attributes['ccr.request_id'],
    });
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
  });

  it("stand below the host's own span of the request", async () => {
    const underSpan: Mount = (router: ChatCompletionsRouter) =>
      listen(
        http.createServer((request, response) => {
          tracer.startActiveSpan('host', { kind: SpanKind.SERVER }, (span) => {
            response.once('close', () => {
              span.end();
            });
            void router(request, response);
          });
        }),
        '/v1',
      );
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })] }, underSpan);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await gateway.post(QUESTION, { headers: { traceparent } });
    const spans = await spansOf(3);
    const host = only(spans, SpanKind.SERVER);
    const own = only(spans, SpanKind.INTERNAL);
    expect(own.parentSpanContext?.spanId).toBe(host.spanContext().spanId);
    expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
    expect(host.spanContext().traceId).not.toBe('0af7651916cd43dd8448eb211c80319c');
  });

  it("go on with the client's trace where the host has none", async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })] });
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await gateway.post(QUESTION, { headers: { traceparent } });
    const server = only(await spansOf(2), SpanKind.SERVER);
    expect(server.spanContext().traceId).toBe('0af7651916cd43dd8448eb211c80319c');
    expect(server.parentSpanContext).toMatchObject({ spanId: 'b7ad6b7169203331', isRemote: true });
    expect(gateway.provider.received[0]?.headers).not.toHaveProperty('traceparent');
  });

  it('are sent to the provider with `propagate`, one for each attempt, and no baggage', async () => {
    const withBaggage: Mount = (router: ChatCompletionsRouter) =>
      listen(
        http.createServer((request, response) => {
          const baggage = propagation.createBaggage({ customer: { value: 'acme' } });
          context.with(
            propagation.setBaggage(context.active(), baggage),
            () => void router(request, response),
          );
        }),
        '/v1',
      );
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer, propagate: true })] }, withBaggage);
    gateway.provider.script = (response, request) => {
      const first = gateway.provider.received.length === 1;
      const script = first ? answerJson('{}', 503, { 'retry-after-ms': '1' }) : answerJson(completionBody());
      return script(response, request);
    };
    await gateway.post(QUESTION);
    const spans = await spansOf(3);
    const clients = spans.filter(({ kind }) => kind === SpanKind.CLIENT);
    const told = gateway.provider.received.map(({ headers }) => headers['traceparent']);
    expect(told).toEqual(
      clients.map((span) => `00-${span.spanContext().traceId}-${span.spanContext().spanId}-01`),
    );
    expect(new Set(told).size).toBe(2);
    expect(gateway.provider.received[0]?.headers).not.toHaveProperty('baggage');
    const server = only(spans, SpanKind.SERVER);
    for (const client of clients) {
      expect(client.parentSpanContext?.spanId).toBe(server.spanContext().spanId);
    }
    expect(clients[1]?.attributes).toMatchObject({ 'gen_ai.usage.output_tokens': 12 });
  });

  it('hold no key, no prompt and no answer', async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer, propagate: true })] });
    await gateway.post(QUESTION);
    const all = JSON.stringify(
      (await spansOf(2)).map(({ name, attributes, events }) => [name, attributes, events]),
    );
    expect(all).not.toMatch(/sk-|hello/i);
  });

  it('need no SDK: without one nothing is recorded', async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks()] });
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });
});

/** A store that posts no charge until it is told to go on. */
class LateStore extends MemoryStore {
  readonly settling = Promise.withResolvers<void>();
  readonly go = Promise.withResolvers<void>();

  override async settle(
    ...given: Parameters<MemoryStore['settle']>
  ): Promise<Awaited<ReturnType<MemoryStore['settle']>>> {
    this.settling.resolve();
    await this.go.promise;
    return super.settle(...given);
  }
}

describe('metrics of OpenTelemetry', () => {
  const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({
    exporter: metricExporter,
    exportIntervalMillis: 600_000,
  });
  const provider = new MeterProvider({ readers: [reader] });

  afterAll(() => provider.shutdown());

  /** Name → unit and points. */
  async function read(
    scope = 'test',
  ): Promise<Map<string, { readonly unit: string; readonly points: DataPoint<unknown>[] }>> {
    metricExporter.reset();
    await reader.forceFlush();
    const metrics = metricExporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.filter((s) => s.scope.name === scope))
      .flatMap(({ metrics: ofScope }) => ofScope);
    return new Map(
      metrics.map((metric) => [
        metric.descriptor.name,
        { unit: metric.descriptor.unit, points: metric.dataPoints },
      ]),
    );
  }

  it('count the models of a wildcard as one: clients choose their names', async () => {
    const models = { 'acme/*': { targets: ['loopback/up-*'], pricing: PRICING, maxOutputTokens: 1000 } };
    gateway = await startGateway({
      hooks: [openTelemetryHooks({ tracer, meter: provider.getMeter('stars') })],
      models,
    });
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, model: 'acme/one' });
    await settled;
    const labels = [...(await read('stars')).values()].flatMap(({ points }) =>
      points.flatMap(({ attributes }) => [attributes['ccr.model'], attributes['gen_ai.request.model']]),
    );
    expect(new Set(labels)).toEqual(new Set([undefined, 'acme/*', 'up-*']));
  });

  it('count turns that stayed where their conversation was, and waits in line by their ends', async () => {
    gateway = await startGateway({
      hooks: [openTelemetryHooks({ tracer, meter: provider.getMeter('routing') })],
      sticky: { by: ['prefix'] },
      provider: { limits: { requestsPerMinute: 2 } },
      models: {
        'acme/fast': {
          targets: ['loopback/m', 'loopback/n'],
          wait: { upToMs: 1 },
          pricing: PRICING,
          maxOutputTokens: 1000,
        },
      },
    });
    for (const status of [200, 200, 429]) expect((await gateway.post(QUESTION)).status).toBe(status);
    const labels = { 'ccr.model': 'acme/fast' };
    const target = { ...labels, 'gen_ai.provider.name': 'loopback' };
    await expect
      .poll(async () => (await read('routing')).get('ccr.wait.duration')?.points)
      .toMatchObject([{ attributes: { ...labels, 'ccr.wait_outcome': 'timed_out' }, value: { count: 1 } }]);
    expect((await read('routing')).get('ccr.request.sticky')?.points).toMatchObject([
      { attributes: { ...target, 'ccr.sticky': 'new' }, value: 1 },
      { attributes: { ...target, 'ccr.sticky': 'kept' }, value: 1 },
    ]);
  });

  it('show a target that two routers have once, in its worst state, and none of a router that is closed', async () => {
    // A cumulative reader repeats what it read before.
    const exporter = new InMemoryMetricExporter(AggregationTemporality.DELTA);
    const own = new MeterProvider({
      readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 600_000 })],
    });
    const hooks = openTelemetryHooks({ tracer, meter: own.getMeter('test') });
    gateway = await startGateway({ hooks: [hooks] });
    const other = await startGateway({ hooks: [hooks] });
    for (const each of [gateway, other]) await each.post(QUESTION);
    await gateway.router.providers.eject('loopback', { reason: 'test' });
    const points = async (): Promise<unknown[] | undefined> => {
      exporter.reset();
      await own.forceFlush();
      const read = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics[0]?.metrics ?? []);
      const up = read.find(({ descriptor }) => descriptor.name === 'ccr.target.up');
      return up?.dataPoints.map(({ value }) => value);
    };
    expect(await points()).toEqual([0]);
    await gateway.close();
    expect(await points()).toEqual([1]);
    await other.close();
    expect(await points()).toBeUndefined();
    await own.shutdown();
  });

  it('are those of the GenAI conventions, and of the money and the ledger', async () => {
    const hooks = openTelemetryHooks({ tracer, meter: provider.getMeter('test') });
    const two = await startTwoTargets({ hooks: [hooks], health: { failures: 1 } });
    ({ gateway } = two);
    two.primary.answer(refuse(503));
    await two.hear();
    await gateway.store.freeze('acct', true);
    await gateway.post(QUESTION);
    await gateway.store.freeze('acct', false);
    const metrics = await read();
    const at = (name: string) => metrics.get(name)?.points;
    const fallback = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'fallback',
      'gen_ai.request.model': 'other-model',
    };
    expect(metrics.get('gen_ai.client.operation.duration')?.unit).toBe('s');
    expect(at('gen_ai.client.operation.duration')).toMatchObject([
      { attributes: { 'gen_ai.provider.name': 'primary', 'error.type': '503' }, value: { count: 1 } },
      { attributes: fallback, value: { count: 1 } },
    ]);
    expect(at('gen_ai.client.token.usage')).toMatchObject([
      { attributes: { ...fallback, 'gen_ai.token.type': 'input' }, value: { sum: 9 } },
      { attributes: { ...fallback, 'gen_ai.token.type': 'output' }, value: { sum: 60 } },
    ]);
    expect(at('gen_ai.server.time_to_first_token')).toMatchObject([
      { attributes: fallback, value: { count: 1 } },
    ]);
    expect(at('ccr.request.duration')).toMatchObject([
      { attributes: { 'ccr.endpoint': 'completions', 'http.response.status_code': 200 } },
      { attributes: { 'http.response.status_code': 403, 'error.type': 'account_frozen' } },
    ]);
    expect(at('ccr.request.active')).toMatchObject([{ value: 0 }]);
    expect(at('ccr.charged')).toMatchObject([{ attributes: { 'ccr.model': 'acme/fast' }, value: 0.000378 }]);
    expect(at('ccr.written_off')).toMatchObject([{ value: 0 }]);
    expect(at('ccr.hold.settled')).toMatchObject([{ attributes: { 'ccr.voided': false }, value: 1 }]);
    expect(at('ccr.failover')).toMatchObject([
      { attributes: { 'ccr.failover.from': 'primary', 'ccr.failover.to': 'fallback' }, value: 1 },
    ]);
    expect(at('ccr.ledger.event')).toMatchObject([
      { attributes: { 'ccr.ledger.event.type': 'frozen' }, value: 1 },
    ]);
    expect(at('ccr.charge.waiting')).toMatchObject([{ value: 0 }]);
    expect(at('ccr.target.up')?.map(({ value }) => value)).toEqual([0, 1]);
    await Promise.all([two.primary.close(), two.fallback.close()]);
  });
});

describe('the tables of OpenTelemetry in the docs', () => {
  const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
  const page = read('docs/observability.md');
  const tableBelow = (heading: string): string => page.slice(page.indexOf(heading)).split('\n\n', 1)[0] ?? '';
  const names = ['spans', 'instruments', 'conventions', 'content'];
  const sources = names.map((name) => read(`src/observability/opentelemetry/${name}.ts`));
  const [spans = '', instruments = '', conventions = '', content = ''] = sources;

  it('have each attribute of a span, and no other', () => {
    const set = [...`${spans} ${conventions} ${content}`.matchAll(/'([a-z_]+(?:\.[a-z_]+)+)'\??:/g)].map(
      ([, name]) => name,
    );
    const told = [...tableBelow('| attribute ').matchAll(/`([a-z_.]+)`/g)].map(([, name]) => name);
    expect(new Set(told)).toEqual(new Set(set));
    expect(told.length).toBeGreaterThan(20);
  });

  it('have each instrument, and no other', () => {
    const made = [
      ...instruments.matchAll(/(?:histogram|counter|create\w+)\((?:\s*meter,)?\s*'([a-z_.]+)'/g),
    ].map(([, name]) => name);
    const told = [...tableBelow('| instrument ').matchAll(/^\| `([a-z_.]+)`/gm)].map(([, name]) => name);
    expect(new Set(told)).toEqual(new Set(made));
    expect(made.length).toBeGreaterThan(10);
  });
});

describe('options of OpenTelemetry', () => {
  it.each([
    [{ propagate: 'yes' as never }, 'propagate must be a boolean, got yes'],
    [{ chargeWaitMs: 0 }, 'chargeWaitMs must be a number of milliseconds, got 0'],
  ])('that can not be right are refused: %j', async (options, message) => {
    gateway = await startGateway();
    expect(() => openTelemetryHooks(options)).toThrow(new TypeError(message));
  });
});
