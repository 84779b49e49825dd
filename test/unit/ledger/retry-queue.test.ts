import { describe, expect, it, onTestFinished } from 'vitest';

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
    const first = queue.deliver('acme', () => {
      // As a listener of events does that charges something else when it hears of the failure.
      others ??= ['second', 'third'].map((name) => queue.deliver('acme', () => failOnce(name)));
      return failOnce('first');
    });
    await Promise.all([first, ...(others ?? [])]);
    expect(repeated).toEqual(['first', 'second', 'third']);
  });
});
