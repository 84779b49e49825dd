import { asError } from '../platform/as-error.ts';
import { SlotList } from '../async/slot-list.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
import type { Hold } from './hold.ts';

/** So long after its answer began, a request has not ended and is worth a checkpoint. */
const FIRST_RENEWAL_MS = 250;
/** So many signs of life are on their way at a time; the others wait. */
const MAX_IN_FLIGHT = 16;

/**
 * Gives signs of life for holds, each at its own times, so that many of them don't come at once.
 *
 * A hold has at most one on its way, and the next one only after that was answered:
 * a slow store is asked less often.
 */
export class LeaseRenewal {
  readonly #intervalMs: number;
  readonly #holds = new SlotList<Hold>();
  /** Whose beat waits for its turn, in order; some of them may be over. */
  #due: Hold[] = [];
  #inFlight = 0;
  /** The store was away at the last beat: once said, not for each hold. */
  #isUnavailable = false;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** The hold has just been taken: it is renewed from now on. */
  add(hold: Hold): void {
    hold.pulse.place = this.#holds.add(hold);
    this.#schedule(hold, this.#intervalMs);
  }

  /** Its answer has begun: a first checkpoint is due, unless it is over at once. */
  soon(hold: Hold): void {
    const { timer } = hold.pulse;
    if (!timer) return;
    clearTimeout(timer);
    this.#schedule(hold, Math.min(FIRST_RENEWAL_MS, this.#intervalMs));
  }

  delete(hold: Hold): void {
    const { pulse } = hold;
    if (!pulse.place) return;
    this.#holds.delete(pulse.place);
    pulse.place = undefined;
    clearTimeout(pulse.timer);
  }

  stop(): void {
    for (const hold of this.#holds.values()) this.delete(hold);
  }

  #schedule(hold: Hold, ms: number): void {
    const { pulse } = hold;
    const timer = setTimeout(() => {
      pulse.timer = undefined;
      this.#due.push(hold);
      this.#renewDue();
    }, ms);
    pulse.timer = timer.unref();
  }

  #renewDue(): void {
    while (this.#inFlight < MAX_IN_FLIGHT) {
      const hold = this.#due.shift();
      if (!hold) return;
      if (!hold.pulse.place) continue;
      this.#inFlight += 1;
      void this.#renew(hold).finally(() => {
        this.#inFlight -= 1;
        this.#renewDue();
      });
    }
  }

  async #renew(hold: Hold): Promise<void> {
    try {
      const { code } = await hold.renew();
      this.#isUnavailable = false;
      // Its lease ran out: what it consumes is settled by its id all the same.
      if (code === 'closed') this.delete(hold);
    } catch (error) {
      const isAway = error instanceof StoreUnavailableError;
      if (!isAway || !this.#isUnavailable) hold.report(asError(error));
      this.#isUnavailable ||= isAway;
    }
    if (hold.pulse.place) this.#schedule(hold, this.#intervalMs);
  }
}
