import { Clients } from './clients.ts';
import { Fate } from './fate.ts';
import { Operator } from './operator.ts';
import type { Plant } from './plants.ts';
import { heldForNobody, wrongEnd } from './verdict.ts';
import { SERVES_WITHIN_MS, TROUBLE_MS, World } from './world.ts';

/** Result of a seed. */
export interface Report {
  readonly seed: number;
  /** What must never happen, and did. */
  readonly violation: string | undefined;
  /** Differs as soon as any event differs. */
  readonly hash: string;
  /** The last events. */
  readonly last: readonly string[];
  readonly events: number;
  readonly requests: number;
  readonly commands: number;
  readonly rollbacks: number;
  readonly virtualMs: number;
  /** Number of events by name, such as `settle duplicate`, `fault kill`, `event rollback`. */
  readonly counts: ReadonlyMap<string, number>;
}

/** Runs the world of a seed to its end, and judges it. */
export async function simulate(seed: number, plant: Plant = {}, keptLines?: number): Promise<Report> {
  const world = new World(seed, plant, keptLines);
  const { swarm, time, server } = world;
  const onRejection = (error: unknown): void => world.fail(`nobody caught: ${String(error)}`);
  process.on('unhandledRejection', onRejection);
  const operator = new Operator(world);
  const clients = new Clients(world);
  const fate = new Fate(world, operator, clients);
  try {
    time.after(world.fate, 0, () => {
      operator.open();
      server.watchClock();
      fate.plan();
    });
    await time.run(swarm.startsAt + TROUBLE_MS);
    time.after(world.fate, 0, () => fate.heal());
    await time.run(time.now + SERVES_WITHIN_MS - 1000);
    // The first reply sets the time of a gateway whose clock is wrong.
    for (let knocks = 0; knocks < 2; knocks++) {
      clients.knock();
      await time.run(time.now + 500);
    }
    const [closed] = clients.closed;
    if (closed !== undefined) world.fail(`${closed} is not served ${SERVES_WITHIN_MS} ms after all was well`);
    const { longestMs } = swarm.habits;
    const { idleMs, leaseMs } = swarm.terms;
    await time.run(time.now + longestMs + idleMs + 15_000);
    world.note('no request runs any more');
    const leak = await heldForNobody(world);
    if (leak !== undefined) world.fail(leak);
    await time.run(time.now + leaseMs + 30_000);
    const wrong = world.violation === undefined ? await wrongEnd(world) : undefined;
    if (wrong !== undefined) world.fail(wrong);
  } finally {
    process.off('unhandledRejection', onRejection);
  }
  return {
    seed,
    violation: world.violation,
    hash: world.log.hash,
    last: world.log.last,
    events: time.events,
    requests: world.truth.requests.size,
    commands: server.length,
    rollbacks: world.rollbacks.count,
    virtualMs: time.now - swarm.startsAt,
    counts: world.counts,
  };
}
