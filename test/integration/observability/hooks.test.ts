import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Hooks, ResponseEnded, RouterGauges } from '../../../src/index.ts';
import { error as refuse } from '../../../src/testing.ts';
import { startTwoTargets } from '../faults/two-targets.ts';
import { type Gateway, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  STREAM,
  text,
} from '../../helpers/provider.ts';
import { collectTold, type Told } from '../../helpers/told.ts';

describe('onRequest and onResponse', () => {
  let told: Told;
  let gateway: Gateway;

  beforeEach(async () => {
    told = collectTold();
    gateway = await startGateway({ hooks: [told.hooks], maxBodyBytes: 10_000, retries: false });
  });

  afterEach(async () => {
    await gateway.close();
  });

  /** Asks, and resolves with what the hooks heard of that; the response was read to its end. */
  async function ask(path: string, init?: RequestInit): Promise<ResponseEnded> {
    const next = told.next();
    const response = await gateway.fetch(path, init);
    await response.text();
    const ended = await next;
    expect(ended.requestId).toBe(response.headers.get('x-request-id'));
    expect(ended.status).toBe(response.status);
    return ended;
  }

  function complete(fields: Record<string, unknown> = {}, init: RequestInit = {}): Promise<ResponseEnded> {
    const body = JSON.stringify({ ...QUESTION, ...fields });
    return ask('/chat/completions', { method: 'POST', body, ...init });
  }

  it('tell of a completion who asked for what, who answered, and how it ended', async () => {
    gateway.provider.script = answerJson(completionBody(), 200, { 'x-request-id': 'req_77' });
    const ended = await complete();
    expect(told.started).toEqual([
      {
        requestId: ended.requestId,
        endpoint: 'completions',
        method: 'POST',
        path: '/v1/chat/completions',
        startedAt: ended.startedAt,
      },
    ]);
    const { port } = new URL(gateway.provider.baseURL);
    const [key] = await gateway.router.keys.list('acct');
    const { startedAt, durationMs, firstByteMs, attempts, ...rest } = ended;
    expect(rest).toEqual({
      requestId: ended.requestId,
      endpoint: 'completions',
      method: 'POST',
      path: '/v1/chat/completions',
      status: 200,
      account: 'acct',
      key: key?.id,
      model: 'acme/fast',
      provider: 'loopback',
      upstreamModel: 'upstream-model',
      upstreamRequestId: 'req_77',
      stream: false,
      ending: 'finished',
      finishReason: 'stop',
      admitted: true,
    });
    expect(Math.abs(Date.now() - startedAt)).toBeLessThan(10_000);
    expect(firstByteMs).toBeGreaterThan(0);
    expect(durationMs).toBeGreaterThanOrEqual(firstByteMs ?? Infinity);
    expect(attempts).toEqual([
      {
        provider: 'loopback',
        model: 'upstream-model',
        host: '127.0.0.1',
        port: Number(port),
        startedAt: attempts[0]?.startedAt,
        status: 200,
        upstreamRequestId: 'req_77',
        durationMs: attempts[0]?.durationMs,
      },
    ]);
    expect(attempts[0]?.durationMs).toBeLessThanOrEqual(durationMs);
  });

  it('tell of a stream that it was one, and when its first byte came', async () => {
    gateway.provider.script = answerStream(STREAM, 20);
    const ended = await complete({ stream: true });
    expect(ended).toMatchObject({ status: 200, stream: true, ending: 'finished', finishReason: 'stop' });
    // Six events, 20 ms before each.
    expect(ended.durationMs - (ended.firstByteMs ?? 0)).toBeGreaterThan(60);
  });

  it.each([
    ['/models', 'models', 200, undefined],
    ['/models/acme/fast', 'model', 200, undefined],
    ['/models/acme/slow', 'model', 404, 'model_not_found'],
    ['/credits', 'credits', 200, undefined],
    ['/embeddings?key=sk-hidden', undefined, 404, 'unknown_endpoint'],
    ['/chat/completions', 'completions', 405, 'method_not_allowed'],
  ] as const)('tell of GET %s', async (path, endpoint, expected, errorCode) => {
    const ended = await ask(path);
    expect(ended).toMatchObject({
      endpoint,
      method: 'GET',
      status: expected,
      account: 'acct',
      admitted: false,
    });
    expect(ended.errorCode).toBe(errorCode);
    expect(ended.path).toBe(`/v1${path.replace(/\?.*/, '')}`);
    expect(told.ended).toHaveLength(1);
  });

  it('tell of OPTIONS, which needs no key', async () => {
    expect(await ask('/models', { method: 'OPTIONS' })).toMatchObject({ method: 'OPTIONS', status: 204 });
  });

  it('report no account of an unauthenticated client, and which endpoint it wanted', async () => {
    const ended = await complete({}, { headers: { authorization: 'Bearer sk-ccr-wrong' } });
    expect(ended).toMatchObject({ endpoint: 'completions', status: 401, errorCode: 'invalid_api_key' });
    expect(ended).not.toHaveProperty('account');
    expect(ended).not.toHaveProperty('model');
  });

  it('tell of a model that there is not only that there is none', async () => {
    const ended = await complete({ model: 'acme/slow' });
    expect(ended).toMatchObject({ status: 404, errorCode: 'model_not_found', attempts: [] });
    expect(ended).not.toHaveProperty('model');
  });

  it('tell of a body that is too large', async () => {
    const ended = await complete({ messages: [{ role: 'user', content: 'x'.repeat(10_000) }] });
    expect(ended).toMatchObject({ status: 413, errorCode: 'request_too_large', account: 'acct' });
  });

  it('tell of credits that were not enough', async () => {
    await gateway.router.credits.adjust('acct', '-5.00', { id: 'all', reason: 'test' });
    const ended = await complete();
    expect(ended).toMatchObject({
      status: 402,
      errorCode: 'insufficient_credits',
      model: 'acme/fast',
      admitted: false,
      attempts: [],
    });
    expect(ended).not.toHaveProperty('ending');
  });

  it('tell of a limit of the key', async () => {
    const { key } = await gateway.router.keys.create({ account: 'acct', name: 'slow', requestsPerMinute: 1 });
    const init = { headers: { authorization: `Bearer ${key}` } };
    expect(await complete({}, init)).toMatchObject({ status: 200, admitted: true });
    const refused = { status: 429, errorCode: 'requests_per_minute_exceeded', admitted: false, attempts: [] };
    expect(await complete({}, init)).toMatchObject(refused);
  });

  it("tell of a provider's refusal with its status, and no code of the router's", async () => {
    gateway.provider.script = answerJson('{"error":{"message":"slow down"}}', 429);
    const ended = await complete();
    expect(ended).toMatchObject({ status: 429, provider: 'loopback', ending: 'finished', admitted: true });
    expect(ended.attempts).toMatchObject([{ status: 429 }]);
    expect(ended).not.toHaveProperty('errorCode');
  });

  it('tell of a provider that refused our own key with its status there and ours here', async () => {
    gateway.provider.script = answerJson('{}', 401, { 'x-request-id': 'req_78' });
    const ended = await complete();
    expect(ended).toMatchObject({
      status: 502,
      errorCode: 'upstream_refused_credentials',
      upstreamRequestId: 'req_78',
      ending: 'upstream_error',
    });
    expect(ended.attempts).toMatchObject([{ status: 401, errorCode: 'upstream_refused_credentials' }]);
  });

  it('tell of a stream that its provider cut', async () => {
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'), () => response.destroy());
    };
    const ended = await complete({ stream: true });
    expect(ended).toMatchObject({ status: 200, errorCode: 'upstream_cut', ending: 'upstream_cut' });
    expect(ended.attempts).toMatchObject([{ status: 200, errorCode: 'upstream_cut' }]);
  });

  it('tell of a client that left before there was an answer', async () => {
    gateway.provider.script = () => {};
    const controller = new AbortController();
    const next = told.next();
    const arrived = gateway.provider.next();
    const asked = gateway.post(QUESTION, { signal: controller.signal });
    asked.catch(() => {});
    await arrived;
    controller.abort();
    const ended = await next;
    expect(ended).toMatchObject({ status: 499, ending: 'client_gone', admitted: true });
    expect(ended.attempts).toMatchObject([{ errorCode: 'client_gone' }]);
    expect(ended).not.toHaveProperty('errorCode');
    expect(told.ended).toHaveLength(1);
  });

  it('tell of a client that left in the middle of its stream', async () => {
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    const controller = new AbortController();
    const next = told.next();
    const response = await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal });
    await response.body?.getReader().read();
    controller.abort();
    expect(await next).toMatchObject({ status: 200, ending: 'client_gone', attempts: [{ status: 200 }] });
  });

  it('tell of a client that left before its body was there', async () => {
    const next = told.next();
    const controller = new AbortController();
    const body = new ReadableStream({
      start: (stream) => {
        stream.enqueue(Buffer.from('{"model":'));
      },
    });
    const init = { method: 'POST', body, duplex: 'half', signal: controller.signal };
    const asked = gateway.fetch('/chat/completions', init as RequestInit);
    asked.catch(() => {});
    await expect.poll(() => told.started).toHaveLength(1);
    controller.abort();
    const ended = await next;
    expect(ended).toMatchObject({ status: 499, account: 'acct', attempts: [] });
    expect(ended).not.toHaveProperty('ending');
  });

  it('tell of a request that came when the router was closed', async () => {
    await gateway.router.close();
    expect(await ask('/models')).toMatchObject({ status: 503, errorCode: 'router_closing' });
  });

  it("note a client's own request id and trace beside ours", async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headers = { 'x-request-id': 'mine-1', traceparent, tracestate: 'vendor=1' };
    const ended = await ask('/models', { headers });
    expect(ended).toMatchObject({ clientRequestId: 'mine-1', traceparent, tracestate: 'vendor=1' });
    expect(ended.requestId).not.toBe('mine-1');
    expect(told.started[0]).toMatchObject({ clientRequestId: 'mine-1', traceparent });
  });

  it.each([
    ['is too long', { 'x-request-id': 'x'.repeat(129) }],
    ['has blanks', { 'x-request-id': 'a b' }],
    ['could break a log', { 'x-request-id': '"},{"' }],
    ['is no trace', { traceparent: '00-xyz-01' }],
  ])('note nothing of a header of the client that %s', async (_fault, headers) => {
    const ended = await ask('/models', { headers });
    expect(ended).not.toHaveProperty('clientRequestId');
    expect(ended).not.toHaveProperty('traceparent');
  });

  it('show no key, no prompt and no answer', async () => {
    gateway.provider.script = answerJson(completionBody(), 200, { 'x-request-id': `of-${PROVIDER_KEY}` });
    await complete();
    gateway.provider.script = answerJson(JSON.stringify({ error: { message: PROVIDER_KEY } }), 401);
    await complete();
    const all = JSON.stringify([told, gateway.settled, gateway.errors.map((error) => ({ ...error }))]);
    expect(told.ended).toHaveLength(2);
    expect(all).not.toContain('sk-');
    expect(all).not.toContain('hello');
    expect(all).not.toContain('Hello');
  });
});

describe('attempts of a failover', () => {
  it('are called in their order, each with what came of it', async () => {
    const told = collectTold();
    const two = await startTwoTargets({ hooks: [told.hooks] });
    two.primary.answer(refuse(503));
    const next = told.next();
    await two.hear();
    const ended = await next;
    expect(ended).toMatchObject({ provider: 'fallback', upstreamModel: 'other-model', status: 200 });
    expect(ended.attempts).toMatchObject([
      { provider: 'primary', model: 'main-model', status: 503 },
      { provider: 'fallback', model: 'other-model', status: 200 },
    ]);
    expect(ended.attempts[1]?.startedAt).toBeGreaterThanOrEqual(ended.attempts[0]?.startedAt ?? Infinity);
    await two.close();
  });
});

describe('several hooks', () => {
  it('are each told, whatever the others do', async () => {
    const error = vi.spyOn(console, 'error').mockImplementation(() => {});
    const told = collectTold();
    const broken: Hooks = {
      onRequest: () => {
        throw new Error('boom');
      },
      onResponse: () => Promise.reject(new Error('boom')),
      onSettled: () => {
        throw new Error('boom');
      },
      upstreamHeaders: () => {
        throw new Error('boom');
      },
    };
    const gateway = await startGateway({ hooks: [broken, told.hooks] });
    const settled = gateway.nextSettled();
    const next = told.next();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect((await next).status).toBe(200);
    expect((await settled).charged).toBe('0.000045');
    expect(told.started).toHaveLength(1);
    await expect.poll(() => error.mock.calls).toHaveLength(4);
    await gateway.close();
    error.mockRestore();
  });

  it('get the event alone, so that any function may be one', async () => {
    const heard: string[] = [];
    const note =
      (name: string) =>
      (...args: readonly unknown[]): void => {
        heard.push(`${name} ${args.length}`);
      };
    const hooks: Hooks = {
      onRequest: note('request'),
      onResponse: note('response'),
      onSettled: note('settled'),
      onRouter: note('router'),
    };
    const gateway = await startGateway({ hooks: [hooks] });
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await settled;
    await expect.poll(() => heard.toSorted()).toEqual(['request 1', 'response 1', 'router 1', 'settled 1']);
    await gateway.close();
  });

  it('that only measure leave what they do not read to stderr', async () => {
    const error = vi.spyOn(console, 'error').mockImplementation(() => {});
    const counted: Error[] = [];
    const measuring: Hooks = { keepsDefaultLog: true, onError: (failure) => counted.push(failure) };
    const gateway = await startGateway({ hooks: { ...measuring } });
    gateway.provider.script = answerJson('{}', 401);
    await gateway.post(QUESTION);
    await gateway.close();
    expect(counted).toHaveLength(1);
    expect(error).toHaveBeenCalledTimes(1);
    error.mockRestore();
  });
});

describe('upstreamHeaders', () => {
  it("adds headers to what goes to the provider, and replaces none of the router's", async () => {
    const asked: unknown[] = [];
    const gateway = await startGateway({
      hooks: [
        {
          upstreamHeaders: (attempt) => {
            asked.push(attempt);
            return {
              TraceParent: '00-1-2-01',
              authorization: 'Bearer other',
              'content-length': '1',
              'transfer-encoding': 'chunked',
              'bad name': 'x',
              'x-bad': 'a\nb',
              'x-number': 1 as never,
            };
          },
        },
      ],
    });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(200);
    const { headers } = gateway.provider.received[0] ?? {};
    expect(headers).toMatchObject({ traceparent: '00-1-2-01', authorization: `Bearer ${PROVIDER_KEY}` });
    expect(headers).not.toHaveProperty('transfer-encoding');
    expect(headers).not.toHaveProperty('x-bad');
    expect(headers).not.toHaveProperty('x-number');
    expect(asked).toMatchObject([
      {
        requestId: response.headers.get('x-request-id'),
        index: 0,
        provider: 'loopback',
        model: 'upstream-model',
      },
    ]);
    await gateway.close();
  });
});

describe('upstreamHeaders that', () => {
  it.each<[string, unknown]>([
    ['is async and fails', () => Promise.reject(new Error('boom'))],
    ['returns no object', () => 'x-name: x'],
    [
      'gives what can not be read',
      () => ({
        get name(): never {
          throw new Error('boom');
        },
      }),
    ],
  ])('%s adds nothing, and breaks no request', async (_fault, upstreamHeaders) => {
    const error = vi.spyOn(console, 'error').mockImplementation(() => {});
    const gateway = await startGateway({ hooks: [{ upstreamHeaders: upstreamHeaders as never }] });
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(Object.keys(gateway.provider.received[0]?.headers ?? {}).sort()).toEqual([
      'accept',
      'accept-encoding',
      'authorization',
      'connection',
      'content-length',
      'content-type',
      'host',
      'user-agent',
    ]);
    await gateway.close();
    error.mockRestore();
  });
});

describe('onRouter', () => {
  it('gives gauges that can be read at any time', async () => {
    let gauges: RouterGauges | undefined;
    const gateway = await startGateway({ hooks: [{ onRouter: (given) => (gauges = given) }] });
    expect(gauges?.health()).toEqual([]);
    expect(gauges?.waitingCharges()).toBe(0);
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    await settled;
    expect(gauges?.health()).toMatchObject([{ provider: 'loopback', state: 'healthy' }]);
    await gateway.close();
  });
});
