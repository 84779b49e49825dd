/**
 * A timeout for what another process may be too slow, or too dead, to say.
 *
 * An event loop that was busy runs its timers before it reads its sockets: a plain timer takes this process's own stall
 * for the other's silence. So the time is waited for in slices, what a slice came late by is waited for again, and when
 * the time is over the sockets are read once more before `onTimeout` is called.
 */
export class Timeout {
  readonly #onTimeout: () => void;
  readonly #sliceMs: number;
  #slices: number;
  /** How often lost time may still be waited for again: a process that always comes late must give up in the end, too. */
  #repeats: number;
  #sliceEndsAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #verdict: NodeJS.Immediate | undefined;

  /** @param ms - how long to wait; at most twice as long where this process stalls, and what the last stall takes */
  constructor(ms: number, onTimeout: () => void) {
    this.#onTimeout = onTimeout;
    this.#slices = ms < SHORT_MS ? 1 : SLICES;
    this.#repeats = this.#slices;
    this.#sliceMs = ms / this.#slices;
    this.#wait(performance.now(), this.#sliceMs);
  }

  clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#verdict);
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
    else this.#verdict = setImmediate(this.#onTimeout);
  };

  #wait(now: number, ms: number): void {
    this.#sliceEndsAt = now + ms;
    this.#timer = setTimeout(this.#endSlice, ms);
  }
}

const SLICES = 4;
/** Less than this is waited for in one slice. */
const SHORT_MS = 40;
/** A timer that is later than this was kept by a stall of this process. */
const LATE_MS = 20;

/**
 * What a promise comes to, or what `late` gives or throws if that takes longer than `ms`.
 *
 * @param ms - as `Timeout` counts them
 */
export async function withTimeout<T, L>(promise: Promise<T>, ms: number, late: () => L): Promise<T | L> {
  let timeout: Timeout | undefined;
  const silence = new Promise<L>((resolve, reject) => {
    timeout = new Timeout(ms, () => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    });
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    timeout?.clear();
  }
}
