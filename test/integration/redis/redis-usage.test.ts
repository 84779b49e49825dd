import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import type { Witness } from '../../../src/ledger/ledger.ts';
import { RedisStore } from '../../../src/ledger/redis/redis-store.ts';
import { DAY, MAX, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { findingsOf } from '../../helpers/audit.ts';
import { admission, namespace, settlement } from '../../helpers/redis-ledger.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});

afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

function openStore(keyPrefix: string, now: () => number = () => NOON): RedisStore {
  const store = new RedisStore({ client: redis, keyPrefix, now });
  onTestFinished(() => store.close());
  return store;
}

const NAME = { key: 'a'.repeat(64), body: 'b'.repeat(64) };

describe('an account that an earlier release made in Redis', () => {
  /** Makes an account as it was before usage was counted: with 12 spent, request 2 expired with 4, and 3 held. */
  async function makeOld(keyPrefix: string): Promise<void> {
    const clock = { now: NOON };
    const store = openStore(keyPrefix, () => clock.now);
    const account = 'acme';
    await store.grant({ account, id: 'g1', amount: 1000n });
    await store.settle(settlement(1, 12n));
    await store.admit({ ...admission(2, 20n), idempotencyKey: NAME });
    await store.extend({ account, requestId: requestId(2), hold: 20n, leaseMs: 1, checkpoint: 4n });
    clock.now += 2 * MINUTE;
    await store.sweep(10);
    await store.admit({ ...admission(3, 30n), leaseMs: MINUTE });
    const at = (name: string): string => `${keyPrefix}ccr:{acme}:${name}`;
    for (const [id, row] of Object.entries(await redis.hgetall(at('r')))) {
      if (!id.includes(':')) await redis.hset(at('r'), id, row.replace(/ =.*$/, ''));
    }
    await redis.del(at('u'));
    await redis.hset(at('a'), 'ver', '1');
  }

  it('is whole, with all its charges folded, before anything is done to it', async () => {
    const keyPrefix = namespace();
    await makeOld(keyPrefix);
    const store = openStore(keyPrefix);
    expect(await store.snapshot('acme')).toMatchObject({ spent: 16n, usage: [], usageFolded: 16n });
    expect(await store.usage('acme', '2026-03-04', '2026-03-04')).toEqual([]);
    expect(await findingsOf(store)).toEqual([]);
  });

  it('counts usage from its next command on, and has the key that a moving slot needs', async () => {
    const keyPrefix = namespace();
    await makeOld(keyPrefix);
    const clock = { now: NOON + 3 * MINUTE };
    const store = openStore(keyPrefix, () => clock.now);
    await store.balance('acme');
    expect(await redis.hgetall(`${keyPrefix}ccr:{acme}:u`)).toEqual({ ' ': '16' });
    await store.settle(settlement(2, 9n));
    clock.now += 10 * MINUTE;
    await store.sweep(10);
    const rows = await store.usage('acme', '2026-03-04', '2026-03-04');
    expect(rows.toSorted((a, b) => (a.model < b.model ? -1 : 1))).toMatchObject([
      { model: '', requests: 1, errors: 1, charged: 0n },
      { model: 'some/model', requests: 1, errors: 0, charged: 5n, promptTokens: 9 },
    ]);
    await store.settle(settlement(3, 6n));
    expect(await findingsOf(store)).toEqual([]);
    expect(await store.snapshot('acme')).toMatchObject({ spent: 27n, usageFolded: 16n, frozen: false });
  });

  it('has what witnesses tell of, and charges no further part of what was charged then', async () => {
    const keyPrefix = namespace();
    await makeOld(keyPrefix);
    const store = openStore(keyPrefix);
    const held = { type: 'request', id: requestId(3), state: 'held', hold: 30n } as const;
    const settled = { type: 'request', id: requestId(1), state: 'settled' } as const;
    const line = { type: 'line', seq: 2n, at: NOON, id: requestId(1) } as const;
    const verify = (witness: Witness) => store.verify({ account: 'acme', witnesses: [witness] });
    for (const witness of [held, settled, line]) {
      expect(await verify(witness)).toEqual({ code: 'ok', now: NOON, seq: 3n });
    }
    for (const witness of [
      { ...held, hold: 31n },
      { ...settled, id: requestId(2) },
      { ...line, seq: 3n },
    ]) {
      expect(await verify(witness)).toEqual({
        code: 'ok',
        now: NOON,
        seq: 3n,
        rolledBack: true,
        missing: [0],
      });
    }
    expect(await store.settle({ ...settlement(1, 20n), inParts: true })).toMatchObject({
      code: 'duplicate',
      charged: 12n,
    });
    expect(await store.settle({ ...settlement(2, 9n), inParts: true })).toMatchObject({ charged: 9n });
    expect(await findingsOf(store)).toEqual([]);
  });

  it('counts nothing twice of a request that loses its idempotency key to another', async () => {
    const keyPrefix = namespace();
    await makeOld(keyPrefix);
    const store = openStore(keyPrefix);
    await store.settle({ ...settlement(4, 5n), idempotencyKey: NAME });
    await store.settle(settlement(2, 9n));
    expect(await store.request('acme', requestId(2))).not.toHaveProperty('idempotencyKey');
    expect(await store.usage('acme', '2026-03-04', '2026-03-04')).toMatchObject([
      { model: 'some/model', requests: 2, errors: 0, charged: 10n },
    ]);
    expect(await findingsOf(store)).toEqual([]);
  });

  it('is brought up by a sweep, though nobody uses it', async () => {
    const keyPrefix = namespace();
    await makeOld(keyPrefix);
    await openStore(keyPrefix).sweep(1);
    expect(await redis.hget(`${keyPrefix}ccr:{acme}:a`, 'ver')).toBe('2');
    expect(await redis.exists(`${keyPrefix}ccr:{acme}:u`)).toBe(1);
  });
});

describe('usage in Redis', () => {
  it('is exact beyond 2^53', async () => {
    const store = openStore(namespace());
    await store.grant({ account: 'acme', id: 'g1', amount: MAX });
    await store.settle({ ...settlement(1, MAX), usage: { ...USAGE, cost: 2n ** 60n + 1n } });
    await store.grant({ account: 'acme', id: 'g2', amount: MAX });
    await store.settle({ ...settlement(2, MAX - 6n), usage: { ...USAGE, cost: MAX } });
    expect(await store.usage('acme', '2026-03-04', '2026-03-04')).toMatchObject([
      { requests: 2, charged: 2n * MAX - 6n, cost: 2n ** 60n + 2n ** 53n },
    ]);
    await store.foldUsage('acme', '2026-03-05');
    expect(await store.snapshot('acme')).toMatchObject({ usage: [], usageFolded: 2n * MAX - 6n });
  });

  it('is read and folded a page at a time', async () => {
    const store = openStore(namespace());
    await store.grant({ account: 'acme', id: 'g1', amount: 10_000n });
    const models = Array.from({ length: 1300 }, (_, n) => `model-${n}`);
    await Promise.all(
      models.map((model, n) =>
        store.settle({ ...settlement(n, 1n), requestId: requestId(n, NOON + (n % 2) * DAY), model }),
      ),
    );
    const rows = await store.usage('acme', '2026-03-04', '2026-03-05');
    expect(rows.map(({ model }) => model).toSorted()).toEqual(models.toSorted());
    await store.foldUsage('acme', '2026-03-05');
    const left = await store.usage('acme', '2026-03-04', '2026-03-05');
    expect(left.map(({ day }) => day)).toEqual(Array.from({ length: 650 }, () => '2026-03-05'));
    expect(await store.snapshot('acme')).toMatchObject({ spent: 1300n, usageFolded: 650n });
  });
});
