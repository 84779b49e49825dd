import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import type { SqliteLine } from './sqlite-line.ts';
import type { Sql } from './sqlite-schema.ts';
import {
  runInSavepoint,
  type Failure,
  isBusy,
  type Mode,
  type SqliteHandle,
  transact,
  TransactionLostError,
} from './sqlite-transaction.ts';

/** Maximum turn with the file: on busy cores, a process with longer turns is often preempted while it holds the lock. */
const TURN_MS = 1;
const PAUSE_MS = 1;
/** A longer pause counts as this long: the rest of it this process itself was busy. */
const MAX_COUNTED_PAUSE_MS = 20;
/** How long a process retries before it enters the line. */
const MAX_BUSY_MS = 100;
/** After this time the line is ignored until it is empty: a process in it may be suspended. */
const MAX_YIELD_MS = 250;

interface QueuedWork {
  readonly mode: Mode;
  readonly work: (sql: Sql) => void;
  /** Called once, with the failure if there was one. */
  readonly settle: (failure: Failure | undefined) => void;
  /** Given up once the total of the queue's pauses reaches this, in ms. */
  readonly until: number;
}

/**
 * The writes of this process to a ledger file, in order.
 *
 * A write that finds the file free runs at once. The others wait, and are committed together in one transaction, each in
 * its own savepoint: a failed one rolls back only its own changes. The file is retried every ms, and with each new write;
 * after a while without success the process enters the line, and all other processes yield to it.
 */
export class SqliteQueue {
  readonly #handle: SqliteHandle;
  readonly #line: SqliteLine;
  #waiting: QueuedWork[] = [];
  #isDraining = false;
  /** How long this turn of the event loop has used the file, in ms; undefined if not at all. */
  #usedMs: number | undefined;
  /** Total of all pauses, in ms. */
  #pausedMs = 0;
  /** `#pausedMs` when the file was last available, or nothing waited. */
  #busySince = 0;
  /** `#pausedMs` when the current line was first seen. */
  #lineSince: number | undefined;

  constructor(handle: SqliteHandle, line: SqliteLine) {
    this.#handle = handle;
    this.#line = line;
  }

  /**
   * Runs `work` in a transaction: at once, if the file is free.
   *
   * @param maxWaitMs - how long to wait for other processes
   * @throws what `transact` throws, or an Error when the file stayed busy
   */
  async run<T>(mode: Mode, work: (sql: Sql) => T, maxWaitMs: number): Promise<T> {
    const mayGo = !this.#isTurnOver() && !this.#mustYield();
    if (mayGo && this.#waiting.length === 0) {
      try {
        return this.#use(() => transact(this.#handle, mode, work));
      } catch (error) {
        if (!isBusy(error)) throw error;
      }
    }
    const done = this.#wait(mode, work, maxWaitMs);
    if (mayGo && this.#waiting.length > 1) this.#commit();
    if (!this.#isDraining) void this.#drain(mayGo);
    return done;
  }

  #wait<T>(mode: Mode, work: (sql: Sql) => T, maxWaitMs: number): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let succeed: () => void;
      this.#waiting.push({
        mode,
        work: (sql) => {
          const result = work(sql);
          succeed = () => {
            resolve(result);
          };
        },
        settle: (failure) => {
          if (failure) reject(failure.error);
          else succeed();
        },
        until: this.#pausedMs + maxWaitMs,
      });
    });
  }

  /** Commits waiting writes until none is left. */
  async #drain(isTaken: boolean): Promise<void> {
    this.#isDraining = true;
    this.#busySince = this.#pausedMs;
    while (this.#waiting.length > 0) {
      await (isTaken ? this.#pause() : nextTurn());
      isTaken = !this.#isTurnOver() && (this.#mustYield() || !this.#commit());
      if (isTaken) this.#failOverdue();
    }
    this.#line.leave();
    this.#isDraining = false;
  }

  async #pause(): Promise<void> {
    const startedAt = performance.now();
    await pause(PAUSE_MS);
    this.#pausedMs += Math.min(performance.now() - startedAt, MAX_COUNTED_PAUSE_MS);
  }

  /** Whether other processes are in line; checked once per turn of the event loop. */
  #mustYield(): boolean {
    if (this.#usedMs !== undefined || this.#line.isWaiting) return false;
    if (!this.#line.hasWaiters) {
      this.#lineSince = undefined;
      return false;
    }
    this.#lineSince ??= this.#pausedMs;
    return this.#pausedMs - this.#lineSince < MAX_YIELD_MS;
  }

  #isTurnOver(): boolean {
    return this.#usedMs !== undefined && this.#usedMs >= TURN_MS;
  }

  #use<T>(work: () => T): T {
    if (this.#usedMs === undefined) {
      this.#usedMs = 0;
      setImmediate(() => (this.#usedMs = undefined));
    }
    const startedAt = performance.now();
    try {
      return work();
    } finally {
      this.#usedMs += performance.now() - startedAt;
    }
  }

  /** Commits the first waiting writes, as many as fit in a turn. Returns whether the file was free. */
  #commit(): boolean {
    try {
      const failures = this.#use(() => this.#commitFirst());
      this.#line.leave();
      this.#busySince = this.#pausedMs;
      const done = this.#waiting.splice(0, failures.length);
      for (const [n, { settle }] of done.entries()) settle(failures[n]);
      return true;
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (this.#pausedMs - this.#busySince >= MAX_BUSY_MS) this.#line.enter();
      return false;
    }
  }

  /**
   * Commits the first writes of the same durability.
   *
   * @returns for each processed write its failure, or undefined
   * @throws SQLITE_BUSY when the file is busy
   */
  #commitFirst(): (Failure | undefined)[] {
    const [first, second] = this.#waiting;
    if (!first) return [];
    const isDurable = first.mode === 'durable';
    if (!second || (second.mode === 'durable') !== isDurable) return [this.#commitAlone(first)];
    const endsAt = performance.now() + TURN_MS;
    const failures: (Failure | undefined)[] = [];
    try {
      transact(this.#handle, isDurable ? 'durable' : 'write', (sql) => {
        for (const { mode, work } of this.#waiting) {
          if ((mode === 'durable') !== isDurable) return;
          failures.push(runInSavepoint(sql, mode, work));
          if (performance.now() >= endsAt) return;
        }
      });
      return failures;
    } catch (error) {
      if (isBusy(error)) throw error;
      // Then commit one by one, so that only the writes fail for which there is no space.
      if (error instanceof TransactionLostError) return [this.#commitAlone(first)];
      return this.#waiting.slice(0, Math.max(1, failures.length)).map(() => ({ error }));
    }
  }

  #commitAlone({ mode, work }: QueuedWork): Failure | undefined {
    try {
      transact(this.#handle, mode, work);
      return undefined;
    } catch (error) {
      if (isBusy(error)) throw error;
      return { error };
    }
  }

  /** Fails the writes that have waited too long. */
  #failOverdue(): void {
    const late = this.#waiting.filter(({ until }) => until <= this.#pausedMs);
    this.#waiting = this.#waiting.filter(({ until }) => until > this.#pausedMs);
    for (const { settle } of late) {
      settle({ error: new Error('the file is locked by other processes') });
    }
  }
}
