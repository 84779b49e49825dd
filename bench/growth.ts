import { addressOf, type Figure, median } from './figures.ts';
import type { Chunks, Requests } from './processes/load.ts';
import { startProxy } from './proxies.ts';
import type { Proxy } from './proxy.ts';
import type { Bench } from './rounds.ts';

/** How the cost grows: with bytes and chunks in proportion; with models, keys and streams not at all. */
export async function measureGrowth(bench: Bench): Promise<readonly Figure[]> {
  const { isQuick } = bench;
  return [
    ...(await grow(
      bench,
      isQuick ? [1, 4] : [1, 4, 16, 64],
      'MB of body',
      { limits: { maxBodyBytes: 100_000_000, maxBufferedBytes: 1_000_000_000 } },
      bodies,
    )),
    ...(await grow(bench, isQuick ? [10, 1000] : [10, 100, 1000, 10_000, 100_000], 'chunks', {}, chunks)),
    ...(await growByOption(bench, isQuick ? [10, 100] : [10, 100, 1000, 10_000], 'models')),
    ...(await growByOption(bench, isQuick ? [10, 1000] : [10, 1000, 100_000, 1_000_000], 'keys')),
  ];
}

type Measure = (bench: Bench, proxy: Proxy, size: number) => Promise<{ value: number; unit: string }>;

async function grow(
  bench: Bench,
  sizes: readonly number[],
  what: string,
  options: Readonly<Record<string, unknown>>,
  measure: Measure,
): Promise<readonly Figure[]> {
  const proxy = await startProxy('router, memory', bench.context, options);
  try {
    await measure(bench, proxy, sizes[0] ?? 1);
    const figures: Figure[] = [];
    for (const size of sizes) {
      const { value, unit } = await measure(bench, proxy, size);
      const heap = ((await proxy.node?.memory())?.heapBytes ?? Number.NaN) / 1024 / 1024;
      const name = `${size.toLocaleString('en-US')} ${what}`;
      figures.push({ what: name, proxy: proxy.name, value, unit });
      figures.push({ what: `${name}, heap after`, proxy: proxy.name, value: heap, unit: 'MB' });
    }
    return figures;
  } finally {
    await proxy.stop();
  }
}

/** A process for each size, for the size is an option. */
async function growByOption(
  bench: Bench,
  sizes: readonly number[],
  option: 'models' | 'keys',
): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const size of sizes) {
    figures.push(
      ...(await grow(bench, [size], option, { [option]: size }, async (_bench, proxy) => {
        const costs: number[] = [];
        for (let round = 0; round < bench.rounds; round++)
          costs.push(await costOfRequest(bench, proxy, 1024, 64));
        return { value: median(costs), unit: 'µs a request' };
      })),
    );
  }
  return figures;
}

async function bodies(
  bench: Bench,
  proxy: Proxy,
  megabytes: number,
): Promise<{ value: number; unit: string }> {
  const bytes = megabytes * 1024 * 1024;
  return { value: (await costOfRequest(bench, proxy, bytes, 2)) / megabytes, unit: 'µs a MB' };
}

async function chunks(bench: Bench, proxy: Proxy, count: number): Promise<{ value: number; unit: string }> {
  const before = await proxy.cpuUs();
  const streams = count > 10_000 ? 4 : 16;
  const target = { ...addressOf(proxy), model: `stream-${count}-0`, bytes: 1024 };
  const done = await bench.load.ask<Chunks>('streams', { ...target, streams, seconds: bench.seconds });
  return { value: ((await proxy.cpuUs()) - before) / done.chunks, unit: 'µs a chunk' };
}

async function costOfRequest(
  bench: Bench,
  proxy: Proxy,
  bytes: number,
  connections: number,
): Promise<number> {
  const before = await proxy.cpuUs();
  const target = { ...addressOf(proxy), model: 'json-1200', bytes };
  const done = await bench.load.ask<Requests>('closed', { ...target, connections, seconds: bench.seconds });
  return ((await proxy.cpuUs()) - before) / done.answered;
}
