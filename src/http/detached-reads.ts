import { ClientDisconnectedError } from './exchange.ts';

/** Most detached answers of one API key that are read at the same time. */
const MAX_CONCURRENT = 32;

/**
 * Answers that are read to the end after their clients disconnected, to learn their usage. At most 32 of one key are read
 * at the same time; the connections of the others are paused until it is their turn.
 */
export class DetachedReads {
  /** By owner: first those that are being read, then those that wait. */
  readonly #queues = new Map<string, DetachedRead[]>();
  readonly #active = new Set<DetachedRead>();
  #closed = false;

  /** Whether the answer may be detached. If so, `leave` must be called. */
  enter(read: DetachedRead): boolean {
    if (this.#closed) return false;
    this.#active.add(read);
    return true;
  }

  /** Queues a read for its turn; starts it at once if there are few. */
  wait(read: DetachedRead): void {
    const queue = this.#queues.get(read.owner);
    if (!queue) this.#queues.set(read.owner, [read]);
    else if (!queue.includes(read)) queue.push(read);
    if ((queue?.length ?? 0) <= MAX_CONCURRENT) read.start();
  }

  leave(read: DetachedRead): void {
    if (!this.#active.delete(read)) return;
    const queue = this.#queues.get(read.owner);
    const index = queue?.indexOf(read) ?? -1;
    if (!queue || index < 0) return;
    queue.splice(index, 1);
    if (queue.length === 0) this.#queues.delete(read.owner);
    else if (index < MAX_CONCURRENT) queue[MAX_CONCURRENT - 1]?.start();
  }

  /** Aborts all; from now on no answer is detached. */
  close(): void {
    this.#closed = true;
    for (const read of this.#active) read.abort();
  }
}

/** Whose answer it is, and whether it is worth reading: asked only when the client disconnects. */
export interface DetachableAnswer {
  /** Account and API key that the request was made with, as one name. */
  readonly owner: string;
  /** Called once. */
  shouldRead(): boolean;
}

/** One answer that may be read to its end when its client disconnects. Its timeouts are the same as with a client. */
export class DetachedRead {
  readonly #reads: DetachedReads;
  readonly #answer: DetachableAnswer;
  #abort: ((reason: Error) => void) | undefined;
  #read: (() => void) | undefined;

  constructor(reads: DetachedReads, answer: DetachableAnswer) {
    this.#reads = reads;
    this.#answer = answer;
  }

  get owner(): string {
    return this.#answer.owner;
  }

  /**
   * The client has disconnected. Idempotent.
   *
   * @param abort - called if the read must end early
   * @returns whether the answer is read to its end
   */
  begin(abort: (reason: Error) => void): boolean {
    if (!this.#abort && !(this.#answer.shouldRead() && this.#reads.enter(this))) return false;
    this.#abort = abort;
    return true;
  }

  /** Calls `read` when it is its turn: at once if few are being read. */
  whenItsTurn(read: () => void): void {
    this.#read = read;
    this.#reads.wait(this);
  }

  start(): void {
    this.#read?.();
  }

  abort(): void {
    this.#abort?.(new ClientDisconnectedError());
  }

  /** The answer is over. Called for every request, detached or not. */
  end(): void {
    this.#reads.leave(this);
  }
}
