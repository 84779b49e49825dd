import { isUtf8 } from 'node:buffer';

/** For shorter chunks the preparation costs more than it saves. */
const MIN_BYTES = 1024;

const NO_WORDS: DataView = new DataView(new ArrayBuffer(0));
const HIGH_BITS = 0x80808080 | 0;

/**
 * Skips the text of long strings four bytes at a time.
 *
 * A long chunk is checked as UTF-8 in one call of Node's, and read as words of 32 bits. Quotes, backslashes and control
 * characters are left to the byte-by-byte scanner.
 */
export class StringFastPath {
  /** Characters of the text that was skipped last. */
  asciiChars = 0;
  nonAsciiChars = 0;

  #words: DataView = NO_WORDS;
  /** Range of the chunk in which words may begin; empty if the two are equal. */
  #from = 0;
  #end = 0;

  /** Prepares the next bytes for `pass`. */
  open(bytes: Uint8Array, from: number, to: number): void {
    this.#end = this.#from;
    if (to - from < MIN_BYTES) return;
    const start = afterCut(bytes, from);
    const end = beforeCut(bytes, to);
    if (!isUtf8(bytes.subarray(start, end))) return;
    this.#words = new DataView(bytes.buffer, bytes.byteOffset, end);
    this.#from = start;
    this.#end = end - 3;
  }

  /** Whether a word may begin at this index, which must be the beginning of a character. */
  mayPass(index: number): boolean {
    return index >= this.#from && index < this.#end;
  }

  /**
   * Skips text that begins at `index`.
   *
   * @returns the index of the first byte that wasn't skipped: never one inside a character
   */
  pass(bytes: Uint8Array, index: number): number {
    const words = this.#words;
    const end = this.#end;
    let at = index;
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
    this.nonAsciiChars = nonAscii - continued;
    this.asciiChars = at - index - nonAscii;
    return at === index ? index : afterCut(bytes, at);
  }
}

/**
 * For four ASCII bytes: the highest bit of each is set if it is no quote, no backslash and no control character.
 *
 * There is no carry from one byte to the next, because no sum exceeds 255.
 */
function plainBits(word: number): number {
  return ((word ^ 0x22222222) + 0x7f7f7f7f) & ((word ^ 0x5c5c5c5c) + 0x7f7f7f7f) & (word + 0x60606060);
}

/** How many of the four highest bits are set; no other bit may be. */
function countHigh(bits: number): number {
  return Math.imul(bits >>> 7, 0x01010101) >>> 24;
}

/** The index of the first byte, from this one on, that isn't a continuation byte. */
function afterCut(bytes: Uint8Array, index: number): number {
  let at = index;
  while (((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
  return at;
}

/** The end of the last whole character before `end`; `end` itself if the bytes before it are no valid character. */
function beforeCut(bytes: Uint8Array, end: number): number {
  for (let at = end - 1; at >= end - 3; at--) {
    const byte = bytes[at] ?? 0;
    if (byte < 0x80) return end;
    if (byte >= 0xc0) return at + (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4) > end ? at : end;
  }
  return end;
}
