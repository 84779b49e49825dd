/**
 * `npm run bench:ledger`: what the ledger costs, as a table and in `bench/results/ledger.json`.
 *
 * It reports and asserts nothing. The targets are those of README.md beside it.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { Redis } from 'ioredis';

import type { LedgerStore } from '../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../src/ledger/stores/memory/memory-store.ts';
import { RedisStore } from '../src/ledger/stores/redis/redis-store.ts';
import { RequestIds } from '../src/ledger/contract/request-ids.ts';
import { SqliteStore } from '../src/ledger/stores/sqlite/sqlite-store.ts';
import { startRedis } from '../test/helpers/redis-server.ts';

const MEASURED_MS = 6000;
const WARM_UP_MS = 1000;
const ACCOUNTS = 100;

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** At least, or at most, this. */
  readonly target?: string;
}

/** Requests that ran, and how long their admits took, in ms. */
interface Run {
  readonly pairs: number;
  readonly seconds: number;
  readonly admitMs: readonly number[];
}

async function measureAll(): Promise<void> {
  const figures = [...(await measureMemory()), ...(await measureSqlite()), ...(await measureRedis())];
  const rows = figures.map(({ name, value, unit, target = '' }) => ({
    measured: name,
    value: `${value >= 100 ? Math.round(value) : value.toFixed(value < 1 ? 3 : 2)} ${unit}`,
    target,
  }));
  console.table(rows);
  const folder = join(import.meta.dirname, 'results');
  mkdirSync(folder, { recursive: true });
  const machine = { node: process.version, cores: availableParallelism(), at: new Date().toISOString() };
  writeFileSync(join(folder, 'ledger.json'), `${JSON.stringify({ machine, figures }, undefined, 2)}\n`);
}

async function measureMemory(): Promise<Figure[]> {
  const store = new MemoryStore();
  await open(store);
  // It remembers every request: not for long, lest it measure the garbage collector.
  const { pairs, seconds } = await run(store, 1, 500);
  return [{ name: 'MemoryStore, admit + settle', value: (seconds * 1e6) / pairs, unit: 'µs' }];
}

async function measureSqlite(): Promise<Figure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-bench-'));
  try {
    const figures: Figure[] = [];
    for (const [processes, concurrency] of [
      [1, 1],
      [1, 64],
      [2, 1],
      [2, 64],
    ] as const) {
      const path = join(folder, `${processes}-${concurrency}.db`);
      const store = new SqliteStore(path);
      await open(store);
      await store.close();
      const written = await Promise.all(
        Array.from({ length: processes }, () => startWriter(path, concurrency)),
      );
      const value = written.reduce((sum, { rate }) => sum + rate, 0);
      const of = `admit + settle, ${processes === 1 ? 'one process' : 'two processes'}, ${concurrency} at a time`;
      figures.push(
        { name: `SQLite, ${of}`, value, unit: 'per second', ...(processes === 1 && { target: '>= 3000' }) },
        { name: `SQLite, processor time of ${of}`, value: written[0]?.cpuUs ?? Number.NaN, unit: 'µs' },
      );
    }
    return figures;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs a process of its own on a ledger file, and says how many pairs a second it made, and what each took. */
async function startWriter(
  path: string,
  concurrency: number,
): Promise<{ readonly rate: number; readonly cpuUs: number }> {
  const args = ['--no-warnings', import.meta.filename, 'write-sqlite', path, String(concurrency)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface(child.stdout)) {
    const [rate, cpuUs] = line.split(' ').map(Number);
    return { rate: rate ?? Number.NaN, cpuUs: cpuUs ?? Number.NaN };
  }
  throw new Error('The writer said nothing');
}

async function writeSqlite(path: string, concurrency: number): Promise<void> {
  const store = new SqliteStore(path);
  const before = process.cpuUsage();
  const { pairs, seconds, all } = await run(store, concurrency);
  const { user, system } = process.cpuUsage(before);
  await store.close();
  console.log(pairs / seconds, (user + system) / all);
}

/** Redis on one core and its clients on the others, where the system can do that. */
async function measureRedis(): Promise<Figure[]> {
  const server = await startRedis(['--appendonly', 'yes', '--auto-aof-rewrite-percentage', '0']);
  const admin = new Redis(server.port);
  const store = new RedisStore(server.url);
  try {
    const isPinned = pin(Number(await fact(admin, 'process_id')));
    await open(store);
    const figures: Figure[] = [];
    for (const concurrency of [1, 8]) {
      const { admitMs } = await run(store, concurrency);
      const at = `Redis, admit, ${concurrency} at a time`;
      const target = concurrency === 8 && { target: '<= 1' };
      figures.push(
        { name: `${at}, p50`, value: quantile(admitMs, 0.5), unit: 'ms', ...target },
        { name: `${at}, p99`, value: quantile(admitMs, 0.99), unit: 'ms' },
      );
    }
    const cpu = async (): Promise<number> =>
      Number(await fact(admin, 'used_cpu_user')) + Number(await fact(admin, 'used_cpu_sys'));
    const [cpuBefore, aofBefore] = [await cpu(), Number(await fact(admin, 'aof_current_size'))];
    const { pairs, seconds, all } = await run(store, 64);
    const [cpuAfter, aofAfter] = [await cpu(), Number(await fact(admin, 'aof_current_size'))];
    const cpuUs = ((cpuAfter - cpuBefore) * 1e6) / all;
    return [
      ...figures,
      {
        name: `Redis, admit + settle, 64 at a time${isPinned ? ', on a core of its own' : ''}`,
        value: pairs / seconds,
        unit: 'per second',
        target: '>= 5000',
      },
      { name: 'Redis, processor time of admit + settle', value: cpuUs, unit: 'µs', target: '<= 150' },
      { name: 'Redis, what its core could make of that', value: 1e6 / cpuUs, unit: 'per second' },
      {
        name: 'Redis, append-only file, a request',
        value: (aofAfter - aofBefore) / all,
        unit: 'bytes',
        target: '<= 1536',
      },
    ];
  } finally {
    await store.close();
    admin.disconnect();
    await server.stop();
  }
}

/** Gives Redis the first core and this process the others; says whether that could be done. */
function pin(redisPid: number): boolean {
  const cores = availableParallelism();
  if (cores < 2) return false;
  try {
    execFileSync('taskset', ['-acp', '0', String(redisPid)], { stdio: 'ignore' });
    execFileSync('taskset', ['-acp', `1-${cores - 1}`, String(process.pid)], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** A line of Redis's INFO. */
async function fact(redis: Redis, name: string): Promise<string> {
  const info = await redis.info('everything');
  return new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim() ?? '';
}

async function open(store: LedgerStore): Promise<void> {
  for (let n = 0; n < ACCOUNTS; n++) {
    await store.grant({ account: `account${n}`, id: 'opening', amount: 1_000_000_000_000n });
  }
}

/** Admits and settles, `concurrency` at a time, over all accounts in turn. */
async function run(
  store: LedgerStore,
  concurrency: number,
  measuredMs = MEASURED_MS,
): Promise<Run & { readonly all: number }> {
  const ids = new RequestIds();
  const admitMs: number[] = [];
  const beganAt = performance.now();
  const measuredFrom = beganAt + WARM_UP_MS;
  const until = measuredFrom + measuredMs;
  let all = 0;
  let pairs = 0;
  const work = async (): Promise<void> => {
    for (let now = performance.now(); now < until; now = performance.now()) {
      const common = { account: `account${all % ACCOUNTS}`, key: 'k1', requestId: ids.next() };
      all += 1;
      const { code } = await store.admit({
        ...common,
        model: 'acme/fast',
        externalKey: true,
        want: 3_000_000n,
        min: 60_000n,
        leaseMs: 120_000,
        tokens: 1000,
        notAfter: Infinity,
      });
      if (code !== 'ok') throw new Error(`An admit was answered ${code}`);
      const admitted = performance.now();
      await store.settle({ ...common, amount: 45_000n, model: 'acme/fast', usage: USAGE, force: true });
      if (now < measuredFrom) continue;
      admitMs.push(admitted - now);
      pairs += 1;
      // A store that answers at once would keep all timers waiting.
      if (pairs % 1000 === 0) await new Promise(setImmediate);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return { pairs, seconds: (performance.now() - measuredFrom) / 1000, admitMs, all };
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}

const USAGE = {
  promptTokens: 9,
  cachedTokens: 0,
  completionTokens: 12,
  reasoningTokens: 0,
  source: 'upstream',
  price: 'k3v9x2',
  ending: 'finished',
  provider: 'openai',
  upstreamModel: 'gpt-4o-mini',
  firstByteMs: 412,
  durationMs: 1830,
  finishReason: 'stop',
  streamed: true,
} as const;

const [task, file, concurrency] = process.argv.slice(2);
if (task === 'write-sqlite' && file !== undefined) await writeSqlite(file, Number(concurrency));
else await measureAll();
