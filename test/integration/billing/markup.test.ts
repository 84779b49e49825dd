import { inspect } from 'node:util';

import * as fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';

import {
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  type Markup,
} from '../../../src/index.ts';
import { combineMarkups, parseMarkup } from '../../../src/metering/markup.ts';
import { charge, chargeAtMost, outputCovered, usdPerToken, withMarkup } from '../../../src/metering/price.ts';
import { parsePricing } from '../../../src/metering/pricing.ts';
import { textUsage } from '../../../src/metering/usage-dialects.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';

/** 1,000 nano-dollars a token of prompt, 3,000 of output. */
const PRICE = parsePricing({ input: '1', output: '3', request: '0.000001' }, 'pricing');

const terms = (markup: Markup) => parseMarkup(markup, 'markup');

describe('a markup', () => {
  it('multiplies the price with its fees, and adds its own fee', () => {
    const price = withMarkup(PRICE, terms({ factor: '1.2', fee: '0.001' }));
    // (10 × 1,000 + 10 × 3,000 + 1,000) × 1.2 + 1,000,000
    expect(charge(textUsage(10, 10), price)).toBe(49_200n + 1_000_000n);
  });

  it('of several multiplies factors and adds fees, in any order', () => {
    const one = terms({ factor: '1.2', fee: '0.001' });
    const other = terms({ factor: '1.5', fee: '0.0005' });
    const both = withMarkup(withMarkup(PRICE, one), other);
    expect(charge(textUsage(10, 10), both)).toBe((41_000n * 9n) / 5n + 1_500_000n);
    expect(both.version).toBe(withMarkup(withMarkup(PRICE, other), one).version);
    expect(both.version).toBe(withMarkup(PRICE, terms({ factor: '1.80', fee: '0.0015' })).version);
  });

  it('is applied before the one rounding', () => {
    const tiny = parsePricing({ input: '0.0001', output: '0' }, 'pricing'); // a tenth of a nano-dollar
    const price = withMarkup(tiny, terms({ factor: '1.5' }));
    expect(charge(textUsage(6, 0), price)).toBe(1n); // 0.9, and not 1 × 1.5
    expect(charge(textUsage(7, 0), price)).toBe(2n); // 1.05
  });

  it('may be a discount', () => {
    expect(charge(textUsage(10, 10), withMarkup(PRICE, terms({ factor: '0.5' })))).toBe(20_500n);
  });

  it('leaves what is free as it is', () => {
    const free = withMarkup(parsePricing('free', 'pricing'), terms({ factor: '2', fee: '1' }));
    expect(charge(textUsage(1000, 1000), free)).toBe(0n);
    expect(free.version).toBe('free');
  });

  it('that changes nothing leaves the price its name', () => {
    expect(withMarkup(PRICE, terms({ factor: '1.0', fee: '0' })).version).toBe(PRICE.version);
    expect(withMarkup(PRICE, terms({ factor: '1.1' })).version).not.toBe(PRICE.version);
    expect(withMarkup(PRICE, terms({ fee: '0.1' })).version).not.toBe(PRICE.version);
  });

  it('gives each price a name of its own', () => {
    const markups = [
      { factor: '1.1' },
      { factor: '1.2' },
      { fee: '0.1' },
      { fee: '0.2' },
      { factor: '1.1', fee: '0.1' },
    ];
    expect(new Set(markups.map((markup) => withMarkup(PRICE, terms(markup)).version)).size).toBe(5);
  });

  it('is shown to the last digit', () => {
    expect(usdPerToken(150_000n, terms({ factor: '1.333333' }))).toBe('0.00000019999995');
  });

  it('is the exact sum times the exact factor, rounded up, whatever they are', () => {
    const micro = fc.integer({ min: 1, max: 1_000_000_000 });
    fc.assert(
      fc.property(
        fc.nat(1e6),
        fc.nat(1e6),
        fc.array(micro, { maxLength: 3 }),
        fc.nat(1e9),
        (prompt, output, factors, fee) => {
          const each = factors.map((n) =>
            terms({ factor: `${Math.floor(n / 1e6)}.${String(n % 1e6).padStart(6, '0')}` }),
          );
          const markup = each.reduce(
            combineMarkups,
            terms({ fee: `0.${String(fee).padStart(9, '0').slice(-9)}` }),
          );
          const divisor = 1000n * 1_000_000n ** BigInt(factors.length);
          const pico = BigInt(prompt) * 1_000_000n + BigInt(output) * 3_000_000n + 1_000_000n;
          const exact = factors.reduce((product, n) => product * BigInt(n), pico);
          const expected = exact / divisor + (exact % divisor > 0n ? 1n : 0n) + markup.fee;
          expect(charge(textUsage(prompt, output), withMarkup(PRICE, markup))).toBe(expected);
        },
      ),
    );
  });

  it('is part of holds: what is held covers the output that it was held for, and no more', () => {
    const micro = fc.integer({ min: 1, max: 3_000_000 });
    fc.assert(
      fc.property(fc.nat(1e6), fc.nat(1e6), micro, fc.nat(1e9), (prompt, output, factor, fee) => {
        const price = withMarkup(
          PRICE,
          terms({
            factor: `${Math.floor(factor / 1e6)}.${String(factor % 1e6).padStart(6, '0')}`,
            fee: `0.${String(fee).padStart(9, '0').slice(-9)}`,
          }),
        );
        const money = chargeAtMost(prompt, output, 0, price);
        expect(charge(textUsage(prompt, output), price)).toBe(money);
        const covered = outputCovered(money, prompt, 0, price) ?? -1;
        expect(covered).toBeGreaterThanOrEqual(output);
        expect(chargeAtMost(prompt, covered, 0, price)).toBeLessThanOrEqual(money);
        expect(chargeAtMost(prompt, covered + 1, 0, price)).toBeGreaterThan(money);
      }),
    );
  });

  it('covers nothing where not even its fee is there', () => {
    expect(outputCovered(999_999n, 0, 0, withMarkup(PRICE, terms({ fee: '0.001' })))).toBeUndefined();
  });

  it.each<[string, unknown]>([
    ['must be { factor?, fee? }, got "1.2"', '1.2'],
    ['must be { factor?, fee? }, got null', null],
    ['has an unknown key "percent"', { percent: '20' }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: 1.2 }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: '0' }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: '0.0' }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: '-1' }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: '1000.1' }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: '1.1234567' }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: '20%' }],
    ['.factor must be a decimal string above 0 and up to 1000', { factor: 2n }],
    ['.fee must be a decimal string of USD', { fee: 0.001 }],
    ['.fee must be from 0 to 1000 USD', { fee: '-0.001' }],
    ['.fee must be from 0 to 1000 USD', { fee: '1000.01' }],
  ])('is refused when it can’t be right: %s', (message, markup) => {
    expect(() => parseMarkup(markup as Markup, 'markup')).toThrow(
      `markup${message.startsWith('.') ? '' : ' '}${message}`,
    );
  });
});

describe('a request with a markup', () => {
  let gateway: Gateway;

  afterEach(() => gateway.close());

  /** 9 tokens of prompt and 12 of output: 45,000 nano-dollars by the list. */
  const model = {
    targets: ['loopback/upstream-model'],
    pricing: PRICING,
    contextWindow: 8192,
    maxOutputTokens: 1000,
  };

  async function start(options: Partial<ChatCompletionsRouterOptions>, markup?: Markup): Promise<void> {
    gateway = await startGateway({
      models: {
        'acme/fast': markup ? { ...model, markup } : model,
        'acme/free': { ...model, pricing: 'free' },
      },
      ...options,
    });
  }

  async function charged(asked = QUESTION.model): Promise<string> {
    const settled = gateway.nextSettled();
    expect((await gateway.post({ ...QUESTION, model: asked })).status).toBe(200);
    return (await settled).charged;
  }

  it('of its model is charged with it', async () => {
    await start({}, { factor: '1.2' });
    expect(await charged()).toBe('0.000054');
  });

  it('of the router, its model, its account and its key is charged with all of them', async () => {
    const authenticate = () => ({ account: 'acct', key: 'app', markup: { factor: '2' } });
    const resolveMarkup: ChatCompletionsRouterOptions['resolveMarkup'] = ({ account, key }) =>
      account === 'acct' && key === 'app' ? { factor: '3', fee: '0.001' } : undefined;
    await start({ authenticate, resolveMarkup, markup: { factor: '1.1' } }, { fee: '0.01' });
    // 45,000 × 1.1 × 2 × 3, and both fees
    expect(await charged()).toBe('0.011297');
  });

  it('of its key is charged with it, also once that was changed', async () => {
    await start({});
    const { key, id } = await gateway.router.keys.create({ account: 'acct', markup: { factor: '2' } });
    const ask = async (): Promise<string> => {
      const settled = gateway.nextSettled();
      const response = await gateway.post(QUESTION, { headers: { authorization: `Bearer ${key}` } });
      expect(response.status).toBe(200);
      return (await settled).charged;
    };
    expect(await ask()).toBe('0.00009');
    await gateway.router.keys.update('acct', id, { markup: { factor: '3' } });
    expect(await ask()).toBe('0.000135');
  });

  it('has a cost without it', async () => {
    const targets = [{ provider: 'loopback', model: 'upstream-model', cost: PRICING }];
    await start({ markup: { factor: '2' }, models: { 'acme/fast': { ...model, targets } } });
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.00009', cost: '0.000045' });
  });

  it('stays free where the model is', async () => {
    await start({ markup: { factor: '2', fee: '0.5' } });
    expect(await charged('acme/free')).toBe('0.00');
  });

  it('holds for it, and says so when the balance is less', async () => {
    await start({ holdMode: 'strict', markup: { fee: '6' } });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(402);
    const { error } = (await response.json()) as { error: { required: string } };
    expect(Number(error.required)).toBeGreaterThan(6);
  });

  it('is journaled under a version of its own, the same in each process', async () => {
    await start({ resolveMarkup: () => ({ factor: '1.5' }) });
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    const { price } = await settled;
    expect(price).toBe(withMarkup(parsePricing(PRICING, 'pricing'), terms({ factor: '1.50' })).version);
    const entries = await gateway.router.credits.journal('acct');
    expect(entries.find(({ type }) => type === 'charge')).toMatchObject({ usage: { price } });
  });

  it('shows its prices in the list: the router’s, the model’s and the caller’s', async () => {
    await start(
      { markup: { factor: '1.1' }, resolveMarkup: () => ({ factor: '2', fee: '0.25' }) },
      { factor: '3' },
    );
    const pricing = { input: '0.0000066', completion: '0.0000198', request: '0.25' };
    expect(await (await gateway.fetch('/models/acme/fast')).json()).toMatchObject({ pricing });
    expect(await (await gateway.fetch('/models')).json()).toMatchObject({ data: [{ pricing }, {}] });
    expect(await (await gateway.fetch('/models/acme/free')).json()).toMatchObject({
      pricing: { input: '0' },
    });
  });

  it('is answered 500 rather than at a wrong price when its markup can’t be one', async () => {
    await start({ resolveMarkup: () => ({ factor: '1,2' }) });
    expect((await gateway.post(QUESTION)).status).toBe(500);
    expect(gateway.provider.received).toEqual([]);
    expect(inspect(gateway.errors)).toContain('markup of a caller.factor must be');
  });
});

describe('the options', () => {
  const options = (extra: object): ChatCompletionsRouterOptions => ({
    store: 'memory:',
    providers: {},
    models: {},
    ...extra,
  });

  it.each<[string, object]>([
    ['markup.factor must be', { markup: { factor: 'x' } }],
    ['resolveMarkup must be a function', { resolveMarkup: { factor: '1' } }],
  ])('refuse what can’t be right: %s', (message, extra) => {
    expect(() => createChatCompletionsRouter(options(extra))).toThrow(message);
  });
});
