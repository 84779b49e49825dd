import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished, vi } from 'vitest';

import type { LedgerStore } from '../../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { requestId } from '../../contracts/ledger-fixture.ts';
import { startCluster, until } from '../../helpers/redis-cluster.ts';
import { admission, settlement } from '../../helpers/redis-ledger.ts';
import { startRelay } from '../../helpers/redis-relay.ts';
import { startRedis } from '../../helpers/redis-server.ts';

/** A server, a client of it to administer it by, and a store by its URL with 100 in an account of which 30 are held. */
async function openAll(args: readonly string[] = []) {
  const server = await startRedis(args);
  onTestFinished(() => server.kill());
  const redis = new Redis(server.port);
  redis.on('error', () => {});
  onTestFinished(() => redis.disconnect());
  const store = openStore(server.url);
  await store.grant({ account: 'acme', id: 'g1', amount: 100n });
  await store.admit(admission(1, 30n));
  return { server, redis, store };
}

function openStore(url: string, timeoutMs?: number): RedisStore {
  const store = new RedisStore({ client: url, ...(timeoutMs && { timeoutMs }) });
  onTestFinished(() => store.close());
  return store;
}

const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always'];
const aware = { name: 'StoreUnavailableError', applied: 'no' };

/** What each of the commands that move money came to. */
async function tryAll(store: LedgerStore): Promise<unknown[]> {
  return Promise.all(
    [
      store.admit(admission(2, 10n)),
      store.settle(settlement(1, 12n)),
      store.void({ account: 'acme', requestId: requestId(3) }),
      store.grant({ account: 'acme', id: 'g2', amount: 1n }),
    ].map((command) => Promise.resolve<unknown>(command).catch((error: unknown) => error)),
  );
}

/** Asks until the account answers. */
async function untilServed(store: LedgerStore): Promise<void> {
  await expect.poll(() => store.balance('acme').catch(() => undefined), { interval: 10 }).toBeDefined();
}

describe('a Redis that', () => {
  it('is unavailable: every command is refused at once, and none is applied later', async () => {
    const { server, store } = await openAll(['--appendonly', 'yes', '--appendfsync', 'always']);
    // Would wait for longer than the test may take.
    const patient = openStore(server.url, 600_000);
    await patient.balance('acme');
    server.freeze();
    const frozen = await store.admit(admission(4, 10n)).catch((error: unknown) => error);
    expect(frozen).toMatchObject({ name: 'StoreUnavailableError', applied: 'unknown' });
    await server.restart();
    await server.kill();
    await expect.poll(() => tryAll(patient)).toMatchObject([aware, aware, aware, aware]);
  });

  it('goes silent without closing a connection is connected to again', { timeout: 20_000 }, async () => {
    const { server } = await openAll();
    const relay = await startRelay(server.port);
    onTestFinished(() => relay.close());
    const store = openStore(`redis://127.0.0.1:${relay.port}`);
    await store.balance('acme');
    relay.silence();
    await expect(store.admit(admission(5, 1n))).rejects.toMatchObject({ applied: 'unknown' });
    await untilServed(store);
  });

  it('pauses: admits are given up in time, and leave no ghost of a hold', async () => {
    const { redis, server, store } = await openAll();
    const impatient = openStore(server.url, 250);
    const { now } = await impatient.grant({ account: 'acme', id: 'g1', amount: 100n });
    await redis.call('CLIENT', 'PAUSE', '600', 'ALL');
    const pinged = vi.fn<() => void>();
    const ping = redis.ping().then(() => pinged());
    const late = impatient.admit({ ...admission(2, 10n), notAfter: now + 250 });
    await expect(late).rejects.toMatchObject({ name: 'StoreUnavailableError' });
    expect(pinged).not.toHaveBeenCalled();
    await ping;
    expect(await store.balance('acme')).toMatchObject({ available: 70n, held: 30n });
  });

  it('pauses: a whole account is waited for, which other commands are not', async () => {
    const { redis, server } = await openAll();
    const impatient = openStore(server.url, 250);
    await impatient.grant({ account: 'acme', id: 'g1', amount: 100n });
    await redis.call('CLIENT', 'PAUSE', '1000', 'ALL');
    const whole = impatient.snapshot('acme');
    await expect(impatient.balance('acme')).rejects.toMatchObject({ name: 'StoreUnavailableError' });
    expect(await whole).toMatchObject({ granted: 100n });
  });

  it('pauses: a command is waited for as long as it may take', async () => {
    const { redis, server } = await openAll();
    const patient = openStore(server.url, 20_000);
    await patient.balance('acme');
    await redis.call('CLIENT', 'PAUSE', '5500', 'ALL');
    expect(await patient.snapshot('acme')).toMatchObject({ granted: 100n });
  });

  it('became a replica refuses, and is served once it is a primary again', async () => {
    const { redis, store } = await openAll();
    await redis.replicaof('127.0.0.1', '1');
    expect(await tryAll(store)).toMatchObject([aware, aware, aware, aware]);
    await redis.replicaof('NO', 'ONE');
    await untilServed(store);
    expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'ok', charged: 12n });
  });

  it('is a replica without its primary refuses', async () => {
    const { redis, store } = await openAll(['--replica-serve-stale-data', 'no']);
    await redis.replicaof('127.0.0.1', '1');
    expect(await tryAll(store)).toMatchObject([aware, aware, aware, aware]);
  });

  it('loads its file after a restart refuses till it has, and has lost nothing', async () => {
    // It waits before each key that it loads, and serves clients once in 1,024 keys.
    const slowly = ['--key-load-delay', '100'];
    const { server, redis, store } = await openAll([...DURABLE, ...slowly]);
    await redis.eval("for i = 1, 60000 do redis.call('SET', 'other' .. i, 'x') end", 0);
    await server.restart();
    const refusals: unknown[] = [];
    const isServed = async (): Promise<boolean> =>
      store.balance('acme').then(
        () => true,
        (error: unknown) => {
          refusals.push(error);
          return false;
        },
      );
    await until(async () => (await isServed()) || refusals.length > 0);
    expect(refusals.length).toBeGreaterThan(0);
    const loading = new Redis(server.port, { enableReadyCheck: false, maxRetriesPerRequest: null });
    onTestFinished(() => loading.disconnect());
    expect(await loading.info('persistence')).toContain('loading:1');
    await loading.config('SET', 'key-load-delay', '0');
    await until(isServed);
    for (const refusal of refusals) expect(refusal).toMatchObject(aware);
    expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'ok', charged: 12n });
    expect(await store.balance('acme')).toMatchObject({ available: 88n, held: 0n, spent: 12n });
  });

  it(
    "is busy with another client's script refuses, and what can wait is tried again",
    { timeout: 30_000 },
    async () => {
      const { redis, server } = await openAll(['--busy-reply-threshold', '20']);
      const store = new RedisStore({ client: server.url, timeoutMs: 20_000 });
      onTestFinished(() => store.close());
      const impatient = openStore(server.url, 250);
      await Promise.all([store.ready(), impatient.ready()]);
      const other = new Redis(server.port);
      other.on('error', () => {});
      onTestFinished(() => other.disconnect());
      const endless = other.eval('while true do end', 0).catch(() => {});
      await until(async () =>
        redis.ping().then(
          () => false,
          (error: Error) => error.message.startsWith('BUSY'),
        ),
      );
      // Whoever gives up while his last try is on its way does not know what became of it: that says nothing here.
      const admitted = (n: number): Promise<unknown> =>
        impatient.admit(admission(n, 10n)).catch((error: unknown) => error);
      await expect
        .poll(() => admitted(2))
        .toMatchObject({ ...aware, cause: { message: expect.stringMatching(/^BUSY/) } });
      const settled = store.settle(settlement(1, 12n));
      await expect.poll(() => admitted(3)).toMatchObject(aware);
      await redis.call('SCRIPT', 'KILL');
      await endless;
      expect(await settled).toMatchObject({ code: 'ok', charged: 12n });
      expect(await store.balance('acme')).toMatchObject({ available: 88n, held: 0n });
    },
  );

  it('has too few replicas to write to refuses', async () => {
    const { redis, store } = await openAll();
    await redis.config('SET', 'min-replicas-to-write', '1');
    const outcomes = await tryAll(store);
    expect(outcomes).toMatchObject([aware, aware, aware, aware]);
    expect(outcomes).toMatchObject(
      Array.from({ length: 4 }, () => ({ cause: { message: expect.stringMatching(/^NOREPLICAS/) } })),
    );
  });

  it('can not write its disk refuses, and goes on when it can', async () => {
    const { server, redis, store } = await openAll();
    await redis.config('SET', 'save', '3600 1');
    // A snapshot can't take the place of a directory.
    mkdirSync(join(server.directory, 'dump.rdb'));
    await redis.bgsave();
    await expect.poll(() => redis.info('persistence')).toContain('rdb_last_bgsave_status:err');
    const outcomes = await tryAll(store);
    expect(outcomes).toMatchObject(
      Array.from({ length: 4 }, () => ({ ...aware, cause: { message: expect.stringMatching(/^MISCONF/) } })),
    );
    rmdirSync(join(server.directory, 'dump.rdb'));
    await redis.bgsave();
    await expect.poll(() => redis.info('persistence')).toContain('rdb_last_bgsave_status:ok');
    expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'ok', charged: 12n });
  });

  it.each(['always', 'everysec'])(
    'is killed and restarted, with fsync %s, has lost nothing',
    async (fsync) => {
      const { server, redis, store } = await openAll(['--appendonly', 'yes', '--appendfsync', fsync]);
      await store.settle(settlement(1, 12n));
      for (let n = 10; n < 60; n++) {
        await store.admit(admission(n, 1n));
        await store.settle(settlement(n, 1n));
      }
      const before = await store.snapshot('acme');
      // Redis puts off a write for two seconds where the disk is busy with an fsync.
      await expect.poll(() => redis.info('persistence')).toMatch(/aof_buffer_length:0\r/);
      await server.restart();
      await untilServed(store);
      expect(await store.snapshot('acme')).toEqual(before);
      expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'duplicate', charged: 12n });
    },
  );

  it('restarts empty has no account, and none is made by a request', async () => {
    const { server, redis, store } = await openAll();
    await server.restart();
    await timeUntilEmpty(store);
    expect(await store.admit(admission(2, 10n))).toMatchObject({ code: 'no_account' });
    expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'no_account' });
    expect(await store.void({ account: 'acme', requestId: requestId(1) })).toMatchObject({
      code: 'no_account',
    });
    await expect.poll(() => redis.keys('ccr:{acme}:*').catch(() => undefined)).toEqual([]);
  });
});

describe('a cluster that', () => {
  it('is down refuses, and serves again when it is up', { timeout: 30_000 }, async () => {
    const cluster = await startCluster();
    onTestFinished(() => cluster.stop());
    const store = openStore(cluster.url);
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    // Nothing of the account's is in slot 0, which the first primary has.
    const [first] = cluster.primaries;
    for (const { redis } of cluster.primaries) await redis.call('CLUSTER', 'DELSLOTS', 0);
    await expect
      .poll(() => store.admit(admission(1, 10n)).catch((error: unknown) => error))
      .toMatchObject({ ...aware, cause: { message: expect.stringContaining('CLUSTERDOWN') } });
    await first!.redis.call('CLUSTER', 'ADDSLOTS', 0);
    await untilServed(store);
    expect(await store.admit(admission(2, 10n))).toMatchObject({ code: 'ok', available: 90n });
  });
});

async function timeUntilEmpty(store: LedgerStore): Promise<void> {
  const gone = Symbol('no account');
  await expect
    .poll(
      () =>
        store.balance('acme').then(
          (balance) => balance ?? gone,
          () => undefined,
        ),
      { interval: 10 },
    )
    .toBe(gone);
}
