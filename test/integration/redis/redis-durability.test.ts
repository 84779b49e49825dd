import { execFileSync } from 'node:child_process';

import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { RedisStore, type RedisStoreOptions } from '../../../src/ledger/stores/redis/redis-store.ts';
import { hashOf } from '../../contracts/ledger-fixture.ts';
import { until } from '../../helpers/redis-cluster.ts';
import { admission, namespace } from '../../helpers/redis-ledger.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

/** WAITAOF is there since Redis 7.2. */
const version =
  /v=(\d+)\.(\d+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' })) ?? [];
const tellsOfDisk = Number(version[1]) * 100 + Number(version[2]) >= 702;

let primary: RedisServer;
let replica: RedisServer;
let redis: Redis;

beforeAll(async () => {
  primary = await startRedis(['--repl-diskless-sync-delay', '0']);
  replica = await startRedis(['--replicaof', '127.0.0.1', String(primary.port)]);
  redis = new Redis(primary.url);
  await until(async () => /slave0:.*state=online/.test(await redis.info('replication')));
});

afterAll(async () => {
  redis.disconnect();
  await replica.kill();
  await primary.kill();
});

/** A store that is closed when its test ends. */
function openStore(options: Partial<RedisStoreOptions> = {}): RedisStore {
  const store = new RedisStore({ client: primary.url, keyPrefix: namespace(), ...options });
  onTestFinished(() => store.close());
  return store;
}

function freezeReplica(): void {
  onTestFinished(() => replica.thaw());
  replica.freeze();
}

const connections = async (): Promise<number> =>
  String(await redis.call('CLIENT', 'LIST', 'TYPE', 'normal'))
    .trim()
    .split('\n').length;

describe('what an operator does, with a replica', () => {
  it('is acknowledged as durable once the replica has it', async () => {
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix });
    const account = 'acme';
    const key = { account, key: 'k1', hash: hashOf('k1'), name: '' };
    expect(await store.grant({ account, id: 'g1', amount: 100n })).toMatchObject({
      code: 'ok',
      durable: true,
    });
    expect(await store.adjust({ account, id: 'a1', delta: -1n, reason: '' })).toMatchObject({
      durable: true,
    });
    expect(await store.createKey(key)).toMatchObject({ code: 'ok', durable: true });
    const reader = new Redis(replica.url);
    onTestFinished(() => reader.disconnect());
    expect(await reader.hget(`${keyPrefix}ccr:{acme}:a`, 'av')).toBe('99');
    expect(await reader.get(`${keyPrefix}ccr:k:${hashOf('k1')}`)).toBe('acme k1');
  });

  it('is answered once the replica has it, where it takes something away', async () => {
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix, durability: { timeoutMs: 300 } });
    await store.createKey({ account: 'acme', key: 'k1', hash: hashOf('k1'), name: '' });
    freezeReplica();
    const takers = [
      () => store.revokeKey('acme', 'k1'),
      // Repeated, too: whoever did it first may not have waited.
      () => openStore({ keyPrefix, durability: { timeoutMs: 300 } }).revokeKey('acme', 'k1'),
      () => store.freeze('acme', true),
    ];
    for (const take of takers) {
      const began = performance.now();
      expect(await take()).toBe(true);
      expect(performance.now() - began).toBeGreaterThan(250);
    }
  });

  it('is repeated until it is durable', async () => {
    const store = openStore({ durability: { timeoutMs: 100 } });
    const grant = () => store.grant({ account: 'acme', id: 'g1', amount: 100n });
    freezeReplica();
    expect(await grant()).toMatchObject({ code: 'ok', available: 100n, durable: false });
    expect(await grant()).toMatchObject({ code: 'duplicate', available: 100n, durable: false });
    replica.thaw();
    await expect.poll(grant).toMatchObject({ code: 'duplicate', available: 100n, durable: true });
  });

  it('also when it is repeated by another process', async () => {
    const keyPrefix = namespace();
    const account = 'acme';
    const key = { account, key: 'k1', hash: hashOf('k1'), name: '' };
    const store = openStore({ keyPrefix });
    await store.grant({ account, id: 'g1', amount: 100n });
    await store.adjust({ account, id: 'a1', delta: -1n, reason: '' });
    await store.createKey(key);
    freezeReplica();
    // One each: what is waited for is all that a connection wrote.
    const another = () => openStore({ keyPrefix, durability: { timeoutMs: 50 } });
    expect(await another().grant({ account, id: 'g1', amount: 100n })).toMatchObject({ durable: false });
    expect(await another().adjust({ account, id: 'a1', delta: -1n, reason: '' })).toMatchObject({
      durable: false,
    });
    expect(await another().createKey(key)).toMatchObject({ code: 'ok', durable: false });
  });

  it('is not durable before as many replicas have it as were asked for', async () => {
    const store = openStore({ durability: { replicas: 2, timeoutMs: 100 } });
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 1n })).toMatchObject({ durable: false });
  });

  it('waits for none when none is asked for', async () => {
    const store = openStore({ durability: { replicas: 0 } });
    freezeReplica();
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 1n })).not.toHaveProperty('durable');
  });

  it('says nothing of durability where it is refused', async () => {
    const store = openStore();
    await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 2n })).toEqual({
      code: 'conflict',
      now: expect.any(Number),
      seq: 1n,
    });
  });

  it('keeps no request waiting, and many are waited for together', async () => {
    // One after the other, the waits would take longer than a test may.
    const store = openStore({ durability: { timeoutMs: 2000 } });
    await store.grant({ account: 'acme', id: 'g0', amount: 100n });
    freezeReplica();
    let answered = 0;
    const granted = Array.from({ length: 50 }, async (_, n) => {
      const result = await store.grant({ account: 'acme', id: `g${n + 1}`, amount: 1n });
      answered += 1;
      return result;
    });
    for (let n = 1; n <= 20; n++) expect(await store.admit(admission(n, 1n))).toMatchObject({ code: 'ok' });
    expect(answered).toBe(0);
    const results = await Promise.all(granted);
    expect(results.every((result) => result.code === 'ok' && result.durable === false)).toBe(true);
  });

  it('is not taken for lost when the connection is, while the replica is waited for', async () => {
    const store = openStore({ durability: { timeoutMs: 2000 } });
    freezeReplica();
    const granted = store.grant({ account: 'acme', id: 'g1', amount: 100n });
    let blocked: string | undefined;
    await until(async () => {
      blocked = /^id=(\d+) .*flags=b/m.exec(String(await redis.call('CLIENT', 'LIST')))?.[1];
      return blocked !== undefined;
    });
    await redis.call('CLIENT', 'KILL', 'ID', blocked ?? '');
    expect(await granted).toMatchObject({ code: 'ok', durable: false });
    replica.thaw();
    await expect
      .poll(() => store.grant({ account: 'acme', id: 'g1', amount: 100n }).catch(() => undefined))
      .toMatchObject({ code: 'duplicate', durable: true });
  });

  it('leaves no connection behind', async () => {
    await expect.poll(connections).toBe(1);
    const store = openStore();
    await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(await connections()).toBe(3);
    await store.close();
    await expect.poll(connections).toBe(1);
  });

  it('works with a client of the host, and leaves it open', async () => {
    const client = new Redis(primary.url);
    onTestFinished(() => client.disconnect());
    const store = openStore({ client });
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 1n })).toMatchObject({ durable: true });
    await store.close();
    expect(await client.ping()).toBe('PONG');
  });
});

describe('what an operator does, with no replica', () => {
  it('is acknowledged at once, and nothing is said of durability', async () => {
    const alone = await startRedis();
    onTestFinished(() => alone.kill());
    const store = openStore({ client: alone.url });
    const granted = await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(granted).toMatchObject({ code: 'ok' });
    expect(granted).not.toHaveProperty('durable');
  });

  it.runIf(tellsOfDisk)('is acknowledged as durable once the disk has it', async () => {
    const alone = await startRedis(['--appendonly', 'yes', '--appendfsync', 'everysec']);
    onTestFinished(() => alone.kill());
    const store = openStore({ client: alone.url, durability: { timeoutMs: 3000 } });
    const grant = () => store.grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(await grant()).toMatchObject({ code: 'ok', durable: true });
    await alone.restart();
    await expect
      .poll(() => grant().catch(() => undefined))
      .toMatchObject({ code: 'duplicate', durable: true });
  });

  it.each([
    [{ replicas: -1 }, /^durability.replicas must be/],
    [{ replicas: 1.5 }, /^durability.replicas must be/],
    [{ timeoutMs: 0 }, /^durability.timeoutMs must be/],
    [{ timeoutMs: 60_001 }, /^durability.timeoutMs must be/],
  ])('is not made durable by %j', (durability, message) => {
    expect(() => new RedisStore({ client: primary.url, durability })).toThrow(message);
  });

  it.each([NaN, 0, -1, Infinity, 2 ** 31])(
    'is waited for within a time that a timer can have, not %d',
    (timeoutMs) => {
      expect(() => new RedisStore({ client: primary.url, timeoutMs })).toThrow(
        `timeoutMs must be from 1 to 2147483647, got ${timeoutMs}`,
      );
    },
  );
});
