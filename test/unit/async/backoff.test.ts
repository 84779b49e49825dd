import { describe, expect, it } from 'vitest';

import { backoff } from '../../../src/async/backoff.ts';

describe('backoff', () => {
  const longest = (): number => 0;

  it('doubles the delay with each retry, up to the maximum', () => {
    const delays = [0, 1, 2, 3, 4].map((retries) =>
      backoff(retries, { firstMs: 50, maxMs: 300, random: longest }),
    );

    expect(delays).toEqual([50, 100, 200, 300, 300]);
  });

  it('has no maximum unless one is given', () => {
    expect(backoff(20, { firstMs: 1, random: longest })).toBe(1_048_576);
  });

  it('stays at the maximum however often it is asked', () => {
    expect(backoff(5000, { firstMs: 1, maxMs: 24, random: longest })).toBe(24);
  });

  it.each([
    [undefined, 50],
    [0.25, 75],
    [0, 100],
    [1, 0],
  ])('subtracts at most the share that is random: %s', (jitter, shortest) => {
    const delay = backoff(0, { firstMs: 100, ...(jitter !== undefined && { jitter }), random: () => 1 });

    expect(delay).toBe(shortest);
  });

  it('takes its randomness from Math.random by default', () => {
    const delays = Array.from({ length: 100 }, () => backoff(1, { firstMs: 100 }));

    expect(new Set(delays).size).toBeGreaterThan(1);
    expect(delays.every((delay) => delay > 100 && delay <= 200)).toBe(true);
  });
});
