import type { Redis } from 'ioredis';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { RedisKeys } from '../../../src/ledger/stores/redis/redis-keys.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { claimDue } from '../../../src/ledger/stores/redis/lua/claim-due.ts';
import { sweep } from '../../../src/ledger/stores/redis/lua/sweep.ts';
import { RedisConnection } from '../../../src/ledger/stores/redis/redis-connection.ts';
import { ScriptRunner } from '../../../src/ledger/stores/redis/script-runner.ts';
import { MINUTE, NOON } from '../../contracts/ledger-fixture.ts';
import { admission, namespace, settlement } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';

const HOUR = 60 * MINUTE;

let redis: Redis;
let runner: ScriptRunner;

useRedis((own) => ({ redis } = own));

beforeAll(() => {
  runner = new ScriptRunner({
    connection: new RedisConnection(redis),
    keys: new RedisKeys(''),
    now: undefined,
    timeoutMs: 2000,
    durability: undefined,
  });
});

describe('accounts whose time has come', () => {
  it('are taken once, by the clock of Redis', async () => {
    const key = namespace();
    // In the second half of a second, so that its milliseconds count.
    let time: [number, number] = [0, 0];
    while (time[1] < 500_000) time = (await redis.time()).map(Number) as [number, number];
    const now = time[0] * 1000 + Math.floor(time[1] / 1000);
    await redis.zadd(key, String(now), 'due', String(now + HOUR), 'later');
    expect(await runner.run(claimDue, [key], ['', '10'])).toEqual(['due']);
    expect(await redis.zrange(key, '0', '-1')).toEqual(['later']);
    expect(await runner.run(claimDue, [key], ['', '10'])).toEqual([]);
  });

  it('are taken by the clock that is given, soonest first, and no more than is asked for', async () => {
    const key = namespace();
    await redis.zadd(key, '3', 'third', '1', 'first', '2', 'second', '4', 'fourth');
    expect(await runner.run(claimDue, [key], ['3', '2'])).toEqual(['first', 'second']);
    expect(await runner.run(claimDue, [key], ['3', '2'])).toEqual(['third']);
    expect(await redis.zrange(key, '0', '-1')).toEqual(['fourth']);
  });
});

describe('an account that was swept', () => {
  it.each<[string, (store: RedisStore) => Promise<unknown>, number | undefined]>([
    ['never, with nothing that comes due', async () => {}, undefined],
    [
      'when its first lease ends',
      async (store) => {
        await store.admit({ ...admission(1, 1n), leaseMs: 5 * MINUTE });
        await store.admit({ ...admission(2, 1n), leaseMs: 3 * MINUTE });
      },
      NOON + 3 * MINUTE,
    ],
    [
      'when its first credits expire',
      async (store) => {
        await store.admit({ ...admission(1, 1n), leaseMs: 5 * MINUTE });
        await store.grant({ account: 'acme', id: 'g2', amount: 1n, expiresAt: NOON + 4 * MINUTE });
      },
      NOON + 4 * MINUTE,
    ],
    [
      'in two minutes, while it is busy',
      async (store) => {
        await store.admit(admission(1, 1n));
        await store.settle(settlement(1, 1n));
        await store.admit({ ...admission(2, 1n), leaseMs: 5 * MINUTE });
      },
      NOON + 2 * MINUTE,
    ],
  ])('is looked at again %s', async (_when, prepare, at) => {
    const { store, keys } = await openAccount();
    await prepare(store);
    expect(await runner.run(sweep, keys, [String(NOON), '10'])).toMatchObject({ count: 0, lookAgainAt: at });
  });

  it('is looked at again when its request may be forgotten, once it is not busy any more', async () => {
    const { store, keys } = await openAccount();
    await store.admit(admission(1, 1n));
    await store.settle(settlement(1, 1n));
    const forgotten = NOON + 24 * HOUR;
    const swept = async (now: number) => (await runner.run(sweep, keys, [String(now), '10'])).lookAgainAt;
    expect(await swept(NOON + 2 * MINUTE - 1)).toBe(NOON + 4 * MINUTE - 1);
    expect(await swept(NOON + 2 * MINUTE)).toBe(forgotten);
  });

  it('is looked at again when the next credits expire, to the last nano-dollar, and never after those', async () => {
    const { store, keys } = await openAccount();
    await store.grant({ account: 'acme', id: 'g2', amount: 5n, expiresAt: NOON + 2 * MINUTE });
    await store.grant({ account: 'acme', id: 'g3', amount: 1n, expiresAt: NOON + 4 * MINUTE });
    const swept = async (now: number) => (await runner.run(sweep, keys, [String(now), '10'])).lookAgainAt;
    expect(await swept(NOON + 3 * MINUTE)).toBe(NOON + 4 * MINUTE);
    expect(await swept(NOON + 5 * MINUTE)).toBeUndefined();
  });

  it('is looked at again at once where more is due than was ended, else in a second at the soonest', async () => {
    const { store, keys } = await openAccount();
    for (let n = 1; n <= 3; n++) await store.admit({ ...admission(n, 1n), leaseMs: MINUTE + n });
    const swept = (now: number, budget: string) => runner.run(sweep, keys, [String(now), budget]);
    expect(await swept(NOON + MINUTE + 2, '1')).toMatchObject({ count: 1, lookAgainAt: NOON + MINUTE + 2 });
    expect(await swept(NOON + MINUTE + 2, '2')).toMatchObject({
      count: 1,
      lookAgainAt: NOON + MINUTE + 1002,
    });
  });
});

async function openAccount(): Promise<{ store: RedisStore; keys: readonly string[] }> {
  const keyPrefix = namespace();
  const store = new RedisStore({ client: redis, keyPrefix, now: () => NOON });
  onTestFinished(() => store.close());
  await store.grant({ account: 'acme', id: 'g1', amount: 100n });
  return { store, keys: new RedisKeys(keyPrefix).ofAccount('acme') };
}
