import { isUtf8 } from 'node:buffer';

import { hexDigit } from './token.ts';

/** Value of `#escape` right after a backslash; 4 to 1 are the remaining hex digits, 0 is no escape. */
const BACKSLASH_SEEN = 5;

/** 1 for literal bytes: ASCII without quote, backslash and control characters. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c ? 1 : 0,
);

/** 1 for what may follow a backslash, but for `u`. */
const SHORT_ESCAPE = Uint8Array.from({ length: 256 }, (_, byte) =>
  '"\\/bfnrt'.includes(String.fromCharCode(byte)) ? 1 : 0,
);

/** Validates the escapes and the UTF-8 of one JSON string after another, wherever the chunks are cut. */
export class JsonStringScanner {
  asciiChars = 0;
  nonAsciiChars = 0;
  escaped = false;

  readonly #plain = new StringFastPath();
  #escape = 0;
  #hex = 0;
  /** Missing bytes of a UTF-8 character, and the range of the next one. */
  #missing = 0;
  #lowest = 0;
  #highest = 0;

  begin(): void {
    this.asciiChars = 0;
    this.nonAsciiChars = 0;
    this.escaped = false;
  }

  /** Forgets an unfinished string. */
  reset(): void {
    this.#escape = 0;
    this.#missing = 0;
    this.#plain.close();
  }

  /** Prepares the next bytes of the document, including those outside strings. */
  open(bytes: Uint8Array, from: number, to: number): void {
    this.#plain.open(bytes, from, to);
  }

  /** Whether an escape or a character is unfinished, so that no quote may follow. */
  get unfinished(): boolean {
    return this.#escape !== 0 || this.#missing !== 0;
  }

  /** @returns the index of the first byte that isn't part of the string: its closing quote, if it is valid */
  scan(bytes: Uint8Array, index: number, to: number): number {
    let i = index;
    while (i < to) {
      if (this.#escape !== 0) {
        if (!this.#continueEscape(bytes[i] ?? 0)) return i;
      } else if (this.#missing !== 0) {
        if (!this.#continueCharacter(bytes[i] ?? 0)) return i;
      } else {
        if (this.#plain.mayPass(i)) i = this.#passWords(bytes, i);
        const begin = i;
        while (i < to && PLAIN[bytes[i] ?? 0] === 1) i++;
        this.asciiChars += i - begin;
        if (i === to) break;
        const byte = bytes[i] ?? 0;
        if (byte === 0x5c) {
          this.escaped = true;
          if (i + 1 < to && SHORT_ESCAPE[bytes[i + 1] ?? 0] === 1) {
            this.asciiChars++;
            i++;
          } else {
            this.#escape = BACKSLASH_SEEN;
          }
        } else {
          const size = wholeCharacter(bytes, i, to);
          if (size === 0 && !this.#beginCharacter(byte)) return i;
          if (size > 0) i += size - 1;
          this.nonAsciiChars++;
        }
      }
      i++;
    }
    return to;
  }

  #passWords(bytes: Uint8Array, index: number): number {
    const end = this.#plain.pass(bytes, index);
    this.asciiChars += this.#plain.asciiChars;
    this.nonAsciiChars += this.#plain.nonAsciiChars;
    return end;
  }

  #continueEscape(byte: number): boolean {
    if (this.#escape < BACKSLASH_SEEN) {
      const digit = hexDigit(byte);
      if (digit === -1) return false;
      this.#hex = this.#hex * 16 + digit;
      this.#escape--;
      if (this.#escape === 0) this.#count(this.#hex);
      return true;
    }
    if (byte === 0x75) {
      this.#escape = 4;
      this.#hex = 0;
      return true;
    }
    this.#escape = 0;
    this.asciiChars++;
    return SHORT_ESCAPE[byte] === 1;
  }

  /** No overlong forms, no surrogates, nothing above U+10FFFF. */
  #beginCharacter(byte: number): boolean {
    if (byte < 0xc2 || byte > 0xf4) return false;
    this.#missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    this.#lowest = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.#highest = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    return true;
  }

  #continueCharacter(byte: number): boolean {
    if (byte < this.#lowest || byte > this.#highest) return false;
    this.#missing--;
    this.#lowest = 0x80;
    this.#highest = 0xbf;
    return true;
  }

  #count(char: number): void {
    if (char < 0x80) this.asciiChars++;
    else this.nonAsciiChars++;
  }
}

/** Length of the character at `i`, if it has the usual two or three bytes and is complete; else 0. */
function wholeCharacter(bytes: Uint8Array, i: number, to: number): number {
  const byte = bytes[i] ?? 0;
  if (byte < 0xc2 || byte === 0xe0 || byte > 0xec || i + 2 >= to) return 0;
  if (((bytes[i + 1] ?? 0) & 0xc0) !== 0x80) return 0;
  if (byte < 0xe0) return 2;
  return ((bytes[i + 2] ?? 0) & 0xc0) === 0x80 ? 3 : 0;
}

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

  /** The whole memory that the bytes are a part of: the parts of a chunk share one view. */
  #words: DataView = NO_WORDS;
  /** Where the bytes begin in it. */
  #offset = 0;
  /** Range of the chunk in which words may begin; empty if the two are equal. */
  #from = 0;
  #end = 0;

  /** Prepares the next bytes for `pass`. */
  open(bytes: Uint8Array, from: number, to: number): void {
    this.#end = this.#from;
    if (to - from < MIN_BYTES) return;
    const start = afterCut(bytes, from);
    const end = beforeCut(bytes, to);
    if (!isUtf8(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end))) return;
    if (this.#words.buffer !== bytes.buffer) this.#words = new DataView(bytes.buffer);
    this.#offset = bytes.byteOffset;
    this.#from = start;
    this.#end = end - 3;
  }

  /** Keeps no bytes. */
  close(): void {
    this.#end = this.#from;
    this.#words = NO_WORDS;
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
    const offset = this.#offset;
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
    return to === index ? index : afterCut(bytes, to);
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
