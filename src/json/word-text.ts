import type { TextReader } from './text-reader.ts';
import { afterCut } from './utf8.ts';

const NO_BYTES: Uint8Array = new Uint8Array(0);
const NO_WORDS: DataView = new DataView(NO_BYTES.buffer);
const HIGH_BITS = 0x80808080 | 0;

/** Reads text four bytes at a time, as words of 32 bits. Quotes, backslashes and control characters end it. */
export class WordText implements TextReader {
  owner: object | undefined;
  asciiChars = 0;
  nonAsciiChars = 0;
  readonly escapes = 0;

  #bytes: Uint8Array = NO_BYTES;
  /** The whole memory that the bytes are a part of: the parts of a chunk share one view. */
  #words: DataView = NO_WORDS;
  #end = 0;

  load(bytes: Uint8Array, _from: number, to: number): number {
    this.#bytes = bytes;
    if (this.#words.buffer !== bytes.buffer) this.#words = new DataView(bytes.buffer);
    // The last word begins here.
    this.#end = to - 3;
    return this.#end;
  }

  skip(index: number): number {
    const words = this.#words;
    const offset = this.#bytes.byteOffset;
    const end = offset + this.#end;
    let at = offset + index;
    /** Bytes that are not ASCII, and those of them that are continuation bytes. */
    let nonAscii = 0;
    let continued = 0;
    for (; at < end; at += 4) {
      const word = words.getInt32(at, true);
      const high = word & HIGH_BITS;
      if (high === 0) {
        if ((plainBits(word) & HIGH_BITS) !== HIGH_BITS) break;
      } else {
        if (((plainBits(word & ~HIGH_BITS) | high) & HIGH_BITS) !== HIGH_BITS) break;
        nonAscii += countHigh(high);
        continued += countHigh(high & ~(word << 1));
      }
    }
    const to = at - offset;
    this.nonAsciiChars = nonAscii - continued;
    this.asciiChars = to - index - nonAscii;
    return to === index ? index : afterCut(this.#bytes, to);
  }

  release(): void {
    this.#bytes = NO_BYTES;
    this.#words = NO_WORDS;
  }
}

/**
 * Skips ASCII text without quotes, backslashes and control characters, four bytes at a time.
 *
 * @returns the index of the first four bytes that are not all such text, or that are not there before `to`
 */
export function passAscii(words: DataView, from: number, to: number): number {
  let at = from;
  for (; at + 4 <= to; at += 4) {
    if ((plainBits(words.getInt32(at, true)) & HIGH_BITS) !== HIGH_BITS) break;
  }
  return at;
}

/**
 * For four ASCII bytes: the highest bit of each is set if it is no quote, no backslash and no control character.
 *
 * There is no carry from one byte to the next, because no sum exceeds 255. A byte that isn't ASCII never has its highest bit
 * set; the bytes after it may be wrong.
 */
function plainBits(word: number): number {
  return ((word ^ 0x22222222) + 0x7f7f7f7f) & ((word ^ 0x5c5c5c5c) + 0x7f7f7f7f) & (word + 0x60606060);
}

/** How many of the four highest bits are set; no other bit may be. */
function countHigh(bits: number): number {
  return Math.imul(bits >>> 7, 0x01010101) >>> 24;
}
