import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { type ClusterNode, type RedisCluster, startCluster, until } from '../helpers/redis-cluster.ts';
import { admission, namespace, settlement } from '../helpers/redis-ledger.ts';
import { startRelay } from '../helpers/redis-relay.ts';
import { type SentinelSetup, startSentinel } from '../helpers/redis-sentinel.ts';

/** Asks until there is an answer, and says how long that took, in ms. */
async function timeUntilServed(store: RedisStore, account: string): Promise<number> {
  const began = performance.now();
  const answered = async (): Promise<boolean> =>
    store.balance(account).then(
      (balance) => balance !== undefined,
      (error: Error) => {
        expect(error.name).toBe('StoreUnavailableError');
        return false;
      },
    );
  await until(answered);
  return performance.now() - began;
}

describe('a cluster that fails over', { timeout: 60_000 }, () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startCluster({ withReplicas: true });
  });

  afterAll(async () => {
    await cluster.stop();
  });

  /** A store, an account of the `index`-th primary, and the replica of that. */
  async function openAccount(index: number) {
    const keyPrefix = namespace();
    const store = new RedisStore({ client: cluster.url, keyPrefix });
    onTestFinished(() => store.close());
    const primary = cluster.primaries[index]!;
    for (let n = 0; ; n++) {
      const account = `account${n}`;
      const { owner } = await cluster.locate(`${keyPrefix}ccr:{${account}}:a`);
      if (owner.id === primary.id) return { store, account, primary, replica: cluster.replicas[index]! };
    }
  }

  async function takeOver(replica: ClusterNode): Promise<void> {
    await replica.redis.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
  }

  it('makes what an operator does durable on each primary', async () => {
    for (const index of [0, 1, 2]) {
      const { store, account } = await openAccount(index);
      expect(await store.grant({ account, id: 'g1', amount: 1n })).toMatchObject({
        code: 'ok',
        durable: true,
      });
      expect(await store.grant({ account, id: 'g1', amount: 1n })).toMatchObject({
        code: 'duplicate',
        durable: true,
      });
    }
  });

  it('serves an account again soon after its primary died, with all that was durable', async () => {
    const { store, account, primary, replica } = await openAccount(0);
    expect(await store.grant({ account, id: 'g1', amount: 100n })).toMatchObject({ durable: true });
    await store.admit({ ...admission(1, 30n), account });
    expect(await store.adjust({ account, id: 'a1', delta: -1n, reason: '' })).toMatchObject({
      durable: true,
    });
    await primary.server.kill();
    await takeOver(replica);
    expect(await timeUntilServed(store, account)).toBeLessThan(5000);
    expect(await store.settle({ ...settlement(1, 12n), account })).toMatchObject({
      code: 'ok',
      charged: 12n,
    });
    expect(await store.balance(account)).toMatchObject({ available: 87n, held: 0n, spent: 12n });
  });

  it('serves an account again soon after its primary froze and was replaced', async () => {
    const { store, account, primary, replica } = await openAccount(1);
    expect(await store.grant({ account, id: 'g1', amount: 100n })).toMatchObject({ durable: true });
    onTestFinished(() => primary.server.thaw());
    primary.server.freeze();
    await takeOver(replica);
    expect(await timeUntilServed(store, account)).toBeLessThan(12_000);
    expect(await store.balance(account)).toMatchObject({ available: 100n });
  });
});

describe('a primary that sentinels watch', { timeout: 60_000 }, () => {
  let sentinel: SentinelSetup;

  beforeAll(async () => {
    sentinel = await startSentinel({ password: 'secret' });
  });

  afterAll(async () => {
    await sentinel.stop();
  });

  it('is found by the URL of its sentinels', async () => {
    const { store } = openStore();
    await expect(store.ready()).resolves.toBeUndefined();
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 100n })).toMatchObject({ durable: true });
  });

  it('is followed when it fails over, and then when it dies', async () => {
    const { store, keyPrefix } = openStore();
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await sentinel.failOver();
    const replica = new Redis(sentinel.replica.port, { password: 'secret' });
    replica.on('error', () => {});
    onTestFinished(() => replica.disconnect());
    const began = performance.now();
    // For a moment the old primary still acknowledges what will be lost.
    await until(async () => {
      await store.grant({ account: 'acme', id: 'g2', amount: 100n }).catch(() => {});
      return (await replica.hget(`${keyPrefix}ccr:{acme}:a`, 'av')) === '200';
    });
    expect(performance.now() - began).toBeLessThan(10_000);

    // It has come back as the replica, and is what sentinels have left when the other dies.
    await sentinel.demoted();
    await sentinel.replica.kill();
    expect(await timeUntilServed(store, 'acme')).toBeLessThan(15_000);
    expect(await store.balance('acme')).toMatchObject({ available: 200n });
  });

  function openStore() {
    const keyPrefix = namespace();
    const store = new RedisStore({ client: sentinel.url, keyPrefix });
    onTestFinished(() => store.close());
    return { store, keyPrefix };
  }

  it('is found again where its sentinel is slow to say who it is, by every gateway', async () => {
    const own = await startSentinel();
    const { port } = new URL(own.url.replace('redis+sentinel', 'http'));
    // It is still asked when it tells of the failover by itself: ioredis then ends the client for good.
    const relay = await startRelay(Number(port), 400);
    onTestFinished(async () => {
      await relay.close();
      await own.stop();
    });
    const stores = Array.from({ length: 6 }, () => {
      const store = new RedisStore(own.url.replace(port, String(relay.port)));
      onTestFinished(() => store.close());
      return store;
    });
    await stores[0]!.grant({ account: 'acme', id: 'g1', amount: 100n });
    await Promise.all(stores.map((store) => store.ready()));
    await own.primary.kill();
    for (const store of stores) {
      expect(await timeUntilServed(store, 'acme')).toBeLessThan(15_000);
      expect(await store.balance('acme')).toMatchObject({ available: 100n });
    }
  });

  it('is followed through failover after failover, where its sentinel is slow to say who it is', async () => {
    const own = await startSentinel();
    const { port } = new URL(own.url.replace('redis+sentinel', 'http'));
    const relay = await startRelay(Number(port), 400);
    onTestFinished(async () => {
      await relay.close();
      await own.stop();
    });
    const stores = Array.from({ length: 3 }, () => {
      const store = new RedisStore(own.url.replace(port, String(relay.port)));
      onTestFinished(() => store.close());
      return store;
    });
    await stores[0]!.grant({ account: 'acme', id: 'g1', amount: 100n });
    await Promise.all(stores.map((store) => store.ready()));
    for (const [round, to] of [own.replica, own.primary, own.replica, own.primary].entries()) {
      await own.demoted();
      await own.failOver(to);
      const id = `round${round}`;
      for (const store of stores) {
        const began = performance.now();
        await until(async () =>
          store.grant({ account: 'acme', id, amount: 1n }).then(
            ({ code }) => code === 'ok' || code === 'duplicate',
            () => false,
          ),
        );
        expect(performance.now() - began).toBeLessThan(2000);
      }
    }
  });

  it('is not waited for when no sentinel answers', async () => {
    const own = await startSentinel();
    const url = own.url;
    await own.stop();
    const store = new RedisStore(url);
    onTestFinished(() => store.close());
    const began = performance.now();
    await expect(store.admit(admission(1, 1n))).rejects.toMatchObject({ applied: 'no' });
    expect(performance.now() - began).toBeLessThan(3000);
  });
});
