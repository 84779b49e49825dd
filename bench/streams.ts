import { type Bench, doorOf, type Figure, interleave, median, type Round, toFigures } from './figures.ts';
import type { Chunks } from './processes/load.ts';
import type { Proxy } from './proxy.ts';

/** A proxy that can't keep up gets so much more; the streams that run even then are let go, and count as late. */
const PATIENCE_SECONDS = 6;

const NAMES = ['bare', 'router, memory', 'router, Redis', 'http-proxy-middleware'];

/** Streams: processor time a chunk, the time added to the first and to each, and how many a core carries. */
export async function measureStreams(bench: Bench): Promise<readonly Figure[]> {
  const names = [...NAMES, ...bench.peers];
  const paced = await interleave(bench, names, (proxy, seconds) => steady(bench, proxy, seconds));
  const full = await interleave(
    { ...bench, rounds: Math.min(bench.rounds, 3), warmSeconds: 1 },
    names,
    (proxy) => stream(bench, proxy, { streams: 500, count: 100, intervalMs: 20, seconds: 1 }),
  );
  const burst = await interleave(bench, names, (proxy, seconds) =>
    stream(bench, proxy, { streams: 32, count: 200, intervalMs: 0, seconds }),
  );
  return [
    ...toFigures(
      paced,
      [
        { key: 'cpuUs', what: '100 streams, 20 ms, processor time a chunk', unit: 'µs' },
        { key: 'firstMs', what: '100 streams, 20 ms, added to the first, p50', unit: 'ms', compare: 'over' },
        { key: 'oneWayMs', what: '100 streams, 20 ms, added to each, p50', unit: 'ms', compare: 'over' },
        { key: 'failed', what: '100 streams, 20 ms, failed', unit: '', compare: 'none' },
        { key: 'late', what: '100 streams, 20 ms, not ended in time', unit: '', compare: 'none' },
      ],
      {
        'router, memory/cpuUs': '<= 1.1×',
        'router, memory/firstMs': '<= 0.15 ms',
        'router, Redis/firstMs': '<= 0.45 ms',
        'router, memory/oneWayMs': '<= 0.15 ms',
      },
    ),
    ...toFigures(
      full,
      [
        { key: 'perSecond', what: '500 streams, 20 ms, chunks a second', unit: '' },
        { key: 'cpuUs', what: '500 streams, 20 ms, processor time a chunk', unit: 'µs' },
        { key: 'failed', what: '500 streams, 20 ms, failed', unit: '', compare: 'none' },
        { key: 'late', what: '500 streams, 20 ms, not ended in time', unit: '', compare: 'none' },
      ],
      { 'router, memory/perSecond': '>= 24,000' },
    ),
    ...toFigures(burst, [
      { key: 'cpuUs', what: '32 streams at full speed, processor time a chunk', unit: 'µs' },
      { key: 'failed', what: '32 streams at full speed, failed', unit: '', compare: 'none' },
    ]),
  ];
}

/** 100 streams at a time that last a second: one begins every 10 ms, so that no two chunks are bound to meet. */
async function steady(bench: Bench, proxy: Proxy, seconds: number): Promise<Round> {
  const door = { ...doorOf(proxy), model: 'stream-50-20', bytes: 1024 };
  const before = await proxy.cpuUs();
  const done = await bench.load.ask<Chunks>('steady', {
    ...door,
    perSecond: 100,
    seconds: seconds + 1,
    mostSeconds: seconds + PATIENCE_SECONDS,
  });
  return roundOf(done, (await proxy.cpuUs()) - before);
}

interface Load {
  readonly streams: number;
  readonly count: number;
  readonly intervalMs: number;
  readonly seconds: number;
}

async function stream(
  bench: Bench,
  proxy: Proxy,
  { streams, count, intervalMs, seconds }: Load,
): Promise<Round> {
  const door = { ...doorOf(proxy), model: `stream-${count}-${intervalMs}`, bytes: 1024 };
  const before = await proxy.cpuUs();
  const done = await bench.load.ask<Chunks>('streams', {
    ...door,
    streams,
    seconds,
    mostSeconds: seconds + PATIENCE_SECONDS,
  });
  return roundOf(done, (await proxy.cpuUs()) - before);
}

function roundOf(done: Chunks, cpuUs: number): Round {
  return {
    cpuUs: cpuUs / done.chunks,
    perSecond: done.chunks / done.seconds,
    firstMs: median(done.firstMs),
    oneWayMs: median(done.oneWayMs),
    failed: done.failed,
    late: done.late,
  };
}
