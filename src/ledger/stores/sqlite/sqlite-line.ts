import { existsSync, statSync } from 'node:fs';
import { createPrivateFile } from './private-file.ts';
import type { Database } from './sqlite-schema.ts';
import { isBusy } from './sqlite-transaction.ts';

/**
 * The waiting line of processes that repeatedly found a ledger file busy: shared locks on an empty file beside it.
 *
 * Each process in line holds a shared lock, which ends with the process. While there is any such lock, no other process
 * starts a turn with the ledger, so each process in line gets a turn before any process gets a second one. A short wait
 * doesn't use the line: on busy cores all would then wait for the process that the scheduler runs last.
 */
export class SqliteLine {
  readonly #ledger: string;
  readonly #path: string;
  readonly #openDatabase: (path: string) => Database;
  #database: Database | undefined;
  #isWaiting = false;

  /** @param path - path of the ledger file */
  constructor(path: string, openDatabase: (path: string) => Database) {
    this.#ledger = path;
    this.#path = `${path}-line`;
    this.#openDatabase = openDatabase;
  }

  /** Whether this process is in line. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Whether any process is in line. Only valid while this one isn't. */
  get hasWaiters(): boolean {
    if (!this.#database && !existsSync(this.#path)) return false;
    try {
      this.#open().exec('BEGIN EXCLUSIVE; ROLLBACK');
      return false;
    } catch (error) {
      return isBusy(error);
    }
  }

  /** Enters the line. May fail while another process reads `hasWaiters`; then the caller waits without a place in line. */
  enter(): void {
    if (this.#isWaiting) return;
    try {
      const database = this.#open();
      database.exec('BEGIN');
      this.#isWaiting = true;
      // A transaction takes its lock with its first read.
      database.exec('PRAGMA schema_version');
    } catch {
      this.leave();
    }
  }

  /** Never throws: the caller's commit is done. */
  leave(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    try {
      this.#database?.exec('ROLLBACK');
    } catch {
      // Its lock ends with it.
      this.close();
    }
  }

  close(): void {
    this.#database?.close();
    this.#database = undefined;
    this.#isWaiting = false;
  }

  #open(): Database {
    if (this.#database) return this.#database;
    // The same permissions as the ledger.
    createPrivateFile(this.#path, statSync(this.#ledger).mode & 0o777);
    const database = this.#openDatabase(this.#path);
    this.#database = database;
    // With a journal on disk, each `hasWaiters` would write a file.
    database.exec('PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY');
    return database;
  }
}
