import { addressOf, type Figure, figureOf, median, type Round, type Row, toFigures } from './figures.ts';
import { ALL_STORES, FLOORS, routers, usesRedis } from './ours.ts';
import { tlsPeers } from './peers.ts';
import type { Requests } from './processes/load.ts';
import type { Proxy } from './proxy.ts';
import { type Bench, interleave, type Measure, takeTurns, withProxies } from './rounds.ts';

const REDIS_FLOOR = 'http-proxy-middleware, Redis';
const EXPRESS = ['router, memory, in Express', 'http-proxy-middleware in Express'];

const KB = 1024;
const MB = 1024 * KB;
/** Code that isn't compiled yet allocates more: a process that has waited for its turn compiles some of it again. */
const ALLOCATION_LEAD_SECONDS = 10;
const ALLOCATION_RUNS = 3;

/** JSON completions: processor time a request with the core full, by the body's size, and the time added with it mostly idle. */
export function measureRequests(bench: Bench): Promise<readonly Figure[]> {
  const small = ['bare', ...ALL_STORES, ...FLOORS, REDIS_FLOOR, ...EXPRESS, ...bench.peers];
  const large = new Set(['bare', ...ALL_STORES, ...FLOORS, ...bench.peers]);
  const calmOnes = new Set(['bare', ...ALL_STORES, ...FLOORS, REDIS_FLOOR]);
  return withProxies(bench, small, async (all) => {
    const larger = all.filter(({ name }) => large.has(name));
    const fewer = { ...bench, rounds: Math.min(bench.rounds, 3) };
    const ofOneKb = await takeTurns(bench, all, { measure: saturate(bench, KB) });
    const allocated = await allocations(bench, all);
    const of32Kb = await takeTurns(fewer, larger, { measure: saturate(bench, 32 * KB) });
    const ofOneMb = await takeTurns(fewer, larger, { measure: saturate(bench, MB), more: block(bench) });
    const calmly = all.filter(({ name }) => calmOnes.has(name));
    const added = await takeTurns(bench, calmly, { measure: calm(bench) });
    return [
      ...toFigures(ofOneKb, rowsOf('1 KB')),
      ...allocated,
      ...toFigures(of32Kb, rowsOf('32 KB')),
      ...toFigures(ofOneMb, rowsOf('1 MB')),
      ...toFigures(added, CALM),
    ];
  });
}

const CALM: readonly Row[] = [
  { key: 'p50', what: '1 KB, 300 a second, time added, p50', unit: 'ms', compare: 'over' },
  { key: 'failed', what: '1 KB, 300 a second, failed', unit: '', compare: 'none', unlessZero: true },
];

/** The same 1 KB with a provider that is reached by TLS, over connections that stand already. */
export async function measureTls(bench: Bench): Promise<readonly Figure[]> {
  const ports = await bench.upstream.ask<{ readonly tls: number }>('ports');
  const { context } = bench;
  const { certificate: caFile } = context;
  const byTls = { ...bench, context: { ...context, upstreamPort: ports.tls, caFile } };
  const names = ['bare', ...routers('memory', 'SQLite'), ...FLOORS, ...tlsPeers(bench.peers)];
  const rounds = await interleave(byTls, names, { measure: saturate(byTls, KB) });
  return toFigures(rounds, rowsOf('1 KB over TLS'));
}

function rowsOf(size: string): readonly Row[] {
  return [
    { key: 'cpuUs', what: `${size}, processor time`, unit: 'µs' },
    { key: 'perSecond', what: `${size}, requests a second`, unit: '' },
    { key: 'redisUs', what: `${size}, processor time of Redis`, unit: 'µs', compare: 'none' },
    {
      key: 'blockMs',
      what: `${size}, longest block of the event loop, over bare`,
      unit: 'ms',
      compare: 'over',
    },
    { key: 'failed', what: `${size}, failed`, unit: '', compare: 'none', unlessZero: true },
  ];
}

/** Requests one after the other on each connection, as fast as they are answered. */
function saturate(bench: Bench, bytes: number): Measure {
  return async (proxy, seconds) => {
    const redisBefore = await bench.redisCpuUs();
    const before = await proxy.cpuUs();
    const done = await requestsAtFullSpeed(bench, proxy, bytes, seconds);
    const cpuUs = ((await proxy.cpuUs()) - before) / done.answered;
    const redisUs = ((await bench.redisCpuUs()) - redisBefore) / done.answered;
    return {
      cpuUs,
      perSecond: done.answered / done.seconds,
      failed: done.failed,
      ...(usesRedis(proxy.name) && { redisUs }),
    };
  };
}

function requestsAtFullSpeed(bench: Bench, proxy: Proxy, bytes: number, seconds: number): Promise<Requests> {
  const connections = bytes >= MB ? 8 : 64;
  return bench.load.ask('closed', { ...addressOf(proxy), model: 'json-1200', bytes, connections, seconds });
}

/** By itself: watching costs processor time. It doesn't depend on the machine's speed, so nothing runs beside it to compare with. */
async function allocations(bench: Bench, proxies: readonly Proxy[]): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const proxy of proxies) {
    if (!proxy.node) continue;
    await requestsAtFullSpeed(bench, proxy, KB, bench.isQuick ? bench.leadSeconds : ALLOCATION_LEAD_SECONDS);
    const allocated: number[] = [];
    for (let run = 0; run < ALLOCATION_RUNS; run++) {
      await proxy.node.ask('watchAllocation');
      const { answered } = await requestsAtFullSpeed(bench, proxy, KB, bench.seconds);
      allocated.push((await proxy.node.ask<number>('allocatedBytes')) / answered / KB);
    }
    figures.push(figureOf('1 KB, allocated on the heap', proxy.name, 'KB', allocated));
  }
  return figures;
}

/** One request at a time, with pauses: what holds the loop is then one body alone. */
function block(bench: Bench): (proxy: Proxy) => Promise<Round> {
  const request = { model: 'json-1200', bytes: MB, perSecond: 10, seconds: 0.1 };
  return async (proxy) => {
    if (!proxy.node) return {};
    const blocks: number[] = [];
    for (let n = 0; n < 5; n++) {
      await proxy.node.ask('watchBlocks');
      await bench.load.ask<Requests>('open', { ...addressOf(proxy), ...request });
      blocks.push(await proxy.node.ask<number>('longestBlockMs'));
    }
    return { blockMs: median(blocks) };
  };
}

function calm(bench: Bench): Measure {
  const request = { model: 'json-1200', bytes: KB, perSecond: 300 };
  return async (proxy, seconds) => {
    const { ms, failed } = await bench.load.ask<Requests>('open', {
      ...addressOf(proxy),
      ...request,
      seconds,
    });
    return { p50: median(ms), failed };
  };
}
