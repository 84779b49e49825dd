/** When a ledger was looked at last, in ms. */
export interface ClockReading {
  /** By the wall clock. */
  readonly wall: number;
  /** By monotonic time, which no setting of the clock changes: it counts what went by, from an origin of no meaning. */
  readonly monotonic: number;
}

/** A pause between two looks counts as this much at most: a gateway that runs looks more often. */
const MAX_PAUSE_MS = 60_000;
/** A smaller difference between two clocks is no step. */
const MIN_STEP_MS = 1000;
/** A last look that is younger is not written again. */
const READING_INTERVAL_MS = 5000;

/**
 * Tells a step of the wall clock from time that went by, so that leases can be moved by the step: each then goes on
 * for as long as it had left.
 *
 * All processes that share a ledger share its last look, and with it monotonic time. To that each adds what went by since,
 * by a clock of its own that is never set; a process that has just begun can only believe the wall clock. A pause of all
 * processes, in which no lease could be renewed, counts as a minute at most.
 */
export class ClockSteps {
  readonly #elapsed: () => number;
  /** The same moment by two clocks. */
  #known: { readonly elapsed: number; readonly monotonic: number } | undefined;

  /** @param elapsed - a clock that is never set, in ms */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /**
   * Takes a look at the clock. The caller moves all leases by `step`, before it does anything else with one.
   *
   * @returns how far the clock was set since the last look; and `reading`, if that is to take the place of the last
   */
  observe(
    wall: number,
    last: ClockReading | undefined,
  ): { readonly step: number; readonly reading?: ClockReading } {
    const elapsed = this.#elapsed();
    const shown = last ? wall - last.wall : 0;
    const known =
      this.#known && last && this.#known.monotonic + elapsed - this.#known.elapsed - last.monotonic;
    const passed = Math.max(0, Math.min(shown, known ?? shown, MAX_PAUSE_MS));
    const monotonic = Math.round((last?.monotonic ?? 0) + passed);
    this.#known = { elapsed, monotonic };
    const step = Math.round(shown - passed);
    if (Math.abs(step) >= MIN_STEP_MS) return { step, reading: { wall, monotonic } };
    return !last || shown >= READING_INTERVAL_MS ? { step: 0, reading: { wall, monotonic } } : { step: 0 };
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
