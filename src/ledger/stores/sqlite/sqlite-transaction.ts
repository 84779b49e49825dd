import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import type { Database, Sql } from './sqlite-schema.ts';

/** The database of a file, and its prepared statements. */
export interface SqliteHandle {
  readonly database: Database;
  readonly sql: Sql;
}

/**
 * Durability of a transaction. A `write` survives a crash of the process, and is
 * on the disk by the next checkpoint; a `durable` write is on the disk when it
 * returns, with all earlier ones; a `rehearsal` is a write that is rolled back.
 */
export type Mode = 'read' | WriteMode;
export type WriteMode = 'write' | 'durable' | 'rehearsal';

/**
 * Runs `work` in one transaction, synchronously from begin to commit.
 *
 * @throws {StoreUnavailableError} `unknown` when the commit failed
 * @throws any earlier error; nothing was changed then
 */
export function transact<T>({ database, sql }: SqliteHandle, mode: Mode, work: (sql: Sql) => T): T {
  // The level can only be changed outside a transaction. A commit at FULL syncs the
  // whole WAL, including earlier unsynced commits. The level belongs to the handle,
  // which has no other user until this returns.
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

/** Whether the error means that another process locks the file. */
export function isBusy(error: unknown): boolean {
  // The lowest byte of an extended code is the primary code.
  return error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY;
}

const SQLITE_BUSY = 5;

function rollBack(sql: Sql): void {
  try {
    sql('ROLLBACK').run();
  } catch {
    // The original failure has already ended the transaction.
  }
}

/** A commit at FULL is on the disk, with all earlier ones: those may be of a process that has crashed since. */
export function durable<Reply extends { readonly code: string }>(
  reply: Reply,
): Reply & { readonly durable?: boolean } {
  return reply.code === 'ok' ? { ...reply, durable: true } : reply;
}
