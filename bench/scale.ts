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

const PROCESSES = [1, 2, 4];
/** Each is one hash slot: enough of them that each node of a cluster has its share. */
const ACCOUNTS = 48;
/** Over all processes. */
const CONNECTIONS = 64;

interface Ledger {
  /** How the report calls it. */
  readonly name: string;
  readonly url: string;
  readonly servers: readonly Redis[];
  stop(): Promise<void>;
}

/**
 * Several routers on one Redis, and on a cluster of three: what a request costs each process, and Redis.
 *
 * By processor time, because more processes run here than there are cores: what they answer together in a second says nothing.
 */
export async function measureScale(bench: Bench): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const start of [oneNode, threeNodes]) {
    const ledger = await start();
    try {
      for (const name of routers('Redis')) {
        for (const count of bench.isQuick ? [2] : PROCESSES) {
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
  const pairs: { readonly proxy: Proxy; readonly load: Child; readonly keys: readonly string[] }[] = [];
  try {
    for (let n = 0; n < count; n++) {
      const core = n % availableParallelism();
      const context = { ...bench.context, redisUrl: ledger.url, core };
      const proxy = await startProxy(name, context, { accounts: ACCOUNTS });
      const keys = (await proxy.node?.ask<readonly string[]>('keys')) ?? [];
      pairs.push({ proxy, keys, load: await startChild('load.ts', [], { core: 1 }) });
    }
    const run = async (seconds: number): Promise<readonly Requests[]> =>
      Promise.all(
        pairs.map(({ proxy, load, keys }) =>
          load.ask<Requests>('closed', {
            ...addressOf(proxy),
            keys,
            model: 'json-1200',
            bytes: 1024,
            connections: CONNECTIONS / count,
            seconds,
          }),
        ),
      );
    await run(bench.warmSeconds);
    const routerUs: number[] = [];
    const redisUs: number[] = [];
    const shares: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      const routersBefore = await cpuOf(pairs);
      const before = await Promise.all(ledger.servers.map((server) => cpuUsOf([server])));
      const answered = (await run(bench.seconds)).reduce((sum, done) => sum + done.answered, 0);
      routerUs.push(((await cpuOf(pairs)) - routersBefore) / answered);
      const after = await Promise.all(ledger.servers.map((server) => cpuUsOf([server])));
      const used = after.map((us, n) => us - (before[n] ?? 0));
      const all = used.reduce((sum, us) => sum + us, 0);
      redisUs.push(all / answered);
      shares.push(Math.max(...used) / all);
    }
    const what = `${count} process${count === 1 ? '' : 'es'} on ${ledger.name}`;
    return [
      figureOf(`${what}, processor time of the router, a request`, name, 'µs', routerUs),
      figureOf(
        `${what}, requests a second that a core carries`,
        name,
        '',
        routerUs.map((us) => 1e6 / us),
      ),
      figureOf(`${what}, processor time of Redis, a request`, name, 'µs', redisUs),
      { what: `${what}, share of the busiest node`, proxy: name, value: median(shares) * 100, unit: '%' },
    ];
  } finally {
    for (const { proxy, load } of pairs) await Promise.all([proxy.stop(), load.stop()]);
  }
}

async function cpuOf(pairs: readonly { readonly proxy: Proxy }[]): Promise<number> {
  const each = await Promise.all(pairs.map(({ proxy }) => proxy.cpuUs()));
  return each.reduce((sum, us) => sum + us, 0);
}

async function oneNode(): Promise<Ledger> {
  const server = await startRedis(['--appendonly', 'yes']);
  const redis = new Redis(server.port);
  pin(await pidOf(redis), 1);
  const stop = async (): Promise<void> => {
    redis.disconnect();
    await server.stop();
  };
  return { name: 'one Redis', url: server.url, servers: [redis], stop };
}

async function threeNodes(): Promise<Ledger> {
  const { url, primaries, stop } = await startCluster();
  const servers = primaries.map(({ redis }) => redis);
  for (const redis of servers) {
    await redis.config('SET', 'appendonly', 'yes');
    pin(await pidOf(redis), 1);
  }
  return { name: 'a cluster of 3', url, servers, stop };
}
