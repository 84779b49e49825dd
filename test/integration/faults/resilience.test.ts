import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';

import {
  chunk,
  DONE,
  error,
  hang,
  head,
  pause,
  reset,
  type Script,
  sequence,
  stream,
} from '../../../src/testing.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  ANSWER,
  FALLBACK_CHARGE,
  PRIMARY_CHARGE,
  startTwoTargets,
  type TwoTargets,
  type TwoTargetsOptions,
  WELL,
  WORDS,
} from './two-targets.ts';

// Hazards E1 to E6: time, failover, stale connections, statuses that clients retry, and holds.

let two: TwoTargets;

async function start(options?: TwoTargetsOptions): Promise<void> {
  two = await startTwoTargets(options);
}

afterEach(async () => {
  expect(await two.books()).toMatchObject({ held: '0.00' });
  await two.close();
});

describe('a last target that cuts its answer before the client has any of it', () => {
  it('is named to onError with the attempt and the cause, and not to the client', async () => {
    await start();
    const headOnly = head(200, { 'content-type': 'application/json', 'content-length': 900 });
    two.primary.answer(reset);
    const { promise: isPassedOn, resolve: tell } = Promise.withResolvers<void>();
    two.fallback.answer(sequence(headOnly, '{"id":', () => isPassedOn, reset));
    const response = await two.gateway.post(QUESTION);
    // The last target's head was passed on: the connection is all that is left to break.
    tell();
    await expect(response.text()).rejects.toThrow('terminated');
    expect(two.gateway.errors).toHaveLength(1);
    expect(two.gateway.errors[0]).toMatchObject({
      code: 'upstream_cut',
      provider: 'fallback',
      model: 'other-model',
      attempt: 2,
      cause: { message: 'read ECONNRESET', code: 'ECONNRESET' },
    });
  });

  it('is named where it gave no head', async () => {
    await start();
    two.primary.answer(reset);
    two.fallback.answer(reset);
    const response = await two.gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(await response.text()).not.toMatch(/fallback|other-model|attempt/);
    expect(two.gateway.errors[0]).toMatchObject({
      code: 'upstream_unreachable',
      provider: 'fallback',
      model: 'other-model',
      attempt: 2,
    });
  });
});

describe('E1, E2 four clocks, each with its own code', () => {
  const TIMEOUTS = { connectMs: 300, firstByteMs: 300, idleMs: 300, totalMs: 900 };
  const COMMENTS = stream(...Array.from({ length: 30 }, () => [': ping\n\n', pause(60)]).flat());

  it('connect: a host that takes no connection', async () => {
    // A TLS handshake that nobody answers is a connection that never comes about.
    const sockets: Socket[] = [];
    const server = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await start({
      providers: { silent: { baseURL: `https://127.0.0.1:${port}/v1`, apiKey: 'any' } },
      models: { 'acme/fast': { targets: ['silent/model'], pricing: PRICING, maxOutputTokens: 1000 } },
      timeouts: TIMEOUTS,
    });
    const heard = await two.hear();
    expect(heard.error).toMatchObject({ status: 504, code: 'upstream_connect_timeout' });
    expect(heard.ms).toBeGreaterThan(295);
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  it.each<[string, Script, object, number, string]>([
    ['first byte: silence', hang, { status: 504, code: 'upstream_first_byte_timeout' }, 300, ''],
    ['idle: a head and silence', stream(hang), { code: 'upstream_idle_timeout' }, 300, ''],
    ['idle: a word and silence', stream(chunk(' w00'), hang), { code: 'upstream_idle_timeout' }, 300, ' w00'],
    ['total: a comment at a time, each soon enough', COMMENTS, { code: 'upstream_total_timeout' }, 900, ''],
  ])('%s', async (_, script, refusal, ms, text) => {
    await start({ primaryAlone: true, timeouts: TIMEOUTS });
    two.primary.answer(script);
    const heard = await two.hear();
    expect(heard.error).toMatchObject(refusal);
    expect(heard.text).toBe(text);
    expect(heard.ms).toBeGreaterThan(ms - 5);
    expect(heard.settled.ending).toBe('timeout');
    await two.primary.requests[0]?.aborted;
  });

  it('none of them ends an answer that goes on', async () => {
    await start({ primaryAlone: true, timeouts: { ...TIMEOUTS, idleMs: 500, totalMs: 10_000 } });
    const [first, ...rest] = WORDS.slice(0, 20).map((word) => chunk(word));
    two.primary.answer(stream(first!, ...rest.flatMap((each) => [pause(60), each]), chunk('', 'stop'), DONE));
    const heard = await two.hear();
    expect(heard).toMatchObject({
      text: WORDS.slice(0, 20).join(''),
      finishReason: 'stop',
      error: undefined,
    });
    expect(heard.ms).toBeGreaterThan(2 * 500);
  });
});

describe('E3 a failure in each phase', () => {
  const role = chunk({
    choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
  });

  it.each<[string, Script]>([
    ['before the head', reset],
    ['with a status', error(500)],
    ['after the head', stream(pause(20), reset)],
    ['after a comment', stream(': ok\n\n', pause(20), reset)],
  ])(
    '%s: the client hears one answer, of the fallback; or an error where failover is off',
    async (_, script) => {
      await start();
      two.primary.answer(script);
      expect(await two.hear()).toMatchObject({ text: ANSWER, model: 'other-model', error: undefined });
      expect(two.asked()).toEqual([1, 1]);
      expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
      await two.close();

      await start({ retries: false });
      two.primary.answer(script);
      const heard = await two.hear();
      expect(heard.error).toBeInstanceOf(OpenAI.APIError);
      expect(heard.text).toBe('');
      expect(two.asked()).toEqual([1, 0]);
      expect(await two.books()).toEqual({ used: '0.00', held: '0.00' });
    },
  );

  it.each<[string, Script, string]>([
    ['after the role', stream(role, pause(20), reset), ''],
    ['after a word', stream(role, chunk(' w00'), pause(20), reset), ' w00'],
  ])('%s: the client hears it, and never a second beginning', async (_, script, text) => {
    await start();
    two.primary.answer(script);
    const roles: unknown[] = [];
    const asking = async (): Promise<void> => {
      const asked = { ...QUESTION, stream: true as const };
      for await (const { choices } of await two.gateway.client.chat.completions.create(asked)) {
        if (choices[0]?.delta.role) roles.push(choices[0].delta.role);
      }
    };
    const settled = two.gateway.nextSettled();
    await expect(asking()).rejects.toMatchObject({ code: 'upstream_cut' });
    expect(roles).toEqual(['assistant']);
    expect(two.asked()).toEqual([1, 0]);
    // Nothing for no word; else 13 x 1,000 and 3,000 nano-dollars, by estimate.
    expect((await settled).charged).toBe(text === '' ? '0.00' : '0.000016');
  });
});

it('E4 a kept connection that its provider closes just then costs no client an error, and is paid once', async () => {
  await start({ primaryAlone: true });
  const used = new WeakSet<object>();
  two.primary.answer((response, request) => {
    const { socket } = response;
    if (!socket || used.has(socket)) return reset(response, request);
    used.add(socket);
    return WELL(response, request);
  });
  for (let i = 0; i < 50; i++) {
    const answer = await two.gateway.client.chat.completions.create(QUESTION);
    expect(answer.choices[0]?.message.content).toBe(ANSWER);
  }
  // Each but the first went to a connection that was used before, and then to a new one.
  expect(two.primary.requests).toHaveLength(99);
  await two.gateway.router.close();
  expect(two.gateway.settled.filter(({ charged }) => charged === PRIMARY_CHARGE)).toHaveLength(50);
  expect(await two.books()).toEqual({ used: '0.00945', held: '0.00' });
});

describe('E5 how often the official client tries, when it may try three times', () => {
  /** Requests that came to the gateway, counted where it is mounted. */
  async function tries(
    options: TwoTargetsOptions,
    script: Script,
    credits = '5.00',
  ): Promise<[number, number]> {
    await start({ ...options, primaryAlone: true, retries: false });
    two.primary.answer(script);
    if (credits === '0.00')
      await two.gateway.router.credits.adjust('acct', '-5.00', { id: 'all', reason: 'test' });
    let asked = 0;
    const client = new OpenAI({
      baseURL: two.gateway.baseURL,
      apiKey: two.gateway.key,
      logLevel: 'off',
      fetch: (url, init) => {
        asked += 1;
        return fetch(url, init);
      },
    });
    const refusal = await client.chat.completions.create(QUESTION).then(
      () => ({ status: 200 }),
      (thrown: { status: number }) => thrown,
    );
    return [refusal.status, asked];
  }

  it.each<[string, [number, number], Script, string]>([
    ['no credits: once', [402, 1], WELL, '0.00'],
    ['a provider that refuses our key: once', [502, 1], error(401), '5.00'],
    ['a provider that refuses our account: once', [502, 1], error(402), '5.00'],
    ['a request that is wrong: once', [400, 1], error(400), '5.00'],
    [
      'a provider that is busy: as it says',
      [429, 3],
      error(429, { headers: { 'retry-after-ms': '10' } }),
      '5.00',
    ],
    [
      'a provider that says not to: once',
      [429, 1],
      error(429, { headers: { 'x-should-retry': 'false' } }),
      '5.00',
    ],
  ])('%s', async (_, expected, script, credits) => {
    expect(await tries({}, script, credits)).toEqual(expected);
    expect(await two.books()).toEqual({ used: '0.00', held: '0.00' });
  });
});

describe('E6 a hold that is more than the balance', () => {
  let gateway: Gateway;

  async function ask(
    credits: string,
    fields: object,
    holdMode: 'strict' | 'clamp',
  ): Promise<OpenAI.ChatCompletion> {
    await start();
    gateway = await startGateway({ holdMode }, undefined, credits);
    return gateway.client.chat.completions.create({ ...QUESTION, ...fields });
  }

  afterEach(() => gateway.close());

  it.each([
    // 142 tokens of prompt at most are 142,000 nano-dollars; an output token is 3,000.
    ['max_tokens', { max_tokens: 900 }],
    ['max_completion_tokens', { max_completion_tokens: 900 }],
    ['the limit of the model', {}],
  ])('is refused with what would do, and that does: %s', async (_, fields) => {
    const refusal = await ask('0.001', fields, 'strict').catch((thrown: unknown) => thrown);
    expect(refusal).toBeInstanceOf(OpenAI.APIError);
    const { status, error: told } = refusal as { status: number; error: { affordable_max_tokens: number } };
    expect(status).toBe(402);
    expect(told).toMatchObject({
      code: 'insufficient_credits',
      available: '0.001',
      required: expect.any(String),
    });
    const affordable = told.affordable_max_tokens;
    expect(affordable).toBe(286);
    const answer = await gateway.client.chat.completions.create({ ...QUESTION, max_tokens: affordable });
    expect(answer.choices).toHaveLength(1);
  });

  it('is lowered to what can be paid, with `clamp`', async () => {
    const answer = await ask('0.001', { max_tokens: 900 }, 'clamp');
    expect(answer.choices).toHaveLength(1);
    const { max_tokens } = JSON.parse(gateway.provider.received[0]!.body.toString()) as {
      max_tokens: number;
    };
    expect(max_tokens).toBe(286);
  });
});
