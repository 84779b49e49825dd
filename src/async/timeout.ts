/**
 * A timeout for a reply from another process, which may be slow or dead.
 *
 * An event loop that was blocked runs its timers before it reads its sockets, so a plain timer takes this process's own
 * stall for the other's silence. This one waits in slices, waits again for the time by which a slice was late, and at
 * the end lets the sockets be read once more before it calls `onTimeout`.
 */
export class Timeout {
  readonly #onTimeout: () => void;
  readonly #sliceMs: number;
  #slices: number;
  /** How many more slices may be repeated: a process that is always late must time out in the end, too. */
  #repeats: number;
  #sliceEndsAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #lastTurn: NodeJS.Immediate | undefined;
  #isUnref = false;

  /** @param ms - how long to wait; at most twice as long if this process stalls, plus the length of the last stall */
  constructor(ms: number, onTimeout: () => void) {
    this.#onTimeout = onTimeout;
    this.#slices = ms < SHORT_MS ? 1 : SLICES;
    this.#repeats = this.#slices;
    this.#sliceMs = ms / this.#slices;
    this.#wait(performance.now(), this.#sliceMs);
  }

  clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#lastTurn);
  }

  /** It doesn't keep the process alive. */
  unref(): this {
    this.#isUnref = true;
    this.#timer?.unref();
    return this;
  }

  readonly #endSlice = (): void => {
    const now = performance.now();
    const lostMs = now - this.#sliceEndsAt;
    if (lostMs > LATE_MS && this.#repeats > 0) {
      this.#repeats -= 1;
      this.#wait(now, Math.min(lostMs, this.#sliceMs));
      return;
    }
    this.#slices -= 1;
    if (this.#slices > 0) this.#wait(now, this.#sliceMs);
    else this.#lastTurn = setImmediate(this.#onTimeout);
  };

  #wait(now: number, ms: number): void {
    this.#sliceEndsAt = now + ms;
    this.#timer = setTimeout(this.#endSlice, ms);
    if (this.#isUnref) this.#timer.unref();
  }
}

export const SLICES = 4;
/** Shorter timeouts have one slice. */
export const SHORT_MS = 40;
/** A timer that is later than this was delayed by a stall of this process. */
export const LATE_MS = 20;

/**
 * Settles as the promise does, or with what `onTimeout` returns or throws if that takes longer than `ms`.
 *
 * @param ms - as `Timeout` counts them
 */
export async function withTimeout<T, L>(promise: Promise<T>, ms: number, onTimeout: () => L): Promise<T | L> {
  let timeout: Timeout | undefined;
  const timedOut = new Promise<L>((resolve, reject) => {
    timeout = new Timeout(ms, () => {
      try {
        resolve(onTimeout());
      } catch (error) {
        reject(error);
      }
    });
  });
  try {
    return await Promise.race([promise, timedOut]);
  } finally {
    timeout?.clear();
  }
}
