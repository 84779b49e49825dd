import { Timeout } from '../async/timeout.ts';
import { UpstreamTimeoutError } from '../errors/upstream-errors.ts';
import type { Timeouts } from '../options/resolve-options.ts';
import type { Sending } from './transport/transport.ts';

/** The four timeouts of one attempt: connect, first byte, idle, total.
 *
 * At most one of the first three runs at a time, besides the total. The one that
 * expires aborts the attempt, with its own error.
 *
 * One timer serves them all. It is set for the earliest deadline, and stays when
 * that deadline moves away, as it does with each chunk: when it fires, it checks
 * again. So most requests set one timer in all.
 */
export class AttemptTimeouts {
  readonly #timeouts: Timeouts;
  readonly #attempt: Pick<Sending, 'abort'>;
  readonly #startedAt = performance.now();
  /** Deadlines are whole ms since the start: small integers, which V8 doesn't allocate. */
  readonly #totalAt: number;
  #phase: 'connect' | 'first_byte' | 'idle' = 'connect';
  #phaseEndsAt = NEVER;
  /** When the timer fires, unless the event loop is blocked. */
  #timerAt = NEVER;
  #timer: Timeout | undefined;
  #isStopped = false;

  /** @param spentMs - time already used of the total, which all sendings of a request share */
  constructor(timeouts: Timeouts, spentMs: number, attempt: Pick<Sending, 'abort'>) {
    this.#timeouts = timeouts;
    this.#attempt = attempt;
    this.#totalAt = Math.max(0, Math.ceil(timeouts.totalMs - spentMs));
    this.#phaseEndsAt = Math.ceil(timeouts.connectMs);
    this.#setTimer(0);
  }

  /** The connection is established; the wait for the answer's head begins. */
  connected(): void {
    if (this.#phase === 'connect') this.#start('first_byte', this.#timeouts.firstByteMs);
  }

  /** The answer's head arrived; from now on the idle timeout runs. */
  answered(): void {
    this.#start('idle', this.#timeouts.idleMs);
  }

  /** Bytes arrived, or reading resumed. */
  touch(): void {
    this.#start('idle', this.#timeouts.idleMs);
  }

  /** Stops the idle timeout while the client doesn't read. */
  pause(): void {
    this.#phaseEndsAt = NEVER;
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.clear();
  }

  #start(phase: 'first_byte' | 'idle', ms: number): void {
    if (this.#isStopped) return;
    const now = this.#now();
    this.#phase = phase;
    this.#phaseEndsAt = now + Math.ceil(ms);
    if (this.#phaseEndsAt < this.#timerAt) this.#setTimer(now);
  }

  /** Rounded down, so that no timeout expires early. */
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

  #expire(timeout: 'connect' | 'first_byte' | 'idle' | 'total'): void {
    this.stop();
    this.#attempt.abort(new UpstreamTimeoutError(timeout, this.#timeouts[OPTIONS[timeout]]));
  }
}

/** The largest small integer. */
const NEVER = 2 ** 31 - 1;

const OPTIONS = {
  connect: 'connectMs',
  first_byte: 'firstByteMs',
  idle: 'idleMs',
  total: 'totalMs',
} as const;
