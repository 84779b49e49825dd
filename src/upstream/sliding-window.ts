/** A minute in seconds, and one more: a request that was sent at the end of a bucket counts for a whole minute. */
const BUCKETS = 61;

/** What was added in the last minute. Neither a fixed nor a sliding window of a provider contains more. */
export class SlidingWindow {
  readonly #buckets = new Float64Array(BUCKETS);
  readonly #bucketMs: number;
  #newest = 0;
  #sum = 0;

  /** @param bucketMs - 1000 for a minute */
  constructor(bucketMs = 1000) {
    this.#bucketMs = bucketMs;
  }

  /** The bucket of a time. */
  bucketAt(now: number): number {
    return Math.floor(now / this.#bucketMs);
  }

  sumAt(now: number): number {
    this.#advance(this.bucketAt(now));
    return this.#sum;
  }

  /** Whether what was added to a bucket still counts. */
  counts(bucket: number, now: number): boolean {
    return bucket > this.bucketAt(now) - BUCKETS;
  }

  /** The buckets of the last minute that have something, with it. */
  entriesAt(now: number): (readonly [bucket: number, amount: number])[] {
    this.#advance(this.bucketAt(now));
    return Array.from(this.#buckets, (_, back) => this.#newest - back)
      .map((bucket) => [bucket, this.#buckets[bucket % BUCKETS] ?? 0] as const)
      .filter(([bucket, amount]) => bucket >= 0 && amount > 0);
  }

  /** Adds to a bucket that is not newer than now; nothing, if it is too old to count. @param amount - negative to give back */
  add(amount: number, bucket: number): void {
    this.#advance(bucket);
    if (bucket <= this.#newest - BUCKETS) return;
    const index = bucket % BUCKETS;
    const before = this.#buckets[index] ?? 0;
    const after = Math.max(0, before + amount);
    this.#buckets[index] = after;
    this.#sum += after - before;
  }

  /** Until this amount fits below the limit, in ms: 0 if it does now. What is more than the limit fits when nothing counts. */
  waitMs(amount: number, limit: number, now: number): number {
    let over = this.sumAt(now) - Math.max(0, limit - amount);
    if (over <= 0) return 0;
    for (let bucket = this.#newest - BUCKETS + 1; bucket <= this.#newest; bucket++) {
      over -= this.#buckets[bucket % BUCKETS] ?? 0;
      if (over <= 0) return Math.max(1, (bucket + BUCKETS) * this.#bucketMs - now);
    }
    return BUCKETS * this.#bucketMs;
  }

  #advance(bucket: number): void {
    if (bucket <= this.#newest) return;
    const passed = Math.min(BUCKETS, bucket - this.#newest);
    for (let back = 0; back < passed; back++) {
      const index = (bucket - back) % BUCKETS;
      this.#sum -= this.#buckets[index] ?? 0;
      this.#buckets[index] = 0;
    }
    this.#newest = bucket;
    if (passed === BUCKETS) this.#sum = 0;
  }
}
