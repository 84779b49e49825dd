import { Readable } from 'node:stream';

import { ChunkCollector, concatChunks } from './body-chunks.ts';

/** Takes an answer's bytes. Exactly one of `onEnd` and `onBroken` is called, once. */
export interface BodyReader {
  onData(chunk: Buffer): void;
  onEnd(): void;
  /** The body broke, or was destroyed with this reason. Called at once, even while it is paused. */
  onBroken(error: Error | undefined): void;
}

/**
 * The body of a provider's answer, for one reader at a time.
 *
 * Bytes that arrive while it has no reader, or is paused, are kept; beyond `MAX_KEPT_BYTES` the connection isn't read.
 */
export interface AnswerBody {
  /**
   * All bytes of a body that has arrived completely, usually in one packet with its head.
   *
   * @param length - the `content-length` header
   * @returns undefined, with nothing taken, if it is incomplete, longer than `maxBytes`, or its length unknown
   */
  takeWhole(length: string | undefined, maxBytes: number): Buffer | undefined;
  /** Passes what was kept and what will arrive to this reader, unless the body is paused. */
  read(reader: BodyReader): void;
  pause(): void;
  resume(): void;
  /** Ends the reader's turn, and puts bytes back before those that were kept. */
  unread(bytes?: Buffer): void;
  /** The bytes that arrived before the body broke, and were not read because it was paused. */
  takeKept(): Buffer[];
  /** Closes the connection to the provider. A reader gets `onBroken(reason)`. */
  destroy(reason?: Error): void;
}

/** Most bytes kept of a body that isn't read, besides one chunk. */
export const MAX_KEPT_BYTES = 65_536;

/** The first block into which small chunks are copied: together they are read and sent at less cost than one by one. */
const MIN_BLOCK_BYTES = 8192;

/** Where a body's bytes come from, as the body controls it. */
export interface BodySource {
  pause(): unknown;
  resume(): unknown;
  /** Nothing more is wanted. */
  destroy(reason?: Error): unknown;
}

export interface SourceListener {
  /** The source is closed. */
  onOver(): void;
}

/** A body whose bytes are pushed to it by its source. */
export class PushBody implements AnswerBody {
  readonly #source: BodySource;
  readonly #listener: SourceListener | undefined;
  #reader: BodyReader | undefined;
  #kept: Buffer[] = [];
  /** What is kept after `#kept`. */
  #more: ChunkCollector | undefined;
  #keptBytes = 0;
  #state: 'open' | 'ended' | 'broken' = 'open';
  #error: Error | undefined;
  #isPaused = false;
  #isSourcePaused = false;
  #isPassing = false;

  /** @param listener - told when the source is closed, after the reader */
  constructor(source: BodySource, listener?: SourceListener) {
    this.#source = source;
    this.#listener = listener;
  }

  /** The source has the next bytes. */
  push(chunk: Buffer): void {
    if (this.#state !== 'open') return;
    if (this.#reader && !this.#isPaused && this.#keptBytes === 0) {
      this.#reader.onData(chunk);
      return;
    }
    // Not by `push`, which makes room for 17.
    if (this.#keptBytes === 0) this.#kept = [chunk];
    else (this.#more ??= new ChunkCollector(MIN_BLOCK_BYTES)).add(chunk);
    this.#keptBytes += chunk.length;
    if (this.#keptBytes <= MAX_KEPT_BYTES || this.#isSourcePaused) return;
    this.#isSourcePaused = true;
    this.#source.pause();
  }

  /** The source has no more bytes. */
  end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ended';
    this.#pass();
  }

  /** The source broke. */
  fail(error: Error | undefined): void {
    if (this.#state !== 'open') return;
    this.#state = 'broken';
    this.#error = error;
    this.#takeReader()?.onBroken(error);
  }

  /** The source is closed. */
  close(): void {
    this.fail(undefined);
    this.#listener?.onOver();
  }

  takeWhole(length: string | undefined, maxBytes: number): Buffer | undefined {
    const bytes = this.#keptBytes;
    if (bytes === 0 || bytes > maxBytes || this.#state === 'broken' || Number(length) !== bytes) {
      return undefined;
    }
    return concatChunks(this.takeKept());
  }

  read(reader: BodyReader): void {
    this.#reader = reader;
    this.#pass();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#pass();
  }

  unread(bytes?: Buffer): void {
    this.#reader = undefined;
    this.#isPaused = false;
    if (!bytes || bytes.length === 0) return;
    this.#kept.unshift(bytes);
    this.#keptBytes += bytes.length;
  }

  takeKept(): Buffer[] {
    const kept = this.#more ? [...this.#kept, ...this.#more.take()] : this.#kept;
    this.#kept = [];
    this.#more = undefined;
    this.#keptBytes = 0;
    return kept;
  }

  destroy(reason?: Error): void {
    if (this.#state === 'broken') return;
    const isOpen = this.#state === 'open';
    this.#state = 'broken';
    this.#error = reason;
    this.takeKept();
    if (isOpen) this.#source.destroy(reason);
    this.#takeReader()?.onBroken(reason);
  }

  #takeReader(): BodyReader | undefined {
    const reader = this.#reader;
    this.#reader = undefined;
    return reader;
  }

  /** The current reader, unless the body is paused. A method, because each call of a reader may change it. */
  #activeReader(): BodyReader | undefined {
    return this.#isPaused ? undefined : this.#reader;
  }

  #nextKept(): Buffer | undefined {
    if (this.#kept.length === 0 && this.#more) {
      this.#kept = [...this.#more.take()];
      this.#more = undefined;
    }
    const chunk = this.#kept.shift();
    if (chunk) this.#keptBytes -= chunk.length;
    return chunk;
  }

  /** Passes what was kept, and how the body ended. */
  #pass(): void {
    if (this.#isPassing) return;
    this.#isPassing = true;
    for (let reader = this.#activeReader(); reader; reader = this.#activeReader()) {
      const chunk = this.#nextKept();
      if (!chunk) break;
      reader.onData(chunk);
    }
    this.#isPassing = false;
    if (!this.#activeReader()) return;
    if (this.#state === 'ended') this.#takeReader()?.onEnd();
    else if (this.#state === 'broken') this.#takeReader()?.onBroken(this.#error);
    else if (this.#isSourcePaused) {
      this.#isSourcePaused = false;
      this.#source.resume();
    }
  }
}

const NO_SOURCE: BodySource = { pause: () => {}, resume: () => {}, destroy: () => {} };

/** The body of an answer of which every byte is here. */
export function bodyOfChunks(chunks: readonly Buffer[]): AnswerBody {
  const body = new PushBody(NO_SOURCE);
  for (const chunk of chunks) body.push(chunk);
  body.end();
  return body;
}

/** The body whose bytes a stream has. It reads the stream from now on: called once a stream.
 *
 * @param listener - told when the stream is closed, after the reader
 */
export function bodyOfStream(stream: ReadStream, listener?: SourceListener): PushBody {
  const body = new PushBody(stream, listener);
  stream[BODY] = body;
  stream.on('data', pushData).on('end', endBody).on('error', failBody).on('close', closeBody);
  return body;
}

const BODY: unique symbol = Symbol('body');

/** A stream that knows its body: its listeners, which are the same for all, take no memory then. */
type ReadStream = Readable & { [BODY]?: PushBody };

function pushData(this: ReadStream, chunk: Buffer): void {
  this[BODY]?.push(chunk);
}

function endBody(this: ReadStream): void {
  this[BODY]?.end();
}

function failBody(this: ReadStream, error: Error): void {
  this[BODY]?.fail(error);
}

function closeBody(this: ReadStream): void {
  this[BODY]?.close();
}

/** A stream of a body's bytes, for a pipeline. */
export function streamOf(body: AnswerBody): Readable {
  const stream = new Readable({
    read: () => {
      body.resume();
    },
    destroy: (error, done) => {
      body.destroy(error ?? undefined);
      done(error);
    },
  });
  body.read({
    onData: (chunk) => {
      if (!stream.push(chunk)) body.pause();
    },
    onEnd: () => {
      stream.push(null);
    },
    onBroken: (error) => {
      stream.destroy(error);
    },
  });
  return stream;
}
