import { asError } from '../errors.ts';
import { StoreUnavailable } from '../ledger/ledger.ts';
import type { Hold } from './hold.ts';

/** So long after its answer began, a request has not ended and is worth a checkpoint. */
const FIRST_BEAT_MS = 250;
/** So many signs of life are on their way at a time; the others wait. */
const MOST_IN_FLIGHT = 16;

/**
 * Gives signs of life for holds, each at its own times, so that many of them don't come at once.
 *
 * A hold has at most one on its way, and the next one only after that was answered:
 * a slow store is asked less often.
 */
export class Heartbeat {
  readonly #intervalMs: number;
  /** Every hold that lives, with the timer of its next beat; undefined while it is due or on its way. */
  readonly #timers = new Map<Hold, NodeJS.Timeout | undefined>();
  readonly #due = new Set<Hold>();
  #inFlight = 0;
  /** The store was away at the last beat: once said, not for each hold. */
  #away = false;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** The hold has just been taken: it is renewed from now on. */
  add(hold: Hold): void {
    this.#schedule(hold, this.#intervalMs);
  }

  /** Its answer has begun: a first checkpoint is due, unless it is over at once. */
  soon(hold: Hold): void {
    const timer = this.#timers.get(hold);
    if (!timer) return;
    clearTimeout(timer);
    this.#schedule(hold, Math.min(FIRST_BEAT_MS, this.#intervalMs));
  }

  delete(hold: Hold): void {
    clearTimeout(this.#timers.get(hold));
    this.#timers.delete(hold);
    this.#due.delete(hold);
  }

  stop(): void {
    for (const hold of this.#timers.keys()) this.delete(hold);
  }

  #schedule(hold: Hold, ms: number): void {
    const timer = setTimeout(() => {
      this.#timers.set(hold, undefined);
      this.#due.add(hold);
      this.#send();
    }, ms);
    this.#timers.set(hold, timer.unref());
  }

  #send(): void {
    for (const hold of this.#due) {
      if (this.#inFlight >= MOST_IN_FLIGHT) return;
      this.#due.delete(hold);
      this.#inFlight += 1;
      void this.#beat(hold).finally(() => {
        this.#inFlight -= 1;
        this.#send();
      });
    }
  }

  async #beat(hold: Hold): Promise<void> {
    try {
      const { code } = await hold.renew();
      this.#away = false;
      // Its lease ran out: what it consumes is settled by its id all the same.
      if (code === 'closed') this.delete(hold);
    } catch (error) {
      const isAway = error instanceof StoreUnavailable;
      if (!isAway || !this.#away) hold.report(asError(error));
      this.#away ||= isAway;
    }
    if (this.#timers.has(hold)) this.#schedule(hold, this.#intervalMs);
  }
}
