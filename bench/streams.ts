import { setTimeout as sleep } from 'node:timers/promises';

import { type Bench, doorOf, type Figure, interleave, median, type Round, toFigures } from './figures.ts';
import type { Chunks } from './processes/load.ts';
import type { Proxy } from './proxy.ts';

/** A proxy that can't keep up gets so much more; the streams that run even then are let go, and count as late. */
const PATIENCE_SECONDS = 6;

/** Who can't begin its streams in this time can't carry them. */
const MAX_OPENING_SECONDS = 5;
/** What all of them cost once, a checkpoint with the ledger included, is over by then. */
const SETTLED_MS = 500;
/** For each second of a round. */
const WATCHED_SECONDS = 3;

const NAMES = ['bare', 'router, memory', 'router, Redis', 'http-proxy-middleware'];

/** Streams: processor time a chunk, the time added to the first and to each, and how many a core carries. */
export async function measureStreams(bench: Bench): Promise<readonly Figure[]> {
  const names = [...NAMES, ...bench.peers];
  const begun = await interleave(bench, names, (proxy, seconds) => begin(bench, proxy, seconds));
  const held = { ...bench, leadSeconds: 0 };
  const paced = await interleave(held, names, holding(bench, 100));
  const full = await interleave({ ...held, rounds: Math.min(bench.rounds, 3) }, names, holding(bench, 500));
  const burst = await interleave(bench, names, (proxy, seconds) => pour(bench, proxy, seconds));
  return [
    ...toFigures(
      paced,
      [
        { key: 'cpuUs', what: '100 streams, 20 ms, processor time a chunk', unit: 'µs' },
        { key: 'oneWayMs', what: '100 streams, 20 ms, added to each, p50', unit: 'ms', compare: 'over' },
        { key: 'failed', what: '100 streams, 20 ms, broken', unit: '', compare: 'none' },
      ],
      { 'router, memory/cpuUs': '<= 1.1×', 'router, memory/oneWayMs': '<= 0.15 ms' },
    ),
    ...toFigures(
      begun,
      [
        {
          key: 'firstMs',
          what: '100 streams begin a second, added to the first, p50',
          unit: 'ms',
          compare: 'over',
        },
        { key: 'cpuUs', what: '100 streams of 50 chunks begin a second, processor time a chunk', unit: 'µs' },
        { key: 'failed', what: '100 streams begin a second, failed', unit: '', compare: 'none' },
        { key: 'late', what: '100 streams begin a second, not ended in time', unit: '', compare: 'none' },
      ],
      { 'router, memory/firstMs': '<= 0.15 ms', 'router, Redis/firstMs': '<= 0.45 ms' },
    ),
    ...toFigures(
      full,
      [
        { key: 'perSecond', what: '500 streams, 20 ms, chunks a second', unit: '' },
        { key: 'cpuUs', what: '500 streams, 20 ms, processor time a chunk', unit: 'µs' },
        { key: 'perCore', what: '500 streams, 20 ms, chunks a second that its core could carry', unit: '' },
        { key: 'failed', what: '500 streams, 20 ms, broken', unit: '', compare: 'none' },
      ],
      { 'router, memory/perCore': '>= 24,000' },
    ),
    ...toFigures(burst, [
      { key: 'cpuUs', what: '32 streams at full speed, processor time a chunk', unit: 'µs' },
      { key: 'failed', what: '32 streams at full speed, failed', unit: '', compare: 'none' },
    ]),
  ];
}

/** Streams that last a second: one begins every 10 ms, so that no two chunks are bound to meet. */
async function begin(bench: Bench, proxy: Proxy, seconds: number): Promise<Round> {
  const before = await proxy.cpuUs();
  const done = await bench.load.ask<Chunks>('steady', {
    ...doorOf(proxy),
    model: 'stream-50-20',
    bytes: 1024,
    perSecond: 100,
    seconds: seconds + 1,
    mostSeconds: seconds + PATIENCE_SECONDS,
  });
  return roundOf(done, (await proxy.cpuUs()) - before);
}

/**
 * Streams that have begun and end after all is measured, with a chunk every 20 ms: what a chunk costs, and no stream's
 * beginning. They do end, because some gateways read on when their clients have left.
 */
function holding(bench: Bench, streams: number): (proxy: Proxy, seconds: number) => Promise<Round> {
  const overwhelmed = new Set<string>();
  return async (proxy, seconds) => {
    if (overwhelmed.has(proxy.name)) return {};
    const door = { ...doorOf(proxy), model: 'stream-500-20', bytes: 1024 };
    const mostSeconds = MAX_OPENING_SECONDS;
    try {
      const standing = await bench.load.ask<number>('hold', { ...door, streams, mostSeconds });
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
async function pour(bench: Bench, proxy: Proxy, seconds: number): Promise<Round> {
  const door = { ...doorOf(proxy), model: 'stream-200-0', bytes: 1024 };
  const before = await proxy.cpuUs();
  const done = await bench.load.ask<Chunks>('streams', {
    ...door,
    streams: 32,
    seconds,
    mostSeconds: seconds + PATIENCE_SECONDS,
  });
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
