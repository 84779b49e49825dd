import { Timeout } from '../async/timeout.ts';
import { UpstreamTimeoutError } from '../errors/upstream-errors.ts';
import type { Timeouts } from '../options/resolve-options.ts';

/**
 * The four clocks of one attempt: connect, first byte, idle, total.
 *
 * At most one of the first three runs at a time, beside the total. Whichever
 * runs out calls `onTimeout` once, with its own error.
 *
 * One timeout serves them all. It is set for the deadline that comes first, and
 * stays when that moves away, as it does with each chunk: when it is over it
 * looks again, and so most requests set one in all.
 */
export class AttemptTimeouts {
  readonly #timeouts: Timeouts;
  readonly #onTimeout: (error: UpstreamTimeoutError) => void;
  readonly #startedAt = performance.now();
  /** Deadlines are in whole ms since the start: small integers, which are not allocated. */
  readonly #totalAt: number;
  #clock: 'connect' | 'first_byte' | 'idle' = 'connect';
  #clockAt = NEVER;
  /** When the timeout is over, unless this process stalls. */
  #timeoutAt = NEVER;
  #timeout: Timeout | undefined;
  #over = false;

  /** @param spentMs - what is gone of the total already: all attempts of a request share it */
  constructor(timeouts: Timeouts, spentMs: number, onTimeout: (error: UpstreamTimeoutError) => void) {
    this.#timeouts = timeouts;
    this.#onTimeout = onTimeout;
    this.#totalAt = Math.max(0, Math.ceil(timeouts.totalMs - spentMs));
    this.#clockAt = Math.ceil(timeouts.connectMs);
    this.#wait(0);
  }

  /** The connection stands; the wait for the answer's head goes on. */
  connected(): void {
    if (this.#clock === 'connect') this.#start('first_byte', this.#timeouts.firstByteMs);
  }

  /** The answer's head is here; from now on silence counts. */
  answered(): void {
    this.#start('idle', this.#timeouts.idleMs);
  }

  /** Bytes came, or are awaited again. */
  touch(): void {
    this.#start('idle', this.#timeouts.idleMs);
  }

  /** Nothing is awaited: the client doesn't read. */
  pause(): void {
    this.#clockAt = NEVER;
  }

  stop(): void {
    this.#over = true;
    this.#timeout?.clear();
  }

  #start(clock: 'first_byte' | 'idle', ms: number): void {
    if (this.#over) return;
    const now = this.#now();
    this.#clock = clock;
    this.#clockAt = now + Math.ceil(ms);
    if (this.#clockAt < this.#timeoutAt) this.#wait(now);
  }

  /** Rounded down, so that no clock runs out early. */
  #now(): number {
    return Math.trunc(performance.now() - this.#startedAt);
  }

  #wait(now: number): void {
    this.#timeout?.clear();
    this.#timeoutAt = Math.min(this.#clockAt, this.#totalAt);
    this.#timeout = new Timeout(this.#timeoutAt - now, this.#judge);
  }

  readonly #judge = (): void => {
    const now = this.#now();
    if (now >= this.#clockAt) this.#runOut(this.#clock);
    else if (now >= this.#totalAt) this.#runOut('total');
    else this.#wait(now);
  };

  #runOut(clock: 'connect' | 'first_byte' | 'idle' | 'total'): void {
    this.stop();
    this.#onTimeout(new UpstreamTimeoutError(clock, this.#timeouts[OPTIONS[clock]]));
  }
}

/** As small integers end. */
const NEVER = 2 ** 31 - 1;

const OPTIONS = {
  connect: 'connectMs',
  first_byte: 'firstByteMs',
  idle: 'idleMs',
  total: 'totalMs',
} as const;
