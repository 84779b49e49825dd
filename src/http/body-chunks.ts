import { setImmediate as turn } from 'node:timers/promises';

import { isNode } from '../platform/node-version.ts';
import { TurnBudget } from './turns.ts';

/** The bytes of a body in the chunks that they arrived in. A large body is never concatenated just to be sent on. */
export type BodyChunks = readonly Buffer[];

/** What is left of a body that was released. */
export const NO_CHUNKS: BodyChunks = [];

/** A Buffer object takes some hundred bytes: chunks smaller than this are copied into a shared block. */
const SMALL_CHUNK_BYTES = 1024;
const MAX_BLOCK_BYTES = 65_536;
const NO_BLOCK: Buffer = Buffer.alloc(0);
/** Smaller chunks are left to the garbage collector. */
export const MIN_FREED_BYTES = 4096;
/** Other runtimes may still send bytes that they have reported as written. */
const canFree = isNode(process.versions);

/** Collects chunks in little more memory than they have bytes, however small they are. */
export class ChunkCollector {
  /** In bytes. */
  length = 0;
  #chunks: Buffer[] = [];
  /** Small chunks are copied here; the bytes from `#from` to `#to` are not in `#chunks` yet. */
  #block = NO_BLOCK;
  #from = 0;
  #to = 0;
  /** Bytes of all small chunks: the next block is as large, so that they are few and none is mostly empty. */
  #smallBytes = 0;
  readonly #minBlockBytes: number;

  /** @param minBlockBytes - of the first block; more for chunks that are taken soon */
  constructor(minBlockBytes: number = SMALL_CHUNK_BYTES) {
    this.#minBlockBytes = minBlockBytes;
  }

  add(chunk: Buffer): void {
    this.length += chunk.length;
    if (chunk.length >= SMALL_CHUNK_BYTES) {
      this.#endBlock();
      this.#chunks.push(chunk);
      return;
    }
    this.#smallBytes += chunk.length;
    if (this.#to + chunk.length > this.#block.length) {
      this.#endBlock();
      this.#block = Buffer.allocUnsafeSlow(
        Math.min(MAX_BLOCK_BYTES, Math.max(this.#minBlockBytes, this.#smallBytes)),
      );
      this.#from = 0;
      this.#to = 0;
    }
    this.#block.set(chunk, this.#to);
    this.#to += chunk.length;
  }

  /** Returns the chunks and forgets them. */
  take(): BodyChunks {
    this.#endBlock();
    const chunks = this.#chunks;
    this.#chunks = [];
    this.length = 0;
    this.#smallBytes = 0;
    return chunks;
  }

  #endBlock(): void {
    if (this.#to > this.#from) this.#chunks.push(this.#block.subarray(this.#from, this.#to));
    this.#from = this.#to;
  }
}

/** Appends chunks; adjacent parts of one buffer are joined into one again, without a copy. */
export function appendChunks(chunks: Buffer | BodyChunks, more: Buffer | BodyChunks): Buffer | BodyChunks {
  const all = [chunks].flat();
  for (const chunk of [more].flat()) {
    const last = all.at(-1);
    if (last && chunk.buffer === last.buffer && chunk.byteOffset === last.byteOffset + last.length)
      all[all.length - 1] = Buffer.from(last.buffer, last.byteOffset, last.length + chunk.length);
    else all.push(chunk);
  }
  return all;
}

/**
 * Frees the memory of chunks at once. Left to V8, it takes a collection of the whole heap for each 64 MB of them.
 *
 * The chunks are empty afterwards, so nothing may use their bytes any more: not the app, and no write that has begun.
 */
export function freeChunks(chunks: BodyChunks): void {
  if (!canFree) return;
  for (const { buffer, length } of chunks) {
    // Others may be in the same memory.
    const isAlone = buffer.byteLength === length && buffer instanceof ArrayBuffer;
    if (!isAlone || length < MIN_FREED_BYTES) continue;
    try {
      buffer.transfer(0);
    } catch {
      // Some memory can't be detached.
    }
  }
}

/** All bytes in one buffer; copies if there are several chunks. */
export function concatChunks(chunks: BodyChunks): Buffer {
  const [only, second] = chunks;
  return only && !second ? only : Buffer.concat(chunks);
}

/** The bytes from `from` to before `to`, without a copy. */
export function sliceChunks(chunks: BodyChunks, from: number, to: number): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  for (const chunk of chunks) {
    const part = chunk.subarray(Math.max(0, from - at), Math.max(0, to - at));
    if (part.length > 0) found.push(part);
    at += chunk.length;
  }
  return found;
}

export function byteLength(chunks: BodyChunks): number {
  let length = 0;
  for (const chunk of chunks) length += chunk.length;
  return length;
}

/** Passes all bytes to `inspect`, a few in each turn of the event loop. */
export async function inTurns(chunks: BodyChunks, inspect: (part: Buffer) => void): Promise<void> {
  const spent = new TurnBudget();
  const reader = { inspect };
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length;) {
      if (spent.isSpent) {
        await turn();
        spent.reset();
      }
      at += spent.show(at === 0 ? chunk : chunk.subarray(at), reader);
    }
  }
}
