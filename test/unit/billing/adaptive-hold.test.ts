import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { AdaptiveHold } from '../../../src/billing/adaptive-hold.ts';
import type { Hold } from '../../../src/billing/hold.ts';
import type { ExtendResult } from '../../../src/ledger/contract/ledger-store.ts';
import { DEFAULT_TOKEN_BUDGETS, firstHold, quoteFor } from '../../../src/metering/estimate.ts';
import { parsePricing } from '../../../src/metering/pricing.ts';
import type { UsageMeter } from '../../../src/metering/usage-meter.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('an adaptive hold that grows too late has nothing more delivered', async () => {
  const size = { messages: 1, stringBytes: 10, asciiChars: 10, nonAsciiChars: 0, toolLists: 0 };
  const quote = quoteFor({
    size: { ...size, images: 0, audioBytes: 0, files: 0, fileBytes: 0, linkedFiles: 0 },
    budgets: DEFAULT_TOKEN_BUDGETS,
    bounds: { image: 5000, audioPerSecond: 50, file: undefined },
    contextWindow: undefined,
    outputCap: 100_000,
    modelOutputCap: 100_000,
    n: 1,
    webSearches: 0,
    webSearchesNeeded: 0,
    prices: [parsePricing({ input: '1', output: '3' }, 'pricing')],
  });
  const renewed = Promise.withResolvers<ExtendResult>();
  const hold = {
    amount: firstHold(quote),
    terms: { quote },
    settled: false,
    renew: () => renewed.promise,
  };
  const meter = { delivered: { ascii: 400, nonAscii: 0 }, reportedCompletionTokens: 0 };
  const adaptive = new AdaptiveHold(hold as unknown as Hold, meter as unknown as UsageMeter);
  expect(adaptive.canSend()).toBe(true);
  meter.delivered.ascii = 40_000;
  expect(adaptive.canSend()).toBe(false);
  const waiting = adaptive.waitUntilAllowed();
  await vi.advanceTimersByTimeAsync(6000);
  expect(await waiting).toMatchObject({ code: 'credit_store_unavailable' });

  hold.amount = quote.maximum;
  renewed.resolve({ code: 'ok', hold: quote.maximum, now: 0, seq: 0n } as ExtendResult);
  await vi.advanceTimersByTimeAsync(0);
  expect(adaptive.delivered).toEqual({ estimated: 100, reported: 0 });
});
