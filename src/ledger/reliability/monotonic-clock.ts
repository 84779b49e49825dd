/** A longer step is taken for one of the clock, and not of time. */
const MAX_STEP_MS = 60_000;

/**
 * Time that neither stands still for hours nor jumps when the clock is set.
 *
 * For spans of seconds, by those who look at it at least once a minute: a longer pause counts as none.
 */
export function monotonicClock(now: () => number): () => number {
  let seen = now();
  let time = seen;
  return () => {
    const step = now() - seen;
    seen += step;
    if (step > 0 && step <= MAX_STEP_MS) time += step;
    return time;
  };
}
