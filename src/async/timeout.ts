/**
 * A timeout for what another process may be too slow, or too dead, to say.
 *
 * An event loop that was busy runs its timers before it reads its sockets: a plain timer takes this process's own stall
 * for the other's silence. So the time is waited for in slices, of which those that came late don't count, and when it
 * is over the sockets are read once more before `onTimeout` is called.
 */
export class Timeout {
  readonly #onTimeout: () => void;
  readonly #sliceMs: number;
  #slices: number;
  /** Late slices that may still be repeated: a process that always comes late must give up in the end, too. */
  #repeats: number;
  #sliceEndsAt: number;
  #timer: NodeJS.Timeout;
  #verdict: NodeJS.Immediate | undefined;

  /** @param ms - how long to wait, not counting the time in which this process could not read */
  constructor(ms: number, onTimeout: () => void) {
    this.#onTimeout = onTimeout;
    this.#slices = ms < SHORT_MS ? 1 : SLICES;
    this.#repeats = this.#slices;
    this.#sliceMs = ms / this.#slices;
    this.#sliceEndsAt = performance.now() + this.#sliceMs;
    this.#timer = setTimeout(this.#endSlice, this.#sliceMs);
  }

  clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#verdict);
  }

  readonly #endSlice = (): void => {
    const now = performance.now();
    if (now - this.#sliceEndsAt > LATE_MS && this.#repeats > 0) this.#repeats -= 1;
    else this.#slices -= 1;
    if (this.#slices > 0) {
      this.#sliceEndsAt = now + this.#sliceMs;
      this.#timer = setTimeout(this.#endSlice, this.#sliceMs);
    } else this.#verdict = setImmediate(this.#onTimeout);
  };
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
