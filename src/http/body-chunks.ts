import { setImmediate as turn } from 'node:timers/promises';

import { TurnSpent } from './turns.ts';

/** The bytes of a body as they came, in order: a large one is never copied together only to be sent on. */
export type BodyChunks = readonly Buffer[];

/** What a chunk is kept in takes some hundred bytes: shorter ones are copied together. */
const SMALL = 1024;
const MAX_BLOCK_BYTES = 65_536;

/** Keeps chunks as they come, in little more memory than they have bytes, however small they are. */
export class ChunkCollector {
  /** In bytes. */
  length = 0;
  #pieces: Buffer[] = [];
  /** Where small chunks are copied to, and what of it is in no piece yet. */
  #block: Buffer = Buffer.alloc(0);
  #from = 0;
  #to = 0;

  add(chunk: Buffer): void {
    this.length += chunk.length;
    if (chunk.length >= SMALL) {
      this.#endPiece();
      this.#pieces.push(chunk);
      return;
    }
    if (this.#to + chunk.length > this.#block.length) {
      this.#endPiece();
      this.#block = Buffer.allocUnsafeSlow(Math.min(MAX_BLOCK_BYTES, Math.max(SMALL, this.length)));
      this.#from = 0;
      this.#to = 0;
    }
    this.#block.set(chunk, this.#to);
    this.#to += chunk.length;
  }

  /** What was kept, which then is no more. */
  take(): BodyChunks {
    this.#endPiece();
    const pieces = this.#pieces;
    this.#pieces = [];
    this.length = 0;
    return pieces;
  }

  #endPiece(): void {
    if (this.#to > this.#from) this.#pieces.push(this.#block.subarray(this.#from, this.#to));
    this.#from = this.#to;
  }
}

/** Pieces with others behind them: parts of one buffer that follow upon each other become one again. */
export function appended(pieces: Buffer | BodyChunks, others: Buffer | BodyChunks): Buffer | BodyChunks {
  const all = [pieces].flat();
  for (const piece of [others].flat()) {
    const last = all.at(-1);
    if (last && piece.buffer === last.buffer && piece.byteOffset === last.byteOffset + last.length)
      all[all.length - 1] = Buffer.from(last.buffer, last.byteOffset, last.length + piece.length);
    else all.push(piece);
  }
  return all;
}

/** For those who have to see all bytes at once. */
export function concatChunks(pieces: BodyChunks): Buffer {
  const [only, second] = pieces;
  return only && !second ? only : Buffer.concat(pieces);
}

/** The bytes from `from` to before `to`, in the memory that they are in. */
export function slice(pieces: BodyChunks, from: number, to: number): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  for (const piece of pieces) {
    const part = piece.subarray(Math.max(0, from - at), Math.max(0, to - at));
    if (part.length > 0) found.push(part);
    at += piece.length;
  }
  return found;
}

export function byteLength(pieces: BodyChunks): number {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  return length;
}

/** Looks at all bytes, a little in each turn of the event loop. */
export async function inTurns(pieces: BodyChunks, look: (part: Buffer) => void): Promise<void> {
  const spent = new TurnSpent();
  for (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      if (spent.isAll) {
        await turn();
        spent.reset();
      }
      at += spent.show(at === 0 ? piece : piece.subarray(at), look);
    }
  }
}
