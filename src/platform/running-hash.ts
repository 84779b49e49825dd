const LOW_FACTOR = 2654435761;
const HIGH_FACTOR = 1597334677;

/**
 * A hash of 53 bits over texts, bytes and numbers, in order, after cyrb53. It allocates nothing but itself, and is the same in every
 * process. Who knows it can find two inputs with one hash: use it where that does no harm.
 */
export class RunningHash {
  #high = 0x41c6ce57;
  #low = 0xdeadbeef;

  /** Four at a time: it matters which bytes are added together. */
  addBytes(bytes: Uint8Array, from: number, to: number): void {
    let i = from;
    let low = this.#low;
    let high = this.#high;
    for (; i + 4 <= to; i += 4) {
      const word =
        (bytes[i] ?? 0) |
        ((bytes[i + 1] ?? 0) << 8) |
        ((bytes[i + 2] ?? 0) << 16) |
        ((bytes[i + 3] ?? 0) << 24);
      low = Math.imul(low ^ word, LOW_FACTOR);
      high = Math.imul(high ^ word ^ (low >>> 15), HIGH_FACTOR);
    }
    this.#low = low;
    this.#high = high;
    for (; i < to; i++) this.#add(bytes[i] ?? 0);
  }

  /** By its UTF-16 units, and its length. */
  addText(text: string): void {
    for (let i = 0; i < text.length; i++) this.#add(text.charCodeAt(i));
    this.addNumber(text.length);
  }

  /** @param value - an integer from 0 to 2 ** 53 - 1, such as the value of another hash */
  addNumber(value: number): void {
    this.#add(value | 0);
    this.#add(Math.floor(value / 2 ** 32));
  }

  /** Of all that was added so far: an integer from 0 to 2 ** 53 - 1. */
  get value(): number {
    const high = mixed(this.#high, this.#low);
    const low = mixed(this.#low, this.#high);
    return 2 ** 32 * (high & 0x1fffff) + (low >>> 0);
  }

  #add(unit: number): void {
    this.#low = Math.imul(this.#low ^ unit, LOW_FACTOR);
    this.#high = Math.imul(this.#high ^ unit ^ (this.#low >>> 15), HIGH_FACTOR);
  }
}

function mixed(one: number, other: number): number {
  return Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(other ^ (other >>> 13), 3266489909);
}

/** The hash of a few texts and numbers. */
export function hashOf(...parts: readonly (string | number)[]): number {
  const hash = new RunningHash();
  for (const part of parts) {
    if (typeof part === 'string') hash.addText(part);
    else hash.addNumber(part);
  }
  return hash.value;
}
