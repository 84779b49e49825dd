import { SlotList, type Slot } from '../async/slot-list.ts';
import { RouterClosedError } from '../http/relay-end.ts';

export interface Abortable {
  abort(reason: Error): void;
}

/** The running attempts of a router. */
export class RunningAttempts {
  readonly #attempts = new SlotList<Abortable>();
  #closed = false;

  add(attempt: Abortable): Slot<Abortable> {
    if (this.#closed) attempt.abort(new RouterClosedError());
    return this.#attempts.add(attempt);
  }

  delete(slot: Slot<Abortable>): void {
    this.#attempts.delete(slot);
  }

  /** Aborts all attempts, also those that are added later. */
  close(): void {
    this.#closed = true;
    for (const attempt of this.#attempts.values()) attempt.abort(new RouterClosedError());
  }
}
