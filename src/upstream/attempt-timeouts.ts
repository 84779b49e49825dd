import { Deadline, type TimerWheel } from '../async/timer-wheel.ts';
import { UpstreamTimeoutError } from '../errors/upstream-errors.ts';
import type { Timeouts } from '../options/resolve-options.ts';
import type { Sending } from './transport/transport.ts';

/** The four timeouts of one attempt: connect, first byte, idle, total.
 *
 * At most one of the first three runs at a time, besides the total. The one that
 * expires aborts the attempt, with its own error.
 *
 * One deadline of the wheel serves them all. It is set for the earliest of them, and
 * stays when that moves away, as it does with each chunk: when it is reached, it is
 * checked again. So most requests set it once.
 */
export class AttemptTimeouts extends Deadline {
  readonly #wheel: TimerWheel;
  readonly #timeouts: Timeouts;
  readonly #attempt: Pick<Sending, 'abort'>;
  readonly #startedAt = performance.now();
  /** Deadlines are whole ms since the start: small integers, which V8 doesn't allocate. */
  readonly #totalAt: number;
  #phase: 'connect' | 'first_byte' | 'idle' = 'connect';
  #phaseEndsAt = NEVER;
  /** The time that the wheel was set for. */
  #setFor = NEVER;
  #lastTurn: NodeJS.Immediate | undefined;
  #isStopped = false;

  /** @param spentMs - time already used of the total, which all sendings of a request share */
  constructor(timeouts: Timeouts, spentMs: number, attempt: Pick<Sending, 'abort'>, wheel: TimerWheel) {
    super();
    this.#wheel = wheel;
    this.#timeouts = timeouts;
    this.#attempt = attempt;
    this.#totalAt = Math.max(0, Math.ceil(timeouts.totalMs - spentMs));
    this.#phaseEndsAt = Math.ceil(timeouts.connectMs);
    this.#set(0);
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
    this.#wheel.clear(this);
    clearImmediate(this.#lastTurn);
  }

  #start(phase: 'first_byte' | 'idle', ms: number): void {
    if (this.#isStopped) return;
    const now = this.#now();
    this.#phase = phase;
    this.#phaseEndsAt = now + Math.ceil(ms);
    if (this.#phaseEndsAt < this.#setFor) this.#set(now);
  }

  /** Rounded down, so that no timeout expires early. */
  #now(): number {
    return Math.trunc(performance.now() - this.#startedAt);
  }

  #set(now: number): void {
    this.#setFor = Math.min(this.#phaseEndsAt, this.#totalAt);
    this.#wheel.set(this, this.#setFor - now);
  }

  override get isWait(): boolean {
    return true;
  }

  /** Lets the sockets be read once more. */
  override reached(): void {
    this.#lastTurn = setImmediate(() => {
      this.#judge();
    });
  }

  #judge(): void {
    const now = this.#now();
    if (now >= this.#phaseEndsAt) this.#expire(this.#phase);
    else if (now >= this.#totalAt) this.#expire('total');
    else this.#set(now);
  }

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
