import { asError } from '../platform/as-error.ts';
import { SlotList } from '../async/slot-list.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
import type { Hold } from './hold.ts';

/** Time from the start of an answer to the first checkpoint: most requests have ended by then. */
const FIRST_RENEWAL_MS = 250;
/** Most renewals in flight at a time; the others wait. */
const MAX_IN_FLIGHT = 16;

/** Renews the leases of running holds, each on its own schedule, so that renewals don't come in bursts.
 *
 * A hold has at most one renewal in flight, and its next one is scheduled after the reply:
 * a slow store gets fewer.
 */
export class LeaseRenewal {
  readonly #intervalMs: number;
  readonly #holds = new SlotList<Hold>();
  /** Holds whose renewal is due, in order; some of them may have ended. */
  #due: Hold[] = [];
  #inFlight = 0;
  /** The store was unavailable at the last renewal: reported once, not for each hold. */
  #isUnavailable = false;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** Starts the renewals of a new hold. */
  add(hold: Hold): void {
    hold.lease.slot = this.#holds.add(hold);
    this.#schedule(hold, this.#intervalMs);
  }

  /** Schedules the first checkpoint of an answer that has begun. */
  soon(hold: Hold): void {
    const { timer } = hold.lease;
    if (!timer) return;
    clearTimeout(timer);
    this.#schedule(hold, Math.min(FIRST_RENEWAL_MS, this.#intervalMs));
  }

  delete(hold: Hold): void {
    const { lease } = hold;
    if (!lease.slot) return;
    this.#holds.delete(lease.slot);
    lease.slot = undefined;
    clearTimeout(lease.timer);
  }

  stop(): void {
    for (const hold of this.#holds.values()) this.delete(hold);
  }

  #schedule(hold: Hold, ms: number): void {
    const { lease } = hold;
    const timer = setTimeout(() => {
      lease.timer = undefined;
      this.#due.push(hold);
      this.#renewDue();
    }, ms);
    lease.timer = timer.unref();
  }

  #renewDue(): void {
    while (this.#inFlight < MAX_IN_FLIGHT) {
      const hold = this.#due.shift();
      if (!hold) return;
      if (!hold.lease.slot) continue;
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
      // Its lease expired: its charge is still settled by its id.
      if (code === 'closed') this.delete(hold);
    } catch (error) {
      const isUnavailable = error instanceof StoreUnavailableError;
      if (!isUnavailable || !this.#isUnavailable) hold.report(asError(error));
      this.#isUnavailable ||= isUnavailable;
    }
    if (hold.lease.slot) this.#schedule(hold, this.#intervalMs);
  }
}
