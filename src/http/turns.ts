import type { Readable } from 'node:stream';

/** Most time spent on a body in one turn of the event loop, in ms. */
const MAX_MS = 0.25;
/** Most bytes inspected in one turn, however fast: the size of one socket read. */
const MAX_BYTES = 65_536;
/** Bytes inspected before the first clock reading: a malicious body may be slow to scan. */
const FIRST_PART_BYTES = 2048;
/** Most bytes inspected between two clock readings. */
export const MAX_PART_BYTES = 16_384;
const LF = 0x0a;
/** For chunks up to FIRST_PART_BYTES the clock isn't read; their bytes count this many times instead, so 4 KiB fill a turn. */
const SMALL_WEIGHT = 16;

/** The time and bytes spent on a body in the current turn of the event loop. */
export class TurnBudget {
  #ms = 0;
  #bytes = 0;

  get isSpent(): boolean {
    return this.#ms >= MAX_MS || this.#bytes >= MAX_BYTES;
  }

  /** Begins a new turn. */
  reset(): void {
    this.#ms = 0;
    this.#bytes = 0;
  }

  /**
   * Passes bytes on part by part, each at most as long as all before it, until the budget is spent.
   *
   * @returns how many bytes were passed on: always more than 0, if there are any
   */
  show(bytes: Buffer, reader: Pick<TurnReader, 'inspect'>): number {
    if (bytes.length <= FIRST_PART_BYTES) {
      reader.inspect(bytes);
      this.#bytes += SMALL_WEIGHT * bytes.length;
      return bytes.length;
    }
    const startedAt = performance.now();
    const msBefore = this.#ms;
    let to = 0;
    do {
      const length = Math.min(Math.max(to, FIRST_PART_BYTES), MAX_PART_BYTES);
      const part = bytes.subarray(to, partEnd(bytes, to, length));
      reader.inspect(part);
      to += part.length;
      this.#bytes += part.length;
      this.#ms = msBefore + performance.now() - startedAt;
    } while (to < bytes.length && !this.isSpent);
    return to;
  }
}

/** The end of a part with at most this many bytes: after a line if one ends in its second half, so that few events are cut. */
function partEnd(bytes: Buffer, from: number, length: number): number {
  const end = from + length;
  if (end >= bytes.length) return bytes.length;
  const middle = from + Math.floor(length / 2);
  const lineEnd = bytes.subarray(middle, end).lastIndexOf(LF);
  return lineEnd === -1 ? end : middle + lineEnd + 1;
}

/** Receives a body in parts. */
export interface TurnReader {
  /** Inspects the next bytes: a chunk, or a part of one. */
  inspect(part: Buffer): void;
  /** The inspected bytes can be forwarded: a whole chunk, or as much of it as the turn's budget allowed. */
  forward(): void;
  /**
   * Whether reading may continue in the next turn. `isOver`: the body has ended, and only received bytes are left.
   */
  canContinue(isOver: boolean): boolean;
}

/** A body, as far as `Turns` controls it. */
export interface Pausable {
  pause(): unknown;
  resume(): unknown;
}

/**
 * Passes a body's chunks to its reader, a few bytes in each turn of the event loop: a socket can deliver megabytes in one.
 * The rest of a chunk waits for the next turn, and the body is paused meanwhile.
 */
export class Turns {
  readonly #body: Pausable;
  readonly #reader: TurnReader;
  readonly #budget = new TurnBudget();
  #rest: Buffer | undefined;
  #isStopped = false;
  #next: NodeJS.Immediate | undefined;
  /** Set when the body has ended: called once all bytes are forwarded. */
  #onEnd: (() => void) | undefined;

  constructor(body: Pausable, reader: TurnReader) {
    this.#body = body;
    this.#reader = reader;
  }

  /** Whether part of a chunk waits for the next turn. */
  get isBehind(): boolean {
    return this.#rest !== undefined;
  }

  /** Takes the body's next chunk. */
  take(chunk: Buffer): void {
    const to = this.#budget.show(chunk, this.#reader);
    this.#rest = to < chunk.length ? chunk.subarray(to) : undefined;
    if (this.#rest || this.#budget.isSpent) {
      this.#body.pause();
      this.#schedule();
    }
    this.#reader.forward();
  }

  /** Continues, in the next turn, after `stop` or after the reader paused the body. */
  resume(): void {
    this.#isStopped = false;
    if (this.#rest || this.#onEnd) this.#schedule();
    else if (!this.#next) this.#body.resume();
  }

  /** The body has ended: calls `then` once all bytes are forwarded, usually at once. Only the first call counts. */
  end(then: () => void): void {
    if (!this.#rest && this.#reader.canContinue(true)) {
      then();
      return;
    }
    this.#onEnd ??= then;
    this.#schedule();
  }

  /** Takes bytes of a body that broke while it was paused: they are inspected before the end. */
  takeRest(chunks: readonly Buffer[]): void {
    if (chunks.length > 0) this.#rest = Buffer.concat(this.#rest ? [this.#rest, ...chunks] : chunks);
  }

  /** Leaves the body to the reader until `resume`. */
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
    if (this.#rest || (this.#isStopped && !isOver) || !this.#reader.canContinue(isOver)) return;
    if (isOver) this.#onEnd?.();
    else if (!this.#next) this.#body.resume();
  }
}

/**
 * Reads a body that has arrived completely, usually in one packet with its head, without listeners.
 *
 * @param length - the `content-length` header
 * @returns undefined, with nothing read, if the body is incomplete or its length unknown
 */
export function readBuffered(body: Readable, length: string | undefined): Buffer | undefined {
  if (length === undefined || body.readableLength === 0 || body.readableLength !== Number(length)) {
    return undefined;
  }
  if (body.destroyed || body.readableObjectMode || body.readableEncoding !== null) return undefined;
  const bytes: unknown = body.read();
  // The connection is only released once the end was read, too.
  body.resume();
  return Buffer.isBuffer(bytes) ? bytes : undefined;
}
