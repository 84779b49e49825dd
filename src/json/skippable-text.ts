import { isUtf8 } from 'node:buffer';

import { SimdText } from './simd-text.ts';
import type { TextReader } from './text-reader.ts';
import { afterCut, beforeCut } from './utf8.ts';
import { WordText } from './word-text.ts';

/** For shorter chunks the preparation costs more than it saves. */
const MIN_BYTES = 1024;

/** Used synchronously by one scanner at a time. */
const READER: TextReader = SimdText.create() ?? new WordText();

/** The part of a chunk whose text can be skipped at once: a long one is checked as UTF-8 in one call of Node's. */
export class SkippableText {
  readonly #reader: TextReader;
  /** Range of the chunk in which text may be skipped; empty if the two are equal. */
  #from = 0;
  #end = 0;

  constructor(reader: TextReader = READER) {
    this.#reader = reader;
  }

  /** Prepares the next bytes, at most `MAX_LOAD_BYTES`. */
  open(bytes: Uint8Array, from: number, to: number): void {
    this.#end = this.#from;
    if (to - from < MIN_BYTES) return;
    const start = afterCut(bytes, from);
    const end = beforeCut(bytes, to);
    if (start >= end) return;
    if (!isUtf8(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end))) return;
    this.#end = this.#reader.load(bytes, start, end);
    this.#from = start;
    this.#reader.owner = this;
  }

  /** Keeps nothing of them. */
  close(): void {
    this.#end = this.#from;
    if (this.#reader.owner !== this) return;
    this.#reader.owner = undefined;
    this.#reader.release();
  }

  /** What skips text of the chunk; undefined if there is nothing that may be skipped. */
  get reader(): TextReader | undefined {
    return this.#from < this.#end && this.#reader.owner === this ? this.#reader : undefined;
  }

  /** Whether text may be skipped from this index on, which must be the beginning of a character. */
  mayBeSkipped(index: number): boolean {
    return index >= this.#from && index < this.#end;
  }
}
