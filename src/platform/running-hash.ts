/**
 * A hash of 53 bits over texts, bytes and numbers, in order (cyrb53). It allocates nothing but itself, and is the same in every
 * process. Who knows it can find two inputs with one hash: use it where that does no harm.
 */
export class RunningHash {
  #high = 0x41c6ce57;
  #low = 0xdeadbeef;

  addBytes(bytes: Uint8Array, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#add(bytes[i] ?? 0);
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
    this.#low = Math.imul(this.#low ^ unit, 2654435761);
    this.#high = Math.imul(this.#high ^ unit, 1597334677);
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
