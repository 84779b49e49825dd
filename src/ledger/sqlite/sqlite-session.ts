import { setTimeout } from 'node:timers/promises';
import { StoreUnavailable } from '../ledger.ts';
import { isBusy, joinFile, leaveFile, type Mode, type SqliteFile, transact } from './sqlite-file.ts';
import type { Database, Sql } from './sqlite-schema.ts';

/** How long a command waits for other processes, counted in its pauses: this process may have been busy in between. */
const PATIENCE_MS = 250;
const LONGEST_PAUSE_MS = 16;

/** Variables by which hosts tell that a process may be one of many, on a disk that doesn't last. */
const SERVERLESS = ['VERCEL', 'AWS_LAMBDA_FUNCTION_NAME', 'K_SERVICE'];

/**
 * A store's use of a ledger file: opened by the first transaction that succeeds
 * in it, until `close`.
 *
 * A transaction that finds the file busy is tried again, without stopping the
 * event loop. All that can go wrong is a StoreUnavailable, whose cause names the file.
 */
export class SqliteSession {
  readonly #path: string;
  readonly #open: (path: string) => Database;
  readonly #allowServerless: boolean;
  readonly #onOpen: ((path: string) => void) | undefined;
  readonly #waiting = new Set<Promise<unknown>>();
  #file: SqliteFile | undefined;
  #closed = false;

  constructor(options: {
    readonly path: string;
    readonly open: (path: string) => Database;
    readonly allowServerless: boolean;
    readonly onOpen?: ((path: string) => void) | undefined;
  }) {
    this.#path = options.path;
    this.#open = options.open;
    this.#allowServerless = options.allowServerless;
    this.#onOpen = options.onOpen;
  }

  /** Runs `work` in a transaction of its own: at once, where no other process has the file. */
  async run<T>(mode: Mode, work: (sql: Sql) => T): Promise<T> {
    if (this.#closed) throw this.#unavailable(new Error('the store is closed'));
    try {
      return this.#try(mode, work);
    } catch (error) {
      if (!isBusy(error)) throw this.#unavailable(error);
    }
    const waiting = this.#tryAgain(mode, work);
    this.#waiting.add(waiting);
    try {
      return await waiting;
    } finally {
      this.#waiting.delete(waiting);
    }
  }

  /** Pauses ever longer, and never as long as another who waits. */
  async #tryAgain<T>(mode: Mode, work: (sql: Sql) => T): Promise<T> {
    let left = PATIENCE_MS;
    for (let longest = 1; ; longest = Math.min(2 * longest, LONGEST_PAUSE_MS)) {
      const pause = longest * (0.5 + Math.random());
      left -= pause;
      await setTimeout(pause);
      try {
        return this.#try(mode, work);
      } catch (error) {
        if (!isBusy(error) || left <= 0) throw this.#unavailable(error);
      }
    }
  }

  #try<T>(mode: Mode, work: (sql: Sql) => T): T {
    this.#file ??= this.#join();
    return transact(this.#file, mode, work);
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
  #unavailable(error: unknown): StoreUnavailable {
    const [applied, reason] =
      error instanceof StoreUnavailable ? [error.applied, error.cause] : (['no', error] as const);
    const message = reason instanceof Error ? reason.message : String(reason);
    const code = reason instanceof Error && 'code' in reason ? { code: reason.code } : {};
    const cause = Object.assign(new Error(`${this.#path}: ${message}`, { cause: reason }), code);
    return new StoreUnavailable(applied, { cause });
  }

  /** Waits for the transactions that are under way, and refuses later ones. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#waiting);
    const file = this.#file;
    this.#file = undefined;
    if (file) leaveFile(file);
  }
}
