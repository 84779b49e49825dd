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
  readonly startWorld: (gateways: number, timeline: Timeline) => Promise<World>;
  /** Those that strike in it, of its world's and those of gateways. */
  readonly nemeses: (world: World) => readonly Nemesis[];
}

export interface ScenarioRun {
  readonly seed: number;
  /** How long clients send requests, in ms. */
  readonly loadMs: number;
  readonly rate: number;
}

const PACE = { leaseMs: 20_000, heartbeatMs: 5000 };
/** For so long at the end of the load nothing breaks, so that it shows who has recovered. */
const CALM_MS = 8000;
/** Gateways look after accounts that they don't use every 20 seconds or so. */
const QUIET_MS = 35_000;
const HELD_MS = 60_000;
const REAL_LEASE_MS = 150_000;
const CLIENTS_MS = 45_000;

/** Runs it to its end, and gathers all that is known of it. */
export async function runScenario(scenario: Scenario, run: ScenarioRun): Promise<Evidence> {
  const cleanups: (() => unknown)[] = [];
  try {
    return await stage(scenario, run, (cleanup) => cleanups.unshift(cleanup));
  } finally {
    for (const cleanup of cleanups) await cleanup();
  }
}

/** @param finallyDo - is given what must be done in the end, in the reverse order */
async function stage(
  scenario: Scenario,
  run: ScenarioRun,
  finallyDo: (cleanup: () => unknown) => void,
): Promise<Evidence> {
  const random = new Random(run.seed);
  const timeline = new Timeline();
  const provider = await startSoakProvider();
  finallyDo(() => provider.close());
  const world = await scenario.startWorld(scenario.gateways, timeline);
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
  await Promise.all(places.map((place) => place.start()));
  await operators.open();

  const stopping = new AbortController();
  const working = [load.run(stopping.signal), operators.run(stopping.signal)];
  const endsAt = Date.now() + run.loadMs - CALM_MS;
  await strikeUntilTheEnd({ places, timeline, random: random.fork(), endsAt }, scenario.nemeses(world));
  await pause(CALM_MS);
  stopping.abort();
  const stoppedAt = Date.now();
  await Promise.race([Promise.all(working), pause(CLIENTS_MS)]);
  const quietMs = timeline.faults.length > 0 ? QUIET_MS : 2000;
  await pause(Math.max(0, stoppedAt + quietMs - Date.now()));
  await untilPosted(places);
  const heldMs = scenario.hasRealPace ? REAL_LEASE_MS : HELD_MS;
  return {
    runs: places.flatMap(({ runs }) => runs),
    tries: load.tries,
    attempts: provider.attempts,
    changes: operators.changes,
    keys: operators.keys,
    timeline,
    books: await readBooks(await world.booksUrl(), operators.accounts, heldMs),
    hasOutbox: scenario.hasOutbox,
  };
}

async function strikeUntilTheEnd(stage: Stage, nemeses: readonly Nemesis[]): Promise<void> {
  const { random, timeline } = stage;
  while (leftMs(stage) > 0) {
    await pause(Math.min(random.between(1500, 6000), leftMs(stage)));
    const [first] = drawn(nemeses, random);
    if (!first || leftMs(stage) === 0) continue;
    const [second] = drawn(
      nemeses.filter(({ group }) => group !== first.group),
      random,
    );
    const chosen = second && random.chance(0.3) ? [first, second] : [first];
    await Promise.all(
      chosen.map(async (nemesis) => {
        const fault = timeline.begin(nemesis.name);
        await nemesis.strike(stage, fault);
        fault.healedAt = Math.min(fault.healedAt, Date.now());
      }),
    );
  }
}

function drawn(nemeses: readonly Nemesis[], random: Random): readonly Nemesis[] {
  return nemeses.length === 0 ? [] : [nemeses[random.below(nemeses.length)]!];
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
