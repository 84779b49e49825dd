import type { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import { compactUsage } from '../../../src/ledger/stores/redis/lua/compact-usage.ts';
import { RedisConnection } from '../../../src/ledger/stores/redis/redis-connection.ts';
import { RedisKeys } from '../../../src/ledger/stores/redis/redis-keys.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { ScriptRunner } from '../../../src/ledger/stores/redis/script-runner.ts';
import { DAY, MAX, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { namespace, settlement } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

function openStore(keyPrefix: string, now: () => number = () => NOON): RedisStore {
  const store = new RedisStore({ client: redis, keyPrefix, now });
  onTestFinished(() => store.close());
  return store;
}

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
    await store.compactUsage('acme', '2026-03-05');
    expect(await store.snapshot('acme')).toMatchObject({ usage: [], usageCompacted: 2n * MAX - 6n });
  });

  it('is not folded of an account that was deleted since its rows were read', async () => {
    const keyPrefix = namespace();
    const store = openStore(keyPrefix);
    await store.grant({ account: 'acme', id: 'g1', amount: 10n });
    await store.settle(settlement(1, 1n));
    const keys = new RedisKeys(keyPrefix);
    const [row = ''] = (await redis.hkeys(keys.usage('acme'))).filter((field) => field !== ' ');
    await store.deleteAccount('acme');
    const connection = new RedisConnection(redis);
    const common = { now: undefined, timeoutMs: 2000, durability: undefined };
    await new ScriptRunner({ connection, keys, ...common }).run(compactUsage, keys.ofAccount('acme'), [row]);
    expect(await redis.exists(keys.usage('acme'))).toBe(0);
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 5n })).toMatchObject({ code: 'ok' });
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
    await store.compactUsage('acme', '2026-03-05');
    const left = await store.usage('acme', '2026-03-04', '2026-03-05');
    expect(left.map(({ day }) => day)).toEqual(Array.from({ length: 650 }, () => '2026-03-05'));
    expect(await store.snapshot('acme')).toMatchObject({ spent: 1300n, usageCompacted: 650n });
  });

  it('is read without the rows of end users, of which there may be a thousand a day', async () => {
    const keyPrefix = namespace();
    const store = openStore(keyPrefix);
    await store.grant({ account: 'acme', id: 'g1', amount: 10n });
    await store.settle({ ...settlement(1, 1n), dimensions: { user: 'ann', 'tag:feature': 'chat' } });
    const key = new RedisKeys(keyPrefix).usage('acme');
    const fields = await redis.hkeys(key);
    const ofAnn = fields.find((field) => field.endsWith(' :user ann')) ?? '';
    const counts = (await redis.hget(key, ofAnn)) ?? '';
    const others = Array.from({ length: 10_000 }, (_, n) => [`${ofAnn}-${n}`, counts]);
    await redis.hset(key, ...others.flat());
    const sent = async (): Promise<number> =>
      Number(/total_net_output_bytes:(\d+)/.exec(await redis.info('stats'))?.[1]);
    const before = await sent();
    expect(await store.usage('acme', '2026-03-04', '2026-03-04')).toMatchObject([{ charged: 1n }]);
    expect(await store.usageBy('acme', 'tag:feature', '2026-03-04', '2026-03-04')).toMatchObject([
      { value: 'chat', charged: 1n },
    ]);
    expect((await sent()) - before).toBeLessThan(50_000);
    expect(await store.usageBy('acme', 'user', '2026-03-04', '2026-03-04')).toHaveLength(10_001);
    expect(await store.usage('acme', '0000-01-01', '9999-12-31')).toHaveLength(1);
  });
});
