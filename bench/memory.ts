import { addressOf, type Figure, figureOf } from './figures.ts';
import { FLOORS, routers } from './ours.ts';
import { startProxy } from './proxies.ts';
import type { Bench } from './rounds.ts';

const STREAMS = 5000;

/** Many streams open at once in a fresh process: what each costs, and that it stays so. */
export async function measureMemory(bench: Bench): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  let bareKb: number | undefined;
  for (const name of ['bare', ...routers('memory', 'SQLite'), ...FLOORS, ...bench.peers]) {
    const proxy = await startProxy(name, bench.context);
    const streams = Math.min(bench.isQuick ? 500 : STREAMS, proxy.mostStreams ?? Infinity);
    const target = { ...addressOf(proxy), model: 'stream-1000-2000', bytes: 1024 };
    const hold = async (count: number): Promise<void> => {
      const standing = await bench.load.ask<number>('hold', { ...target, streams: count });
      if (standing < count) throw new Error(`${name} has begun ${standing} of ${count} streams`);
    };
    const heapBytes = async (): Promise<number> => (await proxy.node?.memory())?.heapBytes ?? Number.NaN;
    try {
      await hold(64); // what a first request loads and compiles belongs to no stream
      await bench.load.ask('release');
      await settled();
      const before = await proxy.rssBytes();
      await hold(streams);
      await settled();
      const eachKb = ((await proxy.rssBytes()) - before) / streams / 1024;
      const heap = await heapBytes();
      bareKb ??= eachKb;
      figures.push(
        figureOf(`open streams, memory of each of ${streams}`, name, 'KB', [eachKb]),
        figureOf('open streams, memory of each, over bare', name, 'KB', [eachKb - bareKb]),
      );
      if (proxy.node) {
        await settled(bench.isQuick ? 2000 : 10_000);
        const laterKb = ((await proxy.rssBytes()) - before) / streams / 1024;
        const heapLater = await heapBytes();
        figures.push(
          figureOf('open streams, memory of each 10 s later', name, 'KB', [laterKb]),
          figureOf('open streams, heap 10 s later, to before', name, '×', [heapLater / heap]),
        );
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
