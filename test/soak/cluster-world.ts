import { setTimeout as pause } from 'node:timers/promises';

import { type ClusterNode, type RedisCluster, startCluster } from '../helpers/redis-cluster.ts';
import { holdReplication, isLinkedReplica, isPrimary, releaseReplication, within } from './replication.ts';
import { drawMs, type Nemesis, type Stage } from './stage.ts';
import type { Fault } from './timeline.ts';
import type { World } from './world.ts';

const SETTLE_MS = 30_000;
/** Of which the slots are moved: each is of another node. */
const ACCOUNTS: readonly [string, ...string[]] = ['rich-0', 'rich-1', 'solo-0', 'poor-0', 'limited'];

interface Shard {
  readonly primary: ClusterNode;
  readonly replica: ClusterNode;
}

/** Three primaries with a replica each, which gateways reach directly. */
export async function startClusterWorld(places: number): Promise<World> {
  const cluster = await startCluster({ withReplicas: true });
  for (const { redis } of nodesOf(cluster)) redis.on('error', () => {});
  return {
    storeUrls: Array.from({ length: places }, () => cluster.url),
    booksUrl: () => cluster.url,
    nemeses: { ...failovers(cluster), ...disturbances(cluster) },
    close: () => cluster.stop(),
  };
}

function failovers(cluster: RedisCluster): Record<string, Nemesis> {
  return {
    failOver: {
      name: 'CLUSTER FAILOVER',
      group: 'store',
      async strike(stage, fault) {
        const shard = await drawShard(cluster, stage);
        if (shard) await promote(shard, fault, []);
      },
    },
    /** The old primary answers until it has heard of it. */
    takeOver: {
      name: 'CLUSTER FAILOVER to a replica that lags',
      group: 'store',
      async strike(stage, fault) {
        const times = stage.random.chance(0.25) ? 3 : 1;
        for (let n = 0; n < times; n++) {
          const shard = await drawShard(cluster, stage);
          if (shard) await takeOver(shard, stage, fault);
        }
      },
    },
    takeOverFromTheDead: {
      name: 'kill a primary whose replica lags',
      group: 'store',
      async strike(stage, fault) {
        const shard = await drawShard(cluster, stage);
        if (!shard) return;
        const { primary, replica } = shard;
        const from = await lag(shard, stage, fault);
        await primary.server.restart(async () => {
          stage.timeline.losses.push({ from, to: Date.now() });
          await promote(shard, fault, ['TAKEOVER']);
          await releaseReplication(replica.redis);
          await pause(drawMs(stage, 0.1, 3));
        });
        await within(SETTLE_MS, () => isLinkedReplica(primary.redis));
      },
    },
  };
}

function disturbances(cluster: RedisCluster): Record<string, Nemesis> {
  return {
    moveSlot: {
      name: 'move a slot',
      group: 'store',
      async strike(stage, fault) {
        const account = stage.random.pick(ACCOUNTS);
        fault.notes.push(account);
        await moveSlot(cluster, `ccr:{${account}}:a`, stage);
      },
    },
    freezeNode: {
      name: 'freeze a primary',
      group: 'store',
      async strike(stage) {
        const shard = await drawShard(cluster, stage);
        shard?.primary.server.freeze();
        await pause(drawMs(stage, 0.3, 6));
        shard?.primary.server.thaw();
      },
    },
    killClusterClients: {
      name: 'kill the clients of a primary',
      group: 'store',
      async strike(stage) {
        const shard = await drawShard(cluster, stage);
        await shard?.primary.redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      },
    },
  };
}

/** Makes its replica lag for a while, and the primary of its slots while the old one lives. */
async function takeOver(shard: Shard, stage: Stage, fault: Fault): Promise<void> {
  const { primary, replica } = shard;
  const how = stage.random.chance(0.7) ? 'TAKEOVER' : 'FORCE';
  fault.notes.push(how);
  const from = await lag(shard, stage, fault);
  await promote(shard, fault, [how]);
  await within(SETTLE_MS, async () => !(await isPrimary(primary.redis)));
  stage.timeline.losses.push({ from, to: Date.now() });
  await releaseReplication(replica.redis);
  if (!(await within(SETTLE_MS, () => isLinkedReplica(primary.redis)))) fault.notes.push('not settled');
}

/** @returns since when */
async function lag({ replica }: Shard, stage: Stage, fault: Fault): Promise<number> {
  await holdReplication(replica.redis);
  const from = Date.now();
  const ms = drawMs(stage, 0.2, 25);
  fault.notes.push(`${ms} ms`);
  await pause(ms);
  fault.startedAt = Date.now();
  return from;
}

async function promote({ replica }: Shard, fault: Fault, how: readonly string[]): Promise<void> {
  const isPromoted = await within(SETTLE_MS, async () => {
    if (await isPrimary(replica.redis)) return true;
    await replica.redis.call('CLUSTER', 'FAILOVER', ...how);
    await pause(how.includes('TAKEOVER') ? 0 : 500);
    return false;
  });
  if (!isPromoted) fault.notes.push('no failover');
}

/** One whose replica is up to date; undefined if there is none. */
async function drawShard(cluster: RedisCluster, { random }: Stage): Promise<Shard | undefined> {
  const nodes = nodesOf(cluster);
  const shards: Shard[] = [];
  for (const replica of nodes) {
    const [role, , port, state] = (await replica.redis.call('ROLE')) as readonly [
      string,
      string,
      number,
      string,
    ];
    const primary = nodes.find(({ server }) => server.port === port);
    if (role === 'slave' && state === 'connected' && primary) shards.push({ primary, replica });
  }
  return shards[random.below(shards.length)];
}

/** Step by step, as redis-cli does. */
async function moveSlot(cluster: RedisCluster, key: string, stage: Stage): Promise<void> {
  const { slot, owner } = await cluster.locate(key);
  const roles = await Promise.all(nodesOf(cluster).map(({ redis }) => isPrimary(redis)));
  const primaries = nodesOf(cluster).filter((_, n) => roles[n]);
  const target = primaries.find(({ id }) => id !== owner.id);
  if (!target) return;
  const setSlot = async (node: ClusterNode, ...how: readonly string[]): Promise<void> => {
    await node.redis.call('CLUSTER', 'SETSLOT', slot, ...how);
  };
  await setSlot(target, 'IMPORTING', owner.id);
  await setSlot(owner, 'MIGRATING', target.id);
  for (;;) {
    const keys = (await owner.redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 4)) as string[];
    if (keys.length === 0) break;
    await owner.redis.call('MIGRATE', '127.0.0.1', target.server.port, '', 0, 5000, 'KEYS', ...keys);
    await pause(stage.random.between(0, 300));
  }
  for (const node of [target, ...primaries]) await setSlot(node, 'NODE', target.id);
}

function nodesOf({ primaries, replicas }: RedisCluster): readonly ClusterNode[] {
  return [...primaries, ...replicas];
}
