import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';

function create(provider: unknown, target: unknown): unknown {
  return createChatCompletionsRouter({
    store: 'memory:',
    providers: { p: { baseURL: 'http://localhost:1/v1', limits: provider as object } },
    models: {
      m: { targets: [{ provider: 'p', model: 'x', limits: target as object }], pricing: 'free' },
    },
  });
}

describe('limits of providers and targets', () => {
  it.each([
    [true, undefined, 'providers["p"].limits must be an object, got true'],
    [{ rpm: 1 }, undefined, 'rpm'],
    [
      { requestsPerMinute: 0 },
      undefined,
      'providers["p"].limits.requestsPerMinute must be a positive integer, got 0',
    ],
    [
      undefined,
      { tokensPerMinute: 1.5 },
      'models["m"].targets[0].limits.tokensPerMinute must be a positive integer, got 1.5',
    ],
    [
      undefined,
      { concurrentRequests: '2' },
      'models["m"].targets[0].limits.concurrentRequests must be a positive integer, got "2"',
    ],
  ])('%j and %j are no limits', (provider, target, message) => {
    expect(() => create(provider, target)).toThrow(message);
  });
});
