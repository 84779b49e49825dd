import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import type { ChatCompletionsRouterOptions, HealthChange, ModelOptions } from '../../../src/index.ts';
import {
  type Gateway,
  type Mount,
  PRICING,
  PROVIDER_KEY,
  QUESTION,
  startGateway,
} from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  event,
  type Provider,
  type Script,
  startProvider,
  STREAM,
  text,
} from '../../helpers/provider.ts';
import { noticing } from '../../helpers/noticed.ts';

const STREAMED = { ...QUESTION, stream: true as const, stream_options: { include_usage: true } };
const OK = answerJson(completionBody());
const BUSY = answerJson('{"error":{"message":"busy","type":"server_error","param":null,"code":null}}', 503);

let gateway: Gateway;
let second: Provider;
let others: Provider[];
let changes: HealthChange[];

beforeEach(async () => {
  second = await startProvider(OK);
  others = [second];
  changes = [];
});

afterEach(async () => {
  await gateway.close();
  for (const provider of others) await provider.close();
});

/** Moves the clock that cool-downs are measured by. */
function letPass(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
  onTestFinished(() => void vi.useRealTimers());
}

/** A gateway with one model at two providers, the second of which costs twice as much. */
async function start(
  options: Partial<ChatCompletionsRouterOptions> = {},
  model: Partial<ModelOptions> = {},
  mount?: Mount,
): Promise<Provider> {
  const first = await startProvider(OK);
  const gatewayOptions = {
    providers: {
      first: { baseURL: first.baseURL, apiKey: PROVIDER_KEY },
      second: { baseURL: second.baseURL, apiKey: 'sk-other-secret' },
    },
    models: {
      'acme/fast': {
        targets: [
          'first/upstream-model',
          { provider: 'second', model: 'other-model', pricing: { input: '2', output: '6' } },
        ],
        pricing: PRICING,
        contextWindow: 8192,
        maxOutputTokens: 1000,
        ...model,
      },
    },
    ...options,
    hooks: { onHealthChange: (change: HealthChange) => changes.push(change), ...options.hooks },
  };
  gateway = await startGateway(gatewayOptions, mount);
  others.push(first);
  return first;
}

async function post(body: unknown = QUESTION): Promise<Response> {
  const response = await gateway.post(body);
  expect(response.headers.get('x-request-id')).toBeTruthy();
  return response;
}

describe('when the first target fails before its answer began', () => {
  it.each<[string, Script]>([
    ['answers 500', answerJson('{}', 500)],
    ['answers 503', BUSY],
    ['answers 429', answerJson('{}', 429, { 'retry-after': '30' })],
    ['answers 408', answerJson('{}', 408)],
    ['does not know the model', answerJson('{}', 404)],
    ['refuses our key', answerJson('{}', 401)],
    ['refuses our account', answerJson('{}', 402)],
    ['refuses our key with a 400', answerJson('{"error":{"type":"no_db_connection"}}', 400)],
    ['redirects', (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
    ['resets the connection', (response) => response.socket?.resetAndDestroy()],
    ['closes the connection', (response) => response.socket?.end()],
    ['answers an error that never ends', (response) => response.writeHead(500).write('…')],
  ])('the second answers: the first %s', async (_, script) => {
    const first = await start();
    first.script = script;
    const settled = gatewaySettled();
    const response = await post();
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(completionBody());
    expect(first.received).toHaveLength(1);
    expect(second.received).toHaveLength(1);
    expect(JSON.parse(second.received[0]!.body.toString())).toEqual({ ...QUESTION, model: 'other-model' });
    expect(second.received[0]!.headers.authorization).toBe('Bearer sk-other-secret');
    // 9 x 2,000 + 12 x 6,000 nano-dollars: only the attempt that delivered, at its own price.
    expect(await settled).toMatchObject({
      charged: '0.00009',
      provider: 'second',
      upstreamModel: 'other-model',
    });
  });

  it('the second answers when no server listens at the first', async () => {
    const first = await start();
    await first.close();
    others = [second];
    expect((await post()).status).toBe(200);
  });

  it('the second answers when the first is not HTTP', async () => {
    const server = createServer((socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await start({
      providers: {
        first: { baseURL: `http://127.0.0.1:${port}/v1` },
        second: { baseURL: second.baseURL },
      },
    });
    expect((await post()).status).toBe(200);
    server.close();
  });

  it('the second answers when the first is silent for longer than it may be', async () => {
    const first = await start({ timeouts: { firstByteMs: 100 } });
    first.script = () => {};
    const settled = gatewaySettled();
    expect((await post()).status).toBe(200);
    expect(first.received).toHaveLength(1);
    expect(await settled).toMatchObject({ charged: '0.00009' });
  });

  it('and so does the second, what the last one said is the answer', async () => {
    const first = await start({ retries: { perTarget: 0 } });
    first.script = answerJson('{"error":{"message":"first"}}', 500);
    second.script = answerJson('{"error":{"message":"second"}}', 529, { 'retry-after': '7' });
    const settled = gatewaySettled();
    const response = await post();
    expect(response.status).toBe(529);
    expect(response.headers.get('retry-after')).toBe('7');
    expect(await response.text()).toBe('{"error":{"message":"second"}}');
    expect(await settled).toMatchObject({ charged: '0.00', voided: true });
  });

  it('nothing else is asked where the request itself was refused', async () => {
    const first = await start();
    const refusal = '{"error":{"message":"max_tokens is too large","code":"invalid_value"}}';
    first.script = answerJson(refusal, 400);
    const response = await post();
    expect(response.status).toBe(400);
    expect(await response.text()).toBe(refusal);
    expect(second.received).toHaveLength(0);
  });

  it.each([
    ['OpenAI', 400, '"code":"context_length_exceeded"'],
    [
      'vLLM',
      400,
      '"message":"This model\'s maximum context length is 8192 tokens. However, you requested 9000."',
    ],
    ['OpenRouter', 400, '"message":"This endpoint\'s maximum context length is 8192 tokens."'],
    ['Anthropic', 400, '"message":"prompt is too long: 205000 tokens > 200000 maximum"'],
    [
      'Gemini',
      400,
      '"message":"The input token count (1048577) exceeds the maximum number of tokens allowed"',
    ],
    ['llama.cpp', 400, '"type":"exceed_context_size_error"'],
  ])(
    'the second is asked where the prompt is too long for the first, as %s says it',
    async (_, status, said) => {
      const first = await start({ health: { failures: 1 } });
      first.script = answerJson(`{"error":{${said}}}`, status);
      const settled = gatewaySettled();
      expect((await post()).status).toBe(200);
      expect([first.received.length, second.received.length]).toEqual([1, 1]);
      expect(await settled).toMatchObject({ charged: '0.00009' });
      expect(changes).toEqual([]);
    },
  );

  it('a prompt that is too long for all is refused in the words of the last', async () => {
    const first = await start();
    first.script = answerJson('{"error":{"code":"context_length_exceeded","message":"8192"}}', 400);
    second.script = answerJson('{"error":{"code":"context_length_exceeded","message":"16384"}}', 400);
    const response = await post();
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: '16384' } });
    expect([first.received.length, second.received.length]).toEqual([1, 1]);
  });

  it('the second is asked, too, where the refusal of the first is long, and was looked at before', async () => {
    const first = await start();
    const refusal = { error: { code: 'context_length_exceeded', message: '.'.repeat(100_000) } };
    first.script = answerJson(JSON.stringify(refusal), 400);
    expect((await post({ ...QUESTION, stream: true })).status).toBe(200);
    expect([first.received.length, second.received.length]).toEqual([1, 1]);
  });

  it('nothing else is asked when retries are off', async () => {
    const first = await start({ retries: false });
    first.script = BUSY;
    expect((await post()).status).toBe(503);
    expect(first.received).toHaveLength(1);
    expect(second.received).toHaveLength(0);
  });

  it('the client may leave between two targets: nothing more is sent, nothing is held', async () => {
    const clients = noticing();
    const first = await start({ retries: { perTarget: 1 } }, {}, clients.mount);
    const leaving = new AbortController();
    first.script = async (response) => {
      leaving.abort();
      await clients.left(1);
      response.writeHead(500).end();
    };
    const settled = gatewaySettled();
    await gateway.post(QUESTION, { signal: leaving.signal }).catch(() => {});
    expect((await settled).ending).toBe('client_gone');
    await gateway.router.close();
    expect(second.received).toHaveLength(0);
  });

  it('all attempts share one total time', async () => {
    const first = await start({ timeouts: { totalMs: 400 } });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    first.script = (response) => {
      vi.advanceTimersByTime(250);
      response.writeHead(500).end();
    };
    // With a time of its own the second would be waited for without an end.
    second.script = () => void vi.advanceTimersByTime(150);
    const response = await post();
    expect(response.status).toBe(504);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_total_timeout' } });
  });
});

describe('a machine whose clock is set ahead', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  /** By more than any request may take. */
  function setAhead(): void {
    const real = Date.now.bind(Date);
    vi.spyOn(Date, 'now').mockImplementation(() => real() + 7_200_000);
  }

  it('asks the provider all the same', async () => {
    gateway = await startGateway({ provider: { apiKey: () => (setAhead(), PROVIDER_KEY) } });
    expect((await post()).status).toBe(200);
  });

  it('waits for the first event all the same', async () => {
    const first = await start();
    first.script = (response, request) => (setAhead(), answerStream(STREAM, 20)(response, request));
    expect(await (await post(STREAMED)).text()).toBe(STREAM.join(''));
    expect(second.received).toHaveLength(0);
  });
});

describe('an error in place of the first event', () => {
  it.each<[string, Script]>([
    ['as data', answerStream(['data: {"error":{"message":"overloaded"}}\n\n'])],
    ['as an event', answerStream(['event: error\ndata: {"message":"overloaded"}\n\n'])],
    [
      'after a comment',
      answerStream([': processing\n\n', 'data: {"error":{"message":"overloaded"}}\n\n'], 20),
    ],
    ['as a whole JSON body', answerJson('{"error":{"message":"overloaded"}}')],
    [
      'cut off',
      (response) => (beginStream(response), setTimeout(() => response.socket?.resetAndDestroy(), 20)),
    ],
    ['as no event at all', answerStream([': processing\n\n'])],
    ['as the beginning of a JSON body', answerJson('{"choices":[{"message":')],
  ])('is answered by the second target: %s', async (_, script) => {
    const first = await start();
    first.script = script;
    second.script = answerStream(STREAM);
    const settled = gatewaySettled();
    const response = await post(STREAMED);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(STREAM.join(''));
    expect(await settled).toMatchObject({ charged: '0.00009', provider: 'second' });
  });

  it('reaches the client where no other target is left', async () => {
    const first = await start();
    first.script = BUSY;
    second.script = answerStream(['data: {"error":{"message":"overloaded"}}\n\n']);
    expect(await (await post(STREAMED)).text()).toBe('data: {"error":{"message":"overloaded"}}\n\n');
  });

  it('comes too late once the head is out', async () => {
    const first = await start({ retries: { firstEventWaitMs: 50 } });
    const { promise: isOut, resolve: tell } = Promise.withResolvers<void>();
    first.script = async (response) => {
      beginStream(response);
      await isOut;
      response.end('data: {"error":{"message":"overloaded"}}\n\n');
    };
    const response = await post(STREAMED);
    tell();
    expect(await response.text()).toBe('data: {"error":{"message":"overloaded"}}\n\n');
    expect(second.received).toHaveLength(0);
  });

  it('costs nothing, also where it was waited for after its client had left', async () => {
    const first = await startProvider();
    const clients = noticing();
    const providers = {
      first: { baseURL: first.baseURL, apiKey: PROVIDER_KEY, onDisconnect: 'drain' as const },
      second: { baseURL: second.baseURL, apiKey: 'sk-other-secret' },
    };
    await start({ providers }, {}, clients.mount);
    others.push(first);
    const leaving = new AbortController();
    first.script = async (response) => {
      beginStream(response);
      leaving.abort();
      await clients.left(1);
      response.end('data: {"error":{"message":"overloaded"}}\n\n');
    };
    const settled = gatewaySettled();
    await gateway.post(STREAMED, { signal: leaving.signal }).catch(() => {});
    expect(await settled).toMatchObject({ ending: 'client_gone', charged: '0.00', voided: true });
    expect(second.received).toHaveLength(0);
  });

  it('is over, also where its client has left before it was read', async () => {
    const first = await startProvider();
    const clients = noticing();
    const providers = {
      first: { baseURL: first.baseURL, apiKey: PROVIDER_KEY, onDisconnect: 'drain' as const },
    };
    await start({ providers, retries: false }, { targets: ['first/upstream-model'] }, clients.mount);
    others.push(first);
    const leaving = new AbortController();
    first.script = async (response, ...rest) => {
      leaving.abort();
      await clients.left(1);
      await answerJson('{}', 429, { 'retry-after': '60' })(response, ...rest);
    };
    const settled = gatewaySettled();
    await gateway.post(STREAMED, { signal: leaving.signal }).catch(() => {});
    expect(await settled).toMatchObject({ ending: 'client_gone', charged: '0.00' });
    const [status] = gateway.router.providers.list();
    expect(status?.targets).toMatchObject([{ running: 0 }]);
  });

  it('a first event that never comes is failed over while the first byte may still be waited for', async () => {
    const first = await start({ timeouts: { firstByteMs: 100 }, retries: { firstEventWaitMs: 5000 } });
    first.script = beginStream;
    second.script = answerStream(STREAM);
    expect(await (await post(STREAMED)).text()).toBe(STREAM.join(''));
  });
});

describe('a good answer of one of several targets', () => {
  it('is the same, byte for byte, as that of a single one', async () => {
    const first = await start();
    first.script = answerStream([': hello\n\n', ...STREAM]);
    const settled = gatewaySettled();
    expect(await (await post(STREAMED)).text()).toBe([': hello\n\n', ...STREAM].join(''));
    expect(await settled).toMatchObject({ charged: '0.000045', provider: 'first' });
  });

  it('is not kept back for longer than its first event', async () => {
    const first = await start();
    let rest = (): void => {};
    first.script = async (response) => {
      beginStream(response);
      response.write(STREAM[0]);
      await new Promise<void>((resolve) => (rest = resolve));
      response.end(STREAM.slice(1).join(''));
    };
    const response = await post(STREAMED);
    const reader = response.body!.getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(STREAM[0]);
    rest();
    while (!(await reader.read()).done);
  });

  it('is not asked for again after it broke: no client gets two beginnings', async () => {
    const first = await start();
    const { promise: begun, resolve: tell } = Promise.withResolvers<void>();
    first.script = async (response) => {
      beginStream(response);
      response.write(STREAM[0]! + text('Hello'));
      await begun;
      response.socket?.resetAndDestroy();
    };
    const answer = await post(STREAMED);
    tell();
    const body = await answer.text();
    expect(body).toContain('upstream_cut');
    expect(body).not.toContain('[DONE]');
    expect(second.received).toHaveLength(0);
  });

  it('that is long JSON comes whole', async () => {
    const first = await start();
    const long = completionBody({ padding: 'x'.repeat(200_000) });
    first.script = answerJson(long);
    expect(await (await post()).text()).toBe(long);
  });
});

describe('the last target that is left', () => {
  const single = { targets: ['first/upstream-model'] };

  it('is asked again after a failure that says nothing against the request', async () => {
    const first = await start({}, single);
    first.script = (response, request) => {
      first.script = OK;
      return BUSY(response, request);
    };
    const settled = gatewaySettled();
    expect((await post()).status).toBe(200);
    expect(first.received).toHaveLength(2);
    expect(await settled).toMatchObject({ charged: '0.000045' });
  });

  it('is left alone for as long as it asks to be', async () => {
    const first = await start({}, single);
    first.script = (response, request) => {
      first.script = OK;
      return answerJson('{}', 429, { 'retry-after-ms': '300' })(response, request);
    };
    const startedAt = performance.now();
    expect((await post()).status).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(295);
  });

  it('has its answer passed on when it asks for longer than we wait', async () => {
    const first = await start({}, single);
    first.script = answerJson('{}', 429, { 'retry-after': '60' });
    const response = await post();
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('60');
    expect(first.received).toHaveLength(1);
  });

  it('is asked as often as it may be, then its answer is passed on', async () => {
    const first = await start({ retries: { perTarget: 2 } }, single);
    first.script = BUSY;
    expect((await post()).status).toBe(503);
    expect(first.received).toHaveLength(3);
  });

  it('is not asked again for what may have been served: a connection that died, a silence', async () => {
    const first = await start({ timeouts: { firstByteMs: 100 } }, single);
    first.script = () => {};
    expect((await post()).status).toBe(504);
    first.script = (response) => response.socket?.resetAndDestroy();
    expect((await post()).status).toBe(502);
    expect(first.received).toHaveLength(2);
  });

  it('is not asked again by a storm of retries: one in five requests, beside a few', async () => {
    const first = await start({ health: false, retries: { perTarget: 3, maxWaitMs: 5 } }, single);
    first.script = answerJson('{}', 503, { 'retry-after-ms': '0' });
    for (let i = 0; i < 100; i++) await (await gateway.post(QUESTION)).text();
    // 50 to begin with, 0.2 a request: at most 70 retries.
    expect(first.received.length).toBeGreaterThan(150);
    expect(first.received.length).toBeLessThanOrEqual(170);
  });
});

describe('a target that keeps failing', () => {
  it('is set aside after five failures in a row, and asked no more while others are well', async () => {
    const first = await start();
    first.script = BUSY;
    for (let i = 0; i < 8; i++) expect((await post()).status).toBe(200);
    expect(first.received).toHaveLength(5);
    expect(changes).toEqual([
      {
        type: 'target_ejected',
        provider: 'first',
        model: 'upstream-model',
        failuresInARow: 5,
        retryAt: expect.any(Number),
      },
    ]);
    expect(gateway.router.health()).toMatchObject([
      { provider: 'first', state: 'ejected', failuresInARow: 5, running: 0 },
      { provider: 'second', state: 'healthy', failuresInARow: 0, running: 0 },
    ]);
  });

  it('comes back when one request finds it well', async () => {
    const first = await start({ health: { failures: 2, coolDownMs: 50 } });
    first.script = BUSY;
    for (let i = 0; i < 2; i++) await post();
    first.script = OK;
    letPass(60);
    await post();
    expect(first.received).toHaveLength(3);
    expect(changes.map(({ type }) => type)).toEqual(['target_ejected', 'target_recovered']);
    expect(gateway.router.health()[0]).toMatchObject({ state: 'healthy', failuresInARow: 0 });
  });

  it('is tried by one request at a time', async () => {
    const first = await start({ health: { failures: 1, coolDownMs: 50 } });
    first.script = BUSY;
    await post();
    const { promise: othersServed, resolve: tell } = Promise.withResolvers<void>();
    first.script = async (response, request) => {
      await othersServed;
      return OK(response, request);
    };
    letPass(60);
    let served = 0;
    await Promise.all(Array.from({ length: 3 }, () => post().then(() => ++served === 2 && tell())));
    expect(first.received).toHaveLength(2);
    expect(second.received).toHaveLength(3);
  });

  it('is still asked where there is no other', async () => {
    const first = await start({ health: { failures: 1 } }, { targets: ['first/upstream-model'] });
    first.script = BUSY;
    await post();
    first.script = OK;
    expect((await post()).status).toBe(200);
  });

  it('is not set aside for what clients did wrong', async () => {
    const first = await start({ health: { failures: 1 } });
    first.script = answerJson('{}', 400);
    await post();
    first.script = answerJson('{}', 404);
    await post();
    expect(changes).toEqual([]);
  });

  it('is not set aside where that is off', async () => {
    const first = await start({ health: false });
    first.script = BUSY;
    for (let i = 0; i < 8; i++) await post();
    expect(first.received).toHaveLength(8);
  });

  it('counts streams that broke', async () => {
    const first = await start({ health: { failures: 1 } });
    const { promise: begun, resolve: tell } = Promise.withResolvers<void>();
    first.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await begun;
      response.socket?.resetAndDestroy();
    };
    const answer = await post(STREAMED);
    tell();
    await answer.text();
    expect(changes.map(({ type }) => type)).toEqual(['target_ejected']);
  });
});

describe('the order in which targets are tried', () => {
  async function served(count: number): Promise<[number, number]> {
    const before = second.received.length;
    for (let i = 0; i < count; i++) await (await post()).text();
    const bySecond = second.received.length - before;
    return [count - bySecond, bySecond];
  }

  it('is that of the list', async () => {
    await start();
    expect(await served(10)).toEqual([10, 0]);
  });

  it('is by weight', async () => {
    await start(
      {},
      {
        strategy: 'weighted',
        targets: [
          { provider: 'first', model: 'm', weight: 1 },
          { provider: 'second', model: 'm', weight: 3 },
        ],
      },
    );
    const [first, other] = await served(200);
    // 50 and 150 are expected; a share that is off by more has a chance of one in a billion.
    expect(first).toBeGreaterThan(14);
    expect(other).toBeGreaterThan(110);
  });

  it('is by cost, of what the provider bills where that is known', async () => {
    await start(
      {},
      {
        strategy: 'cheapest',
        targets: [
          { provider: 'first', model: 'm', cost: { input: '0.5', output: '2' } },
          { provider: 'second', model: 'm', cost: { input: '0.1', output: '0.2' } },
        ],
      },
    );
    expect(await served(10)).toEqual([0, 10]);
  });

  it('is by speed: the slow one is asked once', async () => {
    const first = await start({}, { strategy: 'fastest' });
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const takes =
      (ms: number): Script =>
      (response, request) => {
        vi.advanceTimersByTime(ms);
        return OK(response, request);
      };
    first.script = takes(150);
    second.script = takes(1);
    const [slow, fast] = await served(12);
    expect(slow).toBe(1);
    expect(fast).toBe(11);
  });
});

it('the official client sees nothing of a failover in mid-air', async () => {
  const first = await start();
  first.script = BUSY;
  second.script = answerStream([
    event({ choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }] }),
    'data: [DONE]\n\n',
  ]);
  const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key, maxRetries: 0 });
  let said = '';
  for await (const chunk of await client.chat.completions.create({ ...QUESTION, stream: true })) {
    said += chunk.choices[0]?.delta.content ?? '';
  }
  expect(said).toBe('Hi');
});

/** The next settlement; asked for before its request. */
function gatewaySettled(): ReturnType<Gateway['nextSettled']> {
  return gateway.nextSettled();
}
