import { availableParallelism } from 'node:os';

import { Redis } from 'ioredis';

import { startCluster } from '../test/helpers/redis-cluster.ts';
import { startRedis } from '../test/helpers/redis-server.ts';
import { type Child, pin, startChild } from './child.ts';
import { addressOf, type Figure, figureOf, median } from './figures.ts';
import { routers } from './ours.ts';
import type { Requests } from './processes/load.ts';
import { startProxy } from './proxies.ts';
import type { Proxy } from './proxy.ts';
import { cpuUsOf, pidOf } from './redis-time.ts';
import type { Bench } from './rounds.ts';

const MAX_PROCESSES = 4;
/** Each is one hash slot: enough of them that each node of a cluster has its share. */
const ACCOUNTS = 48;
/** To each process: the more there are, the more commands it sends to Redis at once, so their number must be the same in all rows. */
const CONNECTIONS = 16;
const ROUNDS = 3;

interface Ledger {
  /** How the report calls it. */
  readonly name: string;
  /** How many processes are measured on it. */
  readonly counts: readonly number[];
  /** Of each process; the first for all others. */
  readonly urls: readonly string[];
  readonly servers: readonly Redis[];
  stop(): Promise<void>;
}

/** A router with clients of its own. */
interface Pair {
  readonly proxy: Proxy;
  readonly load: Child;
  readonly keys: readonly string[];
}

/**
 * Several routers on one Redis, and on a cluster of three: what a request costs each process, and Redis.
 *
 * By processor time, because more processes run here than there are cores: what they answer together in a second says nothing.
 * Processes that share a core slow each other down, too. The row of four with a Redis each shows how much that is.
 */
export async function measureScale(bench: Bench): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const start of [oneRedis, redisEach, threeNodes]) {
    const ledger = await start();
    try {
      for (const name of routers('Redis')) {
        for (const count of bench.isQuick ? ledger.counts.slice(-1) : ledger.counts) {
          figures.push(...(await measure(bench, ledger, name, count)));
        }
      }
    } finally {
      await ledger.stop();
    }
  }
  return figures;
}

async function measure(bench: Bench, ledger: Ledger, name: string, count: number): Promise<Figure[]> {
  const pairs: Pair[] = [];
  try {
    for (let n = 0; n < count; n++) pairs.push(await startPair(bench, ledger, name, n));
    await run(pairs, bench.warmSeconds);
    const routerUs: number[] = [];
    const redisUs: number[] = [];
    const busiest: number[] = [];
    for (let round = 0; round < Math.min(bench.rounds, ROUNDS); round++) {
      const routersBefore = await cpuOfRouters(pairs);
      const before = await cpuOfEach(ledger.servers);
      const answered = await run(pairs, bench.seconds);
      routerUs.push(((await cpuOfRouters(pairs)) - routersBefore) / answered);
      const used = (await cpuOfEach(ledger.servers)).map((us, n) => us - (before[n] ?? 0));
      redisUs.push(sumOf(used) / answered);
      busiest.push((100 * Math.max(...used)) / sumOf(used));
    }
    const what = `${count} process${count === 1 ? '' : 'es'} on ${ledger.name}`;
    const perCore = routerUs.map((us) => 1e6 / us);
    return [
      figureOf(`${what}, processor time of the router, a request`, name, 'µs', routerUs),
      figureOf(`${what}, requests a second that a core carries`, name, '', perCore),
      figureOf(`${what}, processor time of Redis, a request`, name, 'µs', redisUs),
      figureOf(`${what}, share of the busiest node`, name, '%', [median(busiest)]),
    ];
  } finally {
    for (const { proxy, load } of pairs) await Promise.all([proxy.stop(), load.stop()]);
  }
}

async function startPair(bench: Bench, ledger: Ledger, name: string, n: number): Promise<Pair> {
  const redisUrl = ledger.urls[n] ?? ledger.urls[0] ?? '';
  const context = { ...bench.context, redisUrl, core: n % availableParallelism() };
  const proxy = await startProxy(name, context, { accounts: ACCOUNTS });
  const keys = (await proxy.node?.ask<readonly string[]>('keys')) ?? [];
  return { proxy, keys, load: await startChild('load.ts', [], { core: 1 }) };
}

/** All clients at full speed; the number of requests that were answered. */
async function run(pairs: readonly Pair[], seconds: number): Promise<number> {
  const request = { model: 'json-1200', bytes: 1024, connections: CONNECTIONS, seconds };
  const runs = await Promise.all(
    pairs.map(({ proxy, load, keys }) =>
      load.ask<Requests>('closed', { ...addressOf(proxy), ...request, keys }),
    ),
  );
  const failed = sumOf(runs.map((done) => done.failed));
  if (failed > 0) throw new Error(`${failed} requests have failed`);
  return sumOf(runs.map((done) => done.answered));
}

async function cpuOfRouters(pairs: readonly Pair[]): Promise<number> {
  return sumOf(await Promise.all(pairs.map(({ proxy }) => proxy.cpuUs())));
}

function cpuOfEach(servers: readonly Redis[]): Promise<readonly number[]> {
  return Promise.all(servers.map((server) => cpuUsOf([server])));
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function oneRedis(): Promise<Ledger> {
  return separateServers('one Redis', 1, [1, 2, MAX_PROCESSES]);
}

function redisEach(): Promise<Ledger> {
  return separateServers('a Redis each', MAX_PROCESSES, [MAX_PROCESSES]);
}

async function separateServers(name: string, size: number, counts: readonly number[]): Promise<Ledger> {
  const servers = await Promise.all(Array.from({ length: size }, () => startRedis(['--appendonly', 'yes'])));
  const clients = servers.map(({ port }) => new Redis(port));
  for (const client of clients) pin(await pidOf(client), 1);
  const stop = async (): Promise<void> => {
    for (const client of clients) client.disconnect();
    for (const server of servers) await server.stop();
  };
  return { name, counts, urls: servers.map(({ url }) => url), servers: clients, stop };
}

async function threeNodes(): Promise<Ledger> {
  const cluster = await startCluster();
  const servers = cluster.primaries.map(({ redis }) => redis);
  for (const redis of servers) {
    await redis.config('SET', 'appendonly', 'yes');
    pin(await pidOf(redis), 1);
  }
  const stop = (): Promise<void> => cluster.stop();
  return { name: 'a cluster of 3', counts: [1, 2, MAX_PROCESSES], urls: [cluster.url], servers, stop };
}
