import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ChatCompletionsRouterOptions, ModelOptions } from '../../../src/index.ts';
import { clientsOf, type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  type Provider,
  type Script,
  startProvider,
  STREAM,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';

const BUSY = answerJson('{"error":{"message":"busy"}}', 503);
const OK = answerJson(completionBody());
const NAMES = ['first', 'second', 'third'] as const;
/** A prompt of about 1,000 tokens, so that its price counts. */
const LONG = { ...QUESTION, max_tokens: 10, messages: [{ role: 'user', content: 'Ahoy '.repeat(800) }] };

let providers: Record<(typeof NAMES)[number], Provider>;
let gateway: Gateway;

beforeEach(async () => {
  const [first, second, third] = await Promise.all([startProvider(), startProvider(), startProvider()]);
  providers = { first, second, third };
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
  for (const provider of Object.values(providers)) await provider.close();
});

/** `acme/fast` at three providers, of which the second one is cheapest, and `acme/smart` at the third one, cheaper still. */
async function start(
  model: Partial<ModelOptions> = {},
  options: Partial<ChatCompletionsRouterOptions> = {},
): Promise<void> {
  const at = (provider: string, price: string, cachedInput = price): object => ({
    provider,
    model: 'm',
    pricing: { input: price, output: price, cachedInput },
  });
  gateway = await startGateway({
    clientRouting: true,
    retries: { perTarget: 0 },
    providers: Object.fromEntries(
      NAMES.map((name) => [name, { baseURL: providers[name].baseURL, apiKey: `sk-${name}` }]),
    ),
    models: {
      'acme/fast': {
        targets: [at('first', '2'), at('second', '1'), at('third', '3', '0.1')] as ModelOptions['targets'],
        pricing: { input: '3', output: '3' },
        contextWindow: 8192,
        maxOutputTokens: 1000,
        ...model,
      },
      'acme/smart': {
        targets: [at('third', '0.5')] as ModelOptions['targets'],
        pricing: { input: '0.5', output: '0.5' },
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
      'acme/slow:nitro': { targets: ['third/nitro'], pricing: 'free' },
      'acme/slow': { targets: ['first/m'], pricing: 'free' },
    },
    ...options,
  });
}

/** Whom a request was sent to, in order of trying: each but the last is busy. */
async function orderOf(body: object): Promise<string[]> {
  const order: string[] = [];
  for (const name of NAMES) {
    providers[name].script = (response, request) => {
      order.push(name);
      return BUSY(response, request);
    };
  }
  await (await gateway.post(body)).text();
  return order;
}

/** Who answered. */
async function served(body: object): Promise<string | undefined> {
  const before = NAMES.map((name) => providers[name].received.length);
  const response = await gateway.post(body);
  expect(response.status).toBe(200);
  await response.text();
  return NAMES.find((name, n) => providers[name].received.length > (before[n] ?? 0));
}

/** Answers take this long, on the clock that the router reads. */
function takes(ms: number): Script {
  return (response, request) => {
    vi.advanceTimersByTime(ms);
    return OK(response, request);
  };
}

/** @param random - what Math.random() returns: from 0.1 on, nothing is measured again */
function stopClock(random = 0.5): void {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  vi.spyOn(Math, 'random').mockReturnValue(random);
}

describe('a request that is sorted by price', () => {
  it.each<[string, object]>([
    ['in OpenRouter’s word', { provider: { sort: 'price' } }],
    ['in OpenRouter’s object', { provider: { sort: { by: 'price', partition: 'model' } } }],
    ['in Vercel’s word', { provider: { sort: 'cost' } }],
    ['in Vercel’s field', { providerOptions: { gateway: { sort: 'cost' } } }],
    ['by a suffix', { model: 'acme/fast:floor' }],
    ['by its field rather than its suffix', { model: 'acme/fast:nitro', provider: { sort: 'price' } }],
  ])('%s goes to the cheapest target, and from there upwards', async (_name, choice) => {
    await start();
    expect(await orderOf({ ...LONG, ...choice })).toEqual(['second', 'first', 'third']);
  });

  it('puts the providers of its order first, then the cheapest', async () => {
    await start();
    const choice = { order: ['THIRD'], sort: 'price' };
    expect(await orderOf({ ...LONG, provider: choice })).toEqual(['third', 'second', 'first']);
    expect(await orderOf({ ...LONG, providerOptions: { gateway: choice } })).toEqual([
      'third',
      'second',
      'first',
    ]);
  });

  it('asks the cheapest alone without fallbacks', async () => {
    await start();
    expect(await orderOf({ ...LONG, provider: { sort: 'price', allow_fallbacks: false } })).toEqual([
      'second',
    ]);
    expect(
      await orderOf({ ...LONG, model: 'acme/fast:floor', provider: { allow_fallbacks: false } }),
    ).toEqual(['second']);
  });

  it('asks another model’s targets after its own, or together with them', async () => {
    await start();
    const models = ['acme/smart'];
    expect(await orderOf({ ...LONG, models, provider: { sort: 'price' } })).toEqual([
      'second',
      'first',
      'third',
      'third',
    ]);
    const sort = { by: 'price', partition: 'none' };
    expect(await orderOf({ ...LONG, models, provider: { sort } })).toEqual([
      'third',
      'second',
      'first',
      'third',
    ]);
  });

  it('sorts each model by its own suffix', async () => {
    await start();
    expect(await orderOf({ ...LONG, model: 'acme/smart', models: ['acme/fast:floor'] })).toEqual([
      'third',
      'second',
      'first',
      'third',
    ]);
  });

  it('asks the cheapest that operators have left, alone without fallbacks', async () => {
    await start();
    await gateway.router.providers.eject('second');
    const provider = { sort: 'price', allow_fallbacks: false };
    expect(await orderOf({ ...LONG, provider })).toEqual(['first']);
    await gateway.router.providers.eject('first');
    await gateway.router.providers.eject('third');
    const response = await gateway.post({ ...LONG, provider });
    expect(await response.json()).toMatchObject({ error: { code: 'targets_ejected' } });
  });

  it('asks an ejected target last', async () => {
    await start({}, { health: { failures: 1 } });
    await orderOf({ ...LONG, provider: { only: ['second'] } });
    expect(await orderOf({ ...LONG, provider: { sort: 'price' } })).toEqual(['first', 'third', 'second']);
  });

  it('counts a warm prefix: the target that served the last turn is paid for cached tokens', async () => {
    await start({}, { sticky: { by: ['prefix'] } });
    const sorted = { provider: { sort: 'price' } };
    expect(await served({ ...LONG, provider: { order: ['third'] } })).toBe('third');
    const answer = { role: 'assistant', content: 'Hello there.' };
    const next = [...LONG.messages, answer, { role: 'user', content: 'More' }];
    expect(await served({ ...LONG, messages: next, ...sorted })).toBe('third');
    const other = [{ role: 'user', content: `Hey ${LONG.messages[0]?.content}` }];
    expect(await served({ ...LONG, messages: other, ...sorted })).toBe('second');
  });

  it('leaves a warm target that is still dearer', async () => {
    const long = { max_tokens: 1000, messages: QUESTION.messages };
    await start({}, { sticky: { by: ['user'] } });
    const body = { ...LONG, ...long, user: 'ada' };
    expect(await served({ ...body, provider: { order: ['third'] } })).toBe('third');
    expect(await served(body)).toBe('third');
    expect(await served({ ...body, provider: { sort: 'price' } })).toBe('second');
    expect(await served(body)).toBe('second');
  });
});

describe('a model whose strategy is', () => {
  it('price is sorted by what the client pays, cheapest by what the host pays', async () => {
    const targets = [
      {
        provider: 'first',
        model: 'm',
        pricing: { input: '1', output: '1' },
        cost: { input: '0.9', output: '0.9' },
      },
      {
        provider: 'second',
        model: 'm',
        pricing: { input: '2', output: '2' },
        cost: { input: '0.1', output: '0.1' },
      },
    ];
    await start({ strategy: 'price', targets });
    expect(await served(LONG)).toBe('first');
    await gateway.close();
    await start({ strategy: 'cheapest', targets });
    expect(await served(LONG)).toBe('second');
  });

  it.each(['throughput', 'latency'] as const)(
    '%s asks each target once, and then the best',
    async (strategy) => {
      stopClock();
      await start({ strategy });
      providers.first.script = takes(900);
      providers.second.script = takes(300);
      providers.third.script = takes(600);
      const all: (string | undefined)[] = [];
      for (let n = 0; n < 8; n++) all.push(await served(QUESTION));
      expect(new Set(all.slice(0, 3))).toEqual(new Set(NAMES));
      expect(all.slice(3)).toEqual(Array.from({ length: 5 }, () => 'second'));
      expect(await orderOf(QUESTION)).toEqual(['second', 'third', 'first']);
    },
  );

  it('throughput measures others again with a tenth of its requests', async () => {
    stopClock();
    await start({ strategy: 'throughput' });
    for (const [n, name] of NAMES.entries()) providers[name].script = takes(100 * (n + 1));
    for (let n = 0; n < 3; n++) await served(QUESTION);
    expect(await served(QUESTION)).toBe('first');
    const drawn = vi.spyOn(Math, 'random').mockReturnValue(0.09);
    expect(await served(QUESTION)).toBe('second');
    expect(await served(QUESTION)).toBe('second');
    // The second one has three answers by now.
    expect(await served(QUESTION)).toBe('third');
    drawn.mockReturnValue(0.5);
    expect(await served(QUESTION)).toBe('first');
  });

  it('latency forgets what is an hour old', async () => {
    stopClock();
    await start({ strategy: 'latency' });
    providers.first.script = takes(900);
    providers.second.script = takes(300);
    providers.third.script = takes(600);
    for (let n = 0; n < 4; n++) await served(QUESTION);
    providers.first.script = takes(1);
    expect(await served(QUESTION)).toBe('second');
    vi.advanceTimersByTime(61 * 60_000);
    for (let n = 0; n < 3; n++) await served(QUESTION);
    expect(await served(QUESTION)).toBe('first');
  });

  it('throughput sends one request at a time to a target that it does not know', async () => {
    stopClock();
    await start({ strategy: 'throughput' });
    const hold = Promise.withResolvers<void>();
    const begun: string[] = [];
    const arrived = Promise.withResolvers<void>();
    for (const name of NAMES) {
      providers[name].script = async (response, request) => {
        begun.push(name);
        if (begun.length === 3) arrived.resolve();
        await hold.promise;
        await OK(response, request);
      };
    }
    const running = [1, 2, 3].map(() => gateway.post(QUESTION));
    await arrived.promise;
    expect(begun.toSorted()).toEqual(['first', 'second', 'third']);
    hold.resolve();
    for (const each of running) await (await each).text();
  });

  it('ejected targets come last, however fast they were', async () => {
    stopClock();
    await start({ strategy: 'throughput' }, { health: { failures: 1 } });
    for (const [n, name] of NAMES.entries()) providers[name].script = takes(100 * (n + 1));
    for (let n = 0; n < 4; n++) await served(QUESTION);
    providers.first.script = BUSY;
    expect(await gateway.post(QUESTION).then(({ status }) => status)).toBe(200);
    expect(await orderOf(QUESTION)).toEqual(['second', 'third', 'first']);
  });
});

describe('what is measured', () => {
  it('of a stream is from its first event on: comments are none', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    await start({ targets: ['first/m'] });
    const read = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    providers.first.script = async (response) => {
      beginStream(response);
      response.write(': working\n\n');
      await read[0].promise;
      vi.advanceTimersByTime(1000);
      response.write(text('Hello'));
      await read[1].promise;
      vi.advanceTimersByTime(500);
      response.end(`${text('.', 'stop')}${USAGE_EVENT}data: [DONE]\n\n`);
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true });
    const reader = response.body?.getReader();
    await reader?.read();
    read[0].resolve();
    await reader?.read();
    read[1].resolve();
    while (!(await reader?.read())?.done);
    await settled;
    const { recent } = gateway.router.providers.list().find(({ name }) => name === 'first') ?? {};
    // 12 tokens in half a second; 1,000 ms are counted as 1,076.
    expect(recent).toMatchObject({ requests: 1, firstByteP50Ms: 1076, tokensPerSecond: 24 });
  });

  it('of a stream that comes at once is the time from the request to its end', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    await start({ targets: ['first/m'] });
    providers.first.script = (response, request) => {
      vi.advanceTimersByTime(1000);
      return answerStream(STREAM)(response, request);
    };
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, stream: true })).text();
    await settled;
    const { recent } = gateway.router.providers.list().find(({ name }) => name === 'first') ?? {};
    expect(recent).toMatchObject({ requests: 1, firstByteP50Ms: 1076, tokensPerSecond: 12 });
  });

  it('of another answer is the time from the request to its end', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    await start({ targets: ['first/m'] });
    providers.first.script = takes(1000);
    const settled = gateway.nextSettled();
    await served(QUESTION);
    await settled;
    const { recent } = gateway.router.providers.list().find(({ name }) => name === 'first') ?? {};
    expect(recent).toMatchObject({ requests: 1, firstByteP50Ms: 1076, tokensPerSecond: 12 });
  });
});

describe('a suffix', () => {
  it('is no suffix of a model that is so named', async () => {
    await start();
    expect(await served({ ...QUESTION, model: 'acme/slow:nitro' })).toBe('third');
    expect(JSON.parse(providers.third.received[0]?.body.toString() ?? '')).toMatchObject({ model: 'nitro' });
  });

  it('never goes upstream; the model without it is charged', async () => {
    await start();
    const settled = gateway.nextSettled();
    expect(await served({ ...LONG, model: 'acme/fast:floor' })).toBe('second');
    expect(providers.second.received[0]?.body.toString()).not.toContain('floor');
    // 9 and 12 tokens, at 1,000 nano-dollars each.
    expect(await settled).toMatchObject({ model: 'acme/fast', provider: 'second', charged: '0.000021' });
  });

  it.each<[string, object, string]>([
    ['is unknown', { clientRouting: true }, 'acme/fast:free'],
    ['is in capitals', { clientRouting: true }, 'acme/fast:NITRO'],
    ['stands twice', { clientRouting: true }, 'acme/fast:nitro:floor'],
    ['has no model', { clientRouting: true }, ':nitro'],
    ['has an unknown model', { clientRouting: true }, 'acme/none:nitro'],
    ['is not allowed', { clientRouting: { models: true } }, 'acme/fast:nitro'],
    ['is not allowed at all', { clientRouting: false }, 'acme/fast:nitro'],
  ])('is a 404 where it %s', async (_name, options, model) => {
    await start({}, options);
    const response = await gateway.post({ ...QUESTION, model });
    expect(response.status).toBe(404);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.code).toBe('model_not_found');
    expect(error.message).toContain(JSON.stringify(model));
  });

  it('needs the same permission as its model, and says nothing of others', async () => {
    await start();
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['acme/fast', '*:nitro'] });
    const { post } = clientsOf(gateway.baseURL, key);
    expect((await post({ ...LONG, model: 'acme/fast:floor' })).status).toBe(200);
    const messages = [];
    for (const model of ['acme/smart:nitro', 'acme/none:nitro']) {
      const response = await post({ ...LONG, model });
      expect(response.status).toBe(403);
      messages.push((await response.text()).replace(model, 'MODEL'));
    }
    expect(messages[0]).toBe(messages[1]);
  });
});

describe('a sort that can’t be followed', () => {
  it.each<[object, string, string]>([
    [{ provider: { sort: 'exacto' } }, 'provider.sort', '"throughput"'],
    [{ provider: { sort: 7 } }, 'provider.sort', '"latency"'],
    [{ provider: { sort: [] } }, 'provider.sort', 'an object'],
    [{ provider: { sort: { by: 'speed' } } }, 'provider.sort.by', '"price"'],
    [{ provider: { sort: { partition: 'none' } } }, 'provider.sort.by', '"price"'],
    [{ provider: { sort: { by: 'price', partition: 'all' } } }, 'provider.sort.partition', '"none"'],
    [{ provider: { sort: { by: 'price', order: [] } } }, 'provider.sort', 'by, partition'],
    [{ providerOptions: { gateway: { sort: 'speed' } } }, 'providerOptions.gateway.sort', '"ttft"'],
    [{ providerOptions: { gateway: { byok: {} } } }, 'providerOptions.gateway', 'order, only, sort'],
  ])('%j is a 400 that names what is allowed', async (choice, param, allowed) => {
    await start();
    const response = await gateway.post({ ...QUESTION, ...choice });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { param: string; message: string } };
    expect(error.param).toBe(param);
    expect(error.message).toContain(allowed);
  });

  it('no models in Vercel’s form where only providers may be chosen', async () => {
    await start({}, { clientRouting: { provider: true } });
    const providerOptions = { gateway: { models: ['acme/smart'] } };
    const response = await gateway.post({ ...QUESTION, providerOptions });
    expect(response.status).toBe(400);
    expect(providers.third.received).toEqual([]);
  });
});
