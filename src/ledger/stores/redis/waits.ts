import { Link } from '../../../async/link.ts';
import { LATE_MS, SHORT_MS, SLICES } from '../../../async/timeout.ts';

/** Something that waits for a reply, in the ring of a `Waits`. */
export class Wait extends Link {
  /** It has ended, or timed out. */
  isOver = false;
  beganAt = 0;
  /** How long this process had stalled before, in all. */
  stalledBeforeMs = 0;

  onTimeout(): void {}
}

/**
 * Timeouts of one length for replies of another process, with one timer for all.
 *
 * As in `async/timeout.ts`, the timer runs in slices, and the time by which a slice was late doesn't count, because an
 * event loop that was blocked runs its timers before it reads its sockets, and may have sent the command after the block.
 * At the end the sockets are read once more.
 */
export class Waits {
  readonly #ms: number;
  readonly #sliceMs: number;
  /** In the order in which they began. */
  readonly #ring = new Link();
  #isTimed = false;
  #sliceEndsAt = 0;
  /** How long this process has stalled, in all. */
  #stalledMs = 0;

  /** @param ms - at most twice as long if this process stalls, plus the length of the last stall and a slice */
  constructor(ms: number) {
    this.#ms = ms;
    this.#sliceMs = ms < SHORT_MS ? ms : ms / SLICES;
  }

  begin(wait: Wait): void {
    wait.beganAt = performance.now();
    wait.stalledBeforeMs = this.#stalledMs;
    wait.linkBefore(this.#ring);
    if (!this.#isTimed) this.#endSliceIn(this.#sliceMs, wait.beganAt);
  }

  end(wait: Wait): void {
    wait.isOver = true;
    wait.unlink();
  }

  readonly #endSlice = (): void => {
    const now = performance.now();
    const lateMs = now - this.#sliceEndsAt;
    const stallMs = lateMs > LATE_MS ? Math.min(lateMs, this.#sliceMs) : 0;
    this.#stalledMs += stallMs;
    this.#isTimed = false;
    let first = this.#ring.next;
    while (first instanceof Wait && this.#leftMs(first, now, stallMs) <= 0) {
      first.unlink();
      setImmediate(timeOut, first);
      first = this.#ring.next;
    }
    if (first instanceof Wait)
      this.#endSliceIn(Math.min(this.#leftMs(first, now, stallMs), this.#sliceMs), now);
  };

  /**
   * A process that is always late must time out in the end, too: what doesn't count is at most the timeout's length.
   *
   * @param stallMs - by which the slice that ends was late: however long that was, the reply has as much time after it
   */
  #leftMs({ beganAt, stalledBeforeMs }: Wait, now: number, stallMs: number): number {
    const stalledMs = this.#stalledMs - stalledBeforeMs;
    const leftMs = beganAt + this.#ms + Math.min(stalledMs, this.#ms) - now;
    return stalledMs - stallMs < this.#ms ? Math.max(leftMs, stallMs) : leftMs;
  }

  #endSliceIn(ms: number, now: number): void {
    this.#isTimed = true;
    this.#sliceEndsAt = now + ms;
    // It doesn't keep the process alive: the connection that is waited for does.
    setTimeout(this.#endSlice, ms).unref();
  }
}

function timeOut(wait: Wait): void {
  if (wait.isOver) return;
  wait.isOver = true;
  wait.onTimeout();
}
