import { existsSync, statSync } from 'node:fs';
import { createPrivateFile } from './private-file.ts';
import type { Database } from './sqlite-schema.ts';
import { isBusy } from './sqlite-transaction.ts';

/**
 * The line in which processes stand that found a ledger file taken again and again: the locks of an empty file beside it.
 *
 * Each that stands there shares a lock, which ends with its process. While there is such a lock, no other process begins
 * a turn with the ledger: so each that stands in line has its turn before any process has a second one. It isn't for
 * every wait, because on busy cores all would then wait for the one that the scheduler lets run last.
 */
export class SqliteLine {
  readonly #ledger: string;
  readonly #path: string;
  readonly #openDatabase: (path: string) => Database;
  #database: Database | undefined;
  #isWaiting = false;

  /** @param path - of the ledger */
  constructor(path: string, openDatabase: (path: string) => Database) {
    this.#ledger = path;
    this.#path = `${path}-line`;
    this.#openDatabase = openDatabase;
  }

  /** This process stands in line. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Whether any process stands in line. To be asked by one that doesn't. */
  get hasWaiters(): boolean {
    if (!this.#database && !existsSync(this.#path)) return false;
    try {
      this.#open().exec('BEGIN EXCLUSIVE; ROLLBACK');
      return false;
    } catch (error) {
      return isBusy(error);
    }
  }

  /** Without a place, because another process is asking just now, one waits all the same. */
  enter(): void {
    if (this.#isWaiting) return;
    try {
      const database = this.#open();
      database.exec('BEGIN');
      this.#isWaiting = true;
      // A transaction has its lock from its first reading on.
      database.exec('PRAGMA schema_version');
    } catch {
      this.leave();
    }
  }

  leave(): void {
    if (this.#isWaiting) this.#database?.exec('ROLLBACK');
    this.#isWaiting = false;
  }

  close(): void {
    this.#database?.close();
    this.#database = undefined;
    this.#isWaiting = false;
  }

  #open(): Database {
    if (this.#database) return this.#database;
    // Who may use the ledger stands in its line.
    createPrivateFile(this.#path, statSync(this.#ledger).mode & 0o777);
    const database = this.#openDatabase(this.#path);
    this.#database = database;
    // Without a journal in memory, each look would make one on the disk.
    database.exec('PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY');
    return database;
  }
}
