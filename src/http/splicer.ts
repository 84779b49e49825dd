import { ChunkCollector, concatChunks } from './body-chunks.ts';

/** Most bytes that are held back for a reserved text. */
const MAX_HELD_BYTES = 1024 * 1024;

/**
 * Copies a stream of chunks with skips and insertions; a chunk without edits passes without a copy. Offsets are those
 * of the input stream.
 */
export class Splicer {
  /** Everything before this offset was copied or skipped. */
  #at = 0;
  #chunk: Buffer = NOTHING;
  /** Offset of the chunk's first byte. */
  #base = 0;
  /** Bytes between `#at` and the chunk. */
  readonly #held = new ChunkCollector();
  #out: Buffer[] = [];
  /** Index in `#out` of the reserved text; -1 if there is none. */
  #reserved = -1;
  #before = '';
  #kept = 0;

  /** Begins the next chunk. Returns its offset. */
  open(chunk: Buffer): number {
    this.#base += this.#chunk.length;
    this.#chunk = chunk;
    return this.#base;
  }

  copyTo(offset: number): void {
    this.#moveTo(offset, this.#out);
  }

  skipTo(offset: number): void {
    this.#moveTo(offset, undefined);
  }

  insert(text: string): void {
    this.#out.push(Buffer.from(text));
  }

  /**
   * Reserves a place for `before` and a text that isn't known yet. Until `fill` is called, the following bytes are held
   * back, up to 1 MiB; beyond that nothing is inserted. A second reservation replaces the first.
   */
  reserve(before: string): void {
    this.#reserved = this.#out.push(NOTHING) - 1;
    this.#before = before;
    this.#kept = 0;
  }

  get isReserved(): boolean {
    return this.#reserved !== -1;
  }

  /** Inserts the text at the reserved place. */
  fill(text: string): void {
    this.#out[this.#reserved] = Buffer.from(this.#before + text);
    this.#reserved = -1;
  }

  /** Bytes before the end of the chunk that wouldn't be sent with this limit. */
  heldFrom(limit: number): number {
    return this.#base + this.#chunk.length - Math.max(this.#at, limit);
  }

  /** Ends the chunk: copies its bytes before `limit`. Returns the bytes that can be sent. */
  close(limit: number): Buffer | undefined {
    const end = this.#base + this.#chunk.length;
    this.copyTo(Math.min(limit, end));
    if (this.#at < end) this.#held.add(this.#chunk.subarray(Math.max(0, this.#at - this.#base)));
    return this.#take();
  }

  #take(): Buffer | undefined {
    if (this.#reserved !== -1) {
      this.#kept += this.#chunk.length;
      if (this.#kept > MAX_HELD_BYTES) this.#reserved = -1;
    }
    const parts = this.#reserved === -1 ? this.#out : this.#out.slice(0, this.#reserved);
    this.#out = this.#reserved === -1 ? [] : this.#out.slice(this.#reserved);
    if (this.#reserved !== -1) this.#reserved = 0;
    const whole = parts.length > 1 ? Buffer.concat(parts) : parts[0];
    return whole && whole.length > 0 ? whole : undefined;
  }

  #moveTo(offset: number, out: Buffer[] | undefined): void {
    if (offset <= this.#at) return;
    if (this.#at < this.#base) {
      const held = concatChunks(this.#held.take());
      const length = Math.min(offset, this.#base) - this.#at;
      out?.push(held.subarray(0, length));
      if (length < held.length) this.#held.add(held.subarray(length));
      this.#at += length;
    }
    if (offset <= this.#at) return;
    const isWhole = this.#at === this.#base && offset === this.#base + this.#chunk.length;
    out?.push(isWhole ? this.#chunk : this.#chunk.subarray(this.#at - this.#base, offset - this.#base));
    this.#at = offset;
  }
}

const NOTHING = Buffer.alloc(0);
