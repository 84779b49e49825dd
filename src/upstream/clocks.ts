import { UpstreamTimeoutError } from '../errors.ts';
import type { Timeouts } from '../settings.ts';

/**
 * The four clocks of one attempt: connect, first byte, idle, total.
 *
 * At most one of the first three runs at a time, beside the total. Whichever
 * runs out calls `onTimeout` once, with its own error.
 */
export class Clocks {
  readonly #timeouts: Timeouts;
  readonly #onTimeout: (error: UpstreamTimeoutError) => void;
  readonly #total: NodeJS.Timeout;
  #current: NodeJS.Timeout;
  #idle = false;
  #paused = false;

  /** @param spentMs - what is gone of the total already: all attempts of a request share it */
  constructor(timeouts: Timeouts, spentMs: number, onTimeout: (error: UpstreamTimeoutError) => void) {
    this.#timeouts = timeouts;
    this.#onTimeout = onTimeout;
    this.#total = this.#start('total', timeouts.totalMs, timeouts.totalMs - spentMs);
    this.#current = this.#start('connect', timeouts.connectMs);
  }

  /** The connection stands; the wait for the answer's head goes on. */
  connected(): void {
    if (this.#idle) return;
    clearTimeout(this.#current);
    this.#current = this.#start('first_byte', this.#timeouts.firstByteMs);
  }

  /** The answer's head is here; from now on silence counts. */
  answered(): void {
    clearTimeout(this.#current);
    this.#idle = true;
    this.#current = this.#start('idle', this.#timeouts.idleMs);
  }

  /** Bytes came, or are awaited again. */
  touch(): void {
    if (this.#paused) {
      this.#paused = false;
      this.#current = this.#start('idle', this.#timeouts.idleMs);
    } else {
      this.#current.refresh();
    }
  }

  /** Nothing is awaited: the client doesn't read. */
  pause(): void {
    this.#paused = true;
    clearTimeout(this.#current);
  }

  stop(): void {
    clearTimeout(this.#current);
    clearTimeout(this.#total);
  }

  #start(clock: 'connect' | 'first_byte' | 'idle' | 'total', ms: number, leftMs = ms): NodeJS.Timeout {
    return setTimeout(() => {
      this.stop();
      this.#onTimeout(new UpstreamTimeoutError(clock, ms));
    }, leftMs);
  }
}
