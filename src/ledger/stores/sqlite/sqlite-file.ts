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

/** An open ledger file, shared by all stores of this process that use it. */
export interface SqliteFile extends SqliteHandle {
  readonly path: string;
  readonly line: SqliteLine;
  /** All writes to the file. */
  readonly queue: SqliteQueue;
  /** Reference count. */
  users: number;
}

/**
 * Opens a file, or shares its open handle: there is one handle per real path.
 *
 * Handles are on `globalThis`, because bundlers load this module twice, once for
 * routes and once for pages, and both must share them.
 *
 * @throws what `open` throws, or an Error when the file is not a usable ledger
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

/** Releases the file, and closes it if this was the last user. */
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
    // Waiting inside SQLite would block the event loop: callers retry when the file is busy.
    database.exec('PRAGMA busy_timeout = 0');
    const sql = statements(database);
    const version = versionOf(sql, path);
    // SQLite only notices missing whole pages, so check for a partial one.
    if (size % Number(integer(sql('PRAGMA page_size').get() ?? {}, 'page_size')) !== 0) {
      throw new Error(`${path} is damaged: it is truncated`);
    }
    // Only after the check that the file is not of another application.
    const mode = sql('PRAGMA journal_mode = WAL').get() ?? {};
    if (text(mode, 'journal_mode') !== 'wal') {
      throw new Error(`${path} doesn't support write-ahead logging: it must be on a local disk`);
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

/** The file's size in bytes; 0 where it means nothing, because a write-ahead log completes the file. */
function settledSize(path: string): number {
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false });
  return log?.size ? 0 : (statSync(path, { throwIfNoEntry: false })?.size ?? 0);
}

/** Creates the tables of an empty file. */
function makeTables(handle: SqliteHandle, path: string): void {
  transact(handle, 'durable', (sql) => {
    // Another process may have been first.
    if (versionOf(sql, path) === 0n) handle.database.exec(SCHEMA);
  });
}

/**
 * The schema version of a ledger file; 0 for an empty file.
 *
 * @throws when the file is not a ledger, or has another version
 */
function versionOf(sql: Sql, path: string): bigint {
  const application = integer(sql('PRAGMA application_id').get() ?? {}, 'application_id');
  const version = integer(sql('PRAGMA user_version').get() ?? {}, 'user_version');
  if (application === APPLICATION_ID) {
    if (version === SCHEMA_VERSION) return version;
    throw new Error(
      `${path} has ledger version ${version}; this release supports only version ${SCHEMA_VERSION}`,
    );
  }
  const tables = integer(sql('SELECT count(*) AS count FROM sqlite_schema').get() ?? {}, 'count');
  if (application === 0n && version === 0n && tables === 0n) return 0n;
  throw new Error(`${path} is a SQLite file of another application, not a ledger`);
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

/** One path for all names of a file. The file need not exist, but its directory must. */
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

/** The target of a symbolic link; undefined if the path is none. */
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

/** Ends with the version of `SqliteFile` and that of the schema, so that different releases share nothing. */
const SHARED = Symbol.for(`chat-completions-router.sqlite.2.${SCHEMA_VERSION}`);
