/** Size of a full slab, in bytes. A place is the slab's index times this, plus the offset in it. */
const SLAB_BYTES = 65_536;
/** The first slab is smaller, each further one larger, up to `SLAB_BYTES`. */
const FIRST_SLAB_BYTES = 512;
/** Before each text stands its length. */
const LENGTH_BYTES = 4;

interface Slab {
  readonly memory: Buffer;
  used: number;
  /** Texts that were not deleted. */
  texts: number;
  /** It is written now. */
  isOpen: boolean;
}

/**
 * Texts outside of V8's heap, where a full garbage collection would look at each of them.
 *
 * A slab of memory is released once all of its texts are deleted, so only texts that are kept for about as long share one.
 */
export class TextArchive<Retention extends string> {
  /** Undefined where all texts were deleted. */
  readonly #slabs: (Slab | undefined)[] = [];
  /** Indexes without a slab. */
  readonly #unused: number[] = [];
  /** Indexes of the slabs that are written now. */
  readonly #open = new Map<Retention, number>();
  #nextBytes = FIRST_SLAB_BYTES;

  /** The memory that it has. */
  get bytes(): number {
    return this.#slabs.reduce((sum, slab) => sum + (slab?.memory.length ?? 0), 0);
  }

  /** @returns its place: a number by which it is read and deleted */
  add(text: string, retention: Retention): number {
    const bytes = Buffer.byteLength(text);
    const index = this.#indexFor(LENGTH_BYTES + bytes, retention);
    const slab = this.#slabAt(index);
    const at = slab.used;
    slab.memory.writeUInt32LE(bytes, at);
    slab.memory.write(text, at + LENGTH_BYTES);
    slab.used = at + LENGTH_BYTES + bytes;
    slab.texts += 1;
    return index * SLAB_BYTES + at;
  }

  read(place: number): string {
    const { memory } = this.#slabAt(Math.floor(place / SLAB_BYTES));
    const at = place % SLAB_BYTES;
    const from = at + LENGTH_BYTES;
    return memory.toString('utf8', from, from + memory.readUInt32LE(at));
  }

  delete(place: number): void {
    const index = Math.floor(place / SLAB_BYTES);
    const slab = this.#slabAt(index);
    slab.texts -= 1;
    this.#releaseIfUnused(slab, index);
  }

  #slabAt(index: number): Slab {
    const slab = this.#slabs[index];
    if (!slab) throw new RangeError(`No text is in slab ${index}`);
    return slab;
  }

  /** The slab that is written now; another one, if the text doesn't fit. */
  #indexFor(bytes: number, retention: Retention): number {
    const open = this.#open.get(retention);
    if (open !== undefined) {
      const slab = this.#slabAt(open);
      if (slab.used + bytes <= slab.memory.length) return open;
      slab.isOpen = false;
      this.#releaseIfUnused(slab, open);
    }
    const index = this.#unused.pop() ?? this.#slabs.length;
    // A text longer than a slab has one of its own.
    this.#slabs[index] = {
      memory: Buffer.allocUnsafeSlow(Math.max(bytes, this.#nextBytes)),
      used: 0,
      texts: 0,
      isOpen: true,
    };
    this.#nextBytes = Math.min(SLAB_BYTES, 2 * this.#nextBytes);
    this.#open.set(retention, index);
    return index;
  }

  #releaseIfUnused({ texts, isOpen }: Slab, index: number): void {
    if (texts > 0 || isOpen) return;
    this.#slabs[index] = undefined;
    this.#unused.push(index);
  }
}
