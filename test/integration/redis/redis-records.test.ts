import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { DAY, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

const clock = { now: NOON };
let store: RedisStore;

beforeEach(async () => {
  clock.now = NOON;
  await redis.flushall();
  store = new RedisStore({ client: redis, now: () => clock.now });
  await store.grant({ account: 'acme', id: 'opening', amount: 100n });
});

afterEach(async () => {
  await store.close();
});

const REQUEST = {
  account: 'acme',
  key: 'k1',
  externalKey: true,
  want: 1n,
  min: 1n,
  leaseMs: MINUTE,
  tokens: 0,
  notAfter: Infinity,
};

const SETTLEMENT = { account: 'acme', key: 'k1', model: 'some/model', usage: USAGE, force: true };

describe('an account in Redis', () => {
  it('has all its keys from birth, so that they can move together', async () => {
    const collections = ['d', 'e', 'g', 'j', 'k', 'l', 'r', 'u', 'x'];
    expect((await redis.keys('ccr:{acme}:*')).toSorted()).toEqual(
      ['a', ...collections].map((key) => `ccr:{acme}:${key}`),
    );
    await store.void({ account: 'acme', requestId: requestId(1) });
    await store.settle({ ...SETTLEMENT, requestId: requestId(2), amount: 100n });
    clock.now += 2 * DAY;
    await store.sweep(10);
    await store.compact('acme', 99n);
    expect(await redis.keys('ccr:{acme}:*')).toHaveLength(10);
  });

  it('is refused, and left as it is, when it is of a version that this release does not know', async () => {
    await redis.hset('ccr:{acme}:a', 'ver', '1');
    const before = await redis.hgetall('ccr:{acme}:a');
    const refused = store.grant({ account: 'acme', id: 'g2', amount: 1n });
    await expect(refused).rejects.toMatchObject({
      cause: { message: expect.stringContaining('version 1; this release supports only version 3') },
    });
    expect(await redis.hgetall('ccr:{acme}:a')).toEqual(before);
  });

  it.each(['d', 'e', 'g', 'j', 'k', 'l', 'r', 'u', 'x'])(
    'that lost all but one of its keys is not begun anew: %s',
    async (left) => {
      const keys = await redis.keys('ccr:{acme}:*');
      await redis.del(keys.filter((key) => !key.endsWith(`:${left}`)));
      await expect(store.grant({ account: 'acme', id: 'g2', amount: 1n })).rejects.toThrow(
        StoreUnavailableError,
      );
      expect(await redis.keys('ccr:{acme}:*')).toEqual([`ccr:{acme}:${left}`]);
    },
  );
});

describe('an account whose deletion was cut short', () => {
  it('is not begun anew, and says what to do', async () => {
    await redis.set('ccr:deleted', 'not a hash');
    await expect(store.deleteAccount('acme')).rejects.toThrow('The credit store did not answer');
    const grant = () => store.grant({ account: 'acme', id: 'g2', amount: 1n });
    await expect(grant()).rejects.toMatchObject({
      cause: {
        message: expect.stringContaining('the deletion of the account was cut short: repeat it') as string,
      },
    });
    await redis.del('ccr:deleted');
    expect(await store.deleteAccount('acme')).toMatchObject({ code: 'ok' });
    expect(await grant()).toMatchObject({ code: 'ok', available: 1n });
  });
});

describe('the record of a request in Redis', () => {
  it('leaves nothing of its idempotency key behind, whichever request had it', async () => {
    const idempotencyKey = { key: 'a'.repeat(64), body: 'b'.repeat(64) };
    const named = { ...REQUEST, idempotencyKey };
    await store.admit({ ...named, requestId: requestId(1) });
    await store.void({ account: 'acme', requestId: requestId(1) });
    clock.now += MINUTE;
    await store.admit({ ...named, requestId: requestId(2, clock.now) });
    expect(await redis.hkeys('ccr:{acme}:r')).toHaveLength(4);

    clock.now += 9 * MINUTE;
    await store.sweep(10);
    const left = [' ', requestId(2, NOON + MINUTE), `k1:${idempotencyKey.key}`];
    expect((await redis.hkeys('ccr:{acme}:r')).toSorted()).toEqual(left);
    clock.now += DAY;
    await store.sweep(10);
    expect(await redis.hkeys('ccr:{acme}:r')).toEqual([' ']);
    expect(await redis.zrange('ccr:{acme}:d', '0', '-1')).toEqual([' ']);
  });

  it('freezes the account when it is lost, once those that came before it have ended', async () => {
    for (const n of [1, 2, 3]) {
      await store.admit({ ...REQUEST, requestId: requestId(n) });
      clock.now += 1;
    }
    await redis.hdel('ccr:{acme}:r', requestId(2));
    clock.now += MINUTE;
    expect(await store.sweep(10)).toBe(1);
    expect(await store.snapshot('acme')).toMatchObject({ frozen: true, held: 2n, available: 98n });
    expect(await store.request('acme', requestId(1))).toMatchObject({ state: 'expired' });
    expect(await store.request('acme', requestId(3))).toMatchObject({ state: 'held' });
  });
});

describe('the log of requests in Redis', () => {
  it('has no row that its list lacks: that could not be trimmed', async () => {
    const row = { id: requestId(1), account: 'acme', json: '{}' };
    await redis.set('ccr:log', 'not a list');
    await expect(store.requestLog.append([row])).rejects.toThrow('The credit store did not answer');
    expect(await redis.exists('ccr:{acme}:log')).toBe(0);
    await redis.del('ccr:log');
    await store.requestLog.append([row]);
    expect(await store.requestLog.page({ from: '', before: '~', limit: 9 })).toEqual([row]);
  });

  it('forgets an account wholly at the second time, if the first one broke off between two commands', async () => {
    await store.requestLog.append([{ id: requestId(1), account: 'acme', json: '{}' }]);
    const all = await redis.zrange('ccr:log', '0', '-1');
    await redis.set('ccr:log', 'not a list');
    await expect(store.requestLog.forget('acme')).rejects.toThrow('The credit store did not answer');
    await redis.del('ccr:log');
    for (const member of all) await redis.zadd('ccr:log', 0, member);
    await store.requestLog.forget('acme');
    expect(await redis.exists('ccr:log', 'ccr:{acme}:log')).toBe(0);
  });

  it('goes on to the next page, however many of those that are listed have no row', async () => {
    const rows = [1, 2, 3, 8].map((n) => ({ id: requestId(n), account: 'acme', json: '{}' }));
    await store.requestLog.append(rows);
    for (const n of [4, 5, 6, 7]) await redis.zadd('ccr:log', 0, `${requestId(n)} acme`);
    const newest = rows.toReversed();
    const page = (limit: number) => store.requestLog.page({ from: '', before: '~', limit });
    expect(await page(3)).toEqual(newest.slice(0, 3));
    expect(await page(9)).toEqual(newest);
  });
});
