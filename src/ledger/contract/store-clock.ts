import type { LedgerStore } from './ledger-store.ts';

/**
 * The store's clock, as its last reply showed it: this machine's own until there was one.
 *
 * Request ids are made in its time, and commands say by it until when they are wanted. For a store on another machine
 * time goes on by a clock that nobody sets; one on this machine has this machine's clock, whatever is done to it.
 */
export class StoreClock {
  readonly #elapsed: () => number;
  #offset: number;
  #isKnown = false;

  /** @param elapsed - a clock that goes as the store's does, though it may show another time; in ms */
  constructor(now: () => number = Date.now, elapsed: () => number = now) {
    this.#elapsed = elapsed;
    this.#offset = now() - elapsed();
  }

  /** The store has told what it is. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  now(): number {
    return Math.floor(this.#elapsed() + this.#offset);
  }

  /** @param now - of a reply that has just come */
  sync(now: number): void {
    this.#offset = now - this.#elapsed();
    this.#isKnown = true;
  }
}

/** The clock of a store, by what is known of where it is. */
export function clockOf({ mayRollBack }: LedgerStore): StoreClock {
  return mayRollBack === true ? new StoreClock(Date.now, () => performance.now()) : new StoreClock();
}

/** Asks a store for its time, by the renewal of a request that nobody made. */
export async function fetchStoreTime(store: LedgerStore, requestId: string): Promise<number> {
  const nothing = { account: 'nobody', requestId, hold: 0n, leaseMs: 1, checkpoint: 0n };
  return (await store.extend(nothing)).now;
}
