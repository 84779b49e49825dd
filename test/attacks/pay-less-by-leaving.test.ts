import { afterEach, describe, expect, it, vi } from 'vitest';

import type { ChatCompletionsRouterOptions, ProviderOptions, Settled } from '../../src/index.ts';
import { chunk, DONE, type Script, stream } from '../../src/testing.ts';
import { clientsOf, type Gateway, PRICING, QUESTION, startGateway } from '../helpers/gateway.ts';
import { type Noticing, noticing } from '../helpers/noticed.ts';

type Customer = Pick<Gateway, 'post'>;
type Options = Partial<ChatCompletionsRouterOptions> & { readonly provider?: Partial<ProviderOptions> };

/** What the client asks the model to end with. */
const MARKER = '###';

let gateway: Gateway;
let router: Noticing;
let leavers: number;

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
});

/** @param model - its name at the provider */
async function start(model: string, options: Options = {}): Promise<void> {
  router = noticing();
  leavers = 0;
  gateway = await startGateway(
    {
      learnsOfLeavers: true,
      models: {
        'acme/fast': { targets: [`loopback/${model}`], pricing: PRICING, maxOutputTokens: 20_000 },
      },
      ...options,
    },
    router.mount,
    '100.00',
  );
}

async function customer(account: string): Promise<Customer> {
  const { key } = await gateway.router.keys.create({ account });
  await gateway.router.credits.grant(account, '100.00', { id: `welcome_${account}` });
  return clientsOf(gateway.baseURL, key);
}

/** Counts so much reasoning, and shows a line; after its marker it waits until so many clients in all have left. */
function reasons(tokens: number, until = 0): Script {
  const usage = {
    prompt_tokens: 9,
    completion_tokens: tokens + 12,
    completion_tokens_details: { reasoning_tokens: tokens },
  };
  return stream(
    chunk(`The answer to all of it is: 42 ${MARKER}`),
    () => router.left(until),
    chunk('.', 'stop'),
    chunk({ choices: [], usage }),
    DONE,
  );
}

/** The bill for it: 9 tokens at 1,000 nano-dollars, the others at 3,000. */
const bill = (tokens: number): number => 9000 + (tokens + 12) * 3000;

function nanoOf({ charged }: Settled): number {
  return Math.round(Number(charged) * 1e9);
}

/** Asks, and reads to the end. */
async function stay({ post }: Customer, tokens: number): Promise<number> {
  gateway.provider.script = reasons(tokens);
  const settled = gateway.nextSettled();
  await (await post({ ...QUESTION, stream: true })).text();
  return nanoOf(await settled);
}

/** Asks, reads up to the marker, and resets. */
async function leaveAtMarker({ post }: Customer, more: object = {}): Promise<void> {
  const controller = new AbortController();
  const response = await post({ ...QUESTION, ...more, stream: true }, { signal: controller.signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let seen = ''; !seen.includes(MARKER);) seen += (await reader.read()).value;
  controller.abort();
}

async function leave(who: Customer, tokens: number): Promise<number> {
  gateway.provider.script = reasons(tokens, (leavers += 1));
  const settled = gateway.nextSettled();
  await leaveAtMarker(who);
  return nanoOf(await settled);
}

describe('a client that resets on a marker at the end of its answer', () => {
  it.each(['o4-mini', 'openai/gpt-5', 'google/gemini-2.5-pro', 'grok-4'])(
    'pays for the hidden reasoning of %s, which is known for it',
    async (model) => {
      await start(model);
      expect(await leave(gateway, 6700)).toBe(bill(6700));
    },
  );

  it('pays for it as soon as one answer, of whichever account, has shown that the target reasons', async () => {
    await start('some-model');
    await stay(await customer('other'), 6700);
    expect(await leave(gateway, 6700)).toBe(bill(6700));
  });

  it('pays for it where it never stays, from the first answer of a process on', async () => {
    await start('some-model');
    for (let i = 0; i < 20; i++) expect(await leave(gateway, 6700)).toBe(bill(6700));
  });

  it('pays for it after others have shown that the target hides nothing, but for a few answers', async () => {
    const random = vi.spyOn(Math, 'random').mockReturnValue(0.5);
    await start('some-model');
    // As a model that reasons only about what is hard.
    for (const each of await Promise.all(['a', 'b', 'c'].map((name) => customer(name))))
      for (let i = 0; i < 3; i++) await stay(each, 0);
    const paid: number[] = [];
    for (let i = 1; i <= 40; i++) {
      // One of sixteen is read on, at random.
      random.mockReturnValue(i === 16 ? 0.06 : 0.5);
      paid.push(await leave(gateway, 6700));
    }
    random.mockRestore();
    expect(paid.slice(15)).toEqual(Array.from({ length: 25 }, () => bill(6700)));
    // Those before have only what is seen, by estimate: what such a text is.
    expect(Math.max(...paid.slice(0, 15))).toBeLessThan(bill(100));
    // And so do all others from then on.
    expect(await leave(await customer('d'), 6700)).toBe(bill(6700));
  });

  it('pays for it with a hundred streams at once', async () => {
    await start('o4-mini');
    const all = Array.from({ length: 100 }, () => gateway.nextSettled());
    gateway.provider.script = reasons(3400, 100);
    await Promise.all(all.map(() => leaveAtMarker(gateway)));
    const paid = (await Promise.all(all)).map(nanoOf);
    expect(new Set(paid)).toEqual(new Set([bill(3400)]));
  });

  it('pays it also beyond its hold, as it would have by staying', async () => {
    await start('o4-mini', { holdMode: 'adaptive' });
    expect(await leave(gateway, 6700)).toBe(bill(6700));
  });
});

describe('a client that asks for two answers, and leaves when the shorter one is over', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('pays for the reasoning of the other, however long that takes', async () => {
    await start('o4-mini');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    gateway.provider.script = stream(
      chunk({ choices: [{ index: 0, delta: { content: `42 ${MARKER}` }, finish_reason: 'stop' }] }),
      async () => {
        await router.left(1);
        // Longer than usage takes to come after the last word.
        await vi.advanceTimersByTimeAsync(5000);
      },
      chunk({ choices: [{ index: 1, delta: { content: '42' }, finish_reason: 'stop' }] }),
      chunk({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 6712 } }),
      DONE,
    );
    const settled = gateway.nextSettled();
    await leaveAtMarker(gateway, { n: 2 });
    expect(nanoOf(await settled)).toBe(bill(6700));
  });
});

describe('a client that leaves before it was shown anything', () => {
  it.each([true, false])('pays for the reasoning, stream: %s', async (isStream) => {
    await start('o4-mini');
    const controller = new AbortController();
    const usage = { prompt_tokens: 9, completion_tokens: 6712 };
    gateway.provider.script = async (response, request) => {
      controller.abort();
      await router.left(1);
      const whole = {
        choices: [{ index: 0, message: { content: '42' }, finish_reason: 'stop' }],
        usage,
      };
      const asStream = stream(chunk('42', 'stop'), chunk({ choices: [], usage }), DONE);
      if (isStream) await asStream(response, request);
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole));
    };
    const settled = gateway.nextSettled();
    const { signal } = controller;
    await gateway.post({ ...QUESTION, stream: isStream }, { signal }).catch(() => 'left');
    expect(nanoOf(await settled)).toBe(bill(6700));
  });
});

describe('a population of leavers', () => {
  /** How much is reasoned differs, and no client can know it before. */
  const TOKENS = [500, 4500, 1000, 2000];
  const sum = (amounts: readonly number[]): number => amounts.reduce((one, other) => one + other, 0);

  it.each<[string, Options]>([
    ['are read on, as is the default', {}],
    ['are never read on', { provider: { onDisconnect: 'abort' } }],
  ])('pays no less than those who stay, where answers %s', async (_how, options) => {
    await start('some-model', options);
    const accounts = await Promise.all(['a', 'b', 'c'].map((each) => customer(each)));
    const stayed: number[] = [];
    const left: number[] = [];
    for (const each of accounts) for (const tokens of TOKENS) stayed.push(await stay(each, tokens));
    for (const each of accounts) for (const tokens of TOKENS) left.push(await leave(each, tokens));
    // Of an account, too, that has never stayed.
    const stranger = await customer('d');
    for (const tokens of TOKENS) left.push(await leave(stranger, tokens));
    expect(sum(stayed) / stayed.length).toBe(bill(2000));
    expect(sum(left) / left.length).toBeGreaterThanOrEqual(bill(2000));
    expect(sum(left) / left.length).toBeLessThan(1.05 * bill(2000));
  });

  it('pays no less where each account leaves twice, in a process that knows nothing yet', async () => {
    await start('some-model');
    const left: number[] = [];
    for (let i = 0; i < 10; i++) {
      const who = await customer(`account_${i}`);
      left.push(await leave(who, TOKENS[i % 4]!), await leave(who, TOKENS[(i + 1) % 4]!));
    }
    const bills = Array.from({ length: 10 }, (_, i) => bill(TOKENS[i % 4]!) + bill(TOKENS[(i + 1) % 4]!));
    expect(sum(left)).toBe(sum(bills));
  });

  it('pays for the reasoning of all the answers that it asked for', async () => {
    await start('some-model', { provider: { onDisconnect: 'abort' } });
    for (const each of await Promise.all(['a', 'b', 'c'].map((name) => customer(name))))
      await stay(each, 2000);
    gateway.provider.script = reasons(8 * 2000, 1);
    const settled = gateway.nextSettled();
    await leaveAtMarker(gateway, { n: 8 });
    expect(nanoOf(await settled)).toBeGreaterThanOrEqual(bill(8 * 2000));
  });
});

describe('a client that says what the answer will be, and leaves before it turns out to be another', () => {
  const PREDICTED = 'x'.repeat(40_000);

  it('pays for the tokens that it predicted', async () => {
    const random = vi.spyOn(Math, 'random').mockReturnValue(0.5);
    await start('some-model');
    for (let i = 0; i < 8; i++) await stay(gateway, 0);
    gateway.provider.script = stream(
      chunk(`42 ${MARKER}`),
      () => router.left(1),
      chunk('.', 'stop'),
      chunk({
        choices: [],
        usage: {
          prompt_tokens: 9,
          completion_tokens: 10_012,
          completion_tokens_details: { rejected_prediction_tokens: 10_000 },
        },
      }),
      DONE,
    );
    const settled = gateway.nextSettled();
    await leaveAtMarker(gateway, { prediction: { type: 'content', content: PREDICTED } });
    expect(nanoOf(await settled)).toBe(bill(10_000));
    // It says nothing of what others' answers hide.
    gateway.provider.script = reasons(0, 2);
    const next = gateway.nextSettled();
    await leaveAtMarker(gateway);
    expect(await next).toMatchObject({ usageSource: 'estimated' });
    random.mockRestore();
  });
});
