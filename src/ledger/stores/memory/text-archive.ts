/** Places in one slab of memory, and the size of a large one, in bytes. */
const SLAB_BYTES = 65_536;
/** The first slab is smaller, each further one larger, up to `SLAB_BYTES`. */
const FIRST_SLAB_BYTES = 4096;
/** Before each text stands its length. */
const LENGTH_BYTES = 4;

interface Slab {
  readonly memory: Buffer;
  used: number;
  /** Texts that were not deleted. */
  texts: number;
}

/** Texts outside of V8's heap, where a full garbage collection would look at each of them. */
export class TextArchive {
  /** Undefined where all of its texts were deleted. */
  readonly #slabs: (Slab | undefined)[] = [];
  /** Indexes without a slab. */
  readonly #unused: number[] = [];
  #last = -1;
  #nextBytes = FIRST_SLAB_BYTES;

  /** @returns its place: a number by which it is read and deleted */
  add(text: string): number {
    const bytes = Buffer.byteLength(text);
    const slab = this.#slabFor(LENGTH_BYTES + bytes);
    const at = slab.used;
    slab.memory.writeUInt32LE(bytes, at);
    slab.memory.write(text, at + LENGTH_BYTES);
    slab.used = at + LENGTH_BYTES + bytes;
    slab.texts += 1;
    return this.#last * SLAB_BYTES + at;
  }

  read(place: number): string {
    const memory = this.#slabs[Math.floor(place / SLAB_BYTES)]?.memory;
    if (!memory) throw new RangeError(`No text is at ${place}`);
    const at = place % SLAB_BYTES;
    const from = at + LENGTH_BYTES;
    return memory.toString('utf8', from, from + memory.readUInt32LE(at));
  }

  delete(place: number): void {
    const index = Math.floor(place / SLAB_BYTES);
    const slab = this.#slabs[index];
    if (!slab) return;
    slab.texts -= 1;
    if (index !== this.#last) this.#dropIfEmpty(index);
  }

  #slabFor(bytes: number): Slab {
    const last = this.#slabs[this.#last];
    if (last && last.used + bytes <= last.memory.length) return last;
    if (last) this.#dropIfEmpty(this.#last);
    // A text longer than a slab has one of its own.
    const slab = { memory: Buffer.allocUnsafeSlow(Math.max(bytes, this.#nextBytes)), used: 0, texts: 0 };
    this.#nextBytes = Math.min(SLAB_BYTES, 2 * this.#nextBytes);
    this.#last = this.#unused.pop() ?? this.#slabs.length;
    this.#slabs[this.#last] = slab;
    return slab;
  }

  #dropIfEmpty(index: number): void {
    if (this.#slabs[index]?.texts !== 0) return;
    this.#slabs[index] = undefined;
    this.#unused.push(index);
  }
}
