import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { requestId } from '../contracts/ledger-fixture.ts';
import { describeLedgerStore } from '../contracts/index.ts';
import { type ClusterNode, type RedisCluster, startCluster } from '../helpers/redis-cluster.ts';
import { admission, namespace, settlement } from '../helpers/redis-ledger.ts';

let cluster: RedisCluster;
let client: Cluster;

beforeAll(async () => {
  cluster = await startCluster();
  client = new Cluster(cluster.primaries.map(({ server }) => ({ host: '127.0.0.1', port: server.port })));
});

afterAll(async () => {
  client.disconnect();
  await cluster.stop();
});

/** A store by the cluster's URL that is closed when its test ends. */
function openStore(keyPrefix: string = namespace()): RedisStore {
  const store = new RedisStore({ client: cluster.url, keyPrefix });
  onTestFinished(() => store.close());
  return store;
}

describeLedgerStore(
  'RedisStore on a cluster',
  ({ now }) => new RedisStore({ client, keyPrefix: namespace(), now }),
  { sequences: 40 },
);

describe('RedisStore on a cluster', () => {
  it('keeps accounts on all of its nodes, and finds them all', async () => {
    const store = openStore();
    const accounts = Array.from({ length: 30 }, (_, n) => `account${n}`);
    await Promise.all(accounts.map((account) => store.grant({ account, id: 'g1', amount: 1n })));
    const found: string[] = [];
    for await (const account of store.accounts()) found.push(account);
    expect(found.toSorted()).toEqual(accounts.toSorted());
    const sizes = await Promise.all(cluster.primaries.map(({ redis }) => redis.dbsize()));
    expect(sizes.every((size) => size > 0)).toBe(true);
  });

  it('judges each of its primaries', async () => {
    const [, , third] = cluster.primaries;
    const setPolicy = async (policy: string) => third!.redis.config('SET', 'maxmemory-policy', policy);
    onTestFinished(async () => void (await setPolicy('noeviction')));
    await setPolicy('allkeys-lru');
    const store = openStore();
    await expect(store.ready()).rejects.toThrow('Redis may evict credits');
    await expect(store.grant({ account: 'acme', id: 'g1', amount: 1n })).rejects.toMatchObject({
      name: 'StoreUnavailableError',
      applied: 'no',
    });
    await setPolicy('noeviction');
    await expect(store.ready()).resolves.toBeUndefined();
  });

  it('closes all connections that it made', async () => {
    const count = async (): Promise<number> => {
      const lists = await Promise.all(cluster.primaries.map(({ redis }) => redis.call('CLIENT', 'LIST')));
      return lists.join('').trim().split('\n').length;
    };
    const store = new RedisStore(cluster.url);
    await store.ready();
    const open = await count();
    await store.close();
    await expect.poll(count).toBeLessThan(open);
  });
});

describe('an account whose slot moves to another node, under load', () => {
  it('is served all the while, except while its keys are apart, and loses nothing', async () => {
    // The slot is that of the account of every other test too.
    for (const { redis } of cluster.primaries) await redis.flushall();
    const keyPrefix = namespace();
    const store = openStore(keyPrefix);
    await store.grant({ account: 'acme', id: 'g1', amount: 1_000_000n });
    const move = await startMove(`${keyPrefix}ccr:{acme}:a`);
    const load = startLoad(store);
    const phases: [string, () => Promise<void>][] = [
      ['before', async () => {}],
      ['while nothing has moved', move.begin],
      ['while its keys are apart', move.half],
      ['once all has moved', move.rest],
      ['once the move is known', move.finish],
    ];
    const failures: Record<string, number> = {};
    for (const [phase, step] of phases) {
      await step();
      // What was sent before the step may still come to grief by it.
      await load.rounds(8);
      load.failures = 0;
      await load.rounds(phase === 'while its keys are apart' ? 8 : 100);
      failures[phase] = load.failures;
    }
    await load.stop();

    expect(failures).toEqual({
      before: 0,
      'while nothing has moved': 0,
      'while its keys are apart': expect.any(Number),
      'once all has moved': 0,
      'once the move is known': 0,
    });
    expect(failures['while its keys are apart']).toBeGreaterThan(0);
    expect(load.strange).toEqual([]);
    const state = await store.snapshot('acme');
    const spent = BigInt(load.settled) * 3n;
    expect(state).toMatchObject({ spent, held: 0n, available: 1_000_000n - spent, frozen: false });
    expect(state?.seq).toBe(BigInt(load.settled) + 1n);
    expect((await cluster.locate(`${keyPrefix}ccr:{acme}:a`)).owner.id).toBe(move.target.id);
  });
});

/** Moves a key's slot to another node, step by step, as redis-cli does. */
async function startMove(key: string) {
  const { slot, owner } = await cluster.locate(key);
  const target = cluster.primaries.find(({ id }) => id !== owner.id)!;
  const setSlot = async (node: ClusterNode, ...how: string[]): Promise<void> => {
    await node.redis.call('CLUSTER', 'SETSLOT', slot, ...how);
  };
  const migrate = async (keys: readonly string[]): Promise<void> => {
    await owner.redis.call('MIGRATE', '127.0.0.1', target.server.port, '', 0, 5000, 'KEYS', ...keys);
  };
  const keys = async () => (await owner.redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[];
  return {
    target,
    begin: async () => {
      await setSlot(target, 'IMPORTING', owner.id);
      await setSlot(owner, 'MIGRATING', target.id);
    },
    half: async () => {
      const names = await keys();
      expect(names).toHaveLength(10);
      await migrate(names.slice(0, 4));
    },
    rest: async () => migrate(await keys()),
    finish: async () => {
      for (const node of [target, ...cluster.primaries]) await setSlot(node, 'NODE', target.id);
    },
  };
}

/** Four clients that admit and settle 3, one request after the other, and repeat what fails. */
function startLoad(store: RedisStore) {
  let next = 0;
  const stopping = new AbortController();
  const load = {
    settled: 0,
    rounded: 0,
    failures: 0,
    strange: [] as unknown[],
    rounds: async (count: number): Promise<void> => {
      const until = load.rounded + count;
      await expect.poll(() => load.rounded, { interval: 5 }).toBeGreaterThanOrEqual(until);
    },
    stop: async (): Promise<void> => {
      stopping.abort();
      await Promise.all(clients);
    },
  };
  const attempt = async <T extends { code: string }>(command: () => Promise<T>): Promise<T | undefined> => {
    load.rounded += 1;
    return command().catch((error: Error) => {
      load.failures += 1;
      if (error.name !== 'StoreUnavailableError') load.strange.push(error);
      return undefined;
    });
  };
  const clients = Array.from({ length: 4 }, async () => {
    while (!stopping.signal.aborted) {
      const n = next++;
      const base = { ...admission(n, 5n), requestId: requestId(n, Date.now()) };
      let admitted = await attempt(() => store.admit(base));
      while (!admitted) admitted = await attempt(() => store.admit(base));
      if (!['ok', 'exists'].includes(admitted.code)) load.strange.push(admitted);
      const settle = { ...settlement(n, 3n), requestId: base.requestId };
      let settled = await attempt(() => store.settle(settle));
      while (!settled) settled = await attempt(() => store.settle(settle));
      if (!['ok', 'duplicate'].includes(settled.code)) load.strange.push(settled);
      load.settled += 1;
    }
  });
  return load;
}
