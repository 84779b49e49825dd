import type { UsageMeter } from './usage-meter.ts';

/** An unfinished event longer than this is let go: the usage event has a few hundred bytes. */
const LONGEST_HELD_BACK = 64 * 1024;

/**
 * Takes the usage event out of a stream to which we added `include_usage`, and nothing else.
 *
 * That is the first event with `choices: []`, an object `usage` and no `moderation`, from its first field to its
 * blank line, or to the next event where none stands between; comments before it stay. An event that has
 * begun is held back until it is complete, because only then is it known; everything else goes on
 * at once, in the very buffers it came in.
 */
export class UsageEventFilter {
  readonly #meter: UsageMeter;
  #dropped = false;
  /** The beginning of an event, cut by the end of its chunk. */
  #heldBack: Buffer[] = [];
  #heldBytes = 0;
  /** The event that is under way was too long to be held back. */
  #letGo = false;
  /** The dropped event's last byte so far is a CR, whose LF may come. */
  #afterCr = false;
  /** An event that stays has ended in the chunk that is being written, at its first byte even where no blank line stood. */
  #ended = false;
  /** Where the dropped event begins and ends in the chunk that is being written. */
  #dropFrom = -1;
  #dropTo = -1;

  /** @param drops - false where the client asked for its usage: then events are only kept whole */
  constructor(meter: UsageMeter, drops = true) {
    this.#meter = meter;
    meter.onEvent = (from, end, isUsageOnly) => {
      if (drops && isUsageOnly && !this.#dropped && !this.#letGo) {
        this.#dropped = true;
        this.#dropFrom = from;
        this.#dropTo = end;
      } else if (this.#dropFrom === -1) this.#ended = true;
      this.#letGo = false;
    };
  }

  /** Shows a chunk to the meter, and says what may go on now: mostly the chunk itself, without a list made for it. */
  write(chunk: Buffer): Buffer | readonly Buffer[] {
    const inert = this.#dropped && !this.#afterCr;
    this.#dropFrom = -1;
    this.#ended = false;
    this.#meter.write(chunk);
    if (inert) return chunk;
    if (this.#afterCr && chunk.length > 0) {
      this.#afterCr = false;
      return chunk[0] === LF ? nonEmpty(chunk.subarray(1)) : chunk;
    }
    if (this.#dropFrom >= 0) return this.#without(chunk);
    return this.#holdBack(chunk);
  }

  /** The answer is over: what was held back. */
  end(): readonly Buffer[] {
    return this.#release();
  }

  #without(chunk: Buffer): readonly Buffer[] {
    const before = this.#isUnderWay(this.#dropFrom) ? [] : this.#upTo(chunk, this.#dropFrom);
    this.#heldBack = [];
    this.#heldBytes = 0;
    this.#afterCr = this.#dropTo === chunk.length && chunk[this.#dropTo - 1] === CR;
    return [...before, ...nonEmpty(chunk.subarray(this.#dropTo))];
  }

  #holdBack(chunk: Buffer): Buffer | readonly Buffer[] {
    const from = this.#meter.eventFrom;
    if (this.#letGo) return chunk;
    if (from === -1) return this.#heldBytes === 0 ? chunk : [...this.#release(), chunk];

    const go = this.#isUnderWay(from) ? [] : this.#upTo(chunk, from);
    this.#heldBack.push(from === 0 ? chunk : chunk.subarray(from));
    this.#heldBytes += chunk.length - from;
    if (this.#heldBytes <= LONGEST_HELD_BACK) return go;
    this.#letGo = true;
    return [...go, ...this.#release()];
  }

  /** Whether what is held back is the beginning of the event at `from`, and not of one that ended in this chunk. */
  #isUnderWay(from: number): boolean {
    return from === 0 && !this.#ended;
  }

  #upTo(chunk: Buffer, from: number): readonly Buffer[] {
    return [...this.#release(), ...nonEmpty(chunk.subarray(0, from))];
  }

  #release(): readonly Buffer[] {
    const held = this.#heldBack;
    this.#heldBack = [];
    this.#heldBytes = 0;
    return held;
  }
}

const LF = 0x0a;
const CR = 0x0d;

function nonEmpty(chunk: Buffer): readonly Buffer[] {
  return chunk.length > 0 ? [chunk] : [];
}
