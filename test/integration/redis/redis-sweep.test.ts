import type { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import type { RedisClient } from '../../../src/ledger/stores/redis/redis-client.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { MINUTE, NOON } from '../../contracts/ledger-fixture.ts';
import { admission, namespace, settlement } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

/** A store with many accounts that nothing happens to, and one of its own more. */
async function openCrowdedStore(keyPrefix: string = namespace()) {
  const clock = { now: NOON };
  const store = new RedisStore({ client: redis, keyPrefix, now: () => clock.now });
  onTestFinished(() => store.close());
  const grant = (account: string) => store.grant({ account, id: 'g1', amount: 100n });
  await Promise.all(Array.from({ length: 400 }, (_, n) => grant(`idle${n}`)));
  await grant('acme');
  return { store, clock, keyPrefix };
}

async function commandsOf(work: () => Promise<unknown>): Promise<number> {
  const processed = async () => Number(/total_commands_processed:(\d+)/.exec(await redis.info('stats'))?.[1]);
  const before = await processed();
  await work();
  return (await processed()) - before;
}

describe('a sweep of many accounts', () => {
  it('finds at once what a hint tells, without visiting all', async () => {
    const { store, clock } = await openCrowdedStore();
    await store.admit(admission(1, 30n));
    clock.now += 3 * MINUTE;
    const commands = await commandsOf(async () => expect(await store.sweep(10)).toBe(1));
    // Each visit is some commands within its script: all 401 would be thousands.
    expect(commands).toBeLessThan(1500);
    expect(await store.balance('acme')).toMatchObject({ available: 100n, held: 0n });
  });

  it('finds what another process admitted', async () => {
    const { store, clock, keyPrefix } = await openCrowdedStore();
    const other = new RedisStore({ client: redis, keyPrefix, now: () => clock.now });
    onTestFinished(() => other.close());
    await other.admit(admission(1, 30n));
    clock.now += 3 * MINUTE;
    expect(await store.sweep(10)).toBe(1);
  });

  it('finds what was admitted in the minute of its hint, after a sweep took that', async () => {
    const { store, clock, keyPrefix } = await openCrowdedStore();
    const other = new RedisStore({ client: redis, keyPrefix, now: () => clock.now });
    onTestFinished(() => other.close());
    await other.admit({ ...admission(1, 10n), leaseMs: 1000 });
    await other.settle(settlement(1, 5n));
    clock.now += 2000;
    await store.sweep(10);
    // Nobody hints again this minute.
    await other.admit({ ...admission(2, 10n), leaseMs: 1000 });
    clock.now += 2 * MINUTE;
    expect(await store.sweep(10)).toBe(1);
  });

  it('finds in the end what no hint tells', async () => {
    const { store, clock, keyPrefix } = await openCrowdedStore();
    await store.admit(admission(1, 30n));
    expect(await hinted(keyPrefix)).toBe(1);
    await redis.del(await redis.keys(`${keyPrefix}ccr:{due*`));
    clock.now += 3 * MINUTE;
    let ended = 0;
    for (let round = 0; round < 5; round++) ended += await store.sweep(10);
    expect(ended).toBe(1);
  });

  it('expires credits when they are due, though the account is not used', async () => {
    const { store, clock } = await openCrowdedStore();
    await store.grant({ account: 'acme', id: 'g2', amount: 50n, expiresAt: NOON + MINUTE });
    clock.now += 2 * MINUTE;
    await store.sweep(10);
    expect(await store.snapshot('acme')).toMatchObject({ available: 100n, expired: 50n });
  });

  it('ends no more than it may, and the next one goes on', async () => {
    const { store, clock } = await openCrowdedStore();
    for (let n = 1; n <= 5; n++) await store.admit(admission(n, 1n));
    clock.now += 3 * MINUTE;
    expect(await store.sweep(2)).toBe(2);
    expect(await store.sweep(2)).toBe(2);
    expect(await store.sweep(2)).toBe(1);
    expect(await store.sweep(2)).toBe(0);
  });

  it('leaves for the next one what it had no time for', async () => {
    const { store, clock, keyPrefix } = await openCrowdedStore();
    await Promise.all(
      Array.from({ length: 40 }, (_, n) => store.admit({ ...admission(n, 1n), account: `idle${n}` })),
    );
    clock.now += 3 * MINUTE;
    await store.sweep(3);
    expect(await hinted(keyPrefix)).toBe(40);
    expect(await store.sweep(100)).toBe(37);
  });

  it('leaves the hint in place when it fails', async () => {
    const { store, clock, keyPrefix } = await openCrowdedStore();
    await store.admit(admission(1, 30n));
    clock.now += 3 * MINUTE;
    const [requests, away] = [`${keyPrefix}ccr:{acme}:r`, `${keyPrefix}ccr:{acme}:away`];
    await redis.rename(requests, away);
    await redis.set(requests, 'not a hash');
    await expect(store.sweep(10)).rejects.toMatchObject({ name: 'StoreUnavailableError' });
    await redis.rename(away, requests);
    await expect.poll(() => hinted(keyPrefix)).toBe(1);
    expect(await store.sweep(10)).toBe(1);
  });

  it('costs one hint a minute for an account, whatever is admitted', async () => {
    const { clock, keyPrefix } = await openCrowdedStore();
    let sent = 0;
    const createBuiltinCommand: RedisClient['createBuiltinCommand'] = (command) => {
      if (command === 'zadd') sent += 1;
      return redis.createBuiltinCommand(command);
    };
    const client = Object.create(redis, {
      createBuiltinCommand: { value: createBuiltinCommand },
    }) as RedisClient;
    const store = new RedisStore({ client, keyPrefix, now: () => clock.now });
    onTestFinished(() => store.close());
    for (let n = 1; n <= 50; n++) await store.admit(admission(n, 1n));
    expect(sent).toBe(1);
    clock.now += MINUTE;
    await store.admit(admission(51, 1n));
    expect(sent).toBe(2);
  });
});

/** How many accounts there are hints at. */
async function hinted(keyPrefix: string): Promise<number> {
  const names = await redis.keys(`${keyPrefix}ccr:{due*`);
  const counts = await Promise.all(names.map((name) => redis.zcard(name)));
  return counts.reduce((total, count) => total + count, 0);
}
