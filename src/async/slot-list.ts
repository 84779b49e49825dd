/**
 * What is under way: it comes and goes at the rate of requests.
 *
 * Not a `Set`, for the garbage collector's sake. V8 gives a set that is filled and emptied a new table every few
 * dozen changes, and links the old one to it; one that has grown old then keeps every later table, and with each
 * the requests that were in it, until the next full collection.
 */
export class SlotList<T> {
  readonly #places: Slot<T>[] = [];

  get size(): number {
    return this.#places.length;
  }

  /** Returns what takes it out again. */
  add(value: T): Slot<T> {
    const place = { value, index: this.#places.length };
    this.#places.push(place);
    return place;
  }

  /** Does nothing the second time. */
  delete(place: Slot<T>): void {
    const { index } = place;
    if (this.#places[index] !== place) return;
    place.index = -1;
    const last = this.#places.pop();
    if (last === undefined || last === place) return;
    last.index = index;
    this.#places[index] = last;
  }

  /** All that are there now, in no order; those who look may add and delete. */
  values(): T[] {
    return this.#places.map(({ value }) => value);
  }
}

/** Where something is that is under way. */
export interface Slot<T> {
  readonly value: T;
  index: number;
}
