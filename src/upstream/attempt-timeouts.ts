import { Timeout } from '../async/timeout.ts';
import { UpstreamTimeoutError } from '../errors/errors.ts';
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
  #phase: 'connect' | 'first_byte' | 'idle' = 'connect';
  #phaseEndsAt = NEVER;
  /** When the timeout is over, unless this process stalls. */
  #timerAt = NEVER;
  #timer: Timeout | undefined;
  #isStopped = false;

  /** @param spentMs - what is gone of the total already: all attempts of a request share it */
  constructor(timeouts: Timeouts, spentMs: number, onTimeout: (error: UpstreamTimeoutError) => void) {
    this.#timeouts = timeouts;
    this.#onTimeout = onTimeout;
    this.#totalAt = Math.max(0, Math.ceil(timeouts.totalMs - spentMs));
    this.#phaseEndsAt = Math.ceil(timeouts.connectMs);
    this.#setTimer(0);
  }

  /** The connection stands; the wait for the answer's head goes on. */
  connected(): void {
    if (this.#phase === 'connect') this.#start('first_byte', this.#timeouts.firstByteMs);
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
    this.#phaseEndsAt = NEVER;
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.clear();
  }

  #start(clock: 'first_byte' | 'idle', ms: number): void {
    if (this.#isStopped) return;
    const now = this.#now();
    this.#phase = clock;
    this.#phaseEndsAt = now + Math.ceil(ms);
    if (this.#phaseEndsAt < this.#timerAt) this.#setTimer(now);
  }

  /** Rounded down, so that no clock runs out early. */
  #now(): number {
    return Math.trunc(performance.now() - this.#startedAt);
  }

  #setTimer(now: number): void {
    this.#timer?.clear();
    this.#timerAt = Math.min(this.#phaseEndsAt, this.#totalAt);
    this.#timer = new Timeout(this.#timerAt - now, this.#onTimer);
  }

  readonly #onTimer = (): void => {
    const now = this.#now();
    if (now >= this.#phaseEndsAt) this.#expire(this.#phase);
    else if (now >= this.#totalAt) this.#expire('total');
    else this.#setTimer(now);
  };

  #expire(clock: 'connect' | 'first_byte' | 'idle' | 'total'): void {
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
