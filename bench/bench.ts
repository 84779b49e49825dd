/**
 * `npm run bench`: what the router costs against a bare proxy, as a table and in `bench/results/bench.json`.
 *
 * It reports and asserts nothing: README.md beside it has the targets. `npm run bench -- requests streams` runs those parts alone, and
 * `-- --quick` makes short rounds, to see that everything runs.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';

import { startRedis } from '../test/helpers/redis-server.ts';
import { pin, startChild } from './child.ts';
import type { Bench, Figure } from './figures.ts';
import { measureGrowth } from './growth.ts';
import { measureMemory } from './memory.ts';
import { measureProcesses } from './several-processes.ts';
import { findPeers } from './peers.ts';
import { temporaryFolder } from './proxies.ts';
import { measureRequests } from './requests.ts';
import { measureStreams } from './streams.ts';

const PARTS = {
  requests: measureRequests,
  streams: measureStreams,
  memory: measureMemory,
  growth: measureGrowth,
  processes: measureProcesses,
};

/** No part begins later than this: a machine may be much slower than those that it was written on. */
const MAX_MS = 40 * 60_000;

const args = process.argv.slice(2);
const isQuick = args.includes('--quick');
const chosen = args.filter((arg) => !arg.startsWith('--'));
for (const name of chosen) if (!(name in PARTS)) throw new Error(`There is no part "${name}"`);

const folder = temporaryFolder();
const cores = availableParallelism();
const redisServer = await startRedis(['--appendonly', 'yes']);
const redis = new Redis(redisServer.port);
const upstream = await startChild('upstream.ts', [], { core: 1 });
const load = await startChild('load.ts', [], { core: 1 });
const surroundings = { upstreamPort: upstream.port, redisUrl: redisServer.url, folder, core: 0 };
try {
  const peers = await findPeers(surroundings);
  const redisPid = Number(/^process_id:(\d+)/m.exec(await redis.info('server'))?.[1]);
  pin(redisPid, 1);
  const bench: Bench = {
    surroundings,
    upstream,
    load,
    redisCpuUs: async () => {
      const info = await redis.info('cpu');
      const seconds = (name: string): number => Number(new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]);
      return (seconds('used_cpu_user') + seconds('used_cpu_sys')) * 1e6;
    },
    peers: peers.found,
    rounds: isQuick ? 1 : 5,
    seconds: 1,
    leadSeconds: isQuick ? 0.1 : 1,
    warmSeconds: isQuick ? 1 : 4,
    isQuick,
  };
  const figures: Figure[] = [];
  const skipped: string[] = [];
  for (const [name, measure] of Object.entries(PARTS)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    if (performance.now() > MAX_MS) {
      skipped.push(name);
      console.log(
        `\n${name} is left out: the others have taken ${Math.round(MAX_MS / 60_000)} minutes already`,
      );
      continue;
    }
    console.log(`\n${name}`);
    const found = await measure(bench);
    console.table(
      found.map(({ what, proxy, value, unit, ratio, target = '' }) => ({
        what,
        proxy,
        value: `${rounded(value)} ${unit}`,
        'to bare': ratio === undefined ? '' : `${ratio.toFixed(2)}×`,
        target,
      })),
    );
    figures.push(...found);
  }
  for (const line of peers.missing) console.log(line);
  const minutes = performance.now() / 60_000;
  console.log(`It took ${minutes.toFixed(1)} minutes.`);
  const machine = {
    node: process.version,
    cpu: cpus()[0]?.model,
    cores,
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    at: new Date().toISOString(),
    peers: peers.versions,
    ...(skipped.length > 0 && { skipped }),
    ...(isQuick && { quick: true }),
  };
  const results = join(import.meta.dirname, 'results');
  mkdirSync(results, { recursive: true });
  writeFileSync(join(results, 'bench.json'), `${JSON.stringify({ machine, figures }, undefined, 2)}\n`);
} finally {
  await Promise.all([upstream.stop(), load.stop()]);
  redis.disconnect();
  await redisServer.stop();
  rmSync(folder, { recursive: true, force: true });
}

function rounded(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}
