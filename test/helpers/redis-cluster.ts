import { setTimeout as pause } from 'node:timers/promises';

import { Redis } from 'ioredis';

import { freePort, type RedisServer, retried, startRedis } from './redis-server.ts';

export interface ClusterNode {
  readonly server: RedisServer;
  /** A client of this node alone. */
  readonly redis: Redis;
  readonly id: string;
}

/** A real cluster of a test's own: each primary has a third of the slots, and a replica if asked for. */
export interface RedisCluster {
  readonly url: string;
  readonly primaries: readonly ClusterNode[];
  /** The i-th replicates the i-th primary. */
  readonly replicas: readonly ClusterNode[];
  /** The number of a key's slot, and who serves it. */
  locate(key: string): Promise<{ slot: number; owner: ClusterNode }>;
  stop(): Promise<void>;
}

const SLOTS = 16_384;
const PRIMARIES = 3;

export async function startCluster({ withReplicas = false } = {}): Promise<RedisCluster> {
  const nodes = await Promise.all(
    Array.from({ length: withReplicas ? 2 * PRIMARIES : PRIMARIES }, () => retried(startNode)),
  );
  const primaries = nodes.slice(0, PRIMARIES);
  const replicas = nodes.slice(PRIMARIES);
  const [first] = primaries;
  for (const [i, { redis }] of primaries.entries()) {
    const [from, to] = [Math.ceil((i * SLOTS) / PRIMARIES), Math.ceil(((i + 1) * SLOTS) / PRIMARIES) - 1];
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
    await redis.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
  }
  for (const { server, busPort } of nodes.slice(1)) {
    await first!.redis.call('CLUSTER', 'MEET', '127.0.0.1', server.port, busPort);
  }
  await until(async () =>
    (await Promise.all(nodes.map(knownNodes))).every((known) => known === nodes.length),
  );
  for (const [i, { redis }] of replicas.entries()) {
    await redis.call('CLUSTER', 'REPLICATE', primaries[i]!.id);
  }
  await until(async () => (await Promise.all(nodes.map(isWell))).every(Boolean));
  if (withReplicas) {
    await until(async () => (await Promise.all(replicas.map(isLinked))).every(Boolean));
  }

  return {
    url: `redis+cluster://${primaries.map(({ server }) => `127.0.0.1:${server.port}`).join(',')}`,
    primaries,
    replicas,
    locate: async (key) => {
      const { redis } = nodes.find((node) => node.redis.status === 'ready')!;
      const slot = Number(await redis.call('CLUSTER', 'KEYSLOT', key));
      const ranges = (await redis.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
      const port = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2][1];
      return { slot, owner: nodes.find(({ server }) => server.port === port)! };
    },
    stop: async () => {
      for (const { redis } of nodes) redis.disconnect();
      await Promise.all(nodes.map(({ server }) => server.kill()));
    },
  };
}

/** Asks again and again until it is so. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(20);
}

async function startNode(): Promise<ClusterNode & { readonly busPort: number }> {
  const busPort = await freePort();
  // Failovers are the tests' to order.
  const options =
    `--cluster-enabled yes --cluster-port ${busPort} --cluster-node-timeout 2000 ` +
    '--cluster-replica-no-failover yes --cluster-replica-validity-factor 0 --repl-diskless-sync-delay 0';
  const server = await startRedis(options.split(' '));
  const redis = new Redis(server.port);
  redis.on('error', () => {});
  return { server, redis, busPort, id: String(await redis.call('CLUSTER', 'MYID')) };
}

async function knownNodes({ redis }: ClusterNode): Promise<number> {
  return Number(/cluster_known_nodes:(\d+)/.exec(await info(redis))?.[1]);
}

async function isWell({ redis }: ClusterNode): Promise<boolean> {
  return /cluster_state:ok/.test(await info(redis));
}

async function isLinked({ redis }: ClusterNode): Promise<boolean> {
  return /master_link_status:up/.test(await redis.info('replication'));
}

async function info(redis: Redis): Promise<string> {
  return String(await redis.call('CLUSTER', 'INFO'));
}
