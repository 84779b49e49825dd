/** Told what an event stream consists of. */
export interface EventStreamListener {
  /** Bytes of an event's data, from `from` to before `to`; a line end between two lines of data is one of them. */
  readonly data: (bytes: Uint8Array, from: number, to: number) => void;
  /** An event is over, whose last byte stands before `end` in the chunk that is being written. */
  readonly event: (end: number, hasData: boolean) => void;
}

// Where in a line the scanner is.
const LINE_START = 0;
const NAME = 1;
const DATA_START = 2;
const DATA = 3;
const DONE = 4;
const OTHER = 5;

const LF = 0x0a;
const CR = 0x0d;
const NEWLINE = Uint8Array.of(LF);
const LONGEST_LINE_KEPT = 16;

/**
 * Splits an event stream into the data of its events, wherever it is cut.
 *
 * Lines end with LF, CRLF or CR; nothing of them is kept but the first bytes of
 * those that are not data. Memory doesn't depend on the length of a line.
 *
 * @see https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 */
export class EventStreamScanner {
  /** `[DONE]` was seen. */
  done = false;
  /** An `event: error` or `error:` line was seen: how some servers say that the answer is an error. */
  saysError = false;
  readonly #listener: EventStreamListener;
  #place = LINE_START;
  /** Bytes of the event so far, its blank line aside; 0 between two events. */
  #eventBytes = 0;
  #hasData = false;
  /** The last byte was a CR: an LF now belongs to it. */
  #afterCr = false;
  /** Where the next of each stands in the current chunk, as far as it was looked for. */
  #nextLf = -1;
  #nextCr = -1;
  #matched = 0;
  readonly #line = new Uint8Array(LONGEST_LINE_KEPT);
  #lineLength = 0;

  constructor(listener: EventStreamListener) {
    this.#listener = listener;
  }

  /** Whether the stream stands between two events. */
  get betweenEvents(): boolean {
    return this.#eventBytes === 0 && this.#place === LINE_START;
  }

  write(chunk: Uint8Array, from = 0): void {
    const { length } = chunk;
    let i = from;
    this.#nextLf = -1;
    this.#nextCr = -1;
    if (this.#afterCr && i < length) {
      this.#afterCr = false;
      if (chunk[i] === LF) i += 1;
    }
    while (i < length) {
      const byte = chunk[i] ?? 0;
      if (byte === LF || byte === CR) {
        i = this.#endLine(chunk, i, byte);
        continue;
      }
      switch (this.#place) {
        case LINE_START:
        case NAME:
          i = this.#inName(byte, i);
          break;
        case DATA_START:
          i = this.#beginData(byte, i);
          break;
        case DONE:
          if (byte === DONE_TEXT[this.#matched]) this.#matched += 1;
          if (this.#matched === DONE_TEXT.length) this.done = true;
          i += 1;
          break;
        case DATA: {
          const end = this.#lineEnd(chunk, i);
          this.#listener.data(chunk, i, end);
          this.#eventBytes += end - i;
          i = end;
          break;
        }
        default:
          if (this.#lineLength < LONGEST_LINE_KEPT) this.#line[this.#lineLength++] = byte;
          i += 1;
      }
    }
  }

  #inName(byte: number, i: number): number {
    if (this.#place === LINE_START) {
      this.#place = NAME;
      this.#matched = 0;
      this.#lineLength = 0;
    }
    this.#eventBytes += 1;
    if (byte === DATA_TEXT[this.#matched]) {
      this.#matched += 1;
      if (this.#matched === DATA_TEXT.length) this.#place = DATA_START;
    } else {
      this.#line.set(DATA_TEXT.subarray(0, this.#matched));
      this.#lineLength = this.#matched;
      this.#line[this.#lineLength++] = byte;
      this.#place = OTHER;
    }
    return i + 1;
  }

  /** After `data:`, where one blank may stand. */
  #beginData(byte: number, i: number): number {
    if (byte === 0x20) return i + 1;
    if (this.#hasData) this.#listener.data(NEWLINE, 0, 1);
    this.#hasData = true;
    this.#matched = 0;
    this.#place = byte === DONE_TEXT[0] ? DONE : DATA;
    return i;
  }

  #endLine(chunk: Uint8Array, i: number, byte: number): number {
    let next = i + 1;
    if (byte === CR) {
      if (next === chunk.length) this.#afterCr = true;
      else if (chunk[next] === LF) next += 1;
    }
    if (this.#place === LINE_START) {
      const hasData = this.#hasData;
      this.#hasData = false;
      this.#eventBytes = 0;
      this.#listener.event(next, hasData);
    } else {
      if (this.#place === OTHER) this.#readLine();
      this.#place = LINE_START;
      this.#eventBytes += 1;
    }
    return next;
  }

  /** Index of the next line end, or the chunk's length; each chunk is searched once. */
  #lineEnd(chunk: Uint8Array, from: number): number {
    if (this.#nextLf < from) this.#nextLf = indexOrEnd(chunk, LF, from);
    if (this.#nextCr < from) this.#nextCr = indexOrEnd(chunk, CR, from);
    return Math.min(this.#nextLf, this.#nextCr);
  }

  #readLine(): void {
    const line = String.fromCharCode(...this.#line.subarray(0, this.#lineLength));
    if (/^(event: ?error$|error:)/.test(line)) this.saysError = true;
  }
}

const DATA_TEXT = Uint8Array.from('data:', (char) => char.charCodeAt(0));
const DONE_TEXT = Uint8Array.from('[DONE]', (char) => char.charCodeAt(0));

function indexOrEnd(chunk: Uint8Array, byte: number, from: number): number {
  const index = chunk.indexOf(byte, from);
  return index === -1 ? chunk.length : index;
}
