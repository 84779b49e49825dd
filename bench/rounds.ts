import { setTimeout as sleep } from 'node:timers/promises';

import type { Child } from './child.ts';
import { addressOf, type Round, type Turn, type Turns } from './figures.ts';
import type { Chunks, Requests } from './processes/load.ts';
import { startProxy } from './proxies.ts';
import type { Proxy, Context } from './proxy.ts';

/** What every part of the benchmark needs. */
export interface Bench {
  readonly context: Context;
  readonly upstream: Child;
  readonly load: Child;
  /** The clients of the bare proxy, where it is measured at the same time as another. */
  readonly bareLoad: Child;
  redisCpuUs(): Promise<number>;
  /** Other gateways that this machine has. */
  readonly peers: readonly string[];
  readonly rounds: number;
  /** Of one proxy in one round. */
  readonly seconds: number;
  /** A run before each that counts: a process that has waited for others has lost its place in the caches, and compiled code. */
  readonly leadSeconds: number;
  /** A run before the first round of a proxy that doesn't count: its first requests are slow. Node's get several of a third of it. */
  readonly warmSeconds: number;
  readonly isQuick: boolean;
}

/** What a proxy does in a number of seconds. */
export type Measure = (proxy: Proxy, seconds: number) => Promise<Round>;

/** How a part measures. */
interface Measures {
  readonly measure: Measure;
  /** Before each run that counts, by itself. @default measure */
  readonly lead?: Measure;
  /** What is measured after each run that counts, by itself. */
  readonly more?: (proxy: Proxy) => Promise<Round>;
}

/** Starts these proxies and runs their code until it is compiled; they end when `use` is done. */
export async function withProxies<T>(
  bench: Bench,
  names: readonly string[],
  use: (proxies: readonly Proxy[]) => Promise<T>,
): Promise<T> {
  const proxies: Proxy[] = [];
  try {
    for (const name of names) proxies.push(await startProxy(name, bench.context));
    for (const proxy of proxies) if (proxy.node) await compile(bench, proxy);
    return await use(proxies);
  } finally {
    for (const proxy of proxies) await proxy.stop();
  }
}

/**
 * Runs every proxy once a round, in an order that changes, and returns each proxy's turns.
 *
 * The machine's speed drifts within a minute, so the bare proxy runs again before each that is ours: they are compared with what
 * the machine gave at that time. Other gateways are compared with the last run of it.
 *
 * @param proxies - the bare one among them
 */
export async function takeTurns(
  bench: Bench,
  proxies: readonly Proxy[],
  { measure, lead = measure, more = async () => ({}) }: Measures,
): Promise<Turns> {
  for (const proxy of proxies) {
    await measure(proxy, proxy.isSlowAtFirst && !proxy.node ? bench.warmSeconds : 0.5);
    await idle(proxy);
  }
  const run = async (proxy: Proxy): Promise<Round> => {
    await lead(proxy, bench.leadSeconds);
    const measured = await measure(proxy, bench.seconds);
    const all = { ...measured, ...(await more(proxy)) };
    await idle(proxy);
    return all;
  };
  const turns = new Map<string, Turn[]>(proxies.map(({ name }) => [name, []]));
  const bareProxy = proxies.find(({ name }) => name === 'bare');
  const others = proxies.filter((proxy) => proxy !== bareProxy);
  for (let round = 0; round < bench.rounds; round++) {
    let bare: Round | undefined;
    for (const proxy of turnedBy(round, others)) {
      if (bareProxy && (proxy.node || !bare)) {
        bare = await run(bareProxy);
        turns.get('bare')?.push({ own: bare, bare });
      }
      turns.get(proxy.name)?.push({ own: await run(proxy), bare: bare ?? {} });
    }
  }
  return turns;
}

/**
 * Measures each proxy that is a Node process while the bare one has the same load, on the same core.
 *
 * The speed of a shared machine changes within seconds, by up to a factor of two. Here it is the same for both, so their ratio differs
 * less. Both cost more than alone: each takes the other's place in the caches. Only for a load that leaves a part of the core free.
 *
 * @param proxies - the bare one among them
 */
export async function takePairs(
  bench: Bench,
  proxies: readonly Proxy[],
  measuring: (bench: Bench) => Measure,
  lead: Measure,
): Promise<Turns> {
  const bareProxy = proxies.find(({ name }) => name === 'bare');
  if (!bareProxy) throw new TypeError('The bare proxy is missing');
  const measure = measuring(bench);
  const measureBare = measuring({ ...bench, load: bench.bareLoad });
  const turns = new Map<string, Turn[]>(proxies.flatMap(({ name, node }) => (node ? [[name, []]] : [])));
  const others = proxies.filter((proxy) => proxy.node && proxy !== bareProxy);
  for (let round = 0; round < bench.rounds; round++) {
    for (const proxy of turnedBy(round, others)) {
      for (const each of [bareProxy, proxy]) await lead(each, bench.leadSeconds);
      const both = [measure(proxy, bench.seconds), measureBare(bareProxy, bench.seconds)] as const;
      // The processes are stopped once this throws.
      await Promise.allSettled(both);
      const [own, bare] = await Promise.all(both);
      turns.get(proxy.name)?.push({ own, bare });
      turns.get('bare')?.push({ own: bare, bare });
    }
  }
  return turns;
}

function turnedBy(round: number, proxies: readonly Proxy[]): readonly Proxy[] {
  const first = round % proxies.length;
  return [...proxies.slice(first), ...proxies.slice(0, first)];
}

/** `takeTurns` with fresh processes. */
export function interleave(bench: Bench, names: readonly string[], measures: Measures): Promise<Turns> {
  return withProxies(bench, names, (proxies) => takeTurns(bench, proxies, measures));
}

/** Requests and streams at full speed, whatever is measured then: a process that serves for days has all of its code compiled. */
async function compile({ load, warmSeconds }: Bench, proxy: Proxy): Promise<void> {
  const target = { ...addressOf(proxy), bytes: 1024, seconds: warmSeconds / 3 };
  await untilSteady(proxy, async () => {
    const { answered } = await load.ask<Requests>('closed', {
      ...target,
      model: 'json-1200',
      connections: 64,
    });
    return answered;
  });
  await untilSteady(proxy, async () => {
    const { chunks } = await load.ask<Chunks>('streams', { ...target, model: 'stream-200-0', streams: 32 });
    return chunks;
  });
  // A thousand that begin and end a second, and last long enough for the renewal of a lease.
  await untilSteady(proxy, async () => {
    const { chunks } = await load.ask<Chunks>('streams', { ...target, model: 'stream-3-150', streams: 400 });
    return chunks;
  });
}

/** Repeats a run until two in a row cost no less than the cheapest one before them, 15 times at most. */
async function untilSteady(proxy: Proxy, run: () => Promise<number>): Promise<void> {
  let cheapest = Infinity;
  let steady = 0;
  for (let runs = 0; steady < 2 && runs < 15; runs++) {
    const before = await proxy.cpuUs();
    const done = await run();
    const cost = ((await proxy.cpuUs()) - before) / done;
    steady = cost > cheapest * STEADY ? steady + 1 : 0;
    cheapest = Math.min(cheapest, cost);
  }
}

/** A run that costs less than this share of all before it shows that code was still being compiled. */
const STEADY = 0.97;

/** Waits, for 8 seconds at most, until a foreign process has done its remaining work: it would run in another's round. */
async function idle(proxy: Proxy): Promise<void> {
  if (proxy.node) return;
  let before = await proxy.cpuUs();
  for (const until = performance.now() + 8000; performance.now() < until;) {
    await sleep(50);
    const now = await proxy.cpuUs();
    if (now - before <= 10_000) return;
    before = now;
  }
}
