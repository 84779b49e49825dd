/**
 * An unordered list of running things, which are added and removed at the rate of requests.
 *
 * Not a `Set`, for the garbage collector's sake. V8 gives a set that is filled and emptied a new table every few
 * dozen changes, and links the old one to it. An old table in the old generation then keeps every later table alive,
 * and with each the requests that were in it, until the next full collection.
 */
export class SlotList<T> {
  readonly #slots: Slot<T>[] = [];

  get size(): number {
    return this.#slots.length;
  }

  /** @returns the slot to pass to `delete` */
  add(value: T): Slot<T> {
    const slot = new Slot(value, this.#slots.length);
    this.#slots.push(slot);
    return slot;
  }

  /** Idempotent. */
  delete(slot: Slot<T>): void {
    const { index } = slot;
    if (this.#slots[index] !== slot) return;
    slot.index = -1;
    const last = this.#slots.pop();
    if (last === undefined || last === slot) return;
    last.index = index;
    this.#slots[index] = last;
  }

  /** A copy of the current values, in no order: the list may be changed while it is iterated. */
  values(): T[] {
    return this.#slots.map(({ value }) => value);
  }
}

/**
 * The position of a value in a `SlotList`.
 *
 * Not a literal: if most of them survive at first, V8 makes all later ones in the old generation, where each keeps its value, and all of
 * a request with it, until the next full collection.
 */
export class Slot<T> {
  readonly value: T;
  index: number;

  constructor(value: T, index: number) {
    this.value = value;
    this.index = index;
  }
}
