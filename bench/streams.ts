import { type Bench, doorOf, type Figure, interleave, median, type Round, toFigures } from './figures.ts';
import type { Chunks } from './processes/load.ts';

const NAMES = ['bare', 'router, memory', 'router, Redis', 'http-proxy-middleware'];

/** Streams: processor time a chunk, the time added to the first and to each, and how many a core carries. */
export async function measureStreams(bench: Bench): Promise<readonly Figure[]> {
  const paced = await interleave(bench, [...NAMES, ...bench.peers], (proxy) =>
    stream(bench, proxy, 100, 50, 20),
  );
  const full = await interleave(bench, [...NAMES, ...bench.peers], (proxy) =>
    stream(bench, proxy, 500, 500, 20),
  );
  const burst = await interleave(bench, [...NAMES, ...bench.peers], (proxy) =>
    stream(bench, proxy, 32, 200, 0),
  );
  return [
    ...toFigures(
      paced,
      [
        { key: 'cpuUs', what: '100 streams, 20 ms, processor time a chunk', unit: 'µs' },
        { key: 'firstMs', what: '100 streams, 20 ms, added to the first, p50', unit: 'ms', compare: 'over' },
        { key: 'oneWayMs', what: '100 streams, 20 ms, added to each, p50', unit: 'ms', compare: 'over' },
        { key: 'failed', what: '100 streams, 20 ms, failed', unit: '', compare: 'none' },
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
      ],
      { 'router, memory/perSecond': '>= 24,000' },
    ),
    ...toFigures(burst, [
      { key: 'cpuUs', what: '32 streams at full speed, processor time a chunk', unit: 'µs' },
      { key: 'failed', what: '32 streams at full speed, failed', unit: '', compare: 'none' },
    ]),
  ];
}

async function stream(
  bench: Bench,
  proxy: Parameters<typeof doorOf>[0],
  streams: number,
  count: number,
  intervalMs: number,
): Promise<Round> {
  const before = await proxy.cpuUs();
  const done = await bench.load.ask<Chunks>('streams', {
    ...doorOf(proxy),
    model: `stream-${count}-${intervalMs}`,
    bytes: 1024,
    streams,
    seconds: intervalMs === 0 ? bench.seconds : Math.max(1, bench.seconds - (count * intervalMs) / 1000),
  });
  return {
    cpuUs: ((await proxy.cpuUs()) - before) / done.chunks,
    perSecond: done.chunks / done.seconds,
    firstMs: median(done.firstMs),
    oneWayMs: median(done.oneWayMs),
    failed: done.failed,
  };
}
