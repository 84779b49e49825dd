import { type Bench, doorOf, type Figure } from './figures.ts';
import { startProxy } from './proxies.ts';

/** Many streams open at once in a fresh process: what each costs, and that it stays so. */
export async function measureMemory(bench: Bench): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  const names = ['bare', 'router, memory', 'http-proxy-middleware', ...bench.peers];
  for (const name of names) {
    const proxy = await startProxy(name, bench.surroundings);
    const streams = Math.min(bench.isQuick ? 500 : 5000, proxy.mostStreams ?? Infinity);
    const door = { ...doorOf(proxy), model: 'stream-1000-2000', bytes: 1024 };
    const hold = (count: number): Promise<number> => bench.load.ask('hold', { ...door, streams: count });
    try {
      await hold(64); // what a first request loads and compiles is no stream's
      await bench.load.ask('release');
      await settled();
      const before = await proxy.rssBytes();
      await hold(streams);
      await settled();
      const after = await proxy.rssBytes();
      const heap = (await proxy.node?.memory())?.heapBytes ?? Number.NaN;
      await settled(bench.isQuick ? 2000 : 10_000);
      const later = await proxy.rssBytes();
      const heapLater = (await proxy.node?.memory())?.heapBytes ?? Number.NaN;
      const target = name === 'router, memory' && { target: '<= 36 KB' };
      figures.push(
        {
          what: `${streams} streams, memory of each`,
          proxy: name,
          value: (after - before) / streams / 1024,
          unit: 'KB',
          ...target,
        },
        {
          what: `${streams} streams, 10 s later`,
          proxy: name,
          value: (later - before) / streams / 1024,
          unit: 'KB',
        },
      );
      if (proxy.node) {
        figures.push({ what: 'heap 10 s later, to before', proxy: name, value: heapLater / heap, unit: '×' });
      }
    } finally {
      await bench.load.ask('release');
      await proxy.stop();
    }
  }
  return figures;
}

function settled(ms = 2500): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
