/** At least this many entries are added before a new table is made. */
const MIN_PLACES = 16;

/**
 * A map of things that come and go at the rate of requests, in the order in which they came first.
 *
 * Not a `Map`, for the same reason as `SlotList`: V8 makes a map's new tables in the old generation if the map is there, so each
 * few requests take memory that only a full collection frees, and bring that collection nearer. Here what is deleted leaves an empty place,
 * and after some of these a new map is made, which is young.
 */
export class PassingMap<Value> {
  #map = new Map<string, Value | undefined>();
  #places = MIN_PLACES;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(key: string): Value | undefined {
    return this.#map.get(key);
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  set(key: string, value: Value): void {
    if (!this.has(key)) {
      this.#size += 1;
      if (this.#map.size >= this.#places) this.#renew();
    }
    this.#map.set(key, value);
  }

  delete(key: string): void {
    if (!this.has(key)) return;
    this.#size -= 1;
    this.#map.set(key, undefined);
  }

  clear(): void {
    this.#map = new Map();
    this.#size = 0;
  }

  *entries(): Generator<[key: string, value: Value]> {
    for (const [key, value] of this.#map) if (value !== undefined) yield [key, value];
  }

  *values(): Generator<Value> {
    for (const value of this.#map.values()) if (value !== undefined) yield value;
  }

  #renew(): void {
    const map = new Map<string, Value | undefined>();
    for (const [key, value] of this.#map) if (value !== undefined) map.set(key, value);
    this.#map = map;
    this.#places = Math.max(MIN_PLACES, 2 * this.#map.size);
  }
}
