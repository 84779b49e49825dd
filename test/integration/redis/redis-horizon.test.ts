import type { Redis } from 'ioredis';
import { expect, it } from 'vitest';

import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { HOUR, MINUTE, NOON, requestId } from '../../contracts/ledger-fixture.ts';
import { admission } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

it('ends a lease that the clock of Redis has stepped over, once it has run out, by the next admit', async () => {
  let [now, elapsed] = [NOON, 0];
  const store = new RedisStore({ client: redis, now: () => now, elapsed: () => elapsed });
  await store.grant({ account: 'acme', id: 'g1', amount: 100n });
  await store.admit({ ...admission(1, 10n), leaseMs: MINUTE });

  now += HOUR;
  await store.admit({ ...admission(2, 10n), leaseMs: 2 * HOUR });
  expect(await store.request('acme', requestId(1))).toMatchObject({ state: 'held' });

  now += MINUTE;
  elapsed += MINUTE;
  await store.admit({ ...admission(3, 10n), leaseMs: 2 * HOUR });
  expect(await store.request('acme', requestId(1))).toMatchObject({ state: 'expired' });
  expect(await store.request('acme', requestId(2))).toMatchObject({ state: 'held' });
  await store.close();
});
