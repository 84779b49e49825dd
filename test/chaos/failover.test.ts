import { describe, expect, it, onTestFinished } from 'vitest';

import { startProvider } from '../helpers/provider.ts';
import { type ClusterNode, type RedisCluster, startCluster } from '../helpers/redis-cluster.ts';
import { startReplicatedRedis } from '../helpers/replicated-redis.ts';
import { closeBooks, COST, expectChargedOnce, openBooks } from './books.ts';
import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts';
import { statusesOf } from './client.ts';
import { startLoad } from './load.ts';

describe('a replica that is promoted with a lag, under two gateways', { timeout: 60_000 }, () => {
  it.each([1, 2, 3])(
    'has every charge once after their repair: neither lost nor posted by each (LiteLLM #28247): round %i',
    async () => {
      const redis = await startReplicatedRedis();
      onTestFinished(() => redis.close());
      const provider = await startTestProvider();
      const options = { store: redis.url, provider, credits: '100' };
      const gateways = [await startGatewayProcess(options), await startGatewayProcess(options)];
      const load = startLoad(gateways, 12);
      await load.succeeded(100);
      redis.stopReplicating();
      await load.succeeded(60);
      await redis.promote();
      const store = openBooks(redis.replicaUrl);
      const acknowledged = gateways.flatMap(({ settled }) => [...settled.keys()]);
      const found = new Set((await store.journal('acct', 0n, Infinity)).map(({ id }) => id));
      // Something is lost, or this shows nothing.
      expect(acknowledged.filter((id) => !found.has(id)).length).toBeGreaterThan(20);

      redis.redirect();
      await load.succeeded(60);
      const replies = await load.stop();
      await expect.poll(() => gateways.map(isRepaired)).toEqual([true, true]);
      for (const gateway of gateways) await gateway.terminate();
      const books = await closeBooks(store);
      expectChargedOnce(books, replies);
      for (const id of acknowledged) expect(books.charges.get(id)).toBe(COST);
      expect(books.state).toMatchObject({ granted: 100_000_000_000n, writtenOff: 0n });
      expect(books.state.spent).toBe(COST * BigInt(books.charges.size));
    },
  );
});

describe('a cluster under load', { timeout: 60_000 }, () => {
  it('moves an account to another node and then loses that node, and every charge is there once', async () => {
    const cluster = await startCluster({ withReplicas: true });
    onTestFinished(() => cluster.stop());
    const provider = await startTestProvider();
    const gateway = await startGatewayProcess({ store: cluster.url, provider, credits: '100' });
    const load = startLoad([gateway], 8);
    await load.succeeded(100);
    const target = await moveAccount(cluster);
    await load.answered(16);
    const moved = load.replies.length;
    await load.succeeded(100);
    expect(statusesOf(load.replies.slice(moved))).toEqual({ 200: load.replies.length - moved });

    const replica = cluster.replicas[cluster.primaries.indexOf(target)]!;
    await target.server.kill();
    await replica.redis.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
    await load.succeeded(100);
    const replies = await load.stop();
    await gateway.terminate();
    expect(Object.keys(statusesOf(replies)).filter((status) => !['200', '503'].includes(status))).toEqual([]);
    const books = await closeBooks(openBooks(cluster.url));
    expectChargedOnce(books, replies);
    for (const id of gateway.settled.keys()) expect(books.charges.get(id)).toBe(COST);
  });
});

/** Moves the slot of account `acct` to another primary, as redis-cli does, in two parts. */
async function moveAccount(cluster: RedisCluster): Promise<ClusterNode> {
  const { slot, owner } = await cluster.locate('ccr:{acct}:a');
  const target = cluster.primaries.find(({ id }) => id !== owner.id)!;
  const setSlot = async (node: ClusterNode, ...how: readonly string[]): Promise<void> => {
    await node.redis.call('CLUSTER', 'SETSLOT', slot, ...how);
  };
  await setSlot(target, 'IMPORTING', owner.id);
  await setSlot(owner, 'MIGRATING', target.id);
  const keys = (await owner.redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[];
  for (const part of [keys.slice(0, 4), keys.slice(4)]) {
    await owner.redis.call('MIGRATE', '127.0.0.1', target.server.port, '', 0, 5000, 'KEYS', ...part);
  }
  for (const node of [target, ...cluster.primaries]) await setSlot(node, 'NODE', target.id);
  return target;
}

function isRepaired({ events }: GatewayProcess): boolean {
  const count = (wanted: string): number => events.filter(({ type }) => type === wanted).length;
  return count('rollback') > 0 && count('rollback') === count('rollback_repaired');
}

async function startTestProvider(): Promise<string> {
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  return provider.baseURL;
}
