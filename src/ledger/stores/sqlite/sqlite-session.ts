import { setTimeout } from 'node:timers/promises';
import { backoff } from '../../../async/backoff.ts';
import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { joinFile, leaveFile, type SqliteFile } from './sqlite-file.ts';
import type { Database, Sql } from './sqlite-schema.ts';
import { isBusy, type Mode, transact } from './sqlite-transaction.ts';

/** Backoff before a retry, when another process locks the whole file. */
const RETRY = { firstMs: 1.5, maxMs: 24 };

/** Environment variables of platforms where each instance has its own temporary disk. */
const SERVERLESS = ['VERCEL', 'AWS_LAMBDA_FUNCTION_NAME', 'K_SERVICE'];

/**
 * A store's access to a ledger file: opened lazily by the first transaction, until
 * `close`.
 *
 * A transaction that finds the file busy waits for it without blocking the event
 * loop. Every failure is a StoreUnavailableError, whose cause names the file.
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
   * Runs `work` in its own transaction: at once, if the file is free.
   *
   * @param maxWaitMs - how long to wait for other processes, at most the default
   */
  async run<T>(mode: Mode, work: (sql: Sql) => T, maxWaitMs: number = this.#timeoutMs): Promise<T> {
    if (this.#closed) throw this.#unavailable(new Error('the store is closed'));
    const running = this.#run(mode, work, Math.min(maxWaitMs, this.#timeoutMs));
    this.#running.add(running);
    try {
      return await running;
    } catch (error) {
      throw this.#unavailable(error);
    } finally {
      this.#running.delete(running);
    }
  }

  async #run<T>(mode: Mode, work: (sql: Sql) => T, maxWaitMs: number): Promise<T> {
    const joined = this.#file ?? retryWhileBusy(() => (this.#file ??= this.#join()), maxWaitMs);
    // No `await` if the file is open: the command then runs in this turn, before later ones.
    const file = joined instanceof Promise ? await joined : joined;
    if (mode !== 'read') return file.queue.run(mode, work, maxWaitMs);
    return retryWhileBusy(() => transact(file, mode, work), maxWaitMs);
  }

  #join(): SqliteFile {
    const { NEXT_PHASE } = process.env;
    if (NEXT_PHASE === 'phase-production-build') {
      throw new Error('the ledger is not opened during next build: it is only available at run time');
    }
    const host = SERVERLESS.find((name) => process.env[name]);
    if (host && !this.#allowServerless) {
      const message = `store_not_shared: ${host} is set, so each instance has its own temporary disk; use Redis, or set allowServerless if this file is on a persistent, shared disk`;
      throw Object.assign(new Error(message), { code: 'store_not_shared' });
    }
    const file = joinFile(this.#path, this.#open);
    this.#onOpen?.(this.#path);
    return file;
  }

  /** Wraps any error as a StoreUnavailableError whose cause names the file. */
  #unavailable(error: unknown): StoreUnavailableError {
    const [applied, reason] =
      error instanceof StoreUnavailableError ? [error.applied, error.cause] : (['no', error] as const);
    const message = reason instanceof Error ? reason.message : String(reason);
    const code = reason instanceof Error && 'code' in reason ? { code: reason.code } : {};
    const cause = Object.assign(new Error(`${this.#path}: ${message}`, { cause: reason }), code);
    return new StoreUnavailableError(applied, { cause });
  }

  /** Waits for running transactions, and refuses later ones. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#running);
    const file = this.#file;
    this.#file = undefined;
    if (file) leaveFile(file);
  }
}

/** Tries at once, then with exponential backoff and jitter. */
function retryWhileBusy<T>(work: () => T, maxWaitMs: number): T | Promise<T> {
  try {
    return work();
  } catch (error) {
    if (!isBusy(error)) throw error;
    return retryWithBackoff(work, maxWaitMs);
  }
}

async function retryWithBackoff<T>(work: () => T, maxWaitMs: number): Promise<T> {
  let left = maxWaitMs;
  for (let retries = 0; ; retries++) {
    const delayMs = backoff(retries, RETRY);
    left -= delayMs;
    await setTimeout(delayMs);
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || left <= 0) throw error;
    }
  }
}
