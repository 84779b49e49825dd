/** When a ledger was looked at last, in ms. */
export interface LastLook {
  /** By the wall clock. */
  readonly wall: number;
  /** By steady time, which no setting of the clock changes: it counts what went by, from an origin of no meaning. */
  readonly steady: number;
}

/** A pause between two looks counts as this much at most: a gateway that runs looks more often. */
const MAX_PAUSE_MS = 60_000;
/** A smaller difference between two clocks is no step. */
const MIN_STEP_MS = 1000;
/** A last look that is younger is not written again. */
const RETENTION_MS = 5000;

/**
 * Tells a step of the wall clock from time that went by, so that leases can be moved by the step: each then goes on
 * for as long as it had left.
 *
 * All processes that share a ledger share its last look, and with it steady time. To that each adds what went by since,
 * by a clock of its own that is never set; a process that has just begun can only believe the wall clock. A pause of all
 * processes, in which no lease could be renewed, counts as a minute at most.
 */
export class ClockSteps {
  readonly #elapsed: () => number;
  /** The same moment by two clocks. */
  #known: { readonly elapsed: number; readonly steady: number } | undefined;

  /** @param elapsed - a clock that is never set, in ms */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /**
   * Takes a look at the clock. The caller moves all leases by `step`, before it does anything else with one.
   *
   * @returns how far the clock was set since the last look; and `kept`, if that is to take the place of the last
   */
  look(wall: number, last: LastLook | undefined): { readonly step: number; readonly kept?: LastLook } {
    const elapsed = this.#elapsed();
    const shown = last ? wall - last.wall : 0;
    const known = this.#known && last && this.#known.steady + elapsed - this.#known.elapsed - last.steady;
    const passed = Math.max(0, Math.min(shown, known ?? shown, MAX_PAUSE_MS));
    const steady = Math.round((last?.steady ?? 0) + passed);
    this.#known = { elapsed, steady };
    const step = Math.round(shown - passed);
    if (Math.abs(step) >= MIN_STEP_MS) return { step, kept: { wall, steady } };
    return !last || shown >= RETENTION_MS ? { step: 0, kept: { wall, steady } } : { step: 0 };
  }
}

/** What a store tells steps by: nothing, where it was given a clock, which is believed. */
export function clockSteps(
  now: (() => number) | undefined,
  elapsed: (() => number) | undefined,
): ClockSteps | undefined {
  if (elapsed) return new ClockSteps(elapsed);
  return now ? undefined : new ClockSteps(() => performance.now());
}
