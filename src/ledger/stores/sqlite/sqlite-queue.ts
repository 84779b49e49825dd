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

/** So long a process uses the file at a time: on busy cores, one that uses it for longer is often stopped while it has it. */
const TURN_MS = 1;
const PAUSE_MS = 1;
/** A longer pause counts as one of this length: in the rest of it this process was busy itself. */
const MAX_COUNTED_PAUSE_MS = 20;
/** So long a process tries before it stands in line. */
const MAX_BUSY_MS = 100;
/** A line that doesn't end may be of a process that is stopped. After so long it is ignored until it has ended. */
const MAX_YIELD_MS = 250;

interface QueuedWork {
  readonly mode: Mode;
  readonly work: (sql: Sql) => void;
  /** Told once what came of it: that nothing went wrong, or what did. */
  readonly settle: (failure: Failure | undefined) => void;
  /** It is given up once the queue has paused for so long in all, in ms. */
  readonly until: number;
}

/**
 * The writes of this process to a ledger file, in their order.
 *
 * One that finds the file free runs at once. Those that don't wait together, and are committed together: one that fails
 * takes back what it changed, and nothing of the others. The file is tried again every ms, and whenever another write
 * comes; a process that had no luck for a while stands in line, and all others leave the file to it.
 */
export class SqliteQueue {
  readonly #handle: SqliteHandle;
  readonly #line: SqliteLine;
  #waiting: QueuedWork[] = [];
  #isDraining = false;
  /** How long this turn of the event loop has used the file, in ms; undefined where it has not begun to. */
  #usedMs: number | undefined;
  /** Of all pauses together. */
  #pausedMs = 0;
  /** What that was when the file was had last, or nothing waited. */
  #busySince = 0;
  /** What that was when there was first a line, of those that don't end. */
  #lineSince: number | undefined;

  constructor(handle: SqliteHandle, line: SqliteLine) {
    this.#handle = handle;
    this.#line = line;
  }

  /**
   * Runs `work` in a transaction: at once, where the file is free.
   *
   * @param patienceMs - how long it waits for other processes
   * @throws what `transact` throws, or an Error when the file wasn't had in time
   */
  async run<T>(mode: Mode, work: (sql: Sql) => T, patienceMs: number): Promise<T> {
    const mayGo = !this.#isTurnOver() && !this.#mustYield();
    if (mayGo && this.#waiting.length === 0) {
      try {
        return this.#use(() => transact(this.#handle, mode, work));
      } catch (error) {
        if (!isBusy(error)) throw error;
      }
    }
    const done = this.#wait(mode, work, patienceMs);
    if (mayGo && this.#waiting.length > 1) this.#commit();
    if (!this.#isDraining) void this.#drain(mayGo);
    return done;
  }

  #wait<T>(mode: Mode, work: (sql: Sql) => T, patienceMs: number): Promise<T> {
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
        until: this.#pausedMs + patienceMs,
      });
    });
  }

  /** Commits what waits, until nothing does. */
  async #drain(isTaken: boolean): Promise<void> {
    this.#isDraining = true;
    this.#busySince = this.#pausedMs;
    while (this.#waiting.length > 0) {
      await (isTaken ? this.#pause() : nextTurn());
      isTaken = !this.#isTurnOver() && (this.#mustYield() || !this.#commit());
      if (isTaken) this.#giveUp();
    }
    this.#line.leave();
    this.#isDraining = false;
  }

  async #pause(): Promise<void> {
    const startedAt = performance.now();
    await pause(PAUSE_MS);
    this.#pausedMs += Math.min(performance.now() - startedAt, MAX_COUNTED_PAUSE_MS);
  }

  /** Whether other processes stand in line, asked once in a turn of the event loop. */
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

  /** Commits the first that wait, as many as a turn is long enough for. Says whether the file was free. */
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
   * Commits what is to be on the disk apart from the rest.
   *
   * @returns of each that was committed, or failed, why it failed
   * @throws that the file is busy
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
      // One after another then, so that only those are refused for which there is no room.
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

  /** Of those that have waited for long enough. */
  #giveUp(): void {
    const late = this.#waiting.filter(({ until }) => until <= this.#pausedMs);
    this.#waiting = this.#waiting.filter(({ until }) => until > this.#pausedMs);
    for (const { settle } of late) {
      settle({ error: new Error('the file is locked: other processes have had it all the time') });
    }
  }
}
