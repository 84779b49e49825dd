import { addressOf, type Figure, figureOf } from './figures.ts';
import { FLOORS, routers } from './ours.ts';
import { startProxy } from './proxies.ts';
import type { Bench } from './rounds.ts';

const STREAMS = 5000;

/** In fresh processes: what the last one had allocated, or V8 has made of it, differs by a KB a stream. */
const ROUNDS = 3;

/** Many streams open at once in a fresh process: what each costs, and that it stays so. */
export async function measureMemory(bench: Bench): Promise<readonly Figure[]> {
  const ours = [...routers('memory', 'SQLite'), ...FLOORS];
  const measured = new Map<string, OpenStreams[]>();
  const bare: number[] = [];
  for (let round = 0; round < (bench.isQuick ? 1 : ROUNDS); round++) {
    for (const name of ['bare', ...ours, ...(round === 0 ? bench.peers : [])]) {
      const open = await openStreams(bench, name);
      if (name === 'bare') bare.push(open.eachKb);
      measured.set(name, [...(measured.get(name) ?? []), open]);
    }
  }
  return [...measured].flatMap(([name, rounds]) => {
    const figure = (what: string, unit: string, valueOf: (open: OpenStreams, n: number) => number): Figure =>
      figureOf(what, name, unit, rounds.map(valueOf));
    const { streams, isOurs } = rounds[0] ?? {};
    return [
      figure(`open streams, memory of each of ${streams}`, 'KB', ({ eachKb }) => eachKb),
      figure(
        'open streams, memory of each, over bare',
        'KB',
        ({ eachKb }, n) => eachKb - (bare[n] ?? Number.NaN),
      ),
      ...(isOurs
        ? [
            figure('open streams, memory of each 10 s later', 'KB', ({ laterKb }) => laterKb),
            figure('open streams, heap 10 s later, to before', '×', ({ heapGrowth }) => heapGrowth),
          ]
        : []),
    ];
  });
}

/** What a process had while its streams were open. */
interface OpenStreams {
  readonly streams: number;
  readonly eachKb: number;
  /** One of our processes: the rest is known of those alone. */
  readonly isOurs: boolean;
  readonly laterKb: number;
  readonly heapGrowth: number;
}

async function openStreams(bench: Bench, name: string): Promise<OpenStreams> {
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
    const each = async (): Promise<number> => ((await proxy.rssBytes()) - before) / streams / 1024;
    const eachKb = await each();
    const heap = await heapBytes();
    const isOurs = proxy.node !== undefined;
    if (isOurs) await settled(bench.isQuick ? 2000 : 10_000);
    return { streams, eachKb, isOurs, laterKb: await each(), heapGrowth: (await heapBytes()) / heap };
  } finally {
    await bench.load.ask('release');
    await proxy.stop();
  }
}

function settled(ms = 2500): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
