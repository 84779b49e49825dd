import { ClientGone } from './exchange.ts';

/** The most answers of one key that are read on at a time. */
const MOST_AT_ONCE = 32;

/**
 * The answers that are read on after their clients left, to learn what they cost: few of one key at a time. Others of its own wait
 * for their turn, on connections that aren't read meanwhile.
 */
export class Drains {
  /** By key: those that are read first, then those that wait. */
  readonly #lines = new Map<string, Drain[]>();
  readonly #begun = new Set<Drain>();
  #closed = false;

  /** Whether one more may be read on; each has to leave. */
  enter(drain: Drain): boolean {
    if (this.#closed) return false;
    this.#begun.add(drain);
    return true;
  }

  /** It has something to read. */
  wait(drain: Drain): void {
    const line = this.#lines.get(drain.key);
    if (!line) this.#lines.set(drain.key, [drain]);
    else if (!line.includes(drain)) line.push(drain);
    if ((line?.length ?? 0) <= MOST_AT_ONCE) drain.start();
  }

  leave(drain: Drain): void {
    if (!this.#begun.delete(drain)) return;
    const line = this.#lines.get(drain.key);
    const place = line?.indexOf(drain) ?? -1;
    if (!line || place < 0) return;
    line.splice(place, 1);
    if (line.length === 0) this.#lines.delete(drain.key);
    else if (place < MOST_AT_ONCE) line[MOST_AT_ONCE - 1]?.start();
  }

  /** Ends them all; from now on nothing is drained. */
  close(): void {
    this.#closed = true;
    for (const drain of this.#begun) drain.abort();
  }
}

/** One answer that may be read on when its client leaves. It has the time that it would have had with its client. */
export class Drain {
  /** Whose it is. */
  readonly key: string;
  readonly #drains: Drains;
  readonly #isWanted: () => boolean;
  #abort: ((reason: Error) => void) | undefined;
  #read: (() => void) | undefined;

  /** @param isWanted - asked once, when the client leaves */
  constructor(drains: Drains, key: string, isWanted: () => boolean) {
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
    this.#abort?.(new ClientGone());
  }

  /** The answer is over. Called for every request, drained or not. */
  end(): void {
    this.#drains.leave(this);
  }
}
