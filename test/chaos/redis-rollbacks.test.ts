import { setImmediate as pause } from 'node:timers/promises';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import type { Admit, LedgerStore, Settle } from '../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { OutboxFolder } from '../../src/ledger/reliability/outbox-files.ts';
import { ReliableStore, type ReliableStoreOptions } from '../../src/ledger/reliability/reliable-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { hashOf, USAGE } from '../contracts/ledger-fixture.ts';
import { type ClusterNode, startCluster, until } from '../helpers/redis-cluster.ts';
import { startReplicatedRedis } from '../helpers/replicated-redis.ts';
import { startRolledBackRedis } from '../helpers/rolled-back-redis.ts';

/** What every gateway would do that hears of a loss at once. */
const SOON = { timeout: 20_000 };

describe('a Redis that was rolled back', { timeout: 90_000 }, () => {
  it('has the whole of a charge that was applied again before the grant that paid for it', async () => {
    const redis = await startReplicatedRedis();
    onTestFinished(() => redis.close());
    const [busy, idle] = [openGateway(redis.url), openGateway(redis.url)];
    await busy.store.grant({ account: 'a', id: 'opening', amount: 40n });
    await busy.settleOne(1n);
    const bare = openBare(redis.replicaUrl);
    const replica = new Redis(redis.replicaUrl);
    onTestFinished(() => replica.disconnect());
    await until(async () => (await replica.hget('ccr:{a}:a', 'av')) === '39');
    redis.stopReplicating();
    await idle.store.grant({ account: 'a', id: 'late', amount: 100n });
    for (const amount of [20n, 30n, 15n]) await busy.settleOne(amount);
    await redis.promote();
    redis.redirect();

    // The busy one finds out with its next request, and the balance doesn't cover what it has to charge.
    await busy.isRefused();
    await expect.poll(() => bare.balance('a'), SOON).toMatchObject({ available: 0n, spent: 40n });
    await expect
      .poll(() => bare.balance('a'), { timeout: 40_000 })
      .toMatchObject({ granted: 140n, spent: 66n, available: 74n });
    await expect.poll(() => busy.told(), SOON).toEqual(['rollback', 'rollback_repaired']);
    expect(idle.told()).toEqual(['rollback', 'rollback_repaired']);
    expect((await bare.snapshot('a'))?.writtenOff).toBe(0n);
  });

  it('tells of a charge whose balance was spent again', async () => {
    const redis = await startRolledBackRedis();
    onTestFinished(() => redis.close());
    let skippedMs = 0;
    const gateway = openGateway(redis.server.url, { now: () => Date.now() + skippedMs });
    const bare = openBare(redis.server.url);
    await gateway.store.grant({ account: 'a', id: 'opening', amount: 100n });
    await redis.mark();
    const charged = await gateway.settleOne(80n);
    await redis.rollBack();
    await bare.settle(settlement(gateway.ids.next(), 70n));
    await gateway.isRefused();
    await expect.poll(() => bare.balance('a'), SOON).toMatchObject({ available: 0n, spent: 100n });
    expect(gateway.told()).toEqual(['rollback']);
    // Nobody puts credits back within half a minute.
    skippedMs += 35_000;
    await expect.poll(() => gateway.told(), SOON).toContain('rollback_repaired');
    expect(gateway.events).toMatchObject([
      { type: 'rollback', account: 'a' },
      { type: 'write_off', account: 'a', requestId: charged, amount: '0.00000005' },
      { type: 'repair_refused', account: 'a', id: charged, amount: '-0.00000005', code: 'no_funds' },
      { type: 'rollback_repaired', account: 'a', reapplied: 1 },
    ]);
    expect(await bare.request('a', charged)).toMatchObject({ state: 'settled', amount: 30n });
  });

  it('serves with what was applied again in the same request that found out', async () => {
    const redis = await startRolledBackRedis();
    onTestFinished(() => redis.close());
    const gateway = openGateway(redis.server.url);
    await gateway.store.grant({ account: 'a', id: 'opening', amount: 1000n });
    await redis.mark();
    for (let n = 0; n < 100; n++) await gateway.settleOne(7n);
    await redis.rollBack();
    const { available } = await gateway.admit(100n);
    expect(available).toBe(200n);
    expect(await gateway.store.balance('a')).toMatchObject({ spent: 700n, held: 100n });
  });

  it('tells of nothing where nothing was lost, however late it answers', async () => {
    const redis = await startRolledBackRedis();
    onTestFinished(() => redis.close());
    const gateways = [openGateway(redis.server.url), openGateway(redis.server.url)];
    await gateways[0]!.store.grant({ account: 'a', id: 'opening', amount: 1_000_000n });
    for (let round = 0; round < 5; round++) {
      const running = gateways.flatMap((gateway) =>
        Array.from({ length: 20 }, () => gateway.settleOne(1n).catch(() => {})),
      );
      redis.server.freeze();
      await new Promise((resolve) => setTimeout(resolve, 400));
      redis.server.thaw();
      await Promise.all(running);
      await redis.redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    }
    await until(() =>
      gateways[0]!.settleOne(1n).then(
        () => true,
        () => false,
      ),
    );
    const types = gateways.flatMap(({ events }) => events.map(({ type }) => type));
    expect(types.filter((type) => type.startsWith('rollback'))).toEqual([]);
  });

  it('is reported by the gateway that has something to apply again', async () => {
    const { redis, gateway } = await openRolledBack();
    const other = openGateway(redis.server.url);
    await redis.mark();
    await other.settleOne(10n);
    const beyond = { want: 5000n, min: 5000n };
    expect(await gateway.ask(beyond)).toMatchObject({ code: 'no_funds', available: 990n });
    await redis.rollBack();
    expect(await gateway.ask(beyond)).toMatchObject({ code: 'no_funds', available: 1000n });
    await other.settleOne(1n);
    await expect.poll(() => other.told(), SOON).toEqual(['rollback', 'rollback_repaired']);
    expect(await gateway.ask(beyond)).toMatchObject({ code: 'no_funds', available: 989n });
    expect(gateway.told()).toEqual([]);
  });

  describe('knows an idempotency key again', () => {
    const idempotencyKey = { key: hashOf('key'), body: hashOf('body') };

    it('of a request that runs', async () => {
      const { redis, gateway } = await openRolledBack();
      await redis.mark();
      const { requestId } = await gateway.admit(10n, { idempotencyKey });
      await redis.rollBack();
      expect(await gateway.ask({ idempotencyKey })).toMatchObject({ code: 'repeated', requestId });
    });

    it('of a request whose charge was the first to find out', async () => {
      const { redis, gateway } = await openRolledBack();
      await redis.mark();
      const { requestId } = await gateway.admit(10n, { idempotencyKey });
      await redis.rollBack();
      await gateway.store.settle(settlement(requestId, 5n, { idempotencyKey }));
      for (const other of [gateway, openGateway(redis.server.url)]) {
        expect(await other.ask({ idempotencyKey })).toMatchObject({ code: 'repeated', requestId });
      }
    });

    it('of a charge that was left in the outbox of a gateway that died', async () => {
      const { redis, gateway: first } = await openRolledBack();
      const { folder } = first;
      await redis.mark();
      const { requestId } = await first.admit(10n, { idempotencyKey });
      redis.server.freeze();
      void Promise.resolve(first.store.settle(settlement(requestId, 5n, { idempotencyKey }))).catch(() => {});
      await first.store.close();
      redis.server.thaw();
      await redis.rollBack();
      const second = openGateway(redis.server.url, { folder });
      expect(await second.ask({ idempotencyKey })).toMatchObject({ code: 'repeated', requestId });
      expect(await second.store.balance('a')).toMatchObject({ spent: 5n });
    });
  });

  it('lets no key spend beyond its budget, nor send beyond its requests per minute', async () => {
    const { redis, gateway } = await openRolledBack();
    const terms = {
      account: 'a',
      name: '',
      limits: { budgets: [{ amount: 100n, per: 'lifetime' as const }], requestsPerMinute: 3 },
    };
    await gateway.store.createKey({ ...terms, key: 'limited', hash: hashOf('limited') });
    await redis.mark();
    for (const amount of [40n, 40n]) {
      const { requestId } = await gateway.admit(amount, { key: 'limited', externalKey: false });
      await gateway.store.settle(settlement(requestId, amount, { key: 'limited' }));
      await redis.rollBack();
    }
    const limited = { key: 'limited', externalKey: false };
    expect(await gateway.ask({ ...limited, want: 40n, min: 40n })).toMatchObject({
      code: 'budget',
      left: 20n,
    });
    await gateway.admit(10n, limited);
    await redis.rollBack();
    expect(await gateway.ask({ ...limited, want: 5n, min: 5n })).toMatchObject({
      code: 'requests_per_minute',
    });
  });
});

describe('a cluster whose replica lagged', { timeout: 120_000 }, () => {
  it('has all that was acknowledged, whichever becomes its primary, and however often', async () => {
    const cluster = await startCluster({ withReplicas: true });
    onTestFinished(() => cluster.stop());
    const { owner } = await cluster.locate('ccr:{a}:a');
    const index = cluster.primaries.indexOf(owner);
    let [primary, replica] = [owner, cluster.replicas[index]!];
    const [one, other] = [openGateway(cluster.url), openGateway(cluster.url)];
    await one.store.grant({ account: 'a', id: 'opening', amount: 1_000_000n });
    let settled = 0n;
    for (let round = 1; round <= 3; round++) {
      await until(async () => /master_link_status:up/.test(await replica.redis.info('replication')));
      await one.settleOne(1n);
      await until(async () => (await offsetOf(primary)) === (await offsetOf(replica)));
      await stopReplicating(primary);
      for (let n = 0; n < 2; n++) await one.settleOne(1n);
      await replica.redis.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
      for (let n = 0; n < 3; n++) await other.settleOne(1n);
      await one.settleOne(1n);
      settled += 7n;
      await expect
        .poll(async () => (await other.store.balance('a').catch(() => undefined))?.spent, SOON)
        .toBe(settled);
      await until(async () => /role:slave/.test(await primary.redis.info('replication')));
      await primary.redis.call('ACL', 'SETUSER', 'default', '+psync', '+sync');
      await replica.redis.call('ACL', 'SETUSER', 'default', '+psync', '+sync');
      [primary, replica] = [replica, primary];
    }
    const told = one.told();
    expect(told.filter((type) => type === 'rollback')).toHaveLength(3);
    await expect.poll(() => one.told().filter((type) => type === 'rollback_repaired'), SOON).toHaveLength(3);
    expect(await one.store.snapshot('a')).toMatchObject({ writtenOff: 0n, frozen: false });
  });
});

/** A replica that loses its connection gets no other one: what is written from now on it doesn't have. */
async function stopReplicating({ redis }: ClusterNode): Promise<void> {
  await redis.call('ACL', 'SETUSER', 'default', '-psync', '-sync');
  await redis.call('CLIENT', 'KILL', 'TYPE', 'replica');
}

async function offsetOf({ redis }: ClusterNode): Promise<string | undefined> {
  const text = await redis.info('replication');
  return (/slave_repl_offset:(\d+)/.exec(text) ?? /master_repl_offset:(\d+)/.exec(text))?.[1];
}

async function openRolledBack() {
  const redis = await startRolledBackRedis();
  onTestFinished(() => redis.close());
  const gateway = openGateway(redis.server.url, {
    folder: new OutboxFolder(`${redis.server.directory}/outbox`),
  });
  await gateway.store.grant({ account: 'a', id: 'opening', amount: 1000n });
  return { redis, gateway };
}

function openBare(url: string): LedgerStore {
  const store = new RedisStore(url);
  onTestFinished(() => store.close());
  return store;
}

/** A store as a gateway has it, with one account. */
function openGateway(
  url: string,
  { folder, ...options }: Partial<ReliableStoreOptions> & { folder?: OutboxFolder | undefined } = {},
) {
  const events: LedgerEvent[] = [];
  const ids = new RequestIds();
  const store = new ReliableStore({
    store: new RedisStore(url),
    tell: (event) => events.push(event),
    ...(folder && { outbox: folder }),
    ...options,
  });
  onTestFinished(() => store.close());
  const ask = async (more: Partial<Admit> = {}) =>
    store.admit({
      account: 'a',
      key: 'k1',
      externalKey: true,
      requestId: ids.next(),
      want: 1n,
      min: 1n,
      leaseMs: 120_000,
      tokens: 0,
      notAfter: Infinity,
      ...more,
    });
  const admit = async (want: bigint, more: Partial<Admit> = {}) => {
    const requestId = ids.next();
    for (;;) {
      // It may be between two servers.
      const result = await ask({ requestId, want, min: want, ...more }).catch(() => undefined);
      if (!result) {
        await pause();
        continue;
      }
      if (result.code !== 'ok' && result.code !== 'exists') throw new Error(`The store says ${result.code}`);
      return { requestId, available: result.available };
    }
  };
  return {
    store,
    events,
    ids,
    folder,
    ask,
    admit,
    settleOne: async (amount: bigint) => {
      const { requestId } = await admit(amount);
      await store.settle(settlement(requestId, amount));
      return requestId;
    },
    /** Asks until there is an answer, which is that nothing is left. */
    isRefused: async () => {
      await until(async () => (await ask().catch(() => undefined))?.code === 'no_funds');
    },
    /** Types of the events that are about accounts. */
    told: () => events.map(({ type }) => type).filter((type) => !type.startsWith('store_')),
  };
}

function settlement(requestId: string, amount: bigint, more: Partial<Settle> = {}): Settle {
  return {
    account: 'a',
    requestId,
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
    ...more,
  };
}
