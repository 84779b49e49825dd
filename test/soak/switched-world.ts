import { setTimeout as pause } from 'node:timers/promises';

import type { Redis } from 'ioredis';

import { type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { Link } from './link.ts';
import { clientOf } from './redis-world.ts';
import { holdReplication, isLinkedReplica, releaseReplication, within } from './replication.ts';
import { drawMs, type Nemesis } from './stage.ts';
import type { World } from './world.ts';

const SETTLE_MS = 30_000;

interface Node {
  readonly server: RedisServer;
  readonly redis: Redis;
}

/** A primary and a replica behind a proxy that closes no connection when it leads to the other one. */
export async function startSwitchedWorld(places: number): Promise<World> {
  const primary = await startNode([]);
  const replica = await startNode(['--replicaof', '127.0.0.1', String(primary.server.port)]);
  await within(SETTLE_MS, () => isLinkedReplica(replica.redis));
  const links = await Promise.all(Array.from({ length: places }, () => new Link(primary.server.port).open()));
  const nodes = { primary, replica };
  return {
    storeUrls: links.map(({ port }) => `redis://127.0.0.1:${port}`),
    booksUrl: () => nodes.primary.server.url,
    nemeses: { switchOver: switchOver(nodes, links) },
    close: async () => {
      for (const { redis } of [primary, replica]) redis.disconnect();
      await Promise.all(links.map((link) => link.close()));
      await Promise.all([primary, replica].map(({ server }) => server.kill()));
    },
  };
}

async function startNode(more: readonly string[]): Promise<Node> {
  const server = await startRedis(['--repl-diskless-sync-delay', '0', ...more]);
  return { server, redis: clientOf(server) };
}

function switchOver(nodes: { primary: Node; replica: Node }, links: readonly Link[]): Nemesis {
  return {
    name: 'switch over to a replica that lags',
    group: 'store',
    async strike(stage, fault) {
      const { primary, replica } = nodes;
      await holdReplication(replica.redis);
      const from = Date.now();
      const ms = drawMs(stage, 0.2, 15);
      fault.notes.push(`${ms} ms of lag`);
      await pause(ms);
      await replica.redis.replicaof('NO', 'ONE');
      fault.startedAt = Date.now();
      await Promise.all(links.map((link) => link.leadTo(replica.server.port)));
      stage.timeline.losses.push({ from, to: Date.now() });
      await releaseReplication(replica.redis);
      await primary.redis.replicaof('127.0.0.1', replica.server.port);
      Object.assign(nodes, { primary: replica, replica: primary });
      fault.healedAt = Date.now();
      await within(SETTLE_MS, () => isLinkedReplica(primary.redis));
    },
  };
}
