import { JsonStringScanner } from './string-scanner.ts';
import { MAX_LOAD_BYTES } from './text-reader.ts';
import { type JsonKind, type JsonToken, MAX_TEXT_LENGTH } from './token.ts';

/** Receives the tokens of a document in order. The mark that `value` returns for a container is `within` for its children. */
export interface JsonListener<Mark extends string> {
  key(within: Mark, token: JsonToken): void;
  /** Called for a container when it begins, for any other value when it has ended. */
  value(within: Mark, kind: JsonKind, token: JsonToken): Mark;
  close(mark: Mark, token: JsonToken): void;
}

/** Why a document is not JSON: it ends early, a byte is invalid, or it is nested deeper than 1,000. */
export type JsonFault = 'cut' | 'byte' | 'depth';

export const MAX_DEPTH = 1000;

// The next expected token. From IN_STRING on: inside a token, which may span chunks.
const VALUE = 0;
const FIRST_ELEMENT = 1;
const FIRST_KEY = 2;
const KEY = 3;
const COLON = 4;
const COMMA = 5;
const IN_STRING = 6;
const IN_NUMBER = 7;
const IN_WORD = 8;

const NOTHING: Uint8Array = new Uint8Array(0);

/**
 * Validates a JSON document (RFC 8259, UTF-8) as its bytes arrive, and passes its tokens to a listener.
 *
 * Keeps only the head of a token that spans chunks, and one mark for each open container: memory and time don't depend
 * on where the document is cut. Nesting deeper than 1,000 is rejected. `begin` prepares it for another document, also
 * after a fault. Faults aren't exceptions, because there may be one in every few bytes.
 */
export class JsonScanner<Mark extends string> {
  /** The last fault; valid only right after `write` or `end` returned false. */
  fault: JsonFault = 'byte';
  /** Offset of the fault in the document. */
  faultAt = 0;
  #listener: JsonListener<Mark>;
  #isFaulty = false;
  #next = VALUE;
  /** Offset of the current chunk in the document. */
  #base = 0;

  readonly #root: Mark;
  #mark: Mark;
  #inArray = false;
  /** Of the containers around the current one, the first `#depth` of each list: the lists never get shorter, so V8 makes them once. */
  readonly #marks: Mark[] = [];
  readonly #arrays: boolean[] = [];
  #depth = 0;

  readonly #token = {
    start: 0,
    end: 0,
    bytes: NOTHING,
    from: 0,
    to: 0,
    escaped: false,
    asciiChars: 0,
    nonAsciiChars: 0,
    spaces: 0,
  };
  /** Index of the token's bytes in the current chunk; `#carried` bytes in `#carry` precede them. */
  #from = 0;
  #carry = NOTHING;
  #carried = 0;

  #isKey = false;
  readonly #string = new JsonStringScanner();
  #number = BEGIN;
  #word: 'true' | 'false' | 'null' = 'null';

  /** @param mark - `within` for the document's root value */
  constructor(mark: Mark, listener: JsonListener<Mark>) {
    this.#root = mark;
    this.#mark = mark;
    this.#listener = listener;
  }

  /** Resets the scanner for another document, which may have another listener. */
  begin(listener: JsonListener<Mark> = this.#listener): void {
    this.#listener = listener;
    this.#next = VALUE;
    this.#base = 0;
    this.#mark = this.#root;
    this.#inArray = false;
    this.#depth = 0;
    this.#token.spaces = 0;
    this.#token.bytes = NOTHING;
    this.#string.reset();
  }

  /**
   * Scans the next bytes of the document: those of `chunk` from `from` to before `to`.
   *
   * @returns false at the first invalid byte; later bytes are not scanned
   */
  write(chunk: Uint8Array, from = 0, to: number = chunk.length): boolean {
    let at = from;
    // The string scanner takes no more at once.
    for (; to - at > MAX_LOAD_BYTES; at += MAX_LOAD_BYTES) {
      if (!this.#writePart(chunk, at, at + MAX_LOAD_BYTES)) return false;
    }
    return this.#writePart(chunk, at, to);
  }

  #writePart(chunk: Uint8Array, from: number, to: number): boolean {
    this.#isFaulty = false;
    this.#base -= from;
    this.#from = from; // of a token that the last part cut
    this.#string.open(chunk, from, to);
    const begin = this.#next >= IN_STRING ? this.#scanToken(chunk, from, to) : from;
    if (!this.#isFaulty) this.#scanStructure(chunk, begin, to);
    this.#string.close();
    if (this.#isFaulty) return false;
    if (this.#next >= IN_STRING) this.#carryOver(chunk, to);
    this.#base += to;
    return true;
  }

  /** Bytes of the document written so far. */
  get length(): number {
    return this.#base;
  }

  /** Whether the root object, array or string is closed: only white space may follow. */
  get isClosed(): boolean {
    return this.#next === COMMA && this.#depth === 0;
  }

  /** Whether an object or array is open. */
  get isOpen(): boolean {
    return this.#depth > 0;
  }

  /** The unfinished string value: the mark of its container, and its characters so far. */
  get openString(): { readonly within: Mark; readonly ascii: number; readonly nonAscii: number } | undefined {
    if (this.#next !== IN_STRING || this.#isKey) return undefined;
    const { asciiChars: ascii, nonAsciiChars: nonAscii } = this.#string;
    return { within: this.#mark, ascii, nonAscii };
  }

  /** Whether the document is complete. */
  end(): boolean {
    if (this.#next === IN_NUMBER && mayEnd(this.#number)) this.#endValue(NOTHING, 0, 'number');
    if (!this.isClosed) this.#setFault('cut', this.#base);
    return this.isClosed;
  }

  #scanStructure(bytes: Uint8Array, index: number, to: number): void {
    // On a fault, the scan functions return `to`, which ends the loop.
    for (let i = index; i < to; i++) {
      const byte = bytes[i] ?? 0;
      switch (byte) {
        case 0x20:
        case 0x0a:
        case 0x0d:
        case 0x09:
          this.#token.spaces++;
          break;
        case 0x22: // "
          this.#isKey = this.#next === KEY || this.#next === FIRST_KEY;
          if (!this.#isKey && this.#next > FIRST_ELEMENT) return this.#unexpected(i);
          this.#begin(i, i + 1, IN_STRING);
          i = this.#scanString(bytes, i + 1, to) - 1;
          break;
        case 0x3a: // :
          if (this.#next !== COLON) return this.#unexpected(i);
          this.#next = VALUE;
          break;
        case 0x2c: // ,
          if (this.#next !== COMMA || this.#depth === 0) return this.#unexpected(i);
          this.#next = this.#inArray ? VALUE : KEY;
          break;
        case 0x7b: // {
          i = this.#open(bytes, i, to, 'object') - 1;
          break;
        case 0x5b: // [
          i = this.#open(bytes, i, to, 'array') - 1;
          break;
        case 0x7d: // }
          if (this.#inArray || this.#depth === 0) return this.#unexpected(i);
          if (this.#next !== COMMA && this.#next !== FIRST_KEY) return this.#unexpected(i);
          this.#close(i);
          break;
        case 0x5d: // ]
          if (!this.#inArray) return this.#unexpected(i);
          if (this.#next !== COMMA && this.#next !== FIRST_ELEMENT) return this.#unexpected(i);
          this.#close(i);
          break;
        default:
          if (this.#next > FIRST_ELEMENT || !this.#beginScalar(byte, i)) return this.#unexpected(i);
          i = this.#scanToken(bytes, i, to) - 1;
      }
    }
  }

  /** @returns the index after the token, or after its closing quote; `to` if it goes on */
  #scanToken(bytes: Uint8Array, index: number, to: number): number {
    if (this.#next === IN_STRING) return this.#scanString(bytes, index, to);
    return this.#next === IN_NUMBER ? this.#scanNumber(bytes, index, to) : this.#scanWord(bytes, index, to);
  }

  /** @returns the index after it; `to` if no value may begin here */
  #open(bytes: Uint8Array, i: number, to: number, kind: 'object' | 'array'): number {
    if (this.#next > FIRST_ELEMENT || this.#depth === MAX_DEPTH) {
      this.#setFault(this.#next > FIRST_ELEMENT ? 'byte' : 'depth', this.#base + i);
      return to;
    }
    this.#begin(i, i, this.#next);
    this.#endToken(bytes, i + 1, i + 1);
    const mark = this.#listener.value(this.#mark, kind, this.#token);
    this.#marks[this.#depth] = this.#mark;
    this.#arrays[this.#depth] = this.#inArray;
    this.#depth += 1;
    this.#mark = mark;
    this.#inArray = kind === 'array';
    this.#next = this.#inArray ? FIRST_ELEMENT : FIRST_KEY;
    return i + 1;
  }

  #close(i: number): void {
    this.#depth -= 1;
    this.#token.end = this.#base + i + 1;
    this.#listener.close(this.#mark, this.#token);
    this.#mark = this.#marks[this.#depth] ?? this.#root;
    this.#inArray = this.#arrays[this.#depth] === true;
    this.#next = COMMA;
  }

  /** @returns whether a number or word can begin with this byte */
  #beginScalar(byte: number, i: number): boolean {
    if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) {
      this.#number = BEGIN;
      this.#begin(i, i, IN_NUMBER);
      return true;
    }
    const word = byte === 0x74 ? 'true' : byte === 0x66 ? 'false' : 'null';
    if (byte !== word.charCodeAt(0)) return false;
    this.#word = word;
    this.#begin(i, i, IN_WORD);
    return true;
  }

  #scanNumber(bytes: Uint8Array, index: number, to: number): number {
    for (let i = index; i < to; i++) {
      const next = nextInNumber(this.#number, bytes[i] ?? 0);
      if (next === OVER) {
        if (!mayEnd(this.#number)) {
          this.#unexpected(i);
          return to;
        }
        this.#endValue(bytes, i, 'number');
        return i;
      }
      this.#number = next;
    }
    return to;
  }

  #scanWord(bytes: Uint8Array, index: number, to: number): number {
    const word = this.#word;
    for (let i = index; i < to; i++) {
      const at = this.#base + i - this.#token.start;
      if (bytes[i] !== word.charCodeAt(at)) {
        this.#unexpected(i);
        return to;
      }
      if (at === word.length - 1) {
        this.#endValue(bytes, i + 1, word);
        return i + 1;
      }
    }
    return to;
  }

  #scanString(bytes: Uint8Array, index: number, to: number): number {
    const i = this.#string.scan(bytes, index, to);
    if (i === to) return i;
    if (bytes[i] !== 0x22 || this.#string.unfinished) {
      this.#unexpected(i);
      return to;
    }
    if (this.#isKey) this.#endKey(bytes, i);
    else this.#endValue(bytes, i, 'string');
    return i + 1;
  }

  #begin(start: number, from: number, next: number): void {
    const token = this.#token;
    token.start = this.#base + start;
    this.#string.begin();
    this.#from = from;
    this.#carried = 0;
    this.#next = next;
  }

  #endKey(bytes: Uint8Array, to: number): void {
    this.#endToken(bytes, to, to + 1);
    this.#next = COLON;
    this.#listener.key(this.#mark, this.#token);
  }

  #endValue(bytes: Uint8Array, to: number, kind: JsonKind): void {
    this.#endToken(bytes, to, kind === 'string' ? to + 1 : to);
    this.#next = COMMA;
    this.#listener.value(this.#mark, kind, this.#token);
  }

  #endToken(bytes: Uint8Array, to: number, end: number): void {
    const token = this.#token;
    token.end = this.#base + end;
    token.escaped = this.#string.escaped;
    token.asciiChars = this.#string.asciiChars;
    token.nonAsciiChars = this.#string.nonAsciiChars;
    if (this.#carried === 0) {
      token.bytes = bytes;
      token.from = this.#from;
      token.to = to;
    } else {
      this.#carryOver(bytes, to);
      token.bytes = this.#carry;
      token.from = 0;
      token.to = this.#carried;
    }
  }

  #carryOver(bytes: Uint8Array, to: number): void {
    if (this.#carry === NOTHING) this.#carry = Buffer.allocUnsafe(MAX_TEXT_LENGTH);
    const head = bytes.subarray(this.#from, Math.min(to, this.#from + MAX_TEXT_LENGTH - this.#carried));
    this.#carry.set(head, this.#carried);
    this.#carried += head.length;
  }

  #unexpected(i: number): void {
    this.#setFault('byte', this.#base + i);
  }

  #setFault(fault: JsonFault, offset: number): void {
    this.#isFaulty = true;
    this.fault = fault;
    this.faultAt = offset;
  }
}

/** Scanners that are idle. The next listener of one gets nothing of the documents before. */
export class ScannerPool<Mark extends string> {
  readonly #root: Mark;
  readonly #idle: JsonScanner<Mark>[] = [];
  readonly #noListener: JsonListener<Mark> = { key: () => {}, value: (within) => within, close: () => {} };

  /** @param mark - `within` for a document's root value */
  constructor(mark: Mark) {
    this.#root = mark;
  }

  /** A scanner for one document or several. */
  take(listener: JsonListener<Mark>): JsonScanner<Mark> {
    const scanner = this.#idle.pop();
    if (!scanner) return new JsonScanner(this.#root, listener);
    scanner.begin(listener);
    return scanner;
  }

  /** The scanner isn't used any more by who took it. */
  giveBack(scanner: JsonScanner<Mark>): void {
    scanner.begin(this.#noListener);
    if (this.#idle.length < MAX_IDLE) this.#idle.push(scanner);
  }
}

const MAX_IDLE = 64;

// States of a number, in the grammar of RFC 8259.
const BEGIN = 0;
const MINUS = 1;
const ZERO = 2;
const INTEGER = 3;
const POINT = 4;
const FRACTION = 5;
const E = 6;
const E_SIGN = 7;
const EXPONENT = 8;
/** The byte isn't part of the number. */
const OVER = 9;

/** @returns the index after the number that begins at `from`; -1 unless there is one, which ends before `to` */
export function numberEnd(bytes: Uint8Array, from: number, to: number): number {
  let state = BEGIN;
  for (let i = from; i < to; i++) {
    const next = nextInNumber(state, bytes[i] ?? 0);
    if (next === OVER) return mayEnd(state) ? i : -1;
    state = next;
  }
  return -1;
}

/** Whether a number may end here. */
function mayEnd(state: number): boolean {
  return state === ZERO || state === INTEGER || state === FRACTION || state === EXPONENT;
}

/** The state after one more byte. */
function nextInNumber(state: number, byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) {
    if (state === BEGIN || state === MINUS) return byte === 0x30 ? ZERO : INTEGER;
    if (state === POINT) return FRACTION;
    if (state === E || state === E_SIGN) return EXPONENT;
    return state === ZERO ? OVER : state;
  }
  switch (byte) {
    case 0x2e: // .
      return state === ZERO || state === INTEGER ? POINT : OVER;
    case 0x65: // e
    case 0x45:
      return state === ZERO || state === INTEGER || state === FRACTION ? E : OVER;
    case 0x2d: // -
      return state === BEGIN ? MINUS : state === E ? E_SIGN : OVER;
    case 0x2b: // +
      return state === E ? E_SIGN : OVER;
    default:
      return OVER;
  }
}
