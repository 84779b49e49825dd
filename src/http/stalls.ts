/** Providers close a connection that isn't read for about this long; the router only notices when it reads again. */
const STALL_MS = 10_000;

/** Measures the time that an answer waits for its client to read. */
export class Stalls {
  #since: number | undefined;
  #totalMs = 0;
  #longestMs = 0;

  /** It is waiting now. */
  get isStalled(): boolean {
    return this.#since !== undefined;
  }

  begin(): void {
    this.#since ??= performance.now();
  }

  end(): void {
    if (this.#since === undefined) return;
    const ms = performance.now() - this.#since;
    this.#since = undefined;
    this.#totalMs += ms;
    this.#longestMs = Math.max(this.#longestMs, ms);
  }

  /** Whether it is waiting now, or has waited for ten seconds at a time, or for more than half of the time since it began. */
  wasStalled(beganAt: number | undefined): boolean {
    if (this.isStalled || this.#longestMs >= STALL_MS) return true;
    return this.#totalMs > 0 && 2 * this.#totalMs > performance.now() - (beganAt ?? 0);
  }
}
