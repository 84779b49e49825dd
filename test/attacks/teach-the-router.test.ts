import { afterEach, describe, expect, it, vi } from 'vitest';

import type { Settled } from '../../src/index.ts';
import {
  chunk,
  completion,
  DONE,
  error,
  respond,
  type Script,
  startFakeProvider,
  stream,
} from '../../src/testing.ts';
import { clientsOf, type Gateway, PRICING, QUESTION, startGateway } from '../helpers/gateway.ts';
import { type Noticing, noticing } from '../helpers/noticed.ts';

type Customer = Pick<Gateway, 'post'>;

let gateway: Gateway;

afterEach(async () => {
  vi.restoreAllMocks();
  await gateway.close();
});

/** Another account of the gateway, with credits and a key. */
async function customer(account: string): Promise<Customer> {
  const { key } = await gateway.router.keys.create({ account });
  await gateway.router.credits.grant(account, '5.00', { id: `welcome_${account}` });
  return clientsOf(gateway.baseURL, key);
}

/** Asks for a stream; comes back with what was charged for it. */
async function ask({ post }: Customer, fields: object = {}): Promise<Settled> {
  const settled = gateway.nextSettled();
  await (await post({ ...QUESTION, stream: true, ...fields })).text();
  return settled;
}

const hasOption = (body: Buffer): boolean => body.includes('"stream_options"');

describe('a customer who makes a provider refuse stream_options', () => {
  /** 9 prompt tokens at 1,000 nano-dollars, 900 of output at 3,000, of which one word is shown. */
  const BILL = '0.002709';
  const USAGE = { prompt_tokens: 9, completion_tokens: 900, total_tokens: 909 };
  const told = stream(chunk('Yes', 'stop'), chunk({ choices: [], usage: USAGE }), DONE);
  const untold = stream(chunk('Yes', 'stop'), DONE);
  const tells: Script = (response, request) => (hasOption(request.body) ? told : untold)(response, request);
  const refuses =
    (message: object): Script =>
    (response, request) =>
      (hasOption(request.body) ? respond(400, message) : untold)(response, request);
  const REFUSAL = { error: { message: 'Unknown parameter.', param: 'stream_options' } };

  it.each([
    ['in words', { error: { message: 'Can not load https://evil.example/stream_options.png', param: null } }],
    [
      'as a field of another object',
      { error: { message: 'Unknown parameter: x', param: 'x.stream_options' } },
    ],
    ['as the beginning of a message', { error: { message: 'Unknown parameter: stream_options of tool x' } }],
  ])('gets the refusal, if it names the field %s, and nobody pays less', async (_where, refusal) => {
    gateway = await startGateway();
    const victim = await customer('victim');
    // The picture is not there the first time, and is the second.
    gateway.provider.script = refuses(refusal);
    expect(await ask(gateway)).toMatchObject({ voided: true, charged: '0.00' });
    expect(gateway.provider.received).toHaveLength(1);
    gateway.provider.script = tells;
    expect((await ask(victim)).charged).toBe(BILL);
    expect((await ask(gateway)).charged).toBe(BILL);
  });

  it('changes nothing for the others, even where the refusal has the form of a true one', async () => {
    gateway = await startGateway();
    const victim = await customer('victim');
    gateway.provider.script = refuses(REFUSAL);
    for (let i = 0; i < 5; i++) await ask(gateway);
    gateway.provider.script = tells;
    expect((await ask(victim)).charged).toBe(BILL);
    // And that it was taken is known for all.
    expect((await ask(gateway)).charged).toBe(BILL);
  });

  it('is believed with two others; for a minute, and until it is taken once', async () => {
    gateway = await startGateway();
    const others = await Promise.all([customer('b'), customer('c')]);
    const victim = await customer('victim');
    gateway.provider.script = refuses(REFUSAL);
    for (const each of [gateway, ...others]) await ask(each);
    expect(gateway.errors.map(({ message }) => message)).toEqual([
      expect.stringMatching(
        /"loopback" rejected stream_options for "upstream-model": streams of one account/,
      ),
      expect.stringMatching(/"loopback" rejected stream_options for "upstream-model": all its streams/),
    ]);
    gateway.provider.received.length = 0;
    await ask(victim);
    expect(gateway.provider.received.map(({ body }) => hasOption(body))).toEqual([false]);

    const now = performance.now();
    vi.spyOn(performance, 'now').mockReturnValue(now + 60_000);
    gateway.provider.script = tells;
    expect((await ask(victim)).charged).toBe(BILL);
    expect((await ask(victim)).charged).toBe(BILL);
  });
});

describe('a customer whose requests fail', () => {
  const CRASH = 'a prompt that crashes it';
  /** Fails for one prompt, as servers with a bug do. */
  const fragile =
    (failure: Script): Script =>
    (response, request) =>
      (request.body.includes(CRASH) ? failure : completion())(response, request);
  const crash = { messages: [{ role: 'user', content: CRASH }], stream: false };

  it('sets its target aside for itself; three of them do for all', async () => {
    const [cheap, dear] = await Promise.all([startFakeProvider(), startFakeProvider()]);
    cheap.answer(fragile(error(500)));
    gateway = await startGateway({
      providers: { cheap: { baseURL: cheap.baseURL }, dear: { baseURL: dear.baseURL } },
      models: { m: { targets: ['cheap/m', 'dear/m'], pricing: PRICING, maxOutputTokens: 100 } },
      retries: { perTarget: 0 },
    });
    const [b, c, victim] = [await customer('b'), await customer('c'), await customer('victim')];
    /** Where a request goes first. */
    const first = async ({ post }: Customer, fields: object = {}): Promise<string> => {
      const before = cheap.requests.length;
      await post({ ...QUESTION, ...fields, model: 'm' });
      return cheap.requests.length > before ? 'cheap' : 'dear';
    };
    for (let i = 0; i < 20; i++) await first(gateway, crash);
    expect(gateway.router.health()[0]).toMatchObject({ provider: 'cheap', state: 'ejected' });
    expect(await first(gateway)).toBe('dear');
    expect(await first(b, crash)).toBe('cheap');
    expect(await first(c, crash)).toBe('cheap');
    expect(await first(victim)).toBe('dear');
    await Promise.all([cheap.close(), dear.close()]);
  });

  it('has its victims served by the same target as before, which is then known to be well', async () => {
    const [cheap, dear] = await Promise.all([startFakeProvider(), startFakeProvider()]);
    cheap.answer(fragile(error(500)));
    gateway = await startGateway({
      providers: { cheap: { baseURL: cheap.baseURL }, dear: { baseURL: dear.baseURL } },
      models: { m: { targets: ['cheap/m', 'dear/m'], pricing: PRICING, maxOutputTokens: 100 } },
    });
    const victim = await customer('victim');
    for (let i = 0; i < 20; i++) await gateway.post({ ...QUESTION, ...crash, model: 'm' });
    const before = dear.requests.length;
    expect((await victim.post({ ...QUESTION, model: 'm' })).status).toBe(200);
    expect(dear.requests).toHaveLength(before);
    expect(gateway.router.health()[0]).toMatchObject({ provider: 'cheap', state: 'healthy' });
    await Promise.all([cheap.close(), dear.close()]);
  });

  it('counts for no more than half of what sets a target aside for another', async () => {
    const [cheap, dear] = await Promise.all([startFakeProvider(), startFakeProvider()]);
    cheap.answer(fragile(error(500)));
    gateway = await startGateway({
      providers: { cheap: { baseURL: cheap.baseURL }, dear: { baseURL: dear.baseURL } },
      models: { m: { targets: ['cheap/m', 'dear/m'], pricing: PRICING, maxOutputTokens: 100 } },
      retries: { perTarget: 0 },
    });
    const victim = await customer('victim');
    const isFirst = async ({ post }: Customer, fields: object): Promise<boolean> => {
      const before = cheap.requests.length;
      await post({ ...QUESTION, ...fields, model: 'm' });
      return cheap.requests.length > before;
    };
    for (let i = 0; i < 4; i++) expect(await isFirst(gateway, crash)).toBe(true);
    expect(await isFirst(victim, crash)).toBe(true);
    // Four failures of one account and one of its own are not five.
    expect(gateway.router.health()[0]).toMatchObject({ provider: 'cheap', state: 'healthy' });
    expect(await isFirst(victim, crash)).toBe(true);
    // Two of its own and three of another are: where it is down, two accounts find that as soon as one.
    expect(gateway.router.health()[0]).toMatchObject({ provider: 'cheap', state: 'ejected' });
    expect(await isFirst(victim, {})).toBe(false);
    expect(await isFirst(gateway, {})).toBe(false);
    await Promise.all([cheap.close(), dear.close()]);
  });

  it('can not keep a target set aside for others by trying it first', async () => {
    const [cheap, dear] = await Promise.all([startFakeProvider(), startFakeProvider()]);
    cheap.answer(error(500));
    gateway = await startGateway({
      providers: { cheap: { baseURL: cheap.baseURL }, dear: { baseURL: dear.baseURL } },
      models: { m: { targets: ['cheap/m', 'dear/m'], pricing: PRICING, maxOutputTokens: 100 } },
      retries: { perTarget: 0 },
    });
    const [b, c] = [await customer('b'), await customer('c')];
    const ask = async ({ post }: Customer, fields: object = {}): Promise<number> => {
      const before = cheap.requests.length;
      await post({ ...QUESTION, ...fields, model: 'm' });
      return cheap.requests.length - before;
    };
    // It is down, and all find it.
    for (const each of [gateway, b, c, gateway, b]) expect(await ask(each)).toBe(1);
    const retryAt = (): number => gateway.router.health()[0]!.retryAt!.valueOf();
    // It is back, and the attacker is the first to try.
    cheap.answer(fragile(error(500)));
    const now = vi.spyOn(Date, 'now').mockReturnValue(retryAt());
    expect(await ask(gateway, crash)).toBe(1);
    now.mockReturnValue(retryAt());
    expect(await ask(gateway, crash)).toBe(0);
    expect(await ask(b)).toBe(1);
    expect(gateway.router.health()[0]).toMatchObject({ provider: 'cheap', state: 'healthy' });
    await Promise.all([cheap.close(), dear.close()]);
  });

  it.each([
    [
      'a 403 in words of its own',
      respond(403, { error: { message: 'This content is not for this region.' } }),
    ],
    ['a 402 for more tokens than the account has', respond(402, { error: { message: 'fewer max_tokens' } })],
    ['a 429 that quotes it', respond(429, { error: { message: 'Too fast: "billing"' } })],
  ])('sets no key aside for others, by %s', async (_how, refusal) => {
    gateway = await startGateway({
      provider: { apiKey: undefined, apiKeys: ['sk-1', 'sk-2'] } as object,
      retries: false,
    });
    const victim = await customer('victim');
    const crashes = fragile(refusal);
    // The other key gets an answer: which of the two was refused last is not what is asked here.
    gateway.provider.script = (response, request) =>
      (request.headers.authorization === 'Bearer sk-1' ? crashes : completion())(response, request);
    /** The keys that so many requests of the victim are sent with. */
    const keysOf = async (requests: number): Promise<string[]> => {
      const { received } = gateway.provider;
      received.length = 0;
      for (let i = 0; i < requests; i++) {
        expect((await victim.post(QUESTION)).status).toBe(200);
      }
      return received
        .map(({ headers }) => headers.authorization ?? '')
        .toSorted((one, other) => one.localeCompare(other));
    };
    await gateway.post({ ...QUESTION, ...crash });
    expect(await keysOf(4)).toEqual(['Bearer sk-1', 'Bearer sk-1', 'Bearer sk-2', 'Bearer sk-2']);
  });
});

describe('a customer whose answers count less than they show', () => {
  const PROMPT = 'x'.repeat(4000);
  const ASKED = { messages: [{ role: 'user', content: PROMPT }] };
  const answerOf = (counted: number | undefined): Script =>
    stream(
      chunk('y'.repeat(4000), 'stop'),
      ...(counted === undefined
        ? []
        : [chunk({ choices: [], usage: { prompt_tokens: counted, completion_tokens: counted } })]),
      DONE,
    );
  /** The prompt is estimated at 1,010 tokens with its role and its message's own, the answer at 1,000. */
  const ESTIMATE = '0.00401';

  it('halves the estimates of none, nor its own, with a hundred prompts', async () => {
    gateway = await startGateway();
    const victim = await customer('victim');
    gateway.provider.script = answerOf(500);
    for (let i = 0; i < 100; i++) await ask(gateway, ASKED);
    gateway.provider.script = answerOf(undefined);
    expect(await ask(victim, ASKED)).toMatchObject({ charged: ESTIMATE, usageSource: 'estimated' });
    expect(await ask(gateway, ASKED)).toMatchObject({ charged: ESTIMATE, usageSource: 'estimated' });
  });

  it('has one voice among three', async () => {
    gateway = await startGateway();
    const [b, c, victim] = [await customer('b'), await customer('c'), await customer('victim')];
    gateway.provider.script = answerOf(1010);
    for (const each of [b, c]) await ask(each, ASKED);
    gateway.provider.script = answerOf(500);
    for (let i = 0; i < 100; i++) await ask(gateway, ASKED);
    gateway.provider.script = answerOf(undefined);
    const { charged } = await ask(victim, ASKED);
    expect(Number(charged)).toBeGreaterThanOrEqual(Number(ESTIMATE));
    expect(Number(charged)).toBeLessThan(1.01 * Number(ESTIMATE));
  });
});

describe('a customer whose answer counts more reasoning than its text can hold', () => {
  const LEAVES = '###';
  const tokens = (reasoning: number): object => ({
    prompt_tokens: 9,
    completion_tokens: reasoning + 100,
    completion_tokens_details: { reasoning_tokens: reasoning },
  });
  const answer = (usage: object, until?: () => Promise<void>): Script =>
    stream(
      chunk(`${'y'.repeat(397)}${LEAVES}`, until ? undefined : 'stop'),
      ...(until ? [until, chunk('', 'stop')] : []),
      chunk({ choices: [], usage }),
      DONE,
    );
  const REASONED = answer(tokens(5000));

  let router: Noticing;
  let leavers: number;

  async function start(provider: object = {}): Promise<void> {
    router = noticing();
    leavers = 0;
    gateway = await startGateway({ learnsOfLeavers: true, provider }, router.mount);
  }

  /** Leaves an answer whose usage tells of 100 tokens, and no reasoning. */
  async function leave({ post }: Customer): Promise<Settled> {
    const settled = gateway.nextSettled();
    const left = (leavers += 1);
    gateway.provider.script = answer(tokens(0), () => router.left(left));
    const controller = new AbortController();
    const response = await post({ ...QUESTION, stream: true }, { signal: controller.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let seen = ''; !seen.includes(LEAVES);) seen += (await reader.read()).value;
    controller.abort();
    return settled;
  }

  it('raises no estimate of what others leave; three of them do', async () => {
    await start({ onDisconnect: 'abort' });
    const [b, c, victim] = [await customer('b'), await customer('c'), await customer('victim')];
    const { charged } = await leave(victim);
    gateway.provider.script = REASONED;
    for (let i = 0; i < 20; i++) await ask(gateway);
    expect(await leave(victim)).toMatchObject({ charged, usageSource: 'estimated' });
    gateway.provider.script = REASONED;
    await ask(b);
    expect(await leave(victim)).toMatchObject({ charged, usageSource: 'estimated' });
    gateway.provider.script = REASONED;
    await ask(c);
    expect(Number((await leave(victim)).charged)).toBeGreaterThan(10 * Number(charged));
  });

  it('has others’ answers read on, and charged by their own usage', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.5);
    await start();
    const victim = await customer('victim');
    // Of the target is believed that it hides nothing.
    gateway.provider.script = answer(tokens(0));
    for (let i = 0; i < 8; i++) await ask(victim);
    expect(await leave(victim)).toMatchObject({ usageSource: 'estimated' });
    gateway.provider.script = REASONED;
    await ask(gateway);
    // 9 tokens of a prompt at 1,000 nano-dollars, 100 at 3,000.
    expect(await leave(victim)).toMatchObject({ charged: '0.000309', usageSource: 'upstream' });
  });
});

describe('a customer whose streams say that they are over', () => {
  const marked = stream(chunk('Hi', 'stop'), DONE);
  const unmarked = stream(chunk('Hi'));

  it('has none of the others taken for cut, and three of them have', async () => {
    gateway = await startGateway();
    const [b, c, victim] = [await customer('b'), await customer('c'), await customer('victim')];
    const ending = async (who: Customer): Promise<string> => {
      gateway.provider.script = unmarked;
      return (await ask(who)).ending;
    };
    for (const [who, others] of [
      [gateway, 'finished'],
      [b, 'finished'],
      [c, 'upstream_cut'],
    ] as const) {
      gateway.provider.script = marked;
      await ask(who);
      expect(await ending(victim)).toBe(others);
      expect(await ending(who)).toBe('upstream_cut');
    }
  });
});
