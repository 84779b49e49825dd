/** Receives the parts of an event stream in order. */
export interface EventStreamListener {
  /** Bytes of an event's data, from `from` to before `to`, including the line end between two lines of data. */
  readonly data: (bytes: Uint8Array, from: number, to: number) => void;
  /**
   * An event has ended: it extends from `from` (0 if it began in an earlier chunk) to before `end` in the current chunk.
   * Not called for blank lines that end no event. `sharesEnd`: by the standard, its blank line ends the previous event as
   * well.
   */
  readonly event: (from: number, end: number, hasData: boolean, sharesEnd: boolean) => void;
  /** Whether the event's data so far is complete, so that another line of data begins a new event. */
  readonly isWhole: () => boolean;
  /** The end of the event that begins at `from`, if it is already known what it says; else -1. */
  readonly known?: (chunk: Uint8Array, from: number) => number;
  /** Text of a comment after its colon, from `from` to before `to` in the current chunk. */
  readonly comment?: (from: number, to: number) => void;
}

// The scanner's states within a line.
const LINE_START = 0;
const NAME = 1;
const DATA_START = 2;
const DATA = 3;
const DONE = 4;
const OTHER = 5;

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const NEWLINE = Uint8Array.of(LF);
const MAX_KEPT_LINE_BYTES = 16;

/**
 * Splits an event stream into the data of its events, wherever the chunks are cut.
 *
 * Lines end with LF, CRLF or CR; only the first bytes of lines other than data are kept, so memory doesn't depend on the
 * length of a line. Some servers (SambaNova, DeepInfra) omit the blank lines: there every line of data that follows
 * complete data is an event.
 *
 * @see https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 */
export class EventStreamScanner {
  /** `[DONE]` was seen. */
  done = false;
  /** The current event contains `[DONE]`, possibly with other data. */
  saysDone = false;
  /** An `event: error` or `error:` line was seen, by which some servers report an error. */
  saysError = false;
  readonly #listener: EventStreamListener;
  #state = LINE_START;
  /** Index in the current chunk at which the unfinished event begins: 0 if in an earlier chunk, -1 if there is none. */
  #eventFrom = -1;
  #hasData = false;
  /** There was no blank line before the current event. */
  #isJoined = false;
  /** Bytes of the current event in earlier chunks, and the length of the last chunk. */
  #eventBytes = 0;
  #chunkLength = 0;
  /** Offset of the current event's data from the event's first byte; -1 if it has several lines. */
  #dataAt = -1;
  /** The last byte was a CR: a following LF belongs to it. */
  #afterCr = false;
  /** Index of the next LF and CR in the current chunk, as far as it was searched. */
  #nextLf = -1;
  #nextCr = -1;
  #matched = 0;
  /** Made for the first line that is not of data. */
  #lineBytes: Uint8Array | undefined;
  #lineLength = 0;

  constructor(listener: EventStreamListener) {
    this.#listener = listener;
  }

  /** Whether the stream is between two events; a comment is part of neither once its line has ended. */
  get betweenEvents(): boolean {
    return this.#eventFrom === -1 && this.#state === LINE_START;
  }

  /**
   * Index in the last chunk at which the unfinished event begins: 0 if in an earlier chunk, -1 if there is none.
   */
  get eventFrom(): number {
    return this.#eventFrom;
  }

  /**
   * Index in the current chunk at which the data of the last ended event began: negative if in an earlier chunk, undefined
   * if the data has several lines.
   */
  dataFrom(eventFrom: number): number | undefined {
    return this.#dataAt === -1 ? undefined : eventFrom + this.#dataAt - this.#eventBytes;
  }

  write(chunk: Uint8Array, from = 0): void {
    const { length } = chunk;
    let i = from;
    if (this.#eventFrom >= 0) {
      this.#eventBytes += this.#chunkLength - this.#eventFrom;
      this.#eventFrom = 0;
    }
    this.#chunkLength = length;
    this.#nextLf = -1;
    this.#nextCr = -1;
    if (this.#afterCr && i < length) {
      this.#afterCr = false;
      if (chunk[i] === LF) i += 1;
    }
    while (i < length) {
      if (this.betweenEvents) {
        const end = this.#listener.known?.(chunk, i) ?? -1;
        if (end !== -1) {
          i = end;
          continue;
        }
      }
      const byte = chunk[i] ?? 0;
      if (byte === LF || byte === CR) {
        i = this.#endLine(chunk, i, byte);
        continue;
      }
      switch (this.#state) {
        case LINE_START:
        case NAME:
          i = this.#inName(byte, i);
          break;
        case DATA_START:
          i = this.#beginData(byte, i);
          break;
        case DONE:
          i = this.#inDone(byte, i);
          break;
        case DATA: {
          const end = this.#lineEnd(chunk, i);
          this.#listener.data(chunk, i, end);
          i = end;
          break;
        }
        default:
          i = this.#skipLine(chunk, i);
      }
    }
  }

  get #line(): Uint8Array {
    return (this.#lineBytes ??= new Uint8Array(MAX_KEPT_LINE_BYTES));
  }

  /** In a line other than data. */
  #skipLine(chunk: Uint8Array, i: number): number {
    const end = this.#lineEnd(chunk, i);
    for (let at = i; at < end && this.#lineLength < MAX_KEPT_LINE_BYTES; at++)
      this.#line[this.#lineLength++] = chunk[at] ?? 0;
    if (this.#line[0] === COLON) this.#listener.comment?.(i, end);
    return end;
  }

  #inName(byte: number, i: number): number {
    if (this.#state === LINE_START) {
      if (this.#hasData && byte === DATA_TEXT[0] && this.#listener.isWhole()) this.#endEvent(i, false);
      this.#state = NAME;
      this.#matched = 0;
      this.#lineLength = 0;
      if (byte !== COLON && this.#eventFrom === -1) {
        this.#eventFrom = i;
        this.#eventBytes = 0;
      }
    }
    if (byte === DATA_TEXT[this.#matched]) {
      this.#matched += 1;
      if (this.#matched === DATA_TEXT.length) this.#state = DATA_START;
    } else {
      if (this.#matched > 0) this.#line.set(DATA_TEXT);
      this.#lineLength = this.#matched;
      this.#line[this.#lineLength++] = byte;
      this.#state = OTHER;
    }
    return i + 1;
  }

  /** After `data:`, which may be followed by a blank. */
  #beginData(byte: number, i: number): number {
    if (byte === 0x20) return i + 1;
    const isFirst = !this.#hasData;
    this.#dataAt = isFirst ? this.#eventBytes + i - this.#eventFrom : -1;
    if (!isFirst) this.#listener.data(NEWLINE, 0, 1);
    this.#hasData = true;
    this.#matched = 0;
    this.#state = isFirst && byte === DONE_TEXT[0] ? DONE : DATA;
    if (this.#state === DONE && this.done) this.saysDone = true;
    return i;
  }

  /** In data that begins like `[DONE]`; if it differs, the matched bytes are passed on as data. */
  #inDone(byte: number, i: number): number {
    if (this.done) return i + 1;
    if (byte !== DONE_TEXT[this.#matched]) {
      this.#listener.data(DONE_TEXT, 0, this.#matched);
      this.#state = DATA;
      return i;
    }
    this.#matched += 1;
    if (this.#matched === DONE_TEXT.length) {
      this.done = true;
      this.saysDone = true;
    }
    return i + 1;
  }

  #endLine(chunk: Uint8Array, i: number, byte: number): number {
    let next = i + 1;
    if (byte === CR) {
      if (next === chunk.length) this.#afterCr = true;
      else if (chunk[next] === LF) next += 1;
    }
    if (this.#state === LINE_START) {
      this.#endEvent(next, true);
      this.saysDone = false;
    } else {
      if (this.#state === OTHER) this.#readLine();
      else if (this.#state === DONE && !this.done) this.#listener.data(DONE_TEXT, 0, this.#matched);
      this.#state = LINE_START;
    }
    return next;
  }

  #endEvent(end: number, byBlankLine: boolean): void {
    const from = this.#eventFrom;
    const hasData = this.#hasData;
    const sharesEnd = byBlankLine && this.#isJoined;
    this.#isJoined = !byBlankLine;
    this.#eventFrom = -1;
    this.#hasData = false;
    if (from >= 0) this.#listener.event(from, end, hasData, sharesEnd);
  }

  /** Index of the next line end, or the chunk's length; each chunk is searched once. */
  #lineEnd(chunk: Uint8Array, from: number): number {
    if (this.#nextLf < from) this.#nextLf = indexOrEnd(chunk, LF, from);
    if (this.#nextCr < from) this.#nextCr = indexOrEnd(chunk, CR, from);
    return Math.min(this.#nextLf, this.#nextCr);
  }

  #readLine(): void {
    const length = this.#lineLength;
    if (length < ERROR_FIELD.length || this.#line[0] !== ERROR_FIELD[0]) return;
    const begins = (text: Uint8Array): boolean => text.every((byte, at) => byte === this.#line[at]);
    const isError =
      begins(ERROR_FIELD) || ERROR_EVENTS.some((event) => event.length === length && begins(event));
    if (isError) this.saysError = true;
  }
}

const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (char) => char.charCodeAt(0));
const DATA_TEXT = bytesOf('data:');
const DONE_TEXT = bytesOf('[DONE]');
const ERROR_FIELD = bytesOf('error:');
const ERROR_EVENTS = [bytesOf('event:error'), bytesOf('event: error')];

function indexOrEnd(chunk: Uint8Array, byte: number, from: number): number {
  const index = chunk.indexOf(byte, from);
  return index === -1 ? chunk.length : index;
}
