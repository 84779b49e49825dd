import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import type { Measures, SoakGatewayOptions } from '../processes/soak-gateway.ts';
import { Random } from '../simulation/random.ts';
import { readBooks } from './books.ts';
import type { Evidence } from './evidence.ts';
import { GatewayPlace } from './gateway-place.ts';
import { Load } from './load.ts';
import { watchMemory } from './memory.ts';
import { Operators } from './operators.ts';
import type { Payer } from './plan.ts';
import { startSoakProvider } from './provider.ts';
import { leftMs, type Nemesis, type Stage } from './stage.ts';
import { Timeline } from './timeline.ts';
import type { World } from './world.ts';

/** Gateways, a store, and what happens to them. */
export interface Scenario {
  readonly name: string;
  readonly gateways: number;
  /** New requests a second, where nothing else is asked for. */
  readonly rate: number;
  readonly hasOutbox: boolean;
  /** Leases and heartbeats as long as in service; they are short otherwise. */
  readonly hasRealPace: boolean;
  /** Resolves to undefined where this machine can't have such a world. */
  readonly startWorld: (gateways: number) => Promise<World | undefined>;
  /** Those that strike in it, of its world's and those of gateways. */
  readonly nemeses: (world: World) => readonly Nemesis[];
}

export interface ScenarioRun {
  readonly seed: number;
  /** How long clients send requests, in ms. */
  readonly loadMs: number;
  readonly rate: number;
}

const PACE = { leaseMs: 20_000, renewMs: 5000 };
/** For so long at the end of the load nothing breaks, so that it shows who has recovered. */
const CALM_MS = 8000;
/** Gateways look after accounts that they don't use every 20 seconds or so. */
const QUIET_MS = 35_000;
const HELD_MS = 60_000;
const REAL_LEASE_MS = 150_000;
const CLIENTS_MS = 45_000;
const CLEANUP_MS = 10_000;
const MAX_ENDING_MS = 360_000;

/** Runs it to its end, and gathers all that is known of it; undefined where it can't be run. */
export async function runScenario(scenario: Scenario, run: ScenarioRun): Promise<Evidence | undefined> {
  const cleanups: (() => unknown)[] = [];
  let phase = '';
  const enter = (next: string): void => {
    phase = next;
  };
  const staged = stage(scenario, run, enter, (cleanup) => cleanups.unshift(cleanup));
  const overdue = pause(run.loadMs + MAX_ENDING_MS, undefined, { ref: false }).then(() => {
    throw new Error(`It hangs: ${phase}`);
  });
  try {
    return await Promise.race([staged, overdue]);
  } finally {
    for (const cleanup of cleanups) await Promise.race([cleanup(), pause(CLEANUP_MS)]);
  }
}

/**
 * @param enter - is told what comes next
 * @param finallyDo - is given what must be done in the end, in the reverse order
 */
async function stage(
  scenario: Scenario,
  run: ScenarioRun,
  enter: (phase: string) => void,
  finallyDo: (cleanup: () => unknown) => void,
): Promise<Evidence | undefined> {
  enter('the start of its store');
  const random = new Random(run.seed);
  const timeline = new Timeline();
  const provider = await startSoakProvider();
  finallyDo(() => provider.close());
  const world = await scenario.startWorld(scenario.gateways);
  if (!world) return undefined;
  finallyDo(() => world.close());
  const folder = mkdtempSync(join(tmpdir(), 'ccr-soak-'));
  finallyDo(() => rmSync(folder, { recursive: true, force: true }));

  const payers: Payer[] = [];
  const places: GatewayPlace[] = world.storeUrls.map((store, n) => {
    const options: SoakGatewayOptions = {
      store,
      provider: provider.baseURL,
      ...(scenario.hasOutbox && { outboxDir: world.outboxDir ?? folder }),
      ...(!scenario.hasRealPace && { pace: PACE }),
    };
    return new GatewayPlace(n, options, (requestId, id, told) => load.named(requestId, id, told));
  });
  finallyDo(() => Promise.all(places.map((place) => place.remove())));
  const expect = provider.expect.bind(provider);
  const load = new Load({ random: random.fork(), places, payers, expect, rate: run.rate });
  const operators = new Operators({ random: random.fork(), places, payers });
  enter('the start of its gateways');
  await Promise.all(places.map((place) => place.start()));
  enter('the first grants and keys');
  await operators.open();

  const memory = watchMemory(places);
  finallyDo(() => memory.stop());
  const stopping = new AbortController();
  const working = [load.run(stopping.signal), operators.run(stopping.signal)];
  const endsAt = Date.now() + run.loadMs - CALM_MS;
  enter('a fault');
  await strikeUntilTheEnd(
    { places, operators, timeline, random: random.fork(), endsAt },
    scenario.nemeses(world),
  );
  enter('the end of the load');
  await pause(CALM_MS);
  stopping.abort();
  const stoppedAt = Date.now();
  await Promise.race([Promise.all(working), pause(CLIENTS_MS)]);
  const quietMs = timeline.faults.length > 0 ? QUIET_MS : 2000;
  await pause(Math.max(0, stoppedAt + quietMs - Date.now()));
  enter('the charges that wait');
  await untilPosted(places);
  enter('the books');
  const heldMs = scenario.hasRealPace ? REAL_LEASE_MS : HELD_MS;
  return {
    runs: places.flatMap(({ runs }) => runs),
    tries: load.tries,
    attempts: provider.attempts,
    changes: operators.changes,
    keys: operators.keys,
    timeline,
    mostMegabytes: memory.mostMegabytes(),
    books: await readBooks(await world.booksUrl(), operators.accounts, heldMs),
    hasOutbox: scenario.hasOutbox,
  };
}

async function strikeUntilTheEnd(stage: Stage, nemeses: readonly Nemesis[]): Promise<void> {
  const { random, timeline } = stage;
  while (leftMs(stage) > 0) {
    await pause(Math.min(random.between(1500, 6000), leftMs(stage)));
    if (leftMs(stage) === 0) return;
    await Promise.all(
      drawNemeses(nemeses, random).map(async (nemesis) => {
        const fault = timeline.begin(nemesis.name);
        await nemesis.strike(stage, fault);
        fault.healedAt = Math.min(fault.healedAt, Date.now());
      }),
    );
  }
}

/** One, or two that don't get in each other's way. */
function drawNemeses(nemeses: readonly Nemesis[], random: Random): readonly Nemesis[] {
  const first = nemeses[random.below(nemeses.length)];
  if (!first || first.group === 'both' || random.chance(0.7)) return first ? [first] : [];
  const others = nemeses.filter(({ group }) => group !== 'both' && group !== first.group);
  return [first, ...others.slice(random.below(others.length)).slice(0, 1)];
}

/** Waits until no gateway has a charge that waits, for as long as that may take. */
async function untilPosted(places: readonly GatewayPlace[]): Promise<void> {
  const endsAt = Date.now() + HELD_MS;
  for (;;) {
    const waiting = await Promise.all(
      places.map(async (place) => {
        const measures = await place.control<Measures>({ do: 'measure' }).catch(() => undefined);
        return measures?.waitingCharges ?? 1;
      }),
    );
    if (waiting.every((count) => count === 0) || Date.now() > endsAt) return;
    await pause(500);
  }
}
