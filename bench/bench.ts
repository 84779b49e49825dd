/**
 * `npm run bench`: what the router costs against a bare proxy, as a table, in `bench/results/bench.json`, and as the tables of the docs
 * in `bench/results/tables.md`.
 *
 * It reports and asserts nothing: README.md beside it has the targets. `npm run bench -- requests streams` runs those parts alone,
 * `-- --ours` leaves other gateways out, `-- --peers=nginx,Caddy` measures those alone, and `-- --quick` makes short rounds, to see that everything runs.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';

import { startRedis } from '../test/helpers/redis-server.ts';
import { makeCertificate } from './certificate.ts';
import { pin, startChild } from './child.ts';
import { measureConnections } from './connections.ts';
import type { Figure } from './figures.ts';
import { measureGrowth } from './growth.ts';
import { measureMemory } from './memory.ts';
import { measureProcesses } from './several-processes.ts';
import { findPeers } from './peers.ts';
import { temporaryFolder } from './proxies.ts';
import { cpuUsOf, pidOf } from './redis-time.ts';
import { markdownOf, printed } from './report.ts';
import { measureRequests, measureTls } from './requests.ts';
import type { Bench } from './rounds.ts';
import { measureScale } from './scale.ts';
import { measureStreams } from './streams.ts';

const PARTS = {
  requests: measureRequests,
  tls: measureTls,
  streams: measureStreams,
  memory: measureMemory,
  connections: measureConnections,
  scale: measureScale,
  processes: measureProcesses,
  growth: measureGrowth,
};

/** No part begins later than this: a machine may be much slower than those that it was written on. */
const MAX_MS = 90 * 60_000;

const args = process.argv.slice(2);
const isQuick = args.includes('--quick');
const wantedPeers = args.includes('--ours')
  ? []
  : args
      .find((arg) => arg.startsWith('--peers='))
      ?.slice(8)
      .split(',');
const chosen = args.filter((arg) => !arg.startsWith('--'));
for (const name of chosen) if (!(name in PARTS)) throw new Error(`There is no part "${name}"`);

const folder = temporaryFolder();
const { certFile, keyFile } = makeCertificate(folder);
const cores = availableParallelism();
const commit = commitOf(import.meta.dirname);
const redisServer = await startRedis(['--appendonly', 'yes']);
const redis = new Redis(redisServer.port);
const upstream = await startChild('upstream.ts', [certFile, keyFile], { core: 1 });
const load = await startChild('load.ts', [], { core: 1 });
const bareLoad = await startChild('load.ts', [], { core: 1 });
const context = {
  upstreamPort: upstream.port,
  certificate: certFile,
  redisUrl: redisServer.url,
  folder,
  core: 0,
};
try {
  const peers = await findPeers(context, wantedPeers);
  pin(await pidOf(redis), 1);
  const bench: Bench = {
    context,
    upstream,
    load,
    bareLoad,
    redisCpuUs: () => cpuUsOf([redis]),
    peers: peers.found,
    rounds: isQuick ? 1 : 5,
    seconds: isQuick ? 0.5 : 1,
    leadSeconds: isQuick ? 0.1 : 1.5,
    warmSeconds: isQuick ? 0.3 : 3,
    isQuick,
  };
  const figures: Figure[] = [];
  const skipped: string[] = [];
  for (const [name, measure] of Object.entries(PARTS)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    if (performance.now() > MAX_MS) {
      skipped.push(name);
      console.log(`\n${name} is left out: the others have taken ${minutes()} minutes already`);
      continue;
    }
    console.log(`\n${name}`);
    const found = await measure(bench);
    console.table(found.map(printed));
    console.log(`${minutes()} minutes so far`);
    figures.push(...found);
    save(peers.versions, figures, skipped); // a later part may fail
  }
  for (const line of peers.missing) console.log(line);
  console.log(`\n${save(peers.versions, figures, skipped)}`);
} finally {
  await Promise.all([upstream, load, bareLoad].map((child) => child.stop()));
  redis.disconnect();
  await redisServer.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Writes what was measured so far, and returns its tables. */
function save(
  peers: Readonly<Record<string, string>>,
  figures: readonly Figure[],
  skipped: readonly string[],
): string {
  const machine = {
    node: process.version,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores,
    commit,
    at: new Date().toISOString(),
    peers,
    ...(skipped.length > 0 && { skipped }),
    ...(isQuick && { quick: true }),
  };
  const results = join(import.meta.dirname, 'results');
  mkdirSync(results, { recursive: true });
  writeFileSync(join(results, 'bench.json'), `${JSON.stringify({ machine, figures }, undefined, 2)}\n`);
  const markdown = markdownOf(machine, figures);
  writeFileSync(join(results, 'tables.md'), markdown);
  return markdown;
}

function commitOf(cwd: string): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd, encoding: 'utf8' }).trim();
  } catch {
    return 'unknown'; // a copy without its history
  }
}

function minutes(): string {
  return (performance.now() / 60_000).toFixed(1);
}
