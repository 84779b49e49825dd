import { SlotList, type Slot } from '../async/slot-list.ts';
import { RouterClosedError } from '../http/relay-end.ts';

/** What can be ended from outside. */
export interface Abortable {
  abort(reason: Error): void;
}

/** The attempts that run now. */
export class RunningAttempts {
  readonly #attempts = new SlotList<Abortable>();
  #closed = false;

  add(attempted: Abortable): Slot<Abortable> {
    if (this.#closed) attempted.abort(new RouterClosedError());
    return this.#attempts.add(attempted);
  }

  delete(place: Slot<Abortable>): void {
    this.#attempts.delete(place);
  }

  /** Ends them all, and whatever is added from now on. */
  close(): void {
    this.#closed = true;
    for (const attempted of this.#attempts.values()) attempted.abort(new RouterClosedError());
  }
}
