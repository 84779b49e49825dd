import { setTimeout as sleep } from 'node:timers/promises';

import type { Child } from './child.ts';
import { startProxy } from './proxies.ts';
import type { Proxy, Surroundings } from './proxy.ts';

/** What every part of the benchmark needs. */
export interface Bench {
  readonly surroundings: Surroundings;
  readonly upstream: Child;
  readonly load: Child;
  redisCpuUs(): Promise<number>;
  /** Other gateways that this machine has. */
  readonly peers: readonly string[];
  readonly rounds: number;
  /** Of one proxy in one round. */
  readonly seconds: number;
  /** Of the same before it, which don't count: while others ran, a process has lost its place in the caches. 0 for none. */
  readonly leadSeconds: number;
  /** Of one proxy before its first round, where its first requests are slow. */
  readonly warmSeconds: number;
  readonly isQuick: boolean;
}

/** One line of the report: the median of its rounds. */
export interface Figure {
  readonly what: string;
  readonly proxy: string;
  readonly value: number;
  readonly unit: string;
  /** The median of the rounds' ratios to the bare proxy in the same round. */
  readonly ratio?: number;
  readonly target?: string;
}

/** What one round of one proxy gave, by the figure's name. */
export type Round = Readonly<Record<string, number>>;

/**
 * Runs every proxy once a round, in an order that changes, and returns each proxy's rounds.
 *
 * The machine's speed drifts, so a proxy is compared with the bare one of its own round.
 */
export async function interleave(
  bench: Bench,
  names: readonly string[],
  measure: (proxy: Proxy, seconds: number) => Promise<Round>,
  options: Readonly<Record<string, unknown>> = {},
): Promise<ReadonlyMap<string, readonly Round[]>> {
  const proxies: Proxy[] = [];
  try {
    for (const name of names) proxies.push(await startProxy(name, bench.surroundings, options));
    for (const proxy of proxies) {
      if (proxy.node) await compile(bench, proxy);
      await measure(proxy, proxy.isSlowAtFirst && !proxy.node ? bench.warmSeconds : 1);
      await idle(proxy);
    }
    const rounds = new Map<string, Round[]>(names.map((name) => [name, []]));
    for (let round = 0; round < bench.rounds; round++) {
      const turned = [...proxies.slice(round % proxies.length), ...proxies.slice(0, round % proxies.length)];
      for (const proxy of turned) {
        if (bench.leadSeconds > 0) await measure(proxy, bench.leadSeconds);
        rounds.get(proxy.name)?.push(await measure(proxy, bench.seconds));
        await idle(proxy);
      }
    }
    return rounds;
  } finally {
    for (const proxy of proxies) await proxy.stop();
  }
}

/** A process that serves for days has all of its code compiled: requests and streams as fast as they go, whatever is measured then. */
async function compile({ load, warmSeconds }: Bench, proxy: Proxy): Promise<void> {
  const door = { ...doorOf(proxy), bytes: 1024, seconds: warmSeconds };
  await load.ask('closed', { ...door, model: 'json-1200', connections: 64 });
  await load.ask('streams', { ...door, model: 'stream-200-0', streams: 32 });
}

/** Waits, for a while, until a foreign process is done: what it has left to do would be done in another's round. */
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

interface Row {
  readonly key: string;
  readonly what: string;
  readonly unit: string;
  /** `over`: less the bare proxy's, instead of divided by it. */
  readonly compare?: 'ratio' | 'over' | 'none';
}

/** The rounds as lines, with the targets that are named `PROXY/KEY`. */
export function toFigures(
  rounds: ReadonlyMap<string, readonly Round[]>,
  rows: readonly Row[],
  targets: Readonly<Record<string, string>> = {},
): readonly Figure[] {
  const bare = rounds.get('bare') ?? [];
  return rows.flatMap(({ key, what, unit, compare = 'ratio' }) =>
    [...rounds].flatMap(([proxy, measured]) => {
      const values = measured.map((round) => round[key] ?? Number.NaN);
      if (values.every(Number.isNaN)) return [];
      const others = bare.map((round) => round[key] ?? Number.NaN);
      const target = targets[`${proxy}/${key}`];
      const value =
        compare === 'over' ? median(values.map((v, n) => v - (others[n] ?? Number.NaN))) : median(values);
      const ratio = median(values.map((v, n) => v / (others[n] ?? Number.NaN)));
      return [
        {
          what,
          proxy,
          value,
          unit,
          ...(compare === 'ratio' && others.length > 0 && { ratio }),
          ...(target !== undefined && { target }),
        },
      ];
    }),
  );
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Where clients find a proxy. */
export function doorOf({ port, path, key, headers }: Proxy): Readonly<Record<string, unknown>> {
  return { port, path, key, headers };
}
