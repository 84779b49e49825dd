import { type Bench, doorOf, type Figure, interleave, median, type Round, toFigures } from './figures.ts';
import type { Requests } from './processes/load.ts';
import type { Proxy } from './proxy.ts';

const OURS = ['router, memory', 'router, Redis', 'router, SQLite'];
const FLOORS = ['http-proxy-middleware', 'http-proxy-middleware, Redis'];
const EXPRESS = ['router, memory, in Express', 'http-proxy-middleware in Express'];

/** JSON completions: processor time a request with the core full, by the body's size, and the time added with it mostly idle. */
export async function measureRequests(bench: Bench): Promise<readonly Figure[]> {
  const small = ['bare', ...OURS, ...FLOORS, ...EXPRESS, ...bench.peers];
  const large = ['bare', 'router, memory', 'router, Redis', 'http-proxy-middleware', ...bench.peers];
  return [
    ...toFigures(await saturate(bench, small, 1024), rowsOf('1 KB'), {
      'router, memory/cpuUs': '<= 1.4×',
      'router, Redis/cpuUs': '<= 1.8×',
      'router, memory, in Express/cpuUs': '<= 0.8× http-proxy-middleware there',
      'router, Redis/redisUs': '<= 150 µs',
    }),
    ...toFigures(await saturate(bench, large, 32 * 1024), rowsOf('32 KB'), {
      'router, memory/cpuUs': '<= 1.2×',
    }),
    ...toFigures(await saturate(bench, large, 1024 * 1024), rowsOf('1 MB'), {
      'router, memory/cpuUs': '<= 3×',
      'router, memory/blockMs': '<= 1 ms more than bare',
    }),
    ...toFigures(
      await interleave(bench, ['bare', ...OURS, ...FLOORS], (proxy, seconds) => calm(bench, proxy, seconds)),
      [{ key: 'p50', what: '1 KB, 300 a second, time added, p50', unit: 'ms', compare: 'over' }],
      { 'router, memory/p50': '<= 0.15 ms', 'router, Redis/p50': '<= 0.4 ms' },
    ),
  ];
}

function rowsOf(size: string): Parameters<typeof toFigures>[1] {
  return [
    { key: 'cpuUs', what: `${size}, processor time`, unit: 'µs' },
    { key: 'perSecond', what: `${size}, requests a second`, unit: '' },
    { key: 'redisUs', what: `${size}, processor time of Redis`, unit: 'µs', compare: 'none' },
    { key: 'blockMs', what: `${size}, longest block of the event loop`, unit: 'ms', compare: 'none' },
    { key: 'failed', what: `${size}, failed`, unit: '', compare: 'none' },
  ];
}

function saturate(
  bench: Bench,
  names: readonly string[],
  bytes: number,
): Promise<ReadonlyMap<string, readonly Round[]>> {
  return interleave(bench, names, async (proxy, seconds) => {
    const connections = bytes > 100_000 ? 8 : 64;
    const redisBefore = await bench.redisCpuUs();
    const before = await proxy.cpuUs();
    const done = await bench.load.ask<Requests>('closed', {
      ...doorOf(proxy),
      model: 'json-1200',
      bytes,
      connections,
      seconds,
    });
    const cpuUs = ((await proxy.cpuUs()) - before) / done.answered;
    const redisUs = ((await bench.redisCpuUs()) - redisBefore) / done.answered;
    return {
      cpuUs,
      perSecond: done.answered / done.seconds,
      failed: done.failed,
      ...(proxy.name === 'router, Redis' && { redisUs }),
      ...(bytes > 100_000 && proxy.node && { blockMs: await longestBlock(bench, proxy, bytes) }),
    };
  });
}

/** One request at a time, with pauses: what holds the loop is then one body alone. */
async function longestBlock(bench: Bench, proxy: Proxy, bytes: number): Promise<number> {
  const blocks: number[] = [];
  for (let n = 0; n < 5; n++) {
    await proxy.node?.ask('block');
    await bench.load.ask<Requests>('open', {
      ...doorOf(proxy),
      model: 'json-1200',
      bytes,
      perSecond: 10,
      seconds: 0.1,
    });
    blocks.push((await proxy.node?.ask<number>('block')) ?? Number.NaN);
  }
  return median(blocks);
}

async function calm(bench: Bench, proxy: Proxy, seconds: number): Promise<Round> {
  const { ms, failed } = await bench.load.ask<Requests>('open', {
    ...doorOf(proxy),
    model: 'json-1200',
    bytes: 1024,
    perSecond: 300,
    seconds,
  });
  return { p50: median(ms), failed };
}
