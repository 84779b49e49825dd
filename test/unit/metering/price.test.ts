import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  charge,
  chargeAtMost,
  outputCovered,
  usdPerToken,
  withHourWrites,
} from '../../../src/metering/price.ts';
import { parsePricing, type Pricing, type TokenPricing } from '../../../src/metering/pricing.ts';
import { textUsage, type Usage } from '../../../src/metering/usage-dialects.ts';

const OPTION = 'models["x"].pricing';
const NOTHING: Usage = textUsage(0, 0);

describe('a price', () => {
  it('is in pico-dollars per token, so that every published one is exact', () => {
    expect(parsePricing({ input: '2.50', output: '0.0025' }, OPTION)).toMatchObject({
      input: 2_500_000n,
      output: 2500n,
    });
    expect(parsePricing({ input: '0.000001', output: '100000' }, OPTION)).toMatchObject({
      input: 1n,
      output: 100_000_000_000n,
    });
  });

  it('of parts that have none is that of the whole', () => {
    expect(parsePricing({ input: '1', output: '3' }, OPTION)).toMatchObject({
      cachedInput: 1_000_000n,
      cacheWriteInput: 1_000_000n,
      audioInput: 1_000_000n,
      audioOutput: 3_000_000n,
      request: 0n,
    });
  });

  it('of a part may be zero', () => {
    expect(parsePricing({ input: '1', output: '3', cachedInput: '0' }, OPTION).cachedInput).toBe(0n);
  });

  it('may be nothing at all, said aloud', () => {
    expect(
      charge({ ...NOTHING, promptTokens: 1e9, completionTokens: 1e9 }, parsePricing('free', OPTION)),
    ).toBe(0n);
  });

  it('names the dearest that a token can be', () => {
    const pricing = { input: '1', output: '3', cacheWriteInput: '1.25', audioInput: '10', audioOutput: '20' };
    expect(parsePricing(pricing, OPTION)).toMatchObject({
      inputAtMost: 10_000_000n,
      outputAtMost: 20_000_000n,
    });
  });

  it('has a version that depends on what it says alone, not on how', () => {
    const version = (pricing: Pricing): string => parsePricing(pricing, OPTION).version;
    expect(version({ input: '1.50', output: '3' })).toBe(
      version({ output: '3.000', input: '1.5', cachedInput: '1.5' }),
    );
    expect(version({ input: '1.50', output: '3' })).not.toBe(version({ input: '3', output: '1.50' }));
    expect(version({ input: '1', output: '3' })).not.toBe(
      version({ input: '1', output: '3', request: '0.01' }),
    );
    expect(version({ input: '1', output: '3' })).toMatch(/^[0-9a-f]{12}$/);
  });

  it.each(['', '1e5', '-1', '+1', ' 1', '1.', '.5', '1,000', '0.1234567', '1000000000', 'NaN', '1\n'])(
    'is refused when it is written as %j',
    (input) => {
      expect(() => parsePricing({ input, output: '1' }, OPTION)).toThrow(
        /^models\["x"\]\.pricing\.input must be a decimal string of USD per million tokens/,
      );
    },
  );

  it.each([0.15, 1, null, undefined, true])('is refused when it is no string: %j', (output) => {
    const pricing = { input: '1', output } as unknown as Pricing;
    expect(() => parsePricing(pricing, OPTION)).toThrow(
      /^models\["x"\]\.pricing\.output must be a decimal string/,
    );
  });

  it('is refused when it is an integer of any size', () => {
    expect(() => parsePricing({ input: '1', output: 1n } as unknown as Pricing, OPTION)).toThrow(/got 1n$/);
    expect(() => parsePricing(1n as unknown as Pricing, OPTION)).toThrow(/^models\["x"\]\.pricing must be/);
  });

  it('is refused when no model can be so dear', () => {
    expect(() => parsePricing({ input: '100000.000001', output: '1' }, OPTION)).toThrow(
      'models["x"].pricing.input must be at most 100000 USD per million tokens, got 100000.000001',
    );
    expect(() => parsePricing({ input: '1', output: '1', request: '1000.01' }, OPTION)).toThrow(
      /^models\["x"\]\.pricing\.request must be/,
    );
  });

  it('is refused with a key that would be ignored', () => {
    const pricing = { input: '1', output: '1', cacheInput: '0.1' } as Pricing;
    expect(() => parsePricing(pricing, OPTION)).toThrow(
      /^models\["x"\]\.pricing has an unknown key "cacheInput"/,
    );
  });

  it.each([null, 'Free', 5])('is refused when it is %j', (pricing) => {
    expect(() => parsePricing(pricing as unknown as Pricing, OPTION)).toThrow(
      /^models\["x"\]\.pricing must be/,
    );
  });

  it.each([
    [150_000n, '0.00000015'],
    [1n, '0.000000000001'],
    [2_500_000n, '0.0000025'],
    [100_000_000_000n, '0.1'],
    [1_000_000_000_000n, '1'],
    [0n, '0'],
  ])('of %d pico-dollars is shown as %s USD per token', (pico, usd) => {
    expect(usdPerToken(pico)).toBe(usd);
  });
});

describe('a charge', () => {
  const price = parsePricing(
    {
      input: '1',
      cachedInput: '0.1',
      cacheWriteInput: '1.25',
      audioInput: '10',
      imageInput: '2',
      output: '3',
      reasoningOutput: '4',
      audioOutput: '20',
      imageOutput: '30',
      request: '0.005',
      webSearch: '0.01',
    },
    OPTION,
  );

  it('puts every token into one bucket', () => {
    const usage = {
      promptTokens: 150,
      cachedTokens: 10,
      cacheWriteTokens: 20,
      audioPromptTokens: 30,
      imagePromptTokens: 50,
      completionTokens: 70,
      reasoningTokens: 5,
      audioCompletionTokens: 40,
      imageCompletionTokens: 15,
      webSearches: 2,
    };
    // 40 × 1,000 + 10 × 100 + 20 × 1,250 + 30 × 10,000 + 50 × 2,000
    const prompt = 466_000n;
    // 10 × 3,000 + 5 × 4,000 + 40 × 20,000 + 15 × 30,000
    const output = 1_300_000n;
    // The fee of the request, and of two searches
    expect(charge(usage, price)).toBe(prompt + output + 5_000_000n + 20_000_000n);
  });

  it('counts reasoning that is audio as well as audio alone', () => {
    const usage = { ...NOTHING, completionTokens: 50, audioCompletionTokens: 40, reasoningTokens: 50 };
    expect(charge(usage, price)).toBe(10n * 4000n + 40n * 20_000n + 5_000_000n);
  });

  it('has reasoning in the output, and its own price only where that is given', () => {
    const usage = { ...NOTHING, completionTokens: 100, reasoningTokens: 60 };
    const plain = parsePricing({ input: '1', output: '3' }, OPTION);
    expect(charge(usage, plain)).toBe(300_000n);
    expect(charge(usage, price)).toBe(40n * 3000n + 60n * 4000n + 5_000_000n);
  });

  it('is rounded up, once', () => {
    const tiny = parsePricing({ input: '0.0001', output: '0.0001' }, OPTION); // a tenth of a nano-dollar each
    expect(charge({ ...NOTHING, promptTokens: 1 }, tiny)).toBe(1n);
    expect(charge({ ...NOTHING, promptTokens: 5, completionTokens: 5 }, tiny)).toBe(1n);
    expect(charge({ ...NOTHING, promptTokens: 5, completionTokens: 6 }, tiny)).toBe(2n);
    expect(charge(NOTHING, tiny)).toBe(0n);
  });

  it('is exact beyond the integers that a number can hold', () => {
    const dear = parsePricing({ input: '99999.999999', output: '0' }, OPTION);
    expect(charge({ ...NOTHING, promptTokens: 9_007_199_254_740_991 }, dear)).toBe(
      900_719_925_465_091_900_745_260n,
    );
  });

  it('in a service tier with a factor is that much for what is cached for an hour', () => {
    const pricing = { input: '1', cacheWriteInput: '1.25', cacheWriteHourInput: '2', output: '3' };
    const { serviceTiers } = parsePricing(
      { ...pricing, serviceTiers: { priority: { factor: '1.5' } } },
      OPTION,
    );
    const usage = { ...NOTHING, promptTokens: 100, cacheWriteTokens: 100, cacheWriteHourTokens: 60 };
    // 40 × 1,875 + 60 × 3,000
    expect(charge(usage, serviceTiers.get('priority')!)).toBe(255_000n);
  });

  it('never exceeds every token at its dearest rate, and never lies below its fees', () => {
    fc.assert(
      fc.property(anyUsage(), anyPricing(), (usage, pricing) => {
        const price = parsePricing(pricing, OPTION);
        const { promptTokens, completionTokens, webSearches } = usage;
        const cost = charge(usage, price);
        expect(cost).toBeLessThanOrEqual(
          chargeAtMost(promptTokens, completionTokens, webSearches, withHourWrites(price)),
        );
        expect(cost).toBeGreaterThanOrEqual(price.request + BigInt(webSearches) * price.webSearch);
      }),
    );
  });

  it('is the exact sum, rounded up to the next nano-dollar', () => {
    fc.assert(
      fc.property(anyUsage(), anyPricing(), (usage, pricing) => {
        const exact = picoDollars(usage, pricing);
        expect(charge(usage, parsePricing(pricing, OPTION))).toBe((exact + 999n) / 1000n);
      }),
    );
  });
});

describe('a price with tiers', () => {
  // Gemini 2.5 Pro: twice the input and half as much again for output above 200,000 tokens of prompt
  const price = parsePricing(
    {
      input: '1.25',
      cachedInput: '0.31',
      output: '10',
      tiers: [{ above: 200_000, input: '2.50', cachedInput: '0.625', output: '15' }],
    },
    OPTION,
  );

  it('charges the whole request by the tier that its prompt falls in', () => {
    const usage = { ...NOTHING, completionTokens: 1000 };
    expect(charge({ ...usage, promptTokens: 200_000 }, price)).toBe(250_000_000n + 10_000_000n);
    expect(charge({ ...usage, promptTokens: 200_001 }, price)).toBe(500_002_500n + 15_000_000n);
  });

  it('charges what is cached by that tier as well', () => {
    const usage = { ...NOTHING, promptTokens: 300_000, cachedTokens: 200_000 };
    expect(charge(usage, price)).toBe(100_000n * 2500n + 200_000n * 625n);
  });

  it('takes the last of several that the prompt is above', () => {
    const tiers = [
      { above: 100, input: '2', output: '3' },
      { above: 200, input: '5', output: '7' },
    ];
    const several = parsePricing({ input: '1', output: '1', tiers }, OPTION);
    const costs = [100, 101, 200, 201].map((promptTokens) => charge({ ...NOTHING, promptTokens }, several));
    expect(costs).toEqual([100_000n, 202_000n, 400_000n, 1_005_000n]);
  });

  it('has parts that cost as the input and output of their own tier', () => {
    const tiers = [{ above: 100, input: '2', output: '3' }];
    const partial = parsePricing({ input: '1', cachedInput: '0.1', output: '1', tiers }, OPTION);
    expect(charge({ ...NOTHING, promptTokens: 200, cachedTokens: 200 }, partial)).toBe(400_000n);
  });

  it('is held for at the dearest tier that the prompt can reach', () => {
    expect(chargeAtMost(200_000, 1000, 0, price)).toBe(250_000_000n + 10_000_000n);
    expect(chargeAtMost(200_001, 1000, 0, price)).toBe(500_002_500n + 15_000_000n);
  });

  it('is held for at a cheaper prompt’s price where that is the dearer one', () => {
    const cheaper = parsePricing(
      { input: '2', output: '3', tiers: [{ above: 10, input: '1', output: '1' }] },
      OPTION,
    );
    expect(chargeAtMost(20, 5, 0, cheaper)).toBe(55_000n);
  });

  it('covers so much output as the hold for it can be spent on', () => {
    fc.assert(
      fc.property(
        fc.nat(400_000),
        fc.nat(50_000),
        fc.nat(3),
        anyPricing(),
        (prompt, output, searches, given) => {
          const any = parsePricing(given, OPTION);
          const money = chargeAtMost(prompt, output, searches, any);
          expect(outputCovered(money, prompt, searches, any)).toBeGreaterThanOrEqual(output);
          const covered = outputCovered(money, prompt, searches, any) ?? 0;
          if (covered !== Infinity) {
            expect(chargeAtMost(prompt, covered, searches, any)).toBeLessThanOrEqual(money);
            expect(chargeAtMost(prompt, covered + 1, searches, any)).toBeGreaterThan(money);
          }
        },
      ),
    );
  });

  it('covers no output where the money covers its prompt at the first tier alone', () => {
    const tiers = [
      { above: 100, input: '2', output: '2' },
      { above: 200, input: '1', output: '1' },
    ];
    const dearer = parsePricing({ input: '1', output: '1', tiers }, OPTION);
    expect(outputCovered(602_000n, 300, 0, dearer)).toBe(1);
    expect(outputCovered(599_999n, 300, 0, dearer)).toBeUndefined();
    expect(outputCovered(199_999n, 101, 0, dearer)).toBeUndefined();
  });

  it('has a version of its own, also where only the boundary differs', () => {
    const version = (tiers: Pricing['tiers']): string =>
      parsePricing({ input: '1', output: '1', ...(tiers && { tiers }) }, OPTION).version;
    const tier = { above: 100, input: '2', output: '2' };
    expect(version([tier])).toBe(version([{ ...tier, cachedInput: '2.0' }]));
    expect(new Set([version(undefined), version([tier]), version([{ ...tier, above: 101 }])]).size).toBe(3);
    expect(version([])).toBe(version(undefined));
  });

  it.each<[string, unknown]>([
    ['tiers must be a list', { above: 1 }],
    ['tiers must be a list of at most 16 tiers', Array.from({ length: 17 }, (_, i) => i)],
    ['tiers[0] must be { above, input, output, … }', ['x']],
    ['tiers[0].above must be an integer above 0', [{ input: '1', output: '1' }]],
    ['tiers[0].above must be an integer above 0', [{ above: 0, input: '1', output: '1' }]],
    ['tiers[0].above must be an integer above 0', [{ above: 1.5, input: '1', output: '1' }]],
    [
      'tiers[1].above must be an integer above 200, in ascending order, got 100',
      [
        { above: 200, input: '1', output: '1' },
        { above: 100, input: '1', output: '1' },
      ],
    ],
    ['tiers[0].output must be a decimal string', [{ above: 1, input: '1' }]],
    ['tiers[0] has an unknown key "request"', [{ above: 1, input: '1', output: '1', request: '1' }]],
  ])('is refused when it can’t be right: %s', (message, tiers) => {
    const pricing = { input: '1', output: '1', tiers } as Pricing;
    expect(() => parsePricing(pricing, OPTION)).toThrow(`${OPTION}.${message}`);
  });
});

/** The exact cost by another road: the buckets as a list, the decimal strings without their point. */
function picoDollars(usage: Usage, pricing: Required<Omit<Pricing, 'serviceTiers'>>): bigint {
  const tier = pricing.tiers.findLast(({ above }) => usage.promptTokens > above);
  const rates: TokenPricing = tier ?? pricing;
  const { input, output } = rates;
  const hour = usage.cacheWriteHourTokens ?? 0;
  const ofPrompt: readonly (readonly [number, string])[] = [
    [usage.cachedTokens, rates.cachedInput ?? input],
    [usage.cacheWriteTokens - hour, rates.cacheWriteInput ?? input],
    [hour, rates.cacheWriteHourInput ?? rates.cacheWriteInput ?? input],
    [usage.audioPromptTokens, rates.audioInput ?? input],
    [usage.imagePromptTokens, rates.imageInput ?? input],
  ];
  const ofOutput: readonly (readonly [number, string])[] = [
    [usage.reasoningTokens, rates.reasoningOutput ?? output],
    [usage.audioCompletionTokens, rates.audioOutput ?? output],
    [usage.imageCompletionTokens, rates.imageOutput ?? output],
  ];
  const tokens = (buckets: typeof ofPrompt): number => buckets.reduce((sum, [count]) => sum + count, 0);
  const buckets: readonly (readonly [number, string])[] = [
    ...ofPrompt,
    ...ofOutput,
    [usage.promptTokens - tokens(ofPrompt), input],
    [usage.completionTokens - tokens(ofOutput), output],
  ];
  const pico = (usd: string, decimals: number): bigint => {
    const [whole = '0', part = ''] = usd.split('.');
    return BigInt(whole + part.padEnd(decimals, '0'));
  };
  const fees = pico(pricing.request, 12) + BigInt(usage.webSearches) * pico(pricing.webSearch, 12);
  return buckets.reduce((sum, [count, rate]) => sum + BigInt(count) * pico(rate, 6), fees);
}

function anyUsage(): fc.Arbitrary<Usage> {
  const count = fc.nat(1_000_000);
  return fc
    .tuple(count, count, count, count, count, count, count, count, count, fc.nat(20))
    .map(([text, cached, written, heard, seen, wrote, thought, spoken, drawn, webSearches]) => ({
      promptTokens: text + cached + written + heard + seen,
      cachedTokens: cached,
      cacheWriteTokens: written,
      ...(written % 2 === 0 && { cacheWriteHourTokens: Math.floor(written / 2) }),
      audioPromptTokens: heard,
      imagePromptTokens: seen,
      completionTokens: wrote + thought + spoken + drawn,
      reasoningTokens: thought,
      audioCompletionTokens: spoken,
      imageCompletionTokens: drawn,
      webSearches,
    }));
}

function anyPricing(): fc.Arbitrary<Required<Omit<Pricing, 'serviceTiers'>>> {
  const rate = fc
    .nat(999_999_999)
    .map((micro) => `${Math.floor(micro / 1e6)}.${String(micro % 1e6).padStart(6, '0')}`);
  const rates = {
    input: rate,
    cachedInput: rate,
    cacheWriteInput: rate,
    cacheWriteHourInput: rate,
    audioInput: rate,
    imageInput: rate,
    output: rate,
    reasoningOutput: rate,
    audioOutput: rate,
    imageOutput: rate,
  };
  const tiers = fc
    .array(fc.record({ ...rates, above: fc.integer({ min: 1, max: 3_000_000 }) }), { maxLength: 3 })
    .map((some) => some.sort((a, b) => a.above - b.above))
    .filter((some) => some.every(({ above }, i) => above !== some[i - 1]?.above));
  const fee = fc.constantFrom('0', '0.005', '0.000000001');
  return fc.record({ ...rates, tiers, request: fee, webSearch: fee });
}
