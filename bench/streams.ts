import { setTimeout as sleep } from 'node:timers/promises';

import { addressOf, type Figure, median, type Round, type Row, toFigures } from './figures.ts';
import { ALL_STORES, FLOORS, MEMORY } from './ours.ts';
import type { Chunks } from './processes/load.ts';
import type { Proxy } from './proxy.ts';
import { type Bench, type Measure, takePairs, takeTurns, withProxies } from './rounds.ts';

/** How much longer a round may last; the streams that still run then are closed, and count as late. */
const PATIENCE_SECONDS = 6;

/** A proxy that can't begin its streams in this time has no figure for them. */
const MAX_OPENING_SECONDS = 5;
/** What all of them cost once, a checkpoint with the ledger included, is over by then. */
const SETTLED_MS = 500;
/** For each second of a round. */
const WATCHED_SECONDS = 2;

/** Streams: processor time a chunk, the time added to the first and to each, and how many a core carries. */
export function measureStreams(bench: Bench): Promise<readonly Figure[]> {
  const names = ['bare', ...ALL_STORES, ...FLOORS, ...bench.peers];
  return withProxies(bench, names, async (all) => {
    const withoutStores = all.filter(({ name }) => !name.startsWith('router, ') || MEMORY.includes(name));
    const fewer = { ...bench, rounds: Math.min(bench.rounds, 3) };
    const held = { ...bench, rounds: Math.min(bench.rounds, 4) };
    // In the run whose lead was of a hundred streams a second, they took 1.5 times as long: see NOTES.md.
    const lead = pouring(bench);
    const begun = await takeTurns(bench, all, { measure: beginning(bench), lead });
    const begunInPairs = await takePairs(bench, all, beginning, lead);
    const paced = await takeTurns(held, all, { measure: holding(bench, 100), lead });
    const pacedInPairs = await takePairs(held, all, (each) => holding(each, 100), lead);
    const full = await takeTurns(fewer, withoutStores, { measure: holding(bench, 500), lead });
    const burst = await takeTurns(fewer, all, { measure: pouring(bench) });
    return [
      ...toFigures(pacedInPairs, PACED_IN_PAIRS),
      ...toFigures(paced, PACED),
      ...toFigures(begunInPairs, BEGUN_IN_PAIRS),
      ...toFigures(begun, BEGUN),
      ...toFigures(full, FULL),
      ...toFigures(burst, BURST),
    ];
  });
}

const FAILURES = { unit: '', compare: 'none', unlessZero: true } as const;

const PACED: readonly Row[] = [
  { key: 'cpuUs', what: '100 streams, 20 ms, processor time a chunk', unit: 'µs' },
  { key: 'oneWayMs', what: '100 streams, 20 ms, added to each, p50', unit: 'ms', compare: 'over' },
  { key: 'failed', what: '100 streams, 20 ms, broken', ...FAILURES },
];

const BEGUN: readonly Row[] = [
  {
    key: 'firstMs',
    what: '100 streams begin a second, added to the first, p50',
    unit: 'ms',
    compare: 'over',
  },
  { key: 'cpuUs', what: '100 streams of 50 chunks begin a second, processor time a chunk', unit: 'µs' },
  { key: 'failed', what: '100 streams begin a second, failed', ...FAILURES },
  { key: 'late', what: '100 streams begin a second, not ended in time', ...FAILURES },
];

const PACED_IN_PAIRS: readonly Row[] = [
  { key: 'cpuUs', what: '100 streams, 20 ms, in pairs, processor time a chunk', unit: 'µs' },
  { key: 'oneWayMs', what: '100 streams, 20 ms, in pairs, added to each, p50', unit: 'ms', compare: 'over' },
];

const BEGUN_IN_PAIRS: readonly Row[] = [
  {
    key: 'firstMs',
    what: '100 streams begin a second, in pairs, added to the first, p50',
    unit: 'ms',
    compare: 'over',
  },
  {
    key: 'cpuUs',
    what: '100 streams of 50 chunks begin a second, in pairs, processor time a chunk',
    unit: 'µs',
  },
];

const FULL: readonly Row[] = [
  { key: 'perSecond', what: '500 streams, 20 ms, chunks a second', unit: '' },
  { key: 'cpuUs', what: '500 streams, 20 ms, processor time a chunk', unit: 'µs' },
  { key: 'perCore', what: '500 streams, 20 ms, chunks a second that its core could carry', unit: '' },
  { key: 'failed', what: '500 streams, 20 ms, broken', ...FAILURES },
];

const BURST: readonly Row[] = [
  { key: 'cpuUs', what: '32 streams at full speed, processor time a chunk', unit: 'µs' },
  { key: 'failed', what: '32 streams at full speed, failed', ...FAILURES },
];

/** Streams that last a second, of which one begins every 10 ms. */
function beginning(bench: Bench): Measure {
  const request = { model: 'stream-50-20', bytes: 1024, perSecond: 100 };
  return (proxy, seconds) => streamed(bench, proxy, 'steady', { ...request, seconds: seconds + 1 });
}

/**
 * Streams with a chunk every 20 ms that begin before the round and end after it: what a chunk costs, without its stream's
 * beginning. They do end, because some gateways read on when their clients have left.
 */
function holding(bench: Bench, streams: number): Measure {
  const overwhelmed = new Set<string>();
  return async (proxy, seconds) => {
    if (overwhelmed.has(proxy.name)) return {};
    const target = { ...addressOf(proxy), model: 'stream-500-20', bytes: 1024 };
    const mostSeconds = MAX_OPENING_SECONDS;
    try {
      const standing = await bench.load.ask<number>('hold', { ...target, streams, mostSeconds });
      if (standing < streams) {
        overwhelmed.add(proxy.name);
        return {};
      }
      await sleep(SETTLED_MS);
      const before = await proxy.cpuUs();
      const done = await bench.load.ask<Chunks>('watch', { seconds: WATCHED_SECONDS * seconds });
      const round = roundOf(done, (await proxy.cpuUs()) - before);
      return { ...round, perCore: 1e6 / round.cpuUs };
    } finally {
      await bench.load.ask('release');
    }
  };
}

/** Streams one after the other, each as fast as it is read. */
function pouring(bench: Bench): Measure {
  const request = { model: 'stream-200-0', bytes: 1024, streams: 32 };
  return (proxy, seconds) => streamed(bench, proxy, 'streams', { ...request, seconds });
}

/** Has the clients send such streams, and says what they cost. */
async function streamed(
  { load }: Bench,
  proxy: Proxy,
  kind: 'steady' | 'streams',
  request: { readonly seconds: number },
): Promise<Round> {
  const mostSeconds = request.seconds + PATIENCE_SECONDS;
  const before = await proxy.cpuUs();
  const done = await load.ask<Chunks>(kind, { ...addressOf(proxy), ...request, mostSeconds });
  return roundOf(done, (await proxy.cpuUs()) - before);
}

function roundOf(done: Chunks, cpuUs: number): Round & { readonly cpuUs: number } {
  return {
    cpuUs: cpuUs / done.chunks,
    perSecond: done.chunks / done.seconds,
    firstMs: median(done.firstMs),
    oneWayMs: median(done.oneWayMs),
    failed: done.failed,
    late: done.late,
  };
}
