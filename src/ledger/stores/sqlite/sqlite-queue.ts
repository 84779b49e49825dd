import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { SqliteAccounts } from './sqlite-accounts.ts';
import type { SqliteLine } from './sqlite-line.ts';
import { isBusy, type SqliteHandle, transact, type WriteMode } from './sqlite-transaction.ts';

/** How long a transaction takes on further writes: on busy cores, a process that holds the lock for longer is often preempted. */
const HOLD_MS = 1;
const PAUSE_MS = 1;
/** A longer pause counts as this long: the rest of it this process itself was busy. */
const MAX_COUNTED_PAUSE_MS = 20;
/** How long a process retries before it enters the line. */
const MAX_BUSY_MS = 100;
/** After this time the line is ignored until it is empty: a process in it may be suspended. */
const MAX_YIELD_MS = 250;

/**
 * The writes of this process to a ledger file, in order.
 *
 * The writes of one turn of the event loop are committed at its end, together as far as they fit in `HOLD_MS`, and each is
 * answered after its commit. If one of them fails, all are rolled back and then committed one by one. A busy file is retried every ms, and in each turn
 * with new writes; after a while without success the process enters the line, and all other processes yield to it.
 */
export class SqliteQueue {
  readonly #handle: SqliteHandle;
  readonly #line: SqliteLine;
  readonly #accounts: SqliteAccounts;
  #waiting: QueuedWork[] = [];
  /** How many of the first writes are committed one by one. */
  #separate = 0;
  #isScheduled = false;
  #isPausing = false;
  /** Total of all pauses, in ms. */
  #pausedMs = 0;
  /** `#pausedMs` when the file was last available, or nothing waited. */
  #busySince = 0;
  /** `#pausedMs` when the current line was first seen. */
  #lineSince: number | undefined;

  constructor(handle: SqliteHandle, line: SqliteLine) {
    this.#handle = handle;
    this.#line = line;
    this.#accounts = new SqliteAccounts(handle.sql);
  }

  /**
   * Runs `work` in a transaction, which it may share with others. It runs again if that is rolled back.
   *
   * @param maxWaitMs - how long to wait for other processes
   * @throws what `transact` throws, or an Error when the file stayed busy
   */
  run<T>(mode: WriteMode, work: (accounts: SqliteAccounts) => T, maxWaitMs: number): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let result: T;
      if (this.#waiting.length === 0) this.#busySince = this.#pausedMs;
      this.#waiting.push({
        mode,
        work: (accounts) => {
          result = work(accounts);
        },
        succeed: () => {
          resolve(result);
        },
        fail: reject,
        until: this.#pausedMs + maxWaitMs,
      });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#endTurn);
  }

  /** The end of a turn of the event loop. */
  readonly #endTurn = (): void => {
    this.#isScheduled = false;
    this.#tryCommit();
  };

  #pause(): void {
    if (this.#isPausing) return;
    this.#isPausing = true;
    const startedAt = performance.now();
    setTimeout(() => {
      this.#isPausing = false;
      this.#pausedMs += Math.min(performance.now() - startedAt, MAX_COUNTED_PAUSE_MS);
      this.#tryCommit();
    }, PAUSE_MS);
  }

  #tryCommit(): void {
    if (this.#waiting.length === 0) return;
    const wasFree = !this.#mustYield() && this.#commit();
    if (!wasFree) this.#failOverdue();
    if (this.#waiting.length === 0) this.#line.leave();
    else if (wasFree) this.#schedule();
    else this.#pause();
  }

  /** Whether other processes are in line. */
  #mustYield(): boolean {
    if (this.#line.isWaiting) return false;
    if (!this.#line.hasWaiters) {
      this.#lineSince = undefined;
      return false;
    }
    this.#lineSince ??= this.#pausedMs;
    return this.#pausedMs - this.#lineSince < MAX_YIELD_MS;
  }

  /** Commits the first waiting writes, as many as fit in a turn. Returns whether the file was free. */
  #commit(): boolean {
    const group: QueuedWork[] = [];
    let failure: { readonly error: unknown } | undefined;
    try {
      this.#transact(group);
    } catch (error) {
      this.#accounts.clear();
      if (isBusy(error)) {
        if (this.#pausedMs - this.#busySince >= MAX_BUSY_MS) this.#line.enter();
        return false;
      }
      failure = { error };
    }
    this.#line.leave();
    this.#busySince = this.#pausedMs;
    if (failure && group.length > 1 && !(failure.error instanceof StoreUnavailableError)) {
      // Nothing was committed. One by one, only those fail that have to.
      this.#separate = group.length;
      return true;
    }
    // None is in the group where the transaction couldn't begin: the first write gets the error.
    const done = this.#waiting.splice(0, Math.max(1, group.length));
    this.#separate = Math.max(0, this.#separate - done.length);
    for (const each of done) {
      if (failure) each.fail(failure.error);
      else each.succeed();
    }
    return true;
  }

  /** Runs the first writes of the same durability in one transaction, and adds them to `group`. */
  #transact(group: QueuedWork[]): void {
    const [first] = this.#waiting;
    if (!first) return;
    const { mode } = first;
    const isAlone = this.#separate > 0 || mode === 'rehearsal';
    const accounts = this.#accounts;
    const endsAt = performance.now() + HOLD_MS;
    transact(this.#handle, mode, () => {
      accounts.begin();
      for (const each of this.#waiting) {
        if (each.mode !== mode) break;
        group.push(each);
        each.work(accounts);
        if (isAlone || performance.now() >= endsAt) break;
      }
      accounts.save();
    });
    if (mode === 'rehearsal') accounts.clear();
    else accounts.keep();
  }

  /** Fails the writes that have waited too long. */
  #failOverdue(): void {
    const late = this.#waiting.filter(({ until }) => until <= this.#pausedMs);
    if (late.length === 0) return;
    this.#waiting = this.#waiting.filter(({ until }) => until > this.#pausedMs);
    for (const { fail } of late) fail(new Error('the file is locked by other processes'));
  }
}

interface QueuedWork {
  readonly mode: WriteMode;
  readonly work: (accounts: SqliteAccounts) => void;
  /** Answers the caller, after the commit. */
  readonly succeed: () => void;
  readonly fail: (error: unknown) => void;
  /** Given up once the total of the queue's pauses reaches this, in ms. */
  readonly until: number;
}
