import type { EventEnd, UsageMeter } from './usage-meter.ts';

/** An unfinished event longer than this is let go: the usage event has a few hundred bytes. */
const MAX_HELD_BYTES = 64 * 1024;

/**
 * Takes out of a stream what our `include_usage` has brought into it, and nothing else.
 *
 * That is the first event with an object `usage` and nothing else to say, from its first field to its blank line, or to the
 * next event where none stands between; comments before it stay. And it is the member `"usage":null` of
 * every other event, with one comma. The beginning of an event is held back until all of it is here, because only then
 * is it known; everything else goes on at once, in the very buffers it came in.
 */
export class UsageEventFilter {
  readonly #meter: UsageMeter;
  #dropped = false;
  /** The beginning of an event, cut by the end of its chunk; copied together, for chunks may have a byte each. */
  #heldBack: Buffer = NOTHING;
  #heldBytes = 0;
  /** The event that is under way was too long to be held back. */
  #isReleased = false;
  /** The dropped event's last byte so far is a CR, whose LF may come. */
  #afterCr = false;
  /** An event has ended in the chunk that is being written, at its first byte even where no blank line stood. */
  #ended = false;
  #chunk: Buffer = NOTHING;
  /** What is taken out: where each piece begins and ends in the chunk; what is held back stands before index 0. */
  #cuts: number[] = [];

  /** @param drops - false where the client asked for its usage: then events are only kept whole */
  constructor(meter: UsageMeter, drops = true) {
    this.#meter = meter;
    meter.onEvent = (event) => {
      if (drops) this.#cutFrom(event);
      this.#ended = true;
      this.#isReleased = false;
    };
  }

  /** Shows a chunk to the meter, and says what may go on now: mostly the chunk itself, without a list made for it. */
  write(chunk: Buffer): Buffer | readonly Buffer[] {
    this.#chunk = chunk;
    this.#ended = false;
    if (this.#cuts.length > 0) this.#cuts = [];
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

  /** The answer is over: what was held back. */
  end(): readonly Buffer[] {
    return this.#release();
  }

  #cutFrom({ from, end, isUsageOnly, nullUsage }: EventEnd): void {
    if (isUsageOnly && !this.#dropped && !this.#isReleased) {
      this.#dropped = true;
      this.#cuts.push(from === 0 && !this.#ended ? -this.#heldBytes : from, end);
      this.#afterCr = end === this.#chunk.length && this.#chunk[end - 1] === CR;
    } else if (nullUsage) this.#cutMember(nullUsage.from, nullUsage.to);
  }

  /** Cuts a member, and the comma before it; that after it, if it is the first. */
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

  /** A byte of the chunk, or of what is held back before it; -1 where that has gone on already. */
  #byteAt(index: number): number {
    if (index >= 0) return this.#chunk[index] ?? -1;
    return this.#heldBack[index + this.#heldBytes] ?? -1;
  }

  /** What is held back and the chunk up to an index, without what is cut out. */
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
    // The first piece, which is another's, has no room left.
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

/** As JSON has it. */
function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === LF || byte === CR || byte === 0x09;
}

/** A copy of what is left: the buffer may be another's. */
function withoutCuts(bytes: Buffer, cuts: readonly number[], shift: number): Buffer {
  const left = Buffer.allocUnsafe(bytes.length);
  let length = 0;
  let at = 0;
  for (let i = 0; i < cuts.length; i += 2) {
    length += bytes.copy(left, length, at, (cuts[i] ?? 0) + shift);
    at = (cuts[i + 1] ?? 0) + shift;
  }
  length += bytes.copy(left, length, at);
  return left.subarray(0, length);
}
