import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import type { Database, Sql } from './sqlite-schema.ts';

/** A file's database, and its statements. */
export interface SqliteHandle {
  readonly database: Database;
  readonly sql: Sql;
}

/**
 * How much a transaction is worth. `write` survives the death of the process at
 * any moment, and is on the disk by the next checkpoint; `durable` is on the
 * disk when it returns, and all before it with it; a `rehearsal` is a write that is rolled back.
 */
export type Mode = 'read' | 'write' | 'durable' | 'rehearsal';

/**
 * Runs `work` in one transaction, from begin to commit without a turn of the event loop.
 *
 * @throws {StoreUnavailableError} `unknown` when it was the commit that failed
 * @throws what went wrong before that; nothing was changed then
 */
export function transact<T>({ database, sql }: SqliteHandle, mode: Mode, work: (sql: Sql) => T): T {
  // The level can't be changed inside a transaction, but it can between two: a
  // commit at FULL then syncs the whole WAL, with what earlier commits left unsynced.
  // It is of the handle, and nobody else can use that before this returns.
  if (mode === 'durable') database.exec('PRAGMA synchronous = FULL');
  try {
    sql(mode === 'read' ? 'BEGIN' : 'BEGIN IMMEDIATE').run();
    let result: T;
    try {
      result = work(sql);
    } catch (error) {
      rollBack(sql);
      throw error;
    }
    try {
      sql(mode === 'rehearsal' ? 'ROLLBACK' : 'COMMIT').run();
    } catch (cause) {
      rollBack(sql);
      throw new StoreUnavailableError(mode === 'read' ? 'no' : 'unknown', { cause });
    }
    return result;
  } finally {
    if (mode === 'durable') database.exec('PRAGMA synchronous = NORMAL');
  }
}

/**
 * Runs `work` as a part of a transaction: if it fails, what it changed is taken back, and nothing else.
 *
 * @returns why it failed, if it did
 * @throws {TransactionLostError} if SQLite has given up all of the transaction, as it may when the disk is full
 */
export function runInSavepoint(sql: Sql, mode: Mode, work: (sql: Sql) => void): Failure | undefined {
  sql('SAVEPOINT command').run();
  let failure: Failure | undefined;
  try {
    work(sql);
  } catch (error) {
    failure = { error };
  }
  try {
    if (failure || mode === 'rehearsal') sql('ROLLBACK TO command').run();
    sql('RELEASE command').run();
  } catch (cause) {
    throw new TransactionLostError('the transaction was given up', { cause });
  }
  return failure;
}

export interface Failure {
  readonly error: unknown;
}

export class TransactionLostError extends Error {
  override readonly name = 'TransactionLost';
}

/** Whether another process has the file just now. */
export function isBusy(error: unknown): boolean {
  // Extended codes have the plain one in their lowest byte.
  return error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY;
}

const SQLITE_BUSY = 5;

function rollBack(sql: Sql): void {
  try {
    sql('ROLLBACK').run();
  } catch {
    // The failure that brought us here has ended the transaction already.
  }
}
