import { Timeout } from '../async/timeout.ts';
import { ClientGone } from './exchange.ts';

/** So many answers are drained at a time. */
const MOST_DRAINS = 32;
/** How long one may take. */
const DRAIN_MS = 120_000;

/** The answers that are read on after their clients left, to learn what they cost: few at a time, none for long. */
export class Drains {
  readonly #running = new Set<Drain>();
  #closed = false;

  /** Whether one more may be read on; each has to give its place back. */
  enter(drain: Drain): boolean {
    if (this.#closed || this.#running.size >= MOST_DRAINS) return false;
    this.#running.add(drain);
    return true;
  }

  leave(drain: Drain): void {
    this.#running.delete(drain);
  }

  /** Ends them all; from now on nothing is drained. */
  close(): void {
    this.#closed = true;
    for (const drain of this.#running) drain.abort();
  }
}

/** One answer that may be read on when its client leaves. */
export class Drain {
  readonly #drains: Drains;
  #abort: ((reason: Error) => void) | undefined;
  #timeout: Timeout | undefined;

  constructor(drains: Drains) {
    this.#drains = drains;
  }

  /**
   * The client has left. Says whether the answer is read on: then `abort` is called if that takes too long.
   *
   * Said again, of the same answer, nothing changes.
   */
  begin(abort: (reason: Error) => void): boolean {
    if (this.#timeout) return true;
    if (!this.#drains.enter(this)) return false;
    this.#abort = abort;
    this.#timeout = new Timeout(DRAIN_MS, () => this.abort());
    return true;
  }

  abort(): void {
    this.#abort?.(new ClientGone());
  }

  /** The answer is over. Called for every request, drained or not. */
  end(): void {
    this.#timeout?.clear();
    this.#drains.leave(this);
  }
}
