import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import type { KeyLimits } from '../../src/ledger/contract/key-records.ts';
import { MemoryStore } from '../../src/ledger/stores/memory/memory-store.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { ReliableStore } from '../../src/ledger/reliability/reliable-store.ts';
import { SqliteStore } from '../../src/ledger/stores/sqlite/sqlite-store.ts';
import { DAY, hashOf, HOUR, MINUTE, NOON, requestId, USAGE } from '../contracts/ledger-fixture.ts';
import { findingsOf } from '../helpers/audit.ts';
import { startRedis } from '../helpers/redis-server.ts';

/** What the store's clock does between two rounds. */
const STEPS = [MINUTE, HOUR, -HOUR, DAY, -DAY, 1, -HOUR, HOUR, -DAY, DAY, MINUTE, -MINUTE];
const LIMITS: KeyLimits = {
  budgets: [{ amount: 600n, per: 'day' }],
  requestsPerMinute: 6,
  tokensPerMinute: 1500,
};

const STORES: Readonly<Record<string, (now: () => number) => Promise<LedgerStore>>> = {
  MemoryStore: async (now) => new MemoryStore({ now }),
  SqliteStore: async (now) => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-chaos-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return new SqliteStore(join(folder, 'credits.db'), { now });
  },
  RedisStore: async (now) => {
    const server = await startRedis();
    onTestFinished(() => server.kill());
    return new RedisStore({ client: server.url, now });
  },
};

describe("a store's clock that steps back and forth by hours and days", { timeout: 30_000 }, () => {
  it.each(Object.keys(STORES))(
    'breaks no budget, fills no bucket below zero, and is not taken for a rollback: %s',
    async (name) => {
      const clock = { now: NOON };
      const events: LedgerEvent[] = [];
      const store = new ReliableStore({
        store: await STORES[name]!(() => clock.now),
        tell: (event) => events.push(event),
      });
      onTestFinished(() => store.close());
      await store.grant({ account: 'acme', id: 'opening', amount: 1_000_000n });
      await store.createKey({ account: 'acme', key: 'k1', hash: hashOf('k1'), name: 'k', limits: LIMITS });
      const codes = new Map<string, number>();
      let n = 0;
      for (let round = 0; round < 60; round++) {
        // Now one limit is met first, now the other.
        const tokens = round % 2 === 0 ? 400 : 50;
        clock.now += STEPS[round % STEPS.length]!;
        for (let request = 0; request < 10; request++) {
          const id = requestId((n += 1), clock.now);
          const admitted = await store.admit({
            account: 'acme',
            key: 'k1',
            requestId: id,
            want: 60n,
            min: 10n,
            leaseMs: 2 * MINUTE,
            tokens,
            notAfter: Infinity,
          });
          const { code } = admitted;
          codes.set(code, (codes.get(code) ?? 0) + 1);
          const key = (await store.snapshot('acme'))!.keys.find((each) => each.key === 'k1')!;
          // I9: what was spent and is held of this countedAt is within its budget, and windows are those of the clock.
          expect(key.spentIn.day + key.held).toBeLessThanOrEqual(600n);
          if (code === 'ok') expect(key.countedAt).toBeLessThanOrEqual(clock.now + MINUTE);
          expect(key.requestBucket?.level).toBeGreaterThanOrEqual(0);
          expect(key.tokenBucket?.level).toBeGreaterThanOrEqual(0);
          // One in four is left to its lease.
          if (admitted.code === 'ok' && n % 4 !== 0) {
            const amount = admitted.hold - (admitted.hold % 7n);
            const settled = { account: 'acme', requestId: id, amount, key: 'k1' };
            await store.settle({
              ...settled,
              model: 'some/model',
              usage: { ...USAGE, promptTokens: tokens - 12 },
              force: false,
            });
          }
        }
        await store.sweep(100);
      }
      expect(events).toEqual([]);
      expect(await findingsOf(store)).toEqual([]);
      // All of it was met, or this shows nothing.
      expect([...codes.keys()].toSorted()).toEqual([
        'budget',
        'ok',
        'old',
        'requests_per_minute',
        'tokens_per_minute',
      ]);
    },
  );
});
