/** The same moment by two clocks, as shared by all processes of a ledger; in ms. */
export interface ClockReading {
  /** Wall clock. */
  readonly wall: number;
  /** Elapsed time from an arbitrary origin, unaffected by setting the wall clock. */
  readonly monotonic: number;
}

/** Maximum time that counts between two readings: a running gateway reads more often. */
const MAX_PAUSE_MS = 60_000;
/** A smaller difference between the two clocks is not a step. */
const MIN_STEP_MS = 1000;
/** A new reading is written only if the last one is at least this old. */
const READING_INTERVAL_MS = 5000;

/**
 * Distinguishes steps of the wall clock from elapsed time, so that leases can be moved by the step and keep their
 * remaining time.
 *
 * All processes that share a ledger share its last reading, and with it the monotonic time. Each process adds the time
 * elapsed since, by its own monotonic clock; a process that has just started can only rely on the wall clock. A pause of
 * all processes, in which no lease could be renewed, counts as a minute at most.
 */
export class ClockSteps {
  readonly #elapsed: () => number;
  /** The same moment by two clocks. */
  #known: { readonly elapsed: number; readonly monotonic: number } | undefined;

  /** @param elapsed - monotonic clock, in ms */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /**
   * Reads the clock. The caller must move all leases by `step` before it uses any lease.
   *
   * @returns the step of the wall clock since the last reading, in ms; and `reading`, if it must replace the last one
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

/** The step detection of a store; undefined where the store was given a clock, which is trusted. */
export function clockSteps(
  now: (() => number) | undefined,
  elapsed: (() => number) | undefined,
): ClockSteps | undefined {
  if (elapsed) return new ClockSteps(elapsed);
  return now ? undefined : new ClockSteps(() => performance.now());
}
