import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import type { Redis } from 'ioredis';

import { type RedisServer, startRedis, startRedisWithConfig } from '../helpers/redis-server.ts';
import { Link } from './link.ts';
import { clientOf } from './redis-world.ts';
import { holdReplication, isLinkedReplica, isPrimary, releaseReplication, within } from './replication.ts';
import { drawMs, type Nemesis, type Stage } from './stage.ts';
import type { Fault } from './timeline.ts';
import type { World } from './world.ts';

const SENTINELS = 3;
const SLOW_SENTINEL_MS = 400;
const FAILOVER_MS = 45_000;
const OPTIONS = ['--appendonly', 'yes', '--appendfsync', 'everysec', '--repl-diskless-sync-delay', '0'];

interface Node {
  readonly server: RedisServer;
  readonly redis: Redis;
}

interface Setup {
  readonly nodes: readonly Node[];
  /** A client of one of the sentinels. */
  readonly watcher: Redis;
  /** Between gateways and sentinels. */
  readonly links: readonly Link[];
}

/** A primary with two replicas and three sentinels, which gateways reach over links. */
export async function startSentinelWorld(places: number): Promise<World> {
  const primary = await startNode();
  const replicaOf = ['--replicaof', '127.0.0.1', String(primary.server.port)];
  const nodes = [primary, await startNode(replicaOf), await startNode(replicaOf)];
  for (const { redis } of nodes.slice(1)) await within(FAILOVER_MS, () => isLinkedReplica(redis));
  const sentinels: RedisServer[] = [];
  for (let n = 0; n < SENTINELS; n++) sentinels.push(await startSentinel(primary.server.port));
  const watchers = sentinels.map(clientOf);
  for (const watcher of watchers) {
    // They look every 10 seconds, and take as long to make a replica of an old primary.
    await watcher.call('SENTINEL', 'DEBUG', 'INFO-PERIOD', '500', 'PUBLISH-PERIOD', '500');
    await within(FAILOVER_MS, () => knowsAll(watcher));
  }
  const links = await Promise.all(
    Array.from({ length: places }, () =>
      sentinels.map(({ port }) => new Link(port, SLOW_SENTINEL_MS).open()),
    ).flat(),
  );
  const addressesOf = (place: number): string =>
    links
      .slice(place * SENTINELS, (place + 1) * SENTINELS)
      .map(({ port }) => `127.0.0.1:${port}`)
      .join(',');
  return {
    storeUrls: Array.from({ length: places }, (_, place) => `redis+sentinel://${addressesOf(place)}/main`),
    booksUrl: () => `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/main`,
    nemeses: nemesesOf({ nodes, watcher: watchers[0]!, links }),
    close: async () => {
      for (const client of [...watchers, ...nodes.map(({ redis }) => redis)]) client.disconnect();
      await Promise.all(links.map((link) => link.close()));
      await Promise.all([...sentinels, ...nodes.map(({ server }) => server)].map((server) => server.kill()));
    },
  };
}

async function startNode(more: readonly string[] = []): Promise<Node> {
  const server = await startRedis([...OPTIONS, ...more]);
  return { server, redis: clientOf(server) };
}

async function startSentinel(primaryPort: number): Promise<RedisServer> {
  return startRedisWithConfig((directory) => {
    const file = join(directory, 'sentinel.conf');
    const lines = [
      `sentinel monitor main 127.0.0.1 ${primaryPort} 2`,
      // A replica that was cut off for ten times as long is not promoted.
      'sentinel down-after-milliseconds main 3000',
      'sentinel failover-timeout main 6000',
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    return [file, '--sentinel'];
  });
}

async function knowsAll(watcher: Redis): Promise<boolean> {
  const known = String(await watcher.call('INFO', 'sentinel'));
  return known.includes('slaves=2') && known.includes(`sentinels=${SENTINELS}`);
}

function nemesesOf(setup: Setup): Record<string, Nemesis> {
  return {
    failOver: {
      name: 'SENTINEL FAILOVER',
      group: 'store',
      async strike(stage, fault) {
        const times = stage.random.chance(0.25) ? 3 : 1;
        for (let n = 0; n < times; n++) await failOver(setup, stage, fault);
      },
    },
    failOverWithLag: {
      name: 'SENTINEL FAILOVER to a replica that lags',
      group: 'store',
      async strike(stage, fault) {
        await failOver(setup, stage, fault, (old) => lag(setup, old, stage, fault));
      },
    },
    killPrimary: {
      name: 'kill the primary',
      group: 'store',
      async strike(stage, fault) {
        const old = await primaryOf(setup);
        if (!old) return;
        const from = stage.random.chance(0.7) ? await lag(setup, old, stage, fault) : Date.now();
        await withSlowSentinels(setup, stage, fault, () =>
          old.server.restart(async () => {
            stage.timeline.losses.push({ from, to: Date.now() });
            const isOver = await within(FAILOVER_MS, async () => (await primaryOf(setup)) !== old);
            if (!isOver) fault.notes.push('no failover');
          }),
        );
        await release(setup, fault);
      },
    },
    freezePrimary: {
      name: 'freeze the primary',
      group: 'store',
      async strike(stage, fault) {
        const old = await primaryOf(setup);
        if (!old) return;
        const from = Date.now();
        old.server.freeze();
        await pause(drawMs(stage, 0.5, 12));
        old.server.thaw();
        if ((await primaryOf(setup)) !== old) {
          await within(FAILOVER_MS, async () => !(await isPrimary(old.redis)));
          stage.timeline.losses.push({ from, to: Date.now() });
        }
        await release(setup, fault);
      },
    },
  };
}

/** Now and then, while sentinels answer late. */
async function withSlowSentinels(
  { links }: Setup,
  { random }: Stage,
  fault: Fault,
  work: () => Promise<void>,
): Promise<void> {
  const isSlow = random.chance(0.5);
  if (isSlow) fault.notes.push('slow sentinels');
  // One may hear of the failover from one of them, and wait for another.
  for (const link of links) if (isSlow && random.chance(0.6)) link.state = 'slow';
  await work();
  await pause(isSlow ? 2000 : 0);
  for (const link of links) link.state = 'pass';
}

/**
 * Makes a replica the primary while the old one goes on for a moment.
 *
 * @param lag - what is done to the replicas before; resolves to since when they lack what is written
 */
async function failOver(
  setup: Setup,
  stage: Stage,
  fault: Fault,
  lag: (old: Node) => Promise<number> = async () => Date.now(),
): Promise<void> {
  const old = await primaryOf(setup);
  if (!old) return;
  const from = await lag(old);
  await withSlowSentinels(setup, stage, fault, () => order(setup, fault));
  await within(FAILOVER_MS, async () => !(await isPrimary(old.redis)));
  stage.timeline.losses.push({ from, to: Date.now() });
  await release(setup, fault);
}

/** Has a replica promoted though the primary lives, and resolves when it is. */
async function order(setup: Setup, fault: Fault): Promise<void> {
  const old = await primaryOf(setup);
  const isOver = await within(FAILOVER_MS, async () => {
    if ((await primaryOf(setup)) !== old) return true;
    // Refused while another one is not quite over.
    await setup.watcher.call('SENTINEL', 'FAILOVER', 'main').catch(() => {});
    await pause(300);
    return false;
  });
  if (!isOver) fault.notes.push('no failover');
}

/** @returns since when the replicas lag */
async function lag(setup: Setup, old: Node, stage: Stage, fault: Fault): Promise<number> {
  const replicas = setup.nodes.filter((node) => node !== old);
  await Promise.all(replicas.map(({ redis }) => holdReplication(redis)));
  const from = Date.now();
  const ms = drawMs(stage, 0.2, 25);
  fault.notes.push(`${ms} ms of lag`);
  await pause(ms);
  fault.startedAt = Date.now();
  return from;
}

/** Resolves when all replicas are up to date again. */
async function release(setup: Setup, fault: Fault): Promise<void> {
  await Promise.all(setup.nodes.map(({ redis }) => releaseReplication(redis)));
  const isWhole = await within(FAILOVER_MS, async () => {
    const primary = await primaryOf(setup);
    const replicas = setup.nodes.filter((node) => node !== primary);
    return (
      primary !== undefined &&
      (await Promise.all(replicas.map(({ redis }) => isLinkedReplica(redis)))).every(Boolean)
    );
  });
  if (!isWhole) fault.notes.push('not settled');
}

/** As the sentinels have it. */
async function primaryOf({ nodes, watcher }: Setup): Promise<Node | undefined> {
  const address = (await watcher.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main')) as
    | readonly string[]
    | null;
  return nodes.find(({ server }) => server.port === Number(address?.[1]));
}
