import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { StoreUnavailable } from '../../../src/ledger/ledger.ts';
import { RedisStore } from '../../../src/ledger/redis/redis-store.ts';
import { DAY, hashOf, HOUR, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
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
    const collections = ['d', 'g', 'j', 'k', 'l', 'r', 'u', 'x'];
    expect((await redis.keys('ccr:{acme}:*')).toSorted()).toEqual(
      ['a', ...collections].map((key) => `ccr:{acme}:${key}`),
    );
    await store.void({ account: 'acme', requestId: requestId(1) });
    await store.settle({ ...SETTLEMENT, requestId: requestId(2), amount: 100n });
    clock.now += 2 * DAY;
    await store.sweep(10);
    await store.trim('acme', 99n);
    expect(await redis.keys('ccr:{acme}:*')).toHaveLength(9);
  });

  it.each(['d', 'g', 'j', 'k', 'l', 'r', 'u', 'x'])(
    'that lost all but one of its keys is not begun anew: %s',
    async (left) => {
      const keys = await redis.keys('ccr:{acme}:*');
      await redis.del(keys.filter((key) => !key.endsWith(`:${left}`)));
      await expect(store.grant({ account: 'acme', id: 'g2', amount: 1n })).rejects.toThrow(StoreUnavailable);
      expect(await redis.keys('ccr:{acme}:*')).toEqual([`ccr:{acme}:${left}`]);
    },
  );
});

describe('a key that a release before kept in Redis', () => {
  const hash = hashOf('k1');
  beforeEach(async () => {
    const counters = `30 1 7 0 600000 ${NOON} 0 ${NOON}`;
    const row = `${hash} 90 lifetime 10 - 2 ${NOON - DAY} -`;
    await redis.hset('ccr:{acme}:k', { k1: row, 'k1:n': '"first"', 'k1:s': counters });
    await redis.set(`ccr:k:${hash}`, 'acme k1');
  });

  it('is read as it was', async () => {
    const limits = { budget: { amount: 90n, per: 'lifetime' }, requestsPerMinute: 10, concurrentRequests: 2 };
    const key = { account: 'acme', key: 'k1', name: 'first', state: 'active', createdAt: NOON - DAY };
    expect(await store.findKey(hash)).toEqual({ ...key, limits, version: 1 });
    const command = { ...REQUEST, externalKey: false, keyVersion: 1, requestId: requestId(1) };
    const requests = { limit: 10, remaining: 9, resetMs: 6000 };
    expect(await store.admit(command)).toMatchObject({ code: 'ok', rates: { requests } });
  });

  it('can be changed, and is still read by that release', async () => {
    const key = { account: 'acme', key: 'k1' };
    await store.updateKey({ ...key, version: 1, name: 'other', policy: '{}' });
    await store.rotateKey({ ...key, version: 2, hash: hashOf('new'), overlapMs: HOUR });
    expect(await redis.hgetall('ccr:{acme}:k')).toEqual({
      ' ': '',
      k1: `${hashOf('new')} - - - - - ${NOON - DAY} -`,
      'k1:n': '"other"',
      'k1:p': '{}',
      'k1:s': `30 1 7 0 0 ${NOON} 0 ${NOON}`,
      'k1:v': `3 - ${hash} ${NOON + HOUR}`,
    });
  });
});

describe('the record of a request in Redis', () => {
  it('leaves nothing of its idempotency key behind, whoever had that', async () => {
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
