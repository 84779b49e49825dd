import { setImmediate } from 'node:timers/promises';

import {
  type RequestLogPage,
  type RequestLogRow,
  type RequestLogStore,
  TRIM_STEP,
} from '../../contract/request-log.ts';
import { text } from './sqlite-columns.ts';
import type { Row, Sql } from './sqlite-schema.ts';
import type { SqliteSession } from './sqlite-session.ts';

/** After all ids. */
const END = '~';
/** Rows that are counted in one turn of the event loop: less than a millisecond. */
const COUNT_STEP = 1000;

/** A request log in the ledger file, in a table of its own. */
export class SqliteRequestLog implements RequestLogStore {
  readonly #session: SqliteSession;

  constructor(session: SqliteSession) {
    this.#session = session;
  }

  async append(rows: readonly RequestLogRow[]): Promise<void> {
    await this.#session.write('write', ({ sql }) => appendRows(sql, rows));
  }

  async find(id: string): Promise<RequestLogRow | undefined> {
    return this.#session.read((sql) => findRow(sql, id));
  }

  async page(query: RequestLogPage): Promise<readonly RequestLogRow[]> {
    return this.#session.read((sql) => pageOfRows(sql, query));
  }

  async trim(before: string, max: number): Promise<number> {
    const surplus = await this.#newestSurplus(max);
    return this.#session.write('write', ({ sql }) => trimRows(sql, before, surplus));
  }

  /** The newest row that is beyond the number of rows to keep. Rows are counted without a lock, and some in each turn of the event loop. */
  async #newestSurplus(max: number): Promise<string | undefined> {
    const nth = (from: string, n: number): Promise<string | undefined> =>
      this.#session.read((sql) => nthBefore(sql, from, n));
    let oldest: string | undefined = END;
    for (let left = max; left > 0 && oldest !== undefined; left -= COUNT_STEP) {
      oldest = await nth(oldest, Math.min(left, COUNT_STEP));
      await setImmediate();
    }
    return oldest === undefined ? undefined : nth(oldest, 1);
  }

  async forget(account: string, before: string = END): Promise<void> {
    let forgotten: number;
    do {
      forgotten = await this.#session.write('write', ({ sql }) => forgetRows(sql, account, before));
      await setImmediate();
    } while (forgotten === TRIM_STEP);
  }
}

/** Each statement once, for a rehearsal. */
export function rehearseRequestLog(sql: Sql, account: string): void {
  const row = { id: account, account, json: '{}' };
  const all = { from: '', before: '~', limit: 1 };
  appendRows(sql, [row, row]);
  findRow(sql, account);
  pageOfRows(sql, all);
  pageOfRows(sql, { ...all, account });
  nthBefore(sql, END, 1);
  trimRows(sql, '', undefined);
  trimRows(sql, '', '');
  forgetRows(sql, account, '~');
}

function appendRows(sql: Sql, rows: readonly RequestLogRow[]): void {
  for (const { id, account, json } of rows) sql(SAVE).run(id, account, json);
}

function findRow(sql: Sql, id: string): RequestLogRow | undefined {
  const row = sql(FIND).get(id);
  return row && rowOf(row);
}

function pageOfRows(sql: Sql, { account, from, before, limit }: RequestLogPage): readonly RequestLogRow[] {
  const rows =
    account === undefined
      ? sql(PAGE).all(from, before, limit)
      : sql(PAGE_OF_ACCOUNT).all(account, from, before, limit);
  return rows.map(rowOf);
}

/** The nth newest of the rows before an id; undefined if there are fewer. */
function nthBefore(sql: Sql, before: string, n: number): string | undefined {
  const row = sql(NTH_BEFORE).get(before, n - 1);
  return row && text(row, 'id');
}

/** @param surplus - the newest row that is beyond the number of rows to keep */
function trimRows(sql: Sql, before: string, surplus: string | undefined): number {
  return surplus !== undefined && surplus >= before
    ? sql(TRIM_INCLUDING).all(surplus, TRIM_STEP).length
    : sql(TRIM).all(before, TRIM_STEP).length;
}

/** Returns how many rows are gone, at most a step. */
function forgetRows(sql: Sql, account: string, before: string): number {
  return sql(FORGET).all(account, before, TRIM_STEP).length;
}

function rowOf(row: Row): RequestLogRow {
  return { id: text(row, 'id'), account: text(row, 'account'), json: text(row, 'json') };
}

const SAVE = `INSERT INTO request_log (id, account, json) VALUES (?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET account = excluded.account, json = excluded.json`;
const FIND = 'SELECT id, account, json FROM request_log WHERE id = ?';
const PAGE = 'SELECT id, account, json FROM request_log WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?';
const PAGE_OF_ACCOUNT = `SELECT id, account, json FROM request_log
  WHERE account = ? AND id >= ? AND id < ? ORDER BY id DESC LIMIT ?`;
const NTH_BEFORE = 'SELECT id FROM request_log WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?';
const TRIM = `DELETE FROM request_log
  WHERE id IN (SELECT id FROM request_log WHERE id < ? ORDER BY id LIMIT ?) RETURNING id`;
const TRIM_INCLUDING = TRIM.replace('id < ?', 'id <= ?');
const FORGET = `DELETE FROM request_log
  WHERE id IN (SELECT id FROM request_log WHERE account = ? AND id < ? ORDER BY id LIMIT ?) RETURNING id`;
