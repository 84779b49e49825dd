import { describe, expect, it } from 'vitest';
import { reap, settle } from '../src/ledger/account.ts';
import type { Settle } from '../src/ledger/ledger.ts';
import { grant } from '../src/ledger/lots.ts';
import { MemoryAccount } from '../src/ledger/memory-account.ts';
import { MemoryStore } from '../src/ledger/memory-store.ts';
import { describeLedgerStore } from './contracts/ledger-store.ts';

describeLedgerStore('MemoryStore', async (clock) => new MemoryStore({ now: () => clock.now }));

describe('MemoryStore', () => {
  it('reads the wall clock unless it is given another', async () => {
    const before = Date.now();
    const { now } = await new MemoryStore().grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(now).toBeGreaterThanOrEqual(before);
    expect(now).toBeLessThanOrEqual(Date.now());
  });

  it('folds the oldest lines of a journal longer than 50,000', async () => {
    const store = new MemoryStore({ now: () => NOW });
    await store.grant({ account: 'acme', id: 'g1', amount: 60_000n });
    for (let n = 0; n < 55_000; n++) await store.settle(orphan(n, 1n));
    const state = await store.snapshot('acme');
    expect(state?.trimmed).toEqual({
      seq: 5001n,
      granted: 60_000n,
      spent: 5000n,
      expired: 0n,
      writtenOff: 0n,
    });
    expect(await store.journal('acme', 0n, 100_000)).toHaveLength(50_000);
  });

  it('forgets in order of time what was recorded in any order', () => {
    const account = new MemoryAccount();
    const times = Array.from({ length: 500 }, (_, n) => (n * 7919) % 500);
    for (const [n, time] of times.entries()) {
      settle(account, orphan(n, 0n), NOW + time);
    }
    for (let time = 0; time < 500; time++) {
      expect(account.firstDue(NOW + DAY + time - 1)).toBeUndefined();
      expect(reap(account, 500, NOW + DAY + time)).toBe(1);
    }
  });
});

describe('an account whose books do not add up', () => {
  it('is frozen by the next command, and not repaired', () => {
    const account = new MemoryAccount();
    grant(account, { account: 'acme', id: 'g1', amount: 100n }, NOW);
    account.books.available += 1n;
    settle(account, orphan(1, 10n), NOW);
    expect(account.books).toMatchObject({ frozen: true, available: 91n, granted: 100n, spent: 10n });
  });

  it('is frozen by a command that changes nothing, too', async () => {
    const account = new MemoryAccount();
    grant(account, { account: 'acme', id: 'g1', amount: 100n }, NOW);
    account.books.spent += 1n;
    grant(account, { account: 'acme', id: 'g1', amount: 100n }, NOW);
    expect(account.books.frozen).toBe(true);
  });
});

const NOW = Date.parse('2026-03-04T12:00Z');
const DAY = 86_400_000;

function orphan(n: number, amount: bigint): Settle {
  return {
    account: 'acme',
    requestId: `${NOW.toString(36).padStart(9, '0')}gate${String(n).padStart(6, '0')}`,
    amount,
    key: 'k1',
    model: 'some/model',
    usage: {
      promptTokens: 1,
      cachedTokens: 0,
      completionTokens: 1,
      reasoningTokens: 0,
      source: 'upstream',
      price: 'v1',
      ending: 'finished',
    },
    force: true,
  };
}
