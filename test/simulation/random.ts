/** Pseudorandom numbers, determined by a seed (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
    // Adjacent seeds must not have similar beginnings.
    for (let i = 0; i < 4; i++) this.next();
  }

  /** From 0 up to, but excluding, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let z = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    z = (z + Math.imul(z ^ (z >>> 7), 61 | z)) ^ z;
    return ((z ^ (z >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** An integer from 0 up to, but excluding, `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  /** An integer, both ends included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly [T, ...T[]]): T {
    return items[this.below(items.length)] ?? items[0];
  }

  /** Most results are near `least`, a few near `most`. */
  skewed(least: number, most: number): number {
    return least + (most - least) * this.next() ** 4;
  }

  /** An independent sequence, so that what one part draws doesn't change what another draws. */
  fork(): Random {
    return new Random(this.below(2 ** 31));
  }
}
