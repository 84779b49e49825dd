import { randomUUID } from 'node:crypto';

import type { FleetView } from '../ledger/contract/fleet-view.ts';
import { asError } from '../platform/as-error.ts';
import { FleetSlot, type SlotHistory } from './fleet-slot.ts';

export interface FleetSyncOptions {
  readonly view: FleetView;
  readonly onError: (error: Error) => void;
  /** A second of a minute of limits; tests have shorter ones. */
  readonly bucketMs?: number | undefined;
  /** In ms, monotonic. */
  readonly now?: () => number;
  /** Unique in the fleet. */
  readonly process?: string;
}

/** Of a bucket, which is a second. */
const INTERVAL = 1 / 4;
const FRESH = 2;
const LEASE = 3;

/**
 * Tells the fleet what this process uses of the limits of providers, and learns what it may use: four times a second for each
 * slot that is in use, and never on the path of a request. Without an answer for two seconds, the process goes on alone.
 */
export class FleetSync {
  readonly #options: Required<FleetSyncOptions> & { readonly bucketMs: number };
  readonly #slots = new Set<FleetSlot>();
  readonly #running = new Map<FleetSlot, Promise<void>>();
  readonly #changed = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #made = 0;
  #isFailing = false;
  #isClosed = false;

  constructor({
    bucketMs = 1000,
    now = () => performance.now(),
    process = randomUUID(),
    ...rest
  }: FleetSyncOptions) {
    this.#options = { ...rest, bucketMs, now, process };
  }

  /** @param history - all that this process sent in the last minute */
  slot(name: string, history: (now: number) => SlotHistory): FleetSlot {
    const { bucketMs, process } = this.#options;
    return new FleetSlot(name, `${process}-${(this.#made += 1)}`, {
      bucketMs,
      intervalMs: bucketMs * INTERVAL,
      freshMs: bucketMs * FRESH,
      leaseMs: bucketMs * LEASE,
      join: (slot) => {
        this.#join(slot);
      },
      history,
    });
  }

  /** Calls the listener when there may be room that wasn't there. */
  onChange(listener: () => void): void {
    this.#changed.add(listener);
  }

  /** Reports whatever is due; resolves when it is answered. Called by a timer. */
  async tick(): Promise<void> {
    const due = [...this.#slots].filter((slot) => slot.isDue() || slot.isIdle);
    await Promise.all(due.map((slot) => (slot.isIdle ? this.#leave(slot) : this.#sync(slot))));
    if (this.#slots.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Gives back what this process was granted. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await Promise.all([...this.#slots].map((slot) => this.#leave(slot)));
  }

  #join(slot: FleetSlot): void {
    if (this.#isClosed) return;
    this.#slots.add(slot);
    this.#timer ??= setInterval(() => void this.tick(), this.#options.bucketMs * INTERVAL).unref();
    // Not before the request that joins has been counted.
    queueMicrotask(() => void this.#sync(slot));
  }

  /** One at a time. Never rejects. */
  #sync(slot: FleetSlot): Promise<void> {
    const running = this.#running.get(slot);
    if (running) return running;
    const sync = this.#report(slot, false).finally(() => this.#running.delete(slot));
    this.#running.set(slot, sync);
    return sync;
  }

  async #leave(slot: FleetSlot): Promise<void> {
    this.#slots.delete(slot);
    await this.#running.get(slot);
    await this.#report(slot, true);
    slot.departed();
  }

  async #report(slot: FleetSlot, isLeaving: boolean): Promise<void> {
    const { view, now, onError } = this.#options;
    try {
      const isNew = slot.hear(await view.sync(slot.report(now(), isLeaving)), now());
      if (isNew) slot.hear(await view.sync(slot.report(now(), isLeaving)), now());
      this.#isFailing = false;
      for (const listener of this.#changed) listener();
    } catch (error) {
      if (this.#isFailing) return;
      this.#isFailing = true;
      const { message } = asError(error);
      onError(
        new Error(`What other processes use of the limits of providers is unknown: ${message}`, {
          cause: error,
        }),
      );
    }
  }
}
