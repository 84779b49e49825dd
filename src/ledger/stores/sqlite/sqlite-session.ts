import { setImmediate, setTimeout } from 'node:timers/promises';
import { backoff } from '../../../async/backoff.ts';
import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { checkTimeout } from '../../engine/check-timeout.ts';
import type { SqliteAccounts } from './sqlite-accounts.ts';
import { joinFile, leaveFile, type SqliteFile } from './sqlite-file.ts';
import type { Database, Sql } from './sqlite-schema.ts';
import { isBusy, transact, type WriteMode } from './sqlite-transaction.ts';

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
  #running = 0;
  /** Resolves when nothing runs any more. */
  #idle: PromiseWithResolvers<void> | undefined;
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
    this.#timeoutMs = checkTimeout(options.timeoutMs);
  }

  /** Runs `work` in a transaction of its own, at once. */
  async read<T>(work: (sql: Sql) => T): Promise<T> {
    return this.#track(this.#timeoutMs, (file) =>
      retryWhileBusy(() => transact(file, 'read', work), this.#timeoutMs),
    );
  }

  /** Reads page after page, each in a transaction and a turn of the event loop of its own, up to an empty one. */
  async readPages<Row>(page: (sql: Sql, after: Row | undefined) => readonly Row[]): Promise<Row[]> {
    const rows: Row[] = [];
    for (;;) {
      const next = await this.read((sql) => page(sql, rows.at(-1)));
      if (next.length === 0) return rows;
      rows.push(...next);
      await setImmediate();
    }
  }

  /**
   * Runs `work` in a transaction at the end of this turn of the event loop, in order with other writes.
   *
   * @param maxWaitMs - how long to wait for other processes, at most the default
   */
  async write<T>(
    mode: WriteMode,
    work: (accounts: SqliteAccounts) => T,
    maxWaitMs: number = this.#timeoutMs,
  ): Promise<T> {
    const waitMs = Math.min(maxWaitMs, this.#timeoutMs);
    return this.#track(waitMs, (file) => file.queue.run(mode, work, waitMs));
  }

  async #track<T>(waitMs: number, run: (file: SqliteFile) => T | Promise<T>): Promise<T> {
    if (this.#closed) throw this.#unavailable(new Error('the store is closed'));
    this.#running += 1;
    try {
      const joined = this.#file ?? retryWhileBusy(() => (this.#file ??= this.#join()), waitMs);
      // No `await` if the file is open: commands run in the order in which they were called.
      return await (joined instanceof Promise ? joined.then(run) : run(joined));
    } catch (error) {
      throw this.#unavailable(error);
    } finally {
      this.#running -= 1;
      if (this.#running === 0) this.#idle?.resolve();
    }
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
    if (this.#running > 0) {
      this.#idle ??= Promise.withResolvers();
      await this.#idle.promise;
    }
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
