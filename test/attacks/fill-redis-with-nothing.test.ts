import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { hashOf, MINUTE, NOON, requestId, USAGE } from '../contracts/ledger-fixture.ts';
import { useRedis } from '../helpers/use-redis.ts';

const REQUESTS = 2000;

let redis: Redis;
let store: RedisStore;
const clock = { now: NOON };

useRedis((own) => ({ redis } = own));

beforeEach(async () => {
  clock.now = NOON;
  await redis.flushall();
  store = new RedisStore({ client: redis, now: () => clock.now });
  await store.grant({ account: 'acme', id: 'opening', amount: 1_000_000n });
});

afterEach(() => store.close());

/** Bytes that the account has in Redis, as it counts them. */
async function bytes(only = '*'): Promise<number> {
  const sizes = await Promise.all(
    (await redis.keys(`ccr:{acme}:${only}`)).map((key) => redis.memory('USAGE', key, 'SAMPLES', 0)),
  );
  return sizes.reduce<number>((sum, size) => sum + Number(size), 0);
}

/** Redis makes a table smaller a little with each look into it. */
async function shrinkTables(): Promise<void> {
  const looks = redis.pipeline();
  for (let i = 0; i < 5000; i++) looks.hget('ccr:{acme}:r', 'none').zscore('ccr:{acme}:d', 'none');
  await looks.exec();
}

type End = (n: number) => Promise<unknown>;

const isVoided: End = (n) =>
  store.void({
    account: 'acme',
    requestId: idOf(n),
    key: 'k1',
    model: 'acme/fast',
    ending: 'upstream_error',
  });
const isFree: End = (n) =>
  store.settle({
    account: 'acme',
    requestId: idOf(n),
    amount: 0n,
    key: 'k1',
    model: 'acme/free',
    usage: USAGE,
    force: true,
  });

/** A hundred a second. */
function idOf(n: number): string {
  return requestId(n, NOON + 10 * n);
}

/** Requests, 100 a second, that end at once. */
async function flood(end: End, hasKeys = false): Promise<void> {
  for (let n = 0; n < REQUESTS; n++) {
    clock.now = NOON + 10 * n;
    const idempotencyKey = { key: hashOf(`key ${n}`), body: hashOf('body') };
    const { code } = await store.admit({
      account: 'acme',
      key: 'k1',
      externalKey: true,
      requestId: idOf(n),
      want: 1n,
      min: 1n,
      leaseMs: 2 * MINUTE,
      tokens: 0,
      notAfter: Infinity,
      ...(hasKeys && { idempotencyKey }),
    });
    expect(code).toBe('ok');
    await end(n);
  }
}

describe('requests that cost nothing', () => {
  it('leave at most 300 bytes each for ten minutes, and then none, whatever idempotency keys they had', async () => {
    const before = await bytes();
    await flood(isVoided, true);
    expect((await bytes()) - before).toBeLessThan(300 * REQUESTS);
    expect(await redis.hlen('ccr:{acme}:r')).toBe(1 + REQUESTS);
    clock.now += 10 * MINUTE;
    await store.sweep(2 * REQUESTS);
    await shrinkTables();
    // One row of usage is left, for all of them; and tables that have grown are not made as small as they were.
    expect((await bytes()) - before).toBeLessThan(16 * REQUESTS);
    expect([await redis.hlen('ccr:{acme}:r'), await redis.zcard('ccr:{acme}:d')]).toEqual([1, 1]);
  });

  it('leave after ten minutes no more than their line of the journal, where they were free', async () => {
    const before = await bytes();
    const lines = await bytes('j');
    await flood(isFree);
    clock.now += 10 * MINUTE;
    await store.sweep(2 * REQUESTS);
    await shrinkTables();
    const left = (await bytes()) - before - ((await bytes('j')) - lines);
    expect(left).toBeLessThan(16 * REQUESTS);
  });

  it('keep their idempotency key for a day, where they were free', async () => {
    await flood(isFree, true);
    clock.now += 10 * MINUTE;
    await store.sweep(2 * REQUESTS);
    expect(await redis.hlen('ccr:{acme}:r')).toBe(1 + 2 * REQUESTS);
  });

  it('leave nothing at all where they are refused for want of credits', async () => {
    const before = await bytes();
    for (let n = 0; n < 200; n++) {
      const terms = { want: 2_000_000n, min: 2_000_000n, leaseMs: MINUTE, tokens: 0, notAfter: Infinity };
      const command = { account: 'acme', key: 'k1', externalKey: true, requestId: idOf(n), ...terms };
      expect(await store.admit(command)).toMatchObject({ code: 'no_funds' });
    }
    expect(await bytes()).toBe(before);
  });
});
