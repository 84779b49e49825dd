import { ClientDisconnectedError } from './exchange.ts';

/** The most answers of one key that are read on at a time. */
const MAX_CONCURRENT = 32;

/**
 * The answers that are read on after their clients left, to learn what they cost: few of one key at a time. Others of its own wait
 * for their turn, on connections that aren't read meanwhile.
 */
export class DetachedReads {
  /** By key: those that are read first, then those that wait. */
  readonly #lines = new Map<string, DetachedRead[]>();
  readonly #begun = new Set<DetachedRead>();
  #closed = false;

  /** Whether one more may be read on; each has to leave. */
  enter(drain: DetachedRead): boolean {
    if (this.#closed) return false;
    this.#begun.add(drain);
    return true;
  }

  /** It has something to read. */
  wait(drain: DetachedRead): void {
    const line = this.#lines.get(drain.key);
    if (!line) this.#lines.set(drain.key, [drain]);
    else if (!line.includes(drain)) line.push(drain);
    if ((line?.length ?? 0) <= MAX_CONCURRENT) drain.start();
  }

  leave(drain: DetachedRead): void {
    if (!this.#begun.delete(drain)) return;
    const line = this.#lines.get(drain.key);
    const place = line?.indexOf(drain) ?? -1;
    if (!line || place < 0) return;
    line.splice(place, 1);
    if (line.length === 0) this.#lines.delete(drain.key);
    else if (place < MAX_CONCURRENT) line[MAX_CONCURRENT - 1]?.start();
  }

  /** Ends them all; from now on nothing is drained. */
  close(): void {
    this.#closed = true;
    for (const drain of this.#begun) drain.abort();
  }
}

/** One answer that may be read on when its client leaves. It has the time that it would have had with its client. */
export class DetachedRead {
  /** Whose it is. */
  readonly key: string;
  readonly #drains: DetachedReads;
  readonly #isWanted: () => boolean;
  #abort: ((reason: Error) => void) | undefined;
  #read: (() => void) | undefined;

  /** @param isWanted - asked once, when the client leaves */
  constructor(drains: DetachedReads, key: string, isWanted: () => boolean) {
    this.#drains = drains;
    this.key = key;
    this.#isWanted = isWanted;
  }

  /**
   * The client has left. Says whether the answer is read on: then `abort` is called if it must end.
   *
   * Said again, of the same answer, it is the same.
   */
  begin(abort: (reason: Error) => void): boolean {
    if (!this.#abort && !(this.#isWanted() && this.#drains.enter(this))) return false;
    this.#abort = abort;
    return true;
  }

  /** Calls `read` when it is its turn, at once if there are few. */
  whenItsTurn(read: () => void): void {
    this.#read = read;
    this.#drains.wait(this);
  }

  start(): void {
    this.#read?.();
  }

  abort(): void {
    this.#abort?.(new ClientDisconnectedError());
  }

  /** The answer is over. Called for every request, drained or not. */
  end(): void {
    this.#drains.leave(this);
  }
}
