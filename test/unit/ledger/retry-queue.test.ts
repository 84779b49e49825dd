import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { RetryQueue } from '../../../src/ledger/reliability/retry-queue.ts';

describe('RetryQueue', () => {
  it('repeats in the order in which they began, also what a first try delivers before it fails', async () => {
    const queue = new RetryQueue({ now: () => performance.now(), onGrowth: () => {}, longestPauseMs: 1 });
    onTestFinished(() => void queue.close());
    const repeated: string[] = [];
    const tried = new Set<string>();
    const failOnce = (name: string): string => {
      if (tried.has(name)) {
        repeated.push(name);
        return name;
      }
      tried.add(name);
      throw new StoreUnavailableError('no');
    };
    let others: readonly unknown[] | undefined;
    const first = queue.deliver('acme', {
      send: () => {
        // As a listener of events does that charges something else when it hears of the failure.
        others ??= ['second', 'third'].map((name) => queue.deliver('acme', { send: () => failOnce(name) }));
        return failOnce('first');
      },
    });
    await Promise.all([first, ...(others ?? [])]);
    expect(repeated).toEqual(['first', 'second', 'third']);
  });

  it('keeps what comes while others of its account are tried, and what of them has failed', async () => {
    const queue = new RetryQueue({ now: () => performance.now(), onGrowth: () => {}, longestPauseMs: 1 });
    onTestFinished(() => void queue.close());
    const answered: string[] = [];
    const answer = (name: string) => answered.push(name);
    const failing = (name: string, times: number) => () => {
      if (times-- > 0) throw new StoreUnavailableError('no');
      return answer(name);
    };
    let failSecond: ((error: Error) => void) | undefined;
    const first = queue.deliver('acme', { send: failing('first', 1) });
    // Begun before the third, it comes into the lane only while the first and the third are tried.
    const second = queue.deliver('acme', {
      send: () => (failSecond ? answer('second') : new Promise<number>((_, reject) => (failSecond = reject))),
    });
    let tries = 0;
    const third = queue.deliver('acme', {
      send: async () => {
        tries += 1;
        if (tries === 2) failSecond?.(new StoreUnavailableError('no'));
        await Promise.resolve();
        if (tries < 4) throw new StoreUnavailableError('no');
        return answer('third');
      },
    });
    await Promise.all([first, second, third]);
    expect(answered).toEqual(['first', 'second', 'third']);
    await expect.poll(() => queue.waiting).toBe(0);
  });

  it('looks at no call but those that it tries, however many wait', async () => {
    const queue = new RetryQueue({ now: () => performance.now(), onGrowth: () => {}, longestPauseMs: 1 });
    onTestFinished(() => void queue.close());
    let isUp = false;
    const send = (): undefined => {
      if (!isUp) throw new StoreUnavailableError('no');
    };
    const calls = Array.from({ length: 20_000 }, async () => await queue.deliver('acme', { send }));
    isUp = true;
    const { filter } = Array.prototype;
    let seen = 0;
    vi.spyOn(Array.prototype, 'filter').mockImplementation(function (this: unknown[], ...args) {
      seen += this.length;
      return filter.apply(this, args);
    });
    onTestFinished(() => void vi.restoreAllMocks());
    await Promise.all(calls);
    expect(seen).toBeLessThan(100_000);
  });
});
