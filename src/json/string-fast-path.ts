import { isUtf8 } from 'node:buffer';

/** Less than this at once is not worth the preparation. */
const MIN_BYTES = 1024;

const NO_WORDS: DataView = new DataView(new ArrayBuffer(0));
const HIGH_BITS = 0x80808080 | 0;

/**
 * Passes the text of long strings four bytes at a time.
 *
 * Where a chunk is long enough it is checked as UTF-8 in one call of Node's, and read as words of 32 bits; what
 * a string can't have as it is (quotes, backslashes, control characters) is left to whoever looks at single bytes.
 */
export class StringFastPath {
  /** Of what was passed last. */
  asciiChars = 0;
  nonAsciiChars = 0;

  #words: DataView = NO_WORDS;
  /** Where words may begin in the chunk; none where the two are equal. */
  #from = 0;
  #end = 0;

  /** Looks at the next bytes; `pass` is for these, until the next call. */
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

  /** Whether a word may begin here, where a character does. */
  mayPass(index: number): boolean {
    return index >= this.#from && index < this.#end;
  }

  /**
   * Passes text that begins here.
   *
   * @returns the index of the first byte that somebody has to look at: never one inside of a character
   */
  pass(bytes: Uint8Array, index: number): number {
    const words = this.#words;
    const end = this.#end;
    let at = index;
    /** Bytes that are not ASCII, and those of them that go on with a character. */
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
 * Of four bytes of ASCII: the highest bit of each says that it is no quote, no backslash and no control character.
 *
 * Nothing is carried from one byte to the next, for none of the sums exceeds 255.
 */
function plainBits(word: number): number {
  return ((word ^ 0x22222222) + 0x7f7f7f7f) & ((word ^ 0x5c5c5c5c) + 0x7f7f7f7f) & (word + 0x60606060);
}

/** How many of the four highest bits are set, where no other bit is. */
function countHigh(bits: number): number {
  return Math.imul(bits >>> 7, 0x01010101) >>> 24;
}

/** The index of the first byte, from this one on, that does not go on with a character. */
function afterCut(bytes: Uint8Array, index: number): number {
  let at = index;
  while (((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
  return at;
}

/** The end of the last whole character before `end`; what goes on too long is no character, and `end` stays. */
function beforeCut(bytes: Uint8Array, end: number): number {
  for (let at = end - 1; at >= end - 3; at--) {
    const byte = bytes[at] ?? 0;
    if (byte < 0x80) return end;
    if (byte >= 0xc0) return at + (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4) > end ? at : end;
  }
  return end;
}
