import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { charge, parsePricing, type Pricing, usdPerToken } from '../src/metering/price.ts';
import type { Usage } from '../src/metering/usage-dialects.ts';

const OPTION = 'models["x"].pricing';
const NOTHING: Usage = {
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  audioPromptTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  audioCompletionTokens: 0,
};

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
      output: '3',
      audioOutput: '20',
      request: '0.005',
    },
    OPTION,
  );

  it('puts every token into one bucket', () => {
    const usage = {
      promptTokens: 100,
      cachedTokens: 10,
      cacheWriteTokens: 20,
      audioPromptTokens: 30,
      completionTokens: 50,
      reasoningTokens: 25,
      audioCompletionTokens: 40,
    };
    // 40 × 1,000 + 10 × 100 + 20 × 1,250 + 30 × 10,000 + 10 × 3,000 + 40 × 20,000, and the fee
    expect(charge(usage, price)).toBe(1_196_000n + 5_000_000n);
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

  it('never exceeds every token at its dearest rate, and never lies below the cheapest', () => {
    fc.assert(
      fc.property(anyUsage(), anyPricing(), (usage, pricing) => {
        const { inputAtMost, outputAtMost, request, ...rates } = parsePricing(pricing, OPTION);
        const pico = BigInt(usage.promptTokens) * inputAtMost + BigInt(usage.completionTokens) * outputAtMost;
        const cost = charge(usage, { inputAtMost, outputAtMost, request, ...rates });
        expect(cost * 1000n).toBeLessThan(pico + request * 1000n + 1000n);
        expect(cost).toBeGreaterThanOrEqual(request);
      }),
    );
  });

  it('lies less than a nano-dollar above the exact sum, so that many add up', () => {
    fc.assert(
      fc.property(fc.array(anyUsage()), anyPricing(), (usages, pricing) => {
        const free = parsePricing({ ...pricing, request: '0' }, OPTION);
        const exact = usages.reduce((sum, usage) => sum + picoDollars(usage, pricing), 0n);
        const charged = usages.reduce((sum, usage) => sum + charge(usage, free), 0n) * 1000n;
        expect(charged - exact).toBeGreaterThanOrEqual(0n);
        expect(charged - exact).toBeLessThanOrEqual(999n * BigInt(usages.length));
      }),
    );
  });
});

/** The exact cost by another road: the buckets as a list, the decimal strings without their point. */
function picoDollars(usage: Usage, pricing: Required<Pricing>): bigint {
  const text = usage.promptTokens - usage.cachedTokens - usage.cacheWriteTokens - usage.audioPromptTokens;
  const buckets: readonly (readonly [number, string])[] = [
    [text, pricing.input],
    [usage.cachedTokens, pricing.cachedInput],
    [usage.cacheWriteTokens, pricing.cacheWriteInput],
    [usage.audioPromptTokens, pricing.audioInput],
    [usage.completionTokens - usage.audioCompletionTokens, pricing.output],
    [usage.audioCompletionTokens, pricing.audioOutput],
  ];
  return buckets.reduce((sum, [tokens, rate]) => sum + BigInt(tokens) * BigInt(rate.replace('.', '')), 0n);
}

function anyUsage(): fc.Arbitrary<Usage> {
  const count = fc.nat(1_000_000);
  return fc
    .tuple(count, count, count, count, count, count)
    .map(([text, cached, written, heard, wrote, spoken]) => ({
      promptTokens: text + cached + written + heard,
      cachedTokens: cached,
      cacheWriteTokens: written,
      audioPromptTokens: heard,
      completionTokens: wrote + spoken,
      reasoningTokens: 0,
      audioCompletionTokens: spoken,
    }));
}

function anyPricing(): fc.Arbitrary<Required<Pricing>> {
  const rate = fc
    .nat(999_999_999)
    .map((micro) => `${Math.floor(micro / 1e6)}.${String(micro % 1e6).padStart(6, '0')}`);
  return fc.record({
    input: rate,
    cachedInput: rate,
    cacheWriteInput: rate,
    audioInput: rate,
    output: rate,
    audioOutput: rate,
    request: fc.constantFrom('0', '0.005'),
  });
}
