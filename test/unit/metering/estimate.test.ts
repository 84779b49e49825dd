import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  affordableOutputTokens,
  DEFAULT_TOKEN_BUDGETS,
  isPlausible,
  likelyMinimum,
  type MediaBounds,
  minimumCost,
  outputTokensEstimate,
  plausiblePart,
  promptTokensAtMost,
  promptTokensEstimate,
  type PromptSize,
  type Quote,
  quoteFor,
  type QuoteRequest,
  withSearches,
} from '../../../src/metering/estimate.ts';
import { parsePricing } from '../../../src/metering/pricing.ts';
import { textUsage as usage } from '../../../src/metering/usage-dialects.ts';

/** USD per million tokens: a prompt token costs 1,000 nano-dollars, an output token 3,000. */
const PRICE = parsePricing({ input: '1', output: '3' }, 'pricing');
const BUDGETS = DEFAULT_TOKEN_BUDGETS;
const BOUNDS: MediaBounds = { image: 5000, audioPerSecond: 50, file: undefined };
const EMPTY: PromptSize = {
  messages: 0,
  stringBytes: 0,
  asciiChars: 0,
  nonAsciiChars: 0,
  images: 0,
  audioBytes: 0,
  files: 0,
  fileBytes: 0,
  linkedFiles: 0,
  toolLists: 0,
};
/** 400 ASCII characters in two messages: at most 516 tokens, likely 108. */
const SIZE: PromptSize = { ...EMPTY, messages: 2, stringBytes: 400, asciiChars: 400 };
const REQUEST: QuoteRequest = {
  size: SIZE,
  budgets: BUDGETS,
  bounds: BOUNDS,
  contextWindow: undefined,
  outputCap: 1000,
  modelOutputCap: 1000,
  n: 1,
  webSearches: 0,
  webSearchesNeeded: 0,
  prices: [PRICE],
};

describe('a prompt', () => {
  it('has at most a token a byte, eight a message, and a hundred of its template', () => {
    expect(promptTokensAtMost(SIZE, BOUNDS)).toBe(400 + 16 + 100);
  });

  it('has at most five hundred more to say how tools are used', () => {
    expect(promptTokensAtMost({ ...SIZE, toolLists: 1 }, BOUNDS)).toBe(400 + 16 + 100 + 500);
  });

  it('has at most as many tokens as its model can read', () => {
    expect(promptTokensAtMost(SIZE, BOUNDS, 100)).toBe(100);
  });

  it('likely has a token for four ASCII characters or 1.3 others, and four a message', () => {
    expect(promptTokensEstimate(SIZE, BUDGETS)).toBe(108);
    expect(promptTokensEstimate({ ...EMPTY, nonAsciiChars: 13, stringBytes: 39 }, BUDGETS)).toBe(10);
    expect(promptTokensEstimate({ ...EMPTY, asciiChars: 1, stringBytes: 1 }, BUDGETS)).toBe(1);
  });

  it('likely has media by the budgets: a second of audio is 4,000 bytes', () => {
    const size = { ...EMPTY, images: 2, audioBytes: 8001, files: 1, fileBytes: 5000 };
    const budgets = { image: 100, audioPerSecond: 10, file: 1000 };
    expect(promptTokensEstimate(size, budgets)).toBe(200 + 30 + 1000);
  });

  it('has media at most by what they can cost: a second of audio is 1,000 bytes, a file a token a byte and 20,000', () => {
    const size = { ...EMPTY, images: 2, audioBytes: 8001, files: 2, fileBytes: 5000 };
    const bounds = { image: 100, audioPerSecond: 10, file: undefined };
    expect(promptTokensAtMost(size, bounds)).toBe(200 + 90 + 40_000 + 5000 + 100);
    expect(promptTokensAtMost(size, { ...bounds, file: 700 })).toBe(200 + 90 + 1400 + 100);
  });

  it('fills any window with a file that is somewhere else', () => {
    const size = { ...EMPTY, files: 1, linkedFiles: 1 };
    expect(promptTokensAtMost(size, BOUNDS, 128_000)).toBe(128_000);
    expect(promptTokensAtMost(size, BOUNDS)).toBe(4_000_100);
    expect(promptTokensAtMost(size, { ...BOUNDS, file: 700 })).toBe(800);
  });

  it('has no more tokens by the estimate than at most', () => {
    fc.assert(
      fc.property(anySize(), (size) => {
        expect(promptTokensEstimate(size, BUDGETS)).toBeLessThanOrEqual(promptTokensAtMost(size, BOUNDS));
      }),
    );
  });
});

describe('output', () => {
  it.each([
    [{ ascii: 0, nonAscii: 0 }, 0],
    [{ ascii: 1, nonAscii: 0 }, 1],
    [{ ascii: 400, nonAscii: 0 }, 100],
    [{ ascii: 0, nonAscii: 39 }, 30],
    [{ ascii: 4, nonAscii: 13 }, 11],
  ])('of %j is about %d tokens', (text, tokens) => {
    expect(outputTokensEstimate(text)).toBe(tokens);
  });
});

/** A quote, with what it needs. */
function quoted(request: QuoteRequest): Quote & { readonly minimum: bigint; readonly likelyMin: bigint } {
  const quote = quoteFor(request);
  return { ...quote, minimum: minimumCost(quote), likelyMin: likelyMinimum(quote) };
}

describe('a quote', () => {
  it('wants what the request can cost at most', () => {
    expect(quoted(REQUEST).maximum).toBe(516_000n + 3_000_000n);
  });

  it('needs the whole prompt and 16 tokens of output', () => {
    expect(quoted(REQUEST).minimum).toBe(516_000n + 48_000n);
  });

  it('likely needs the estimated prompt and 16 tokens of output', () => {
    expect(quoted(REQUEST)).toMatchObject({ likelyMin: 108_000n + 48_000n, promptTokens: 108 });
  });

  it('likely needs all that its media can be: what a link leads to is not estimated', () => {
    const size = { ...SIZE, files: 1, linkedFiles: 1 };
    expect(quoted({ ...REQUEST, size, contextWindow: 50_000 })).toMatchObject({
      likelyMin: 50_000_000n + 48_000n,
      promptTokens: 20_108,
    });
  });

  it('needs no more output than was asked for', () => {
    expect(quoted({ ...REQUEST, outputCap: 5 })).toMatchObject({
      minimum: 516_000n + 15_000n,
      likelyMin: 108_000n + 15_000n,
    });
  });

  it('wants all searches, needs those that it is not admitted without, and likely needs none', () => {
    const prices = [parsePricing({ input: '1', output: '3', webSearch: '0.01' }, 'pricing')];
    expect(quoted({ ...REQUEST, prices, webSearches: 5, webSearchesNeeded: 2 })).toMatchObject({
      maximum: 516_000n + 3_000_000n + 50_000_000n,
      minimum: 516_000n + 48_000n + 20_000_000n,
      likelyMin: 108_000n + 48_000n,
    });
  });

  it('counts the prompt once and the output of every answer', () => {
    expect(quoted({ ...REQUEST, n: 3 })).toMatchObject({
      maximum: 516_000n + 9_000_000n,
      minimum: 516_000n + 144_000n,
      likelyMin: 108_000n + 144_000n,
    });
  });

  it('covers the dearest price that may be charged', () => {
    const dear = parsePricing({ input: '2', output: '4', request: '0.01' }, 'pricing');
    expect(quoted({ ...REQUEST, prices: [PRICE, dear] }).maximum).toBe(1_032_000n + 4_000_000n + 10_000_000n);
  });

  it('takes every token for the dearest of its kind', () => {
    const audio = parsePricing({ input: '1', output: '3', audioInput: '10', audioOutput: '20' }, 'pricing');
    expect(quoted({ ...REQUEST, prices: [audio] }).maximum).toBe(5_160_000n + 20_000_000n);
  });

  it('of a free model is nothing', () => {
    expect(quoted({ ...REQUEST, prices: [parsePricing('free', 'pricing')] })).toMatchObject({
      maximum: 0n,
      minimum: 0n,
      likelyMin: 0n,
    });
  });

  it('never needs more than it wants, and what it needs buys the tokens it is for', () => {
    fc.assert(
      fc.property(anyRequest(), (request) => {
        const {
          maximum: want,
          minimum: min,
          likelyMin,
          promptTokens,
          promptTokensAtMost: most,
        } = quoted(request);
        expect(min).toBeLessThanOrEqual(want);
        expect(likelyMin).toBeLessThanOrEqual(min);
        const least = Math.min(16, request.outputCap);
        const likely = withSearches(request, 0);
        const needed = withSearches(request, request.webSearchesNeeded);
        expect(affordableOutputTokens(likelyMin, promptTokens, likely)).toBeGreaterThanOrEqual(least);
        expect(affordableOutputTokens(min, most, needed)).toBeGreaterThanOrEqual(least);
      }),
    );
  });
});

describe('the affordable output', () => {
  it('is what the money buys beside the prompt, for each answer', () => {
    expect(affordableOutputTokens(1_000_000n, 100, REQUEST)).toBe(300);
    expect(affordableOutputTokens(1_000_000n, 100, { ...REQUEST, n: 3 })).toBe(100);
    expect(affordableOutputTokens(1_002_999n, 100, REQUEST)).toBe(300);
    expect(affordableOutputTokens(1_003_000n, 100, REQUEST)).toBe(301);
  });

  it('is nothing where the money does not cover the prompt', () => {
    expect(affordableOutputTokens(99_999n, 100, REQUEST)).toBe(0);
    expect(affordableOutputTokens(0n, 100, REQUEST)).toBe(0);
  });

  it('is never more than was asked for', () => {
    expect(affordableOutputTokens(9_000_000_000n, 100, REQUEST)).toBe(1000);
  });

  it('is all of it where output costs nothing', () => {
    const prices = [parsePricing({ input: '1', output: '0' }, 'pricing')];
    expect(affordableOutputTokens(100_000n, 100, { ...REQUEST, prices })).toBe(1000);
  });

  it('fits into the money that was asked about, and one token more does not', () => {
    fc.assert(
      fc.property(anyRequest(), fc.bigInt(0n, 10n ** 10n), (request, money) => {
        const { promptTokensAtMost: prompt } = quoted(request);
        const limit = affordableOutputTokens(money, prompt, request);
        if (limit > 0) expect(quoted({ ...request, outputCap: limit }).maximum).toBeLessThanOrEqual(money);
        if (limit < request.outputCap) {
          expect(quoted({ ...request, outputCap: limit + 1 }).maximum).toBeGreaterThan(money);
        }
      }),
    );
  });
});

describe('usage can be true', () => {
  it.each([
    ['what a request like this can have', 400, 1000, true],
    ['zero', 0, 0, true],
    ['a template and hidden instructions', 1400, 1000, true],
    ['output somewhat beyond its limit', 100, 3900, true],
    ['a prompt beyond all its bytes, where no window is known', 50_000, 10, true],
    ['a prompt beyond all windows', 5_000_000, 10, false],
    ['output beyond four times its limit', 100, 8000, false],
    ['a corrupt count', 9, 1e15, false],
  ])('or not: %s', (_case, promptTokens, completionTokens, plausible) => {
    expect(isPlausible(usage(promptTokens, completionTokens), REQUEST)).toBe(plausible);
  });

  it('with four times the budgets of its media', () => {
    const size = { ...SIZE, images: 1 };
    const request = { ...REQUEST, size, budgets: { ...BUDGETS, image: 5000 }, contextWindow: 4096 };
    expect(isPlausible(usage(20_000, 10), request)).toBe(true);
    expect(isPlausible(usage(23_000, 10), request)).toBe(false);
  });

  it('with a prompt that fills the context window, whatever of it the request shows', () => {
    expect(isPlausible(usage(8192, 10), { ...REQUEST, contextWindow: 8192 })).toBe(true);
    expect(isPlausible(usage(8193, 10), { ...REQUEST, contextWindow: 8192 })).toBe(false);
  });

  it.each<[string, Partial<QuoteRequest>, number]>([
    [
      'a tool',
      { features: [{ name: 'web_search', kind: 'tool', path: 'tools[0].type', times: 1 }] },
      240_000,
    ],
    ['a field', { features: [{ name: 'agent_id', kind: 'field', path: 'agent_id', times: 1 }] }, 240_000],
    ['a model that always searches', { searches: true }, 240_000],
    ['a document', { features: [{ name: 'file', kind: 'part', path: 'messages[0]', times: 1 }] }, 8000],
    ['nothing of the provider’s', {}, 8000],
  ])('up to the window in each of 30 steps with %s', (_case, asked, most) => {
    const request = { ...REQUEST, contextWindow: 8000, ...asked };
    expect(plausiblePart(usage(1e9, 10), request).promptTokens).toBe(most);
    expect(isPlausible(usage(8001, 10), request)).toBe(false);
  });

  it('with each part of its prompt, where another count is reduced', () => {
    const written = { ...usage(1000, 1e9), cacheWriteTokens: 800, cachedTokens: 150 };
    const request = { ...REQUEST, contextWindow: 8000 };
    expect(plausiblePart(written, request)).toEqual({ ...written, completionTokens: 6000 });
    const long = { ...usage(9000, 10), cacheWriteTokens: 7000, cachedTokens: 2000 };
    expect(plausiblePart(long, request)).toEqual({ ...long, promptTokens: 8000, cachedTokens: 1000 });
  });

  it('up to the largest window of all, also in steps, where no window is known', () => {
    expect(plausiblePart(usage(1e9, 10), { ...REQUEST, searches: true }).promptTokens).toBe(4_000_000);
  });

  it('with all that the model can write, however little was asked for', () => {
    expect(isPlausible(usage(100, 15_000), { ...REQUEST, outputCap: 1, modelOutputCap: 16_384 })).toBe(true);
  });

  it('with the output of every answer', () => {
    expect(isPlausible(usage(100, 15_000), REQUEST)).toBe(false);
    expect(isPlausible(usage(100, 15_000), { ...REQUEST, n: 4 })).toBe(true);
  });
});

/** A size that bytes can have: no character outside ASCII has fewer than two. */
function anySize(): fc.Arbitrary<PromptSize> {
  const few = fc.nat(20);
  return fc
    .record({
      messages: few,
      asciiChars: fc.nat(1e6),
      nonAsciiChars: fc.nat(1e6),
      images: few,
      files: few,
      fileBytes: fc.nat(1e6),
      linkedFiles: fc.nat(1),
      toolLists: fc.nat(2),
      audioBytes: fc.nat(1e6),
    })
    .map((size) => ({
      ...size,
      linkedFiles: Math.min(size.linkedFiles, size.files),
      stringBytes: size.asciiChars + 2 * size.nonAsciiChars,
    }));
}

function anyRequest(): fc.Arbitrary<QuoteRequest> {
  const rate = fc
    .integer({ min: 1, max: 99_999 })
    .map((n) => `${Math.floor(n / 1000)}.${String(n % 1000).padStart(3, '0')}`);
  const price = fc
    .record({ input: rate, output: rate, audioInput: rate, webSearch: fc.constantFrom('0', '0.01') })
    .map((pricing) => parsePricing(pricing, 'pricing'));
  return fc.record({
    size: anySize(),
    budgets: fc.constant(BUDGETS),
    bounds: fc.constant(BOUNDS),
    contextWindow: fc.option(fc.integer({ min: 1, max: 200_000 }), { nil: undefined }),
    outputCap: fc.integer({ min: 1, max: 100_000 }),
    modelOutputCap: fc.constant(100_000),
    n: fc.integer({ min: 1, max: 8 }),
    webSearches: fc.constant(5),
    webSearchesNeeded: fc.constantFrom(0, 5),
    prices: fc.array(price, { minLength: 1, maxLength: 3 }),
  });
}
