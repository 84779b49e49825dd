import type { EventEnd, EventEndListener, UsageMeter } from './usage-meter.ts';

/** A longer unfinished event is passed on: the usage event has a few hundred bytes. */
const MAX_HELD_BYTES = 64 * 1024;

/**
 * Removes what the router's `include_usage` has added to a stream, and nothing else.
 *
 * That is the first event with an object `usage` and no other content, from its first field to its blank line (or to the
 * next event if there is none); comments before it stay. And it is the member `"usage":null` of every other event, with
 * one comma. The beginning of an event is held back until the event is complete, because only then is its content known;
 * everything else is passed on at once, in the same buffers.
 */
export class UsageEventFilter implements EventEndListener {
  readonly #meter: UsageMeter;
  readonly #drops: boolean;
  #dropped = false;
  /** The beginning of an unfinished event; concatenated, because chunks may have one byte each. */
  #heldBack: Buffer = NOTHING;
  #heldBytes = 0;
  /** The current event was too long to be held back. */
  #isReleased = false;
  /** The dropped event's last byte is a CR; its LF may follow. */
  #afterCr = false;
  /** An event has ended in the current chunk, possibly before its first byte (without a blank line). */
  #ended = false;
  /** The current chunk; released with its end, because a stream may wait long for the next. */
  #chunk: Buffer = NOTHING;
  /** Removed ranges: pairs of begin and end in the chunk. Bytes that are held back have negative indices. */
  #cuts: number[] = [];

  /** @param drops - false if the client requested usage itself: then the filter only keeps events whole */
  constructor(meter: UsageMeter, drops = true) {
    this.#meter = meter;
    this.#drops = drops;
    meter.listener = this;
  }

  onEvent(event: EventEnd): void {
    if (this.#drops) this.#cutFrom(event);
    this.#ended = true;
    this.#isReleased = false;
  }

  /** Passes a chunk to the meter, and returns the bytes that can be sent: usually the chunk itself, without allocating a list. */
  write(chunk: Buffer): Buffer | readonly Buffer[] {
    // Of bytes that the meter got without the filter.
    this.#forgetCuts();
    this.#chunk = chunk;
    this.#ended = false;
    const passed = this.#pass(chunk);
    this.#chunk = NOTHING;
    this.#forgetCuts();
    return passed;
  }

  #pass(chunk: Buffer): Buffer | readonly Buffer[] {
    const wasAfterCr = this.#afterCr;
    if (chunk.length > 0) this.#afterCr = false;
    this.#meter.write(chunk);
    if (wasAfterCr && chunk[0] === LF) this.#cuts.unshift(0, 1);

    const from = this.#meter.eventFrom;
    if (this.#isReleased) return chunk;
    if (from === -1) return this.#take(chunk.length);
    const go = from === 0 && !this.#ended ? [] : this.#take(from);
    const begun = from === 0 ? chunk : chunk.subarray(from);
    if (this.#heldBytes + begun.length <= MAX_HELD_BYTES) {
      this.#holdBack(begun);
      return go;
    }
    this.#isReleased = true;
    return [go, this.#release(), begun].flat();
  }

  /** What was passed ends inside an event that was too long to be held back. */
  get endsInsideEvent(): boolean {
    return this.#isReleased;
  }

  /** The answer is over: returns what was held back. */
  end(): readonly Buffer[] {
    return this.#release();
  }

  #forgetCuts(): void {
    if (this.#cuts.length > 0) this.#cuts = [];
  }

  #cutFrom({ from, end, isUsageOnly, nullUsage }: EventEnd): void {
    if (isUsageOnly && !this.#dropped && !this.#isReleased) {
      this.#dropped = true;
      this.#cuts.push(from === 0 && !this.#ended ? -this.#heldBytes : from, end);
      this.#afterCr = end === this.#chunk.length && this.#chunk[end - 1] === CR;
    } else if (nullUsage) this.#cutMember(nullUsage.from, nullUsage.to);
  }

  /** Cuts a member with the comma before it, or, if it is the first, with the comma after it. */
  #cutMember(from: number, to: number): void {
    let before = from - 1;
    while (isBlank(this.#byteAt(before))) before -= 1;
    if (this.#byteAt(before) === COMMA) {
      this.#cuts.push(before, to);
      return;
    }
    let after = to;
    while (isBlank(this.#byteAt(after))) after += 1;
    if (this.#byteAt(before) === BRACE) this.#cuts.push(from, this.#byteAt(after) === COMMA ? after + 1 : to);
  }

  /** A byte of the chunk, or of the bytes held back before it; -1 if it was sent already. */
  #byteAt(index: number): number {
    if (index >= 0) return this.#chunk[index] ?? -1;
    return this.#heldBack[index + this.#heldBytes] ?? -1;
  }

  /** The bytes held back plus the chunk up to `to`, without the cuts. */
  #take(to: number): Buffer | readonly Buffer[] {
    const chunk = to === this.#chunk.length ? this.#chunk : this.#chunk.subarray(0, to);
    const before = this.#heldBytes;
    if (this.#cuts.length === 0) {
      if (before === 0) return chunk.length > 0 ? chunk : [];
      return [...this.#release(), ...(chunk.length > 0 ? [chunk] : [])];
    }
    const all = before === 0 ? chunk : Buffer.concat([...this.#release(), chunk]);
    const left = withoutCuts(all, this.#cuts, before);
    return left.length > 0 ? left : [];
  }

  #holdBack(bytes: Buffer): void {
    if (this.#heldBytes === 0) {
      this.#heldBack = bytes;
      this.#heldBytes = bytes.length;
      return;
    }
    const length = this.#heldBytes + bytes.length;
    // The first chunk isn't ours to extend, so it is copied.
    if (length > this.#heldBack.length) {
      const roomier = Buffer.allocUnsafeSlow(2 * length);
      this.#heldBack.copy(roomier, 0, 0, this.#heldBytes);
      this.#heldBack = roomier;
    }
    this.#heldBack.set(bytes, this.#heldBytes);
    this.#heldBytes = length;
  }

  #release(): readonly Buffer[] {
    if (this.#heldBytes === 0) return [];
    const back = this.#heldBack;
    const held = this.#heldBytes === back.length ? back : back.subarray(0, this.#heldBytes);
    this.#heldBack = NOTHING;
    this.#heldBytes = 0;
    return [held];
  }
}

const NOTHING = Buffer.alloc(0);
const LF = 0x0a;
const CR = 0x0d;
const COMMA = 0x2c;
const BRACE = 0x7b;

/** White space in JSON. */
function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === LF || byte === CR || byte === 0x09;
}

/** A copy of the bytes without the cuts; the original buffer isn't changed. */
function withoutCuts(bytes: Buffer, cuts: readonly number[], shift: number): Buffer {
  let cutBytes = 0;
  for (let i = 0; i < cuts.length; i += 2) cutBytes += (cuts[i + 1] ?? 0) - (cuts[i] ?? 0);
  const left = Buffer.allocUnsafe(bytes.length - cutBytes);
  let length = 0;
  let at = 0;
  for (let i = 0; i < cuts.length; i += 2) {
    length += bytes.copy(left, length, at, (cuts[i] ?? 0) + shift);
    at = (cuts[i + 1] ?? 0) + shift;
  }
  bytes.copy(left, length, at);
  return left;
}
