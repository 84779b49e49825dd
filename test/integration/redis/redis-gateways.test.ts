import type { Redis } from 'ioredis';
import { expect, it } from 'vitest';

import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

it("keeps the leases of gateways by Redis's own clock, in ms", async () => {
  const store = new RedisStore({ client: redis });
  const leaseMs = 60_000;
  const before = await timeMs();
  await store.announceGateway('one pid 1', leaseMs);
  const after = await timeMs();
  const [key = ''] = await redis.keys('*');
  const until = Number(await redis.zscore(key, 'one pid 1'));
  expect(until).toBeGreaterThanOrEqual(before + leaseMs);
  expect(until).toBeLessThanOrEqual(after + leaseMs);
  await store.close();
});

async function timeMs(): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
}
