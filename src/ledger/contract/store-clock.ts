import type { LedgerStore } from './ledger-store.ts';

/**
 * The store's clock, as of its last reply; until the first reply, this machine's clock.
 *
 * Request ids and the deadlines of commands are in its time. For a store on another machine, it advances by a monotonic
 * clock; a store on this machine has this machine's wall clock, with all of its steps.
 */
export class StoreClock {
  readonly #elapsed: () => number;
  #offset: number;
  #isKnown = false;

  /** @param elapsed - a clock in ms that advances like the store's, from any origin */
  constructor(now: () => number = Date.now, elapsed: () => number = now) {
    this.#elapsed = elapsed;
    this.#offset = now() - elapsed();
  }

  /** A reply has shown the store's time. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  now(): number {
    return Math.floor(this.#elapsed() + this.#offset);
  }

  /** @param now - of a reply that has just arrived */
  sync(now: number): void {
    this.#offset = now - this.#elapsed();
    this.#isKnown = true;
  }
}

/** The clock of a store: monotonic if the store is on another machine, which `mayRollBack` indicates. */
export function clockOf({ mayRollBack }: LedgerStore): StoreClock {
  return mayRollBack === true ? new StoreClock(Date.now, () => performance.now()) : new StoreClock();
}

/** Returns a store's time, by extending a request that doesn't exist. */
export async function fetchStoreTime(store: LedgerStore, requestId: string): Promise<number> {
  const nothing = { account: 'clock-probe', requestId, hold: 0n, leaseMs: 1, checkpoint: 0n };
  return (await store.extend(nothing)).now;
}

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
