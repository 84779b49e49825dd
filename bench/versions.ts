/**
 * `npm run bench:versions -- REVISION [STORE]`: the processor time of a request of 1 KB with this build, to that of another revision.
 *
 * What V8 makes of the same code differs from process to process by several percent, so 24 pairs of processes are compared. The two of
 * a pair take turns, and each next pair is started in the other order. The log of requests is off. STORE is `memory:`, which is the default, or
 * `sqlite`.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

import { makeCertificate } from './certificate.ts';
import { type Child, startChild } from './child.ts';
import { median } from './figures.ts';
import type { Requests } from './processes/load.ts';
import { temporaryFolder } from './proxies.ts';

const PAIRS = 24;
/** Of each process of a pair. */
const ROUNDS = 12;
const SECONDS = 0.3;
const LEAD_SECONDS = 0.05;
/** Runs of a second before the first round: then all code is compiled. */
const WARM_RUNS = 5;

const [revision = '', store = 'memory:'] = process.argv.slice(2);
if (revision === '') throw new Error('Name the revision to compare with: npm run bench:versions -- REVISION');
const root = join(import.meta.dirname, '..');
const folder = temporaryFolder();
/** The other revision's build: below this checkout, so that its imports find the packages. */
const kept = join(root, 'bench', 'results', 'version');
const { certFile, keyFile } = makeCertificate(folder);
const upstream = await startChild('upstream.ts', [certFile, keyFile], { core: 1 });
const load = await startChild('load.ts', [], { core: 1 });
try {
  const before = buildOf(revision);
  const now = join(root, 'dist');
  const ratios: number[] = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    const isOldFirst = pair % 2 === 0;
    const first = await startVersion(isOldFirst ? before : now, 2 * pair);
    const second = await startVersion(isOldFirst ? now : before, 2 * pair + 1);
    const ratio = await compare(first, second);
    ratios.push(isOldFirst ? ratio : 1 / ratio);
    await Promise.all([first.child.stop(), second.child.stop()]);
    console.log(`${pair + 1} of ${PAIRS}: ${ratios.at(-1)?.toFixed(3)}`);
  }
  console.log(`To ${revision}: ${summaryOf(ratios)}`);
} finally {
  await Promise.all([upstream.stop(), load.stop()]);
  rmSync(folder, { recursive: true, force: true });
  rmSync(kept, { recursive: true, force: true });
}

/** Builds the revision in a folder of its own, with the packages of this one; returns the folder of its build. */
function buildOf(name: string): string {
  const tree = join(folder, 'tree');
  execFileSync('git', ['worktree', 'add', '--detach', '--quiet', tree, name], { cwd: root });
  try {
    symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
    for (const script of ['page', 'build']) {
      execFileSync(process.execPath, ['scripts/run.mjs', script], { cwd: tree, stdio: 'ignore' });
    }
    cpSync(join(tree, 'dist'), kept, { recursive: true });
    return kept;
  } finally {
    execFileSync('git', ['worktree', 'remove', '--force', tree], { cwd: root });
  }
}

interface Version {
  readonly child: Child;
  readonly key: string;
}

/** @param build - the folder of the build */
async function startVersion(build: string, number: number): Promise<Version> {
  const database = store === 'sqlite' ? `sqlite:${join(folder, `${number}.db`)}` : store;
  const origin = `http://127.0.0.1:${upstream.port}`;
  const child = await startChild('version.ts', [origin, database, build], { core: 0 });
  return { child, key: await child.ask<string>('key') };
}

/** The cost of the second version to that of the first: the median of the rounds. */
async function compare(first: Version, second: Version): Promise<number> {
  for (let run = 0; run < WARM_RUNS; run++) for (const each of [first, second]) await costOf(each, 1);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const costs = new Map<Version, number>();
    for (const each of round % 2 === 0 ? [first, second] : [second, first]) {
      await costOf(each, LEAD_SECONDS);
      costs.set(each, await costOf(each, SECONDS));
    }
    ratios.push((costs.get(second) ?? 0) / (costs.get(first) ?? 1));
  }
  return median(ratios);
}

/** In µs of processor time a request. */
async function costOf({ child, key }: Version, seconds: number): Promise<number> {
  const target = { port: child.port, path: '/v1/chat/completions', key, headers: {}, bytes: 1024 };
  const request = { ...target, model: 'json-1200', connections: 64, seconds };
  const before = await child.cpuUs();
  const { answered, failed } = await load.ask<Requests>('closed', request);
  if (failed > 0) throw new Error(`${failed} requests have failed`);
  return ((await child.cpuUs()) - before) / answered;
}

/** The geometric mean of the pairs, and its standard error. */
function summaryOf(ratios: readonly number[]): string {
  const logs = ratios.map((ratio) => Math.log(ratio));
  const mean = meanOf(logs);
  const variance = logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (logs.length - 1);
  const error = Math.sqrt(variance / logs.length);
  return `${Math.exp(mean).toFixed(3)}, standard error ${error.toFixed(3)}, ${ratios.length} pairs of processes`;
}

function meanOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}
