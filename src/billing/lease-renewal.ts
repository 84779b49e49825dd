import { asError } from '../platform/as-error.ts';
import { type Slot, SlotList } from '../async/slot-list.ts';
import { type ExtendResult, StoreUnavailableError } from '../ledger/contract/ledger-store.ts';

/** Time from the start of an answer to the first checkpoint: most requests have ended by then. */
const FIRST_RENEWAL_MS = 250;
/** Most renewals in flight at a time, while there are few holds; the others wait. */
const MIN_IN_FLIGHT = 16;
/** With more holds, one of a hundred is in flight: then no lease ends at a store that takes a second for each. */
const HOLDS_IN_FLIGHT = 100;

/** The lease of a hold, for its renewal alone. */
export interface Lease {
  /** Undefined if it isn't renewed, or not any more. */
  slot: Slot<LeasedHold> | undefined;
  /** Of its next renewal; undefined while that is due or in flight. */
  timer: NodeJS.Timeout | undefined;
}

/** A hold whose lease is renewed while it is open. */
export interface LeasedHold {
  readonly lease: Lease;
  renew(): Promise<ExtendResult>;
  report(error: Error): void;
}

/** Renews the leases of running holds, each on its own schedule, so that renewals don't come in bursts.
 *
 * A hold has at most one renewal in flight, and its next one is scheduled after the reply:
 * a slow store gets fewer.
 */
export class LeaseRenewal {
  readonly #intervalMs: number;
  readonly #holds = new SlotList<LeasedHold>();
  /** Holds whose renewal is due, in order; some of them may have ended. */
  #due: LeasedHold[] = [];
  #inFlight = 0;
  /** The store was unavailable at the last renewal: reported once, not for each hold. */
  #isUnavailable = false;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** Starts the renewals of a new hold. */
  add(hold: LeasedHold): void {
    hold.lease.slot = this.#holds.add(hold);
    this.#schedule(hold, this.#intervalMs);
  }

  /** Schedules the first checkpoint of an answer that has begun. */
  soon(hold: LeasedHold): void {
    const { timer } = hold.lease;
    if (!timer) return;
    clearTimeout(timer);
    this.#schedule(hold, Math.min(FIRST_RENEWAL_MS, this.#intervalMs));
  }

  delete(hold: LeasedHold): void {
    const { lease } = hold;
    if (!lease.slot) return;
    this.#holds.delete(lease.slot);
    lease.slot = undefined;
    clearTimeout(lease.timer);
  }

  stop(): void {
    for (const hold of this.#holds.values()) this.delete(hold);
  }

  #schedule(hold: LeasedHold, ms: number): void {
    const { lease } = hold;
    const timer = setTimeout(() => {
      lease.timer = undefined;
      this.#due.push(hold);
      this.#renewDue();
    }, ms);
    lease.timer = timer.unref();
  }

  #renewDue(): void {
    const most = Math.max(MIN_IN_FLIGHT, this.#holds.size / HOLDS_IN_FLIGHT);
    while (this.#inFlight < most) {
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

  async #renew(hold: LeasedHold): Promise<void> {
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
