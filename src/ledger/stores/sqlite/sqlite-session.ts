import { setTimeout } from 'node:timers/promises';
import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { joinFile, leaveFile, type SqliteFile } from './sqlite-file.ts';
import type { Database, Sql } from './sqlite-schema.ts';
import { isBusy, type Mode, transact } from './sqlite-transaction.ts';

/** Pauses before the file is opened or read again, where another process has all of it. */
const MAX_PAUSE_MS = 16;

/** Variables by which hosts tell that a process may be one of many, on a disk that doesn't last. */
const SERVERLESS = ['VERCEL', 'AWS_LAMBDA_FUNCTION_NAME', 'K_SERVICE'];

/**
 * A store's use of a ledger file: opened by the first transaction that succeeds
 * in it, until `close`.
 *
 * A transaction that finds the file busy waits for it, without stopping the
 * event loop. All that can go wrong is a StoreUnavailableError, whose cause names the file.
 */
export class SqliteSession {
  readonly #path: string;
  readonly #open: (path: string) => Database;
  readonly #allowServerless: boolean;
  readonly #onOpen: ((path: string) => void) | undefined;
  readonly #timeoutMs: number;
  readonly #running = new Set<Promise<unknown>>();
  #file: SqliteFile | undefined;
  #closed = false;

  constructor(options: {
    readonly path: string;
    readonly open: (path: string) => Database;
    readonly allowServerless: boolean;
    readonly onOpen?: ((path: string) => void) | undefined;
    readonly timeoutMs: number;
  }) {
    this.#path = options.path;
    this.#open = options.open;
    this.#allowServerless = options.allowServerless;
    this.#onOpen = options.onOpen;
    this.#timeoutMs = options.timeoutMs;
  }

  /**
   * Runs `work` in a transaction of its own: at once, where no other process has the file.
   *
   * @param patienceMs - how long it waits for other processes, if not as long as always
   */
  async run<T>(mode: Mode, work: (sql: Sql) => T, patienceMs: number = this.#timeoutMs): Promise<T> {
    if (this.#closed) throw this.#unavailable(new Error('the store is closed'));
    const running = this.#run(mode, work, Math.min(patienceMs, this.#timeoutMs));
    this.#running.add(running);
    try {
      return await running;
    } catch (error) {
      throw this.#unavailable(error);
    } finally {
      this.#running.delete(running);
    }
  }

  async #run<T>(mode: Mode, work: (sql: Sql) => T, patienceMs: number): Promise<T> {
    const joined = this.#file ?? retryWhileBusy(() => (this.#file ??= this.#join()), patienceMs);
    // What needs not wait goes on in this turn, before what comes after it.
    const file = joined instanceof Promise ? await joined : joined;
    if (mode !== 'read') return file.queue.run(mode, work, patienceMs);
    return retryWhileBusy(() => transact(file, mode, work), patienceMs);
  }

  #join(): SqliteFile {
    const { NEXT_PHASE } = process.env;
    if (NEXT_PHASE === 'phase-production-build') {
      throw new Error('no ledger is opened during next build: credits are for requests at run time');
    }
    const host = SERVERLESS.find((name) => process.env[name]);
    if (host && !this.#allowServerless) {
      const message = `store_not_shared: where ${host} is set, instances have disks of their own that end with them; use Redis, or allowServerless if this file lasts and is shared`;
      throw Object.assign(new Error(message), { code: 'store_not_shared' });
    }
    const file = joinFile(this.#path, this.#open);
    this.#onOpen?.(this.#path);
    return file;
  }

  /** The one error that a store throws, with the file named in its cause. */
  #unavailable(error: unknown): StoreUnavailableError {
    const [applied, reason] =
      error instanceof StoreUnavailableError ? [error.applied, error.cause] : (['no', error] as const);
    const message = reason instanceof Error ? reason.message : String(reason);
    const code = reason instanceof Error && 'code' in reason ? { code: reason.code } : {};
    const cause = Object.assign(new Error(`${this.#path}: ${message}`, { cause: reason }), code);
    return new StoreUnavailableError(applied, { cause });
  }

  /** Waits for the transactions that are under way, and refuses later ones. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#running);
    const file = this.#file;
    this.#file = undefined;
    if (file) leaveFile(file);
  }
}

/** Tries at once, and then after pauses that are ever longer, and never as long as another process's. */
function retryWhileBusy<T>(work: () => T, patienceMs: number): T | Promise<T> {
  try {
    return work();
  } catch (error) {
    if (!isBusy(error)) throw error;
    return retryWithBackoff(work, patienceMs);
  }
}

async function retryWithBackoff<T>(work: () => T, patienceMs: number): Promise<T> {
  let left = patienceMs;
  for (let longest = 1; ; longest = Math.min(2 * longest, MAX_PAUSE_MS)) {
    const pause = longest * (0.5 + Math.random());
    left -= pause;
    await setTimeout(pause);
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || left <= 0) throw error;
    }
  }
}
