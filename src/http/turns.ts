import type { Readable } from 'node:stream';

/** How long one turn of the event loop may be spent on a body, in ms. */
const MAX_MS = 0.25;
/** How many bytes of it a turn gets at most, however fast they are looked at: what a socket gives at once. */
const MAX_BYTES = 65_536;
/** So much is looked at before the clock is read: a body may be made to be slow to read. */
const FIRST_PART_BYTES = 2048;
/** And so much at most between two readings of it. */
export const MAX_PART_BYTES = 16_384;
/** No clock is read for a chunk of at most a first part: it counts for so many times its bytes, 4 KiB of such for a turn. */
const SMALL_WEIGHT = 16;

/** What is spent on a body before others have their turn. */
export class TurnBudget {
  #ms = 0;
  #bytes = 0;

  get isSpent(): boolean {
    return this.#ms >= MAX_MS || this.#bytes >= MAX_BYTES;
  }

  /** Another turn begins. */
  reset(): void {
    this.#ms = 0;
    this.#bytes = 0;
  }

  /**
   * Shows bytes part by part, each at most as long as all before it, until the turn's time is over.
   *
   * @returns how many of them were shown: some of them in any case
   */
  show(bytes: Buffer, inspect: (part: Buffer) => void): number {
    if (bytes.length <= FIRST_PART_BYTES) {
      inspect(bytes);
      this.#bytes += SMALL_WEIGHT * bytes.length;
      return bytes.length;
    }
    const startedAt = performance.now();
    const msBefore = this.#ms;
    let to = 0;
    do {
      const length = Math.min(Math.max(to, FIRST_PART_BYTES), MAX_PART_BYTES);
      const part = bytes.subarray(to, to + length);
      inspect(part);
      to += part.length;
      this.#bytes += part.length;
      this.#ms = msBefore + performance.now() - startedAt;
    } while (to < bytes.length && !this.isSpent);
    return to;
  }
}

/** Reads a body as it comes. */
export interface TurnReader {
  /** Looks at the next bytes: a chunk, or a part of one that takes more than a turn. */
  readonly inspect: (part: Buffer) => void;
  /** All of a chunk was looked at, or as much of it as its turn had time for. */
  readonly forward: () => void;
  /**
   * Whether the body may be read on, when its turn comes again. `isOver`: nothing more will come, and this is the
   * rest of what did.
   */
  readonly canContinue: (isOver: boolean) => boolean;
}

/**
 * Shows a body's chunks to its reader, a little in each turn of the event loop: a socket gives megabytes in one. What of a
 * chunk has no time in its turn waits, and the body behind it.
 */
export class Turns {
  readonly #body: Readable;
  readonly #reader: TurnReader;
  readonly #budget = new TurnBudget();
  #rest: Buffer | undefined;
  #isStopped = false;
  #next: NodeJS.Immediate | undefined;
  /** The body is over: what follows when all was looked at. */
  #onEnd: (() => void) | undefined;

  constructor(body: Readable, reader: TurnReader) {
    this.#body = body;
    this.#reader = reader;
  }

  /** Part of a chunk waits for its turn. */
  get isBehind(): boolean {
    return this.#rest !== undefined;
  }

  /** The body's next chunk. */
  take(chunk: Buffer): void {
    const to = this.#budget.show(chunk, this.#reader.inspect);
    this.#rest = to < chunk.length ? chunk.subarray(to) : undefined;
    if (this.#rest || this.#budget.isSpent) {
      this.#body.pause();
      this.#schedule();
    }
    this.#reader.forward();
  }

  /** Reads on, when it is its turn, after the reader had stopped the body. */
  resume(): void {
    this.#isStopped = false;
    if (this.#rest || this.#onEnd) this.#schedule();
    else if (!this.#next) this.#body.resume();
  }

  /** The body is over: `then` follows when all that came of it was passed, mostly at once. Of two, the first counts. */
  end(then: () => void): void {
    if (!this.#rest && this.#reader.canContinue(true)) {
      then();
      return;
    }
    this.#onEnd ??= then;
    this.#schedule();
  }

  /** From now on the body is the reader's, up to `resume`. */
  stop(): void {
    this.#isStopped = true;
    clearImmediate(this.#next);
    this.#next = undefined;
  }

  #schedule(): void {
    this.#next ??= setImmediate(() => {
      this.#next = undefined;
      this.#budget.reset();
      if (this.#reader.canContinue(this.#onEnd !== undefined)) this.#continue();
    });
  }

  #continue(): void {
    if (this.#rest) this.take(this.#rest);
    const isOver = this.#onEnd !== undefined;
    if (this.#rest || this.#isStopped || !this.#reader.canContinue(isOver)) return;
    if (isOver) this.#onEnd?.();
    else if (!this.#next) this.#body.resume();
  }
}
