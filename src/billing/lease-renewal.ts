import { type Answer, isLater } from '../async/answer.ts';
import { asError } from '../platform/as-error.ts';
import { Deadline, type TimerWheel } from '../async/timer-wheel.ts';
import { type ExtendResult, StoreUnavailableError } from '../ledger/contract/ledger-store.ts';

/** Time from the start of an answer to the first checkpoint: most requests have ended by then. */
const FIRST_RENEWAL_MS = 250;
/** Most renewals in flight at a time, while there are few holds; the others wait. */
const MIN_IN_FLIGHT = 16;
/** With more holds, one of a hundred is in flight: then no lease ends at a store that takes a second for each. */
const HOLDS_IN_FLIGHT = 100;

/** A hold whose lease is renewed while it is open. */
export interface LeasedHold {
  /** For its renewal alone; undefined if it isn't renewed, or not any more. */
  lease: Lease | undefined;
  /** Throws or rejects if the store didn't answer. */
  renew(): Answer<ExtendResult>;
  report(error: Error): void;
}

/** The lease of a hold: the time of its next renewal, unless that is due or in flight. */
export class Lease extends Deadline {
  readonly hold: LeasedHold;
  readonly #renewal: LeaseRenewal;

  constructor(hold: LeasedHold, renewal: LeaseRenewal) {
    super();
    this.hold = hold;
    this.#renewal = renewal;
  }

  override get isWait(): boolean {
    return false;
  }

  override reached(): void {
    this.#renewal.due(this);
  }
}

/** Renews the leases of running holds, each on its own schedule, so that renewals don't come in bursts.
 *
 * A hold has at most one renewal in flight, and its next one is scheduled after the reply:
 * a slow store gets fewer.
 */
export class LeaseRenewal {
  readonly #intervalMs: number;
  readonly #wheel: TimerWheel;
  /** Holds that are renewed. */
  #size = 0;
  /** Leases whose renewal is due, in order; the holds of some of them may have ended. */
  #due: Lease[] = [];
  #inFlight = 0;
  #isStopped = false;
  /** The store was unavailable at the last renewal: reported once, not for each hold. */
  #isUnavailable = false;

  constructor(intervalMs: number, wheel: TimerWheel) {
    this.#intervalMs = intervalMs;
    this.#wheel = wheel;
  }

  /** Starts the renewals of a new hold. */
  add(hold: LeasedHold): void {
    if (this.#isStopped) return;
    this.#size += 1;
    const lease = new Lease(hold, this);
    hold.lease = lease;
    this.#wheel.set(lease, this.#intervalMs);
  }

  /** Schedules the first checkpoint of an answer that has begun. */
  soon({ lease }: LeasedHold): void {
    if (lease?.isSet) this.#wheel.set(lease, Math.min(FIRST_RENEWAL_MS, this.#intervalMs));
  }

  delete(hold: LeasedHold): void {
    const { lease } = hold;
    if (!lease) return;
    this.#size -= 1;
    hold.lease = undefined;
    this.#wheel.clear(lease);
  }

  /** Renews no lease any more. */
  stop(): void {
    this.#isStopped = true;
    this.#due = [];
  }

  /** The time of its next renewal has come. */
  due(lease: Lease): void {
    if (this.#isStopped) return;
    this.#due.push(lease);
    this.#renewDue();
  }

  #renewDue(): void {
    const most = Math.max(MIN_IN_FLIGHT, this.#size / HOLDS_IN_FLIGHT);
    while (this.#inFlight < most) {
      const lease = this.#due.shift();
      if (!lease) return;
      if (lease.hold.lease === lease) this.#renew(lease);
    }
  }

  #renew(lease: Lease): void {
    try {
      const renewed = lease.hold.renew();
      if (isLater(renewed)) void this.#awaitRenewal(lease, renewed);
      else this.#renewed(lease, renewed);
    } catch (error) {
      this.#failed(lease, error);
    }
  }

  async #awaitRenewal(lease: Lease, renewing: Promise<ExtendResult>): Promise<void> {
    this.#inFlight += 1;
    try {
      this.#renewed(lease, await renewing);
    } catch (error) {
      this.#failed(lease, error);
    } finally {
      this.#inFlight -= 1;
      this.#renewDue();
    }
  }

  #renewed(lease: Lease, { code }: ExtendResult): void {
    this.#isUnavailable = false;
    // Its lease expired: its charge is still settled by its id.
    if (code === 'closed') this.delete(lease.hold);
    else this.#schedule(lease);
  }

  #failed(lease: Lease, error: unknown): void {
    const isUnavailable = error instanceof StoreUnavailableError;
    if (!isUnavailable || !this.#isUnavailable) lease.hold.report(asError(error));
    this.#isUnavailable ||= isUnavailable;
    this.#schedule(lease);
  }

  /** Its hold may have ended meanwhile. */
  #schedule(lease: Lease): void {
    if (lease.hold.lease === lease && !this.#isStopped) this.#wheel.set(lease, this.#intervalMs);
  }
}
