import { SkippableText } from './skippable-text.ts';
import type { TextReader } from './text-reader.ts';
import { hexDigit } from './token.ts';

/** Value of `#escape` right after a backslash; 4 to 1 are the remaining hex digits, 0 is no escape. */
const BACKSLASH_SEEN = 5;

/** 1 for literal bytes: ASCII without quote, backslash and control characters. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c ? 1 : 0,
);

/** Text that is no longer, up to a quote or an escape, is read byte by byte. */
const SHORT_BYTES = 16;

/** 1 for what may follow a backslash, but for `u`. */
const SHORT_ESCAPE = Uint8Array.from({ length: 256 }, (_, byte) =>
  '"\\/bfnrt'.includes(String.fromCharCode(byte)) ? 1 : 0,
);

/** Validates the escapes and the UTF-8 of one JSON string after another, wherever the chunks are cut. */
export class JsonStringScanner {
  asciiChars = 0;
  nonAsciiChars = 0;
  escaped = false;

  readonly #text: SkippableText;
  #escape = 0;
  #hex = 0;
  /** Missing bytes of a UTF-8 character, and the range of the next one. */
  #missing = 0;
  #lowest = 0;
  #highest = 0;

  constructor(text: SkippableText = new SkippableText()) {
    this.#text = text;
  }

  begin(): void {
    this.asciiChars = 0;
    this.nonAsciiChars = 0;
    this.escaped = false;
  }

  /** Forgets an unfinished string. */
  reset(): void {
    this.#escape = 0;
    this.#missing = 0;
    this.#text.close();
  }

  /** Prepares the next bytes of the document, including those outside strings. */
  open(bytes: Uint8Array, from: number, to: number): void {
    this.#text.open(bytes, from, to);
  }

  /** Keeps nothing of the bytes that were opened. */
  close(): void {
    this.#text.close();
  }

  /** Whether an escape or a character is unfinished, so that no quote may follow. */
  get unfinished(): boolean {
    return this.#escape !== 0 || this.#missing !== 0;
  }

  /**
   * Scans bytes that were opened, to their end, or that were not.
   *
   * @returns the index of the first byte that isn't part of the string: its closing quote, if it is valid
   */
  scan(bytes: Uint8Array, index: number, to: number): number {
    const { reader } = this.#text;
    let i = index;
    while (i < to) {
      if (this.#escape !== 0) {
        if (!this.#continueEscape(bytes[i] ?? 0)) return i;
      } else if (this.#missing !== 0) {
        if (!this.#continueCharacter(bytes[i] ?? 0)) return i;
      } else {
        i = reader ? this.#passText(reader, bytes, i, to) : this.#passAscii(bytes, i, to);
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

  /** @returns the index of a byte that isn't literal ASCII; `to` if there is none */
  #passText(reader: TextReader, bytes: Uint8Array, index: number, to: number): number {
    // A call isn't worth it for a key, or another short string.
    const near = Math.min(to, index + SHORT_BYTES);
    const at = this.#passAscii(bytes, index, near);
    const endsNear = at === to || (at < near && (bytes[at] ?? 0) < 0x80);
    if (endsNear) return at;
    if (!this.#text.mayBeSkipped(at)) return this.#passAscii(bytes, at, to);
    const end = reader.skip(at);
    this.asciiChars += reader.asciiChars;
    this.nonAsciiChars += reader.nonAsciiChars;
    if (reader.escapes > 0) this.escaped = true;
    return this.#passAscii(bytes, end, to);
  }

  #passAscii(bytes: Uint8Array, index: number, to: number): number {
    let i = index;
    while (i < to && PLAIN[bytes[i] ?? 0] === 1) i++;
    this.asciiChars += i - index;
    return i;
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
