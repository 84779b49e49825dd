import { addressOf, type Figure, figureOf, lessBare } from './figures.ts';
import { FLOORS, routers } from './ours.ts';
import { startProxy } from './proxies.ts';
import type { Proxy } from './proxy.ts';
import type { Bench } from './rounds.ts';

const STREAMS = 5000;

/** In fresh processes: what the last one had allocated, or V8 has made of it, differs by a KB a stream. */
const ROUNDS = 3;

/** Streams that are open before as many further ones begin: 5,000 then, with two sockets each in the proxy. */
const STANDING = 2500;

/** The young generation has its full size from the start: otherwise it grows while streams begin, and each seems to take some of it. */
const FIXED_YOUNG_GENERATION = ['--min-semi-space-size=16', '--max-semi-space-size=16'];

/** Many streams open at once in a fresh process: what each costs, that it stays so, and what further ones cost. */
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
  const further = await furtherStreams(bench, ['bare', ...ours]);
  const ofAll = [...measured].flatMap(([name, rounds]) => {
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
  return [...ofAll, ...further];
}

/** Memory of a stream once many are open: what the process has compiled by then, and what that took, belongs to none. */
async function furtherStreams(bench: Bench, names: readonly string[]): Promise<readonly Figure[]> {
  const measured = new Map<string, number[]>(names.map((name) => [name, []]));
  for (let round = 0; round < (bench.isQuick ? 1 : ROUNDS); round++) {
    for (const [name, rounds] of measured) rounds.push(await furtherStreamKb(bench, name));
  }
  const bare = measured.get('bare') ?? [];
  return [...measured].flatMap(([name, rounds]) => [
    figureOf('open streams, memory of a further one', name, 'KB', rounds),
    figureOf('open streams, memory of a further one, over bare', name, 'KB', lessBare(rounds, bare)),
  ]);
}

async function furtherStreamKb(bench: Bench, name: string): Promise<number> {
  const proxy = await startProxy(name, { ...bench.context, nodeFlags: FIXED_YOUNG_GENERATION });
  const standing = bench.isQuick ? 250 : STANDING;
  try {
    await hold(bench, proxy, standing);
    const before = await proxy.rssBytes();
    await hold(bench, proxy, standing);
    return ((await proxy.rssBytes()) - before) / standing / 1024;
  } finally {
    await bench.load.ask('release');
    await proxy.stop();
  }
}

/** Begins streams, and waits until nothing of their beginning is left to be done. */
async function hold(bench: Bench, proxy: Proxy, streams: number): Promise<void> {
  const target = { ...addressOf(proxy), model: 'stream-1000-2000', bytes: 1024 };
  const standing = await bench.load.ask<number>('hold', { ...target, streams });
  if (standing < streams) throw new Error(`${proxy.name} has begun ${standing} of ${streams} streams`);
  await settled();
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
  const heapBytes = async (): Promise<number> => (await proxy.node?.memory())?.heapBytes ?? Number.NaN;
  try {
    await hold(bench, proxy, 64); // what a first request loads belongs to no stream
    await bench.load.ask('release');
    await settled();
    const before = await proxy.rssBytes();
    await hold(bench, proxy, streams);
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
