import { createHash } from 'node:crypto';

import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';

import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import type { RedisClient } from '../../../src/ledger/stores/redis/redis-client.ts';
import { RedisStore, type RedisStoreOptions } from '../../../src/ledger/stores/redis/redis-store.ts';
import { DAY, hashOf, HOUR, MAX, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { describeLedgerStore } from '../../contracts/index.ts';
import { admission, everything, namespace, settlement, story } from '../../helpers/redis-ledger.ts';
import type { RedisServer } from '../../helpers/redis-server.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let server: RedisServer;
let redis: Redis;

useRedis((own) => ({ server, redis } = own));

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

describeLedgerStore(
  'RedisStore',
  ({ now }) => new RedisStore({ client: redis, keyPrefix: namespace(), now }),
  { sequences: 300 },
);

describe('RedisStore', () => {
  it("reads Redis's clock unless it is given another", async () => {
    const [seconds] = await redis.time();
    const { now } = await openStore().grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(now).toBeGreaterThanOrEqual(Number(seconds) * 1000);
    expect(now).toBeLessThanOrEqual(Number(seconds) * 1000 + 10_000);
  });

  it('shares its accounts with others of the same prefix', async () => {
    const keyPrefix = namespace();
    const [one, other] = [openStore({ keyPrefix }), openStore({ keyPrefix })];
    await one.grant({ account: 'acme', id: 'g1', amount: 100n });
    await one.admit(admission(1, 30n));
    expect(await other.admit(admission(1, 30n))).toMatchObject({ code: 'exists', available: 70n });
  });

  it('works when the server forgets its scripts between any two calls', async () => {
    const forgetful = clientThat(async (command) => {
      if (command === 'evalsha') await redis.script('FLUSH');
    });
    const store = openStore({ client: forgetful, now: () => NOON });
    expect(await story(store)).toEqual(await story(new MemoryStore({ now: () => NOON })));
  });

  it.each<[string, (port: number) => RedisClient & { disconnect(): void }]>([
    ['a key prefix', (port) => new Redis({ port, keyPrefix: 'app:' })],
    ['automatic pipelining', (port) => new Redis({ port, enableAutoPipelining: true })],
    ['no offline queue', (port) => new Redis({ port, enableOfflineQueue: false })],
    ['RESP 2', (port) => new Redis({ port, protocol: 2 })],
    ['replies as RESP 3 has them', (port) => new Redis({ port, replyMapping: 'resp3' })],
    ['numbers as strings', (port) => new Redis({ port, stringNumbers: true })],
    ['friendly error stacks', (port) => new Redis({ port, showFriendlyErrorStack: true })],
  ])('works with a client that has %s', async (_, makeClient) => {
    const client = makeClient(server.port);
    const store = openStore({ client, now: () => NOON });
    expect(await story(store)).toEqual(await story(new MemoryStore({ now: () => NOON })));
    client.disconnect();
  });

  it('is exact beyond 2^53', async () => {
    const clock = { now: NOON };
    const now = (): number => clock.now;
    const stores = [openStore({ now }), new MemoryStore({ now })];
    for (const store of stores) {
      clock.now = NOON;
      const account = 'acme';
      for (let n = 1; n <= 3; n++) {
        await store.grant({ account, id: `g${n}`, amount: MAX });
        await store.admit(admission(n, MAX));
        await store.extend({ account, requestId: requestId(n), hold: 0n, leaseMs: 1, checkpoint: MAX });
        clock.now += 2 * MINUTE;
        await store.sweep(10);
      }
      await store.grant({ account, id: 'g4', amount: MAX, expiresAt: NOON + HOUR });
      await store.admit(admission(4, MAX));
      for (let n = 1; n <= 3; n++) await store.void({ account, requestId: requestId(n) });
      await store.admit(admission(5, MAX));
      await store.admit(admission(6, 7n));
      await store.settle(settlement(4, MAX));
      await store.settle(settlement(5, MAX - 1n));
      await store.settle(settlement(7, 600_000_000n));
      clock.now += HOUR;
      await store.adjust({ account, id: 'a1', delta: -5n, reason: '' });
      await store.compact(account, 8n);
    }
    const [ours, theirs] = await Promise.all(stores.map(everything));
    expect(ours).toEqual(theirs);
    expect(ours?.state).toMatchObject({
      frozen: false,
      granted: 4n * MAX - 5n,
      available: 2n * MAX - 600_000_011n,
    });
  });

  it('charges further parts exactly where more than 2^53 is there', async () => {
    const clock = { now: NOON };
    const now = (): number => clock.now;
    const stores = [openStore({ now }), new MemoryStore({ now })];
    for (const store of stores) {
      clock.now = NOON;
      const account = 'acme';
      for (let n = 1; n <= 3; n++) {
        await store.grant({ account, id: `g${n}`, amount: MAX });
        await store.admit(admission(n, MAX));
        await store.extend({ account, requestId: requestId(n), hold: 0n, leaseMs: 1, checkpoint: MAX });
        clock.now += 2 * MINUTE;
        await store.sweep(10);
      }
      const charge = { ...settlement(4, MAX), inParts: true };
      await store.grant({ account, id: 'g4', amount: 7n });
      expect(await store.settle(charge)).toMatchObject({ charged: 7n });
      for (let n = 1; n <= 3; n++) await store.void({ account, requestId: requestId(n) });
      expect(await store.settle(charge)).toMatchObject({ charged: MAX, available: 2n * MAX + 7n });
      expect(await store.settle(charge)).toMatchObject({ code: 'duplicate', charged: MAX });
    }
    const [ours, theirs] = await Promise.all(stores.map(everything));
    expect(ours).toEqual(theirs);
    expect(ours?.state).toMatchObject({ frozen: false, spent: MAX, granted: 3n * MAX + 7n });
  });

  it('counts no lot that expires when the hundred-and-first is granted', async () => {
    const clock = { now: NOON };
    const store = openStore({ now: () => clock.now });
    const grant = (n: number, expiresAt: number) =>
      store.grant({ account: 'acme', id: `g${n}`, amount: 2n, expiresAt });
    await grant(1, NOON + 1);
    for (let n = 2; n <= 100; n++) await grant(n, NOON + DAY);
    expect(await grant(101, NOON + DAY)).toMatchObject({ code: 'too_many_lots' });
    clock.now += 1;
    expect(await grant(101, NOON + DAY)).toMatchObject({ code: 'ok', available: 200n });
  });

  it('counts those that are due, and can not expire because they are held', async () => {
    const clock = { now: NOON };
    const store = openStore({ now: () => clock.now });
    const grant = (n: number, expiresAt: number) =>
      store.grant({ account: 'acme', id: `g${n}`, amount: 2n, expiresAt });
    for (let n = 1; n <= 100; n++) await grant(n, NOON + n);
    await store.admit(admission(1, 200n));
    clock.now += 50;
    expect(await grant(101, NOON + DAY)).toMatchObject({ code: 'too_many_lots' });
  });

  it('freezes an account whose books do not add up, and repairs nothing', async () => {
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await redis.hincrby(`${keyPrefix}ccr:{acme}:a`, 'av', 1);
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    expect(await store.snapshot('acme')).toMatchObject({ frozen: true, available: 101n, granted: 100n });
  });

  it('does not begin again an account of which a part is lost', async () => {
    const keyPrefix = namespace();
    const clock = { now: NOON };
    const store = openStore({ keyPrefix, now: () => clock.now });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.admit(admission(1, 30n));
    await redis.del(`${keyPrefix}ccr:{acme}:r`);
    clock.now += HOUR;
    await store.sweep(10);
    expect(await store.snapshot('acme')).toMatchObject({ frozen: true, available: 70n, held: 30n });
    await redis.del(`${keyPrefix}ccr:{acme}:a`);
    const granted = store.grant({ account: 'acme', id: 'g2', amount: 1n });
    await expect(granted).rejects.toMatchObject({ name: 'StoreUnavailableError' });
    expect(await store.snapshot('acme')).toBeUndefined();
  });

  it('keeps any text as it is', async () => {
    const store = openStore();
    const odd = 'a b|c\n"\\ é 漢 \u{1f600} \ud800 -';
    await store.grant({ account: 'acme', id: 'g|1', amount: 9n, expiresAt: NOON * 2 });
    await store.adjust({ account: 'acme', id: '-', delta: -1n, reason: odd });
    await store.settle({ ...settlement(1, 1n), model: odd, usage: { ...USAGE, price: odd } });
    await store.createKey({ account: 'acme', key: '_', hash: hashOf('_'), name: odd });
    expect(await store.journal('acme', 0n, 9)).toMatchObject([
      { id: 'g|1' },
      { id: '-', reason: odd },
      { model: odd, usage: { price: odd } },
    ]);
    expect(await store.snapshot('acme')).toMatchObject({
      lots: [{ id: 'g|1' }],
      keys: [{ key: '_', name: odd }],
    });
  });

  it('trims and sweeps thousands a few at a time', async () => {
    const clock = { now: NOON };
    const store = openStore({ now: () => clock.now });
    await store.grant({ account: 'acme', id: 'g1', amount: 2000n });
    await Promise.all(Array.from({ length: 1200 }, (_, n) => store.settle(settlement(n, 1n))));
    await store.compact('acme', 1101n);
    expect(await store.snapshot('acme')).toMatchObject({ compacted: { seq: 1101n, spent: 1100n } });
    expect((await store.journal('acme', 0n, 5)).map(({ seq }) => seq)).toEqual([
      1102n,
      1103n,
      1104n,
      1105n,
      1106n,
    ]);
    clock.now += DAY;
    expect(await store.sweep(250)).toBe(250);
    expect(await store.sweep(5000)).toBe(950);
  });

  it('keeps all of an account in one slot, all of its keys from birth, and no API key', async () => {
    const apiKey = 'sk-ccr-a-secret';
    const hash = createHash('sha256').update(apiKey).digest('hex');
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix });
    const names = async (): Promise<string[]> => (await redis.keys(`${keyPrefix}*`)).toSorted();
    await store.createKey({ account: 'acme', key: 'k1', hash, name: '' });
    const fromBirth = await names();
    const [ofAcme, others] = [true, false].map((its) =>
      fromBirth.filter((name) => name.startsWith(`${keyPrefix}ccr:{acme}:`) === its),
    );
    expect(ofAcme).toHaveLength(10);
    expect(others).toEqual([`${keyPrefix}ccr:k:${hash}`, `${keyPrefix}ccr:{acct58}`]);
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.admit(admission(1, 100n));
    await store.settle(settlement(1, 100n));
    const hint = `${keyPrefix}ccr:{due58}`;
    expect(await names()).toEqual([...fromBirth, hint]);
    const dumps = await Promise.all(fromBirth.map((key) => redis.dumpBuffer(key)));
    expect(dumps.some((dump) => dump?.includes('k1'))).toBe(true);
    expect(dumps.some((dump) => dump?.includes(apiKey))).toBe(false);
  });

  it.each<[string, () => RedisStoreOptions]>([
    ['its own', () => ({ client: redis, keyPrefix: '{app}' })],
    ["the client's", () => ({ client: new Redis({ lazyConnect: true, keyPrefix: '{app}:' }) })],
  ])('refuses braces in %s key prefix', (_, options) => {
    expect(() => new RedisStore(options())).toThrow(/^keyPrefix must not contain braces/);
  });

  it('finds no key by a hash that is not its own, whatever points at it', async () => {
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix });
    await store.createKey({ account: 'acme', key: 'k1', hash: hashOf('k1'), name: '' });
    await redis.set(`${keyPrefix}ccr:k:${hashOf('k2')}`, 'acme k1');
    expect(await store.findKey(hashOf('k2'))).toBeUndefined();
  });

  it('does not let two keys have one hash, whichever comes first', async () => {
    const store = openStore();
    const make = (account: string) => store.createKey({ account, key: 'k1', hash: hashOf('k1'), name: '' });
    const codes = (await Promise.all([make('acme'), make('zeta')])).map(({ code }) => code);
    expect(codes.toSorted()).toEqual(['conflict', 'ok']);
    const owner = codes[0] === 'ok' ? 'acme' : 'zeta';
    expect(await store.findKey(hashOf('k1'))).toMatchObject({ account: owner, state: 'active' });
  });
});

const opened: RedisStore[] = [];

/** A store that is closed when its test ends. */
function openStore(options: Partial<RedisStoreOptions> = {}): RedisStore {
  const store = new RedisStore({ client: redis, keyPrefix: namespace(), ...options });
  opened.push(store);
  return store;
}

/** The client of all tests, with something done before each of its commands. */
function clientThat(does: (command: string) => Promise<void>): RedisClient {
  const createBuiltinCommand: RedisClient['createBuiltinCommand'] = (command) => ({
    string: async (...args) => {
      await does(command);
      return redis.createBuiltinCommand(command).string.apply(redis, args);
    },
  });
  return Object.create(redis, { createBuiltinCommand: { value: createBuiltinCommand } });
}
