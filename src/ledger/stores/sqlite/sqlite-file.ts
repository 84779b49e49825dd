import { readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { createPrivateFile } from './private-file.ts';
import { integer, text } from './sqlite-columns.ts';
import { SqliteLine } from './sqlite-line.ts';
import { SqliteQueue } from './sqlite-queue.ts';
import {
  APPLICATION_ID,
  type Database,
  SCHEMA,
  SCHEMA_VERSION,
  type Sql,
  type Statement,
} from './sqlite-schema.ts';
import { type SqliteHandle, transact } from './sqlite-transaction.ts';

/** An open ledger file, with all stores of this process that use it. */
export interface SqliteFile extends SqliteHandle {
  readonly path: string;
  readonly line: SqliteLine;
  /** All that is written to it. */
  readonly queue: SqliteQueue;
  users: number;
}

/**
 * Opens a file, or joins those who have it open: one handle for each real path.
 *
 * Bundlers load a module twice, once for routes and once for pages; both must
 * find the same handles, which is why these are on `globalThis`.
 *
 * @throws what `open` throws, or an Error when the file isn't a ledger that this code can use
 */
export function joinFile(path: string, open: (path: string) => Database): SqliteFile {
  const real = realPath(path);
  const files = sharedFiles();
  let file = files.get(real);
  if (!file) {
    file = openFile(real, open);
    files.set(real, file);
  }
  file.users += 1;
  return file;
}

/** Closes the file if nobody else has it open. */
export function leaveFile(file: SqliteFile): void {
  file.users -= 1;
  if (file.users > 0) return;
  sharedFiles().delete(file.path);
  file.line.close();
  file.database.close();
}

function openFile(path: string, open: (path: string) => Database): SqliteFile {
  const size = settledSize(path);
  createPrivateFile(path);
  const database = open(path);
  try {
    // Waiting in SQLite would stop the event loop: who finds the file busy tries again later.
    database.exec('PRAGMA busy_timeout = 0');
    const sql = statements(database);
    const version = versionOf(sql, path);
    // Of a shorter file than its header says, SQLite sees only that whole pages are missing.
    if (size % Number(integer(sql('PRAGMA page_size').get() ?? {}, 'page_size')) !== 0) {
      throw new Error(`${path} is damaged: its end is cut off`);
    }
    // Only now that the file is known not to be another's.
    const mode = sql('PRAGMA journal_mode = WAL').get() ?? {};
    if (text(mode, 'journal_mode') !== 'wal') {
      throw new Error(`${path} can't have a write-ahead log: its disk must be a local one`);
    }
    database.exec('PRAGMA synchronous = NORMAL');
    if (version === 0n) makeTables({ database, sql }, path);
    const line = new SqliteLine(path, open);
    return { path, database, sql, line, queue: new SqliteQueue({ database, sql }, line), users: 0 };
  } catch (error) {
    database.close();
    throw error;
  }
}

/** The file's size in bytes; 0 where that says nothing, because there is a log to complete it from. */
function settledSize(path: string): number {
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false });
  return log?.size ? 0 : (statSync(path, { throwIfNoEntry: false })?.size ?? 0);
}

/** Makes the tables of a file that has none. */
function makeTables(handle: SqliteHandle, path: string): void {
  transact(handle, 'durable', (sql) => {
    // Another process may have come first.
    if (versionOf(sql, path) === 0n) handle.database.exec(SCHEMA);
  });
}

/**
 * Of which version the ledger in a file is; 0 where there is nothing in it yet.
 *
 * @throws when there is something that isn't a ledger, or one of another version
 */
function versionOf(sql: Sql, path: string): bigint {
  const application = integer(sql('PRAGMA application_id').get() ?? {}, 'application_id');
  const version = integer(sql('PRAGMA user_version').get() ?? {}, 'user_version');
  if (application === APPLICATION_ID) {
    if (version === SCHEMA_VERSION) return version;
    throw new Error(
      `${path} is a ledger of version ${version}, and this release only knows version ${SCHEMA_VERSION}`,
    );
  }
  const tables = integer(sql('SELECT count(*) AS count FROM sqlite_schema').get() ?? {}, 'count');
  if (application === 0n && version === 0n && tables === 0n) return 0n;
  throw new Error(`${path} is a SQLite file, but not a ledger: it belongs to something else`);
}

function statements(database: Database): Sql {
  const prepared = new Map<string, Statement>();
  return (text) => {
    let statement = prepared.get(text);
    if (!statement) {
      statement = database.prepare(text);
      statement.setReadBigInts(true);
      prepared.set(text, statement);
    }
    return statement;
  };
}

/** The same for all names of a file, whether it exists yet or only its folder. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const target = isMissing(error) ? linkTarget(path) : undefined;
    return target === undefined ? join(realpathSync(dirname(path)), basename(path)) : realPath(target);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Where a link points to that stands in place of a file which doesn't exist yet. */
function linkTarget(path: string): string | undefined {
  try {
    return resolve(dirname(path), readlinkSync(path));
  } catch {
    return undefined;
  }
}

function sharedFiles(): Map<string, SqliteFile> {
  const found: Map<string, SqliteFile> | undefined = Reflect.get(globalThis, SHARED);
  if (found) return found;
  const files = new Map<string, SqliteFile>();
  Reflect.set(globalThis, SHARED, files);
  return files;
}

/** Ends with numbers, of which one changes with `SqliteFile` and one is the schema's: releases that differ share nothing. */
const SHARED = Symbol.for(`chat-completions-router.sqlite.1.${SCHEMA_VERSION}`);
