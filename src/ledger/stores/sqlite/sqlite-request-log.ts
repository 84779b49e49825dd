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

/** A request log in the ledger file, in a table of its own that is made when it is first used. */
export class SqliteRequestLog implements RequestLogStore {
  readonly #session: SqliteSession;
  #hasTable = false;

  constructor(session: SqliteSession) {
    this.#session = session;
  }

  async append(rows: readonly RequestLogRow[]): Promise<void> {
    await this.#write((sql) => {
      for (const { id, account, json } of rows) sql(SAVE).run(id, account, json);
    });
  }

  async find(id: string): Promise<RequestLogRow | undefined> {
    const row = await this.#read((sql) => sql(FIND).get(id));
    return row && rowOf(row);
  }

  async page({ account, from, before, limit }: RequestLogPage): Promise<readonly RequestLogRow[]> {
    const rows = await this.#read((sql) =>
      account === undefined
        ? sql(PAGE).all(from, before, limit)
        : sql(PAGE_OF_ACCOUNT).all(account, from, before, limit),
    );
    return rows.map(rowOf);
  }

  async trim(before: string, max: number): Promise<number> {
    return this.#write((sql) => {
      const [newest] = sql(NEWEST_SURPLUS).all(max);
      const surplus = newest && text(newest, 'id');
      return surplus !== undefined && surplus >= before
        ? sql(TRIM_INCLUDING).all(surplus, TRIM_STEP).length
        : sql(TRIM).all(before, TRIM_STEP).length;
    });
  }

  async forget(account: string): Promise<void> {
    while ((await this.#write((sql) => sql(FORGET).all(account, TRIM_STEP).length)) === TRIM_STEP) {
      await setImmediate();
    }
  }

  async #read<T>(work: (sql: Sql) => T): Promise<T> {
    if (!this.#hasTable) await this.#write(() => {});
    return this.#session.read(work);
  }

  async #write<T>(work: (sql: Sql) => T): Promise<T> {
    const done = await this.#session.write('write', ({ sql }) => {
      if (!this.#hasTable) for (const statement of TABLE) sql(statement).run();
      return work(sql);
    });
    this.#hasTable = true;
    return done;
  }
}

function rowOf(row: Row): RequestLogRow {
  return { id: text(row, 'id'), account: text(row, 'account'), json: text(row, 'json') };
}

const TABLE = [
  `CREATE TABLE IF NOT EXISTS request_log (
  id                 TEXT    PRIMARY KEY,
  account            TEXT    NOT NULL,
  json               TEXT    NOT NULL
) STRICT`,
  'CREATE INDEX IF NOT EXISTS request_log_account ON request_log (account, id)',
];
const SAVE = `INSERT INTO request_log (id, account, json) VALUES (?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET account = excluded.account, json = excluded.json`;
const FIND = 'SELECT id, account, json FROM request_log WHERE id = ?';
const PAGE = 'SELECT id, account, json FROM request_log WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?';
const PAGE_OF_ACCOUNT = `SELECT id, account, json FROM request_log
  WHERE account = ? AND id >= ? AND id < ? ORDER BY id DESC LIMIT ?`;
/** The newest row that is beyond the number of rows to keep. */
const NEWEST_SURPLUS = 'SELECT id FROM request_log ORDER BY id DESC LIMIT 1 OFFSET ?';
const TRIM = `DELETE FROM request_log
  WHERE id IN (SELECT id FROM request_log WHERE id < ? ORDER BY id LIMIT ?) RETURNING id`;
const TRIM_INCLUDING = TRIM.replace('id < ?', 'id <= ?');
const FORGET = `DELETE FROM request_log
  WHERE id IN (SELECT id FROM request_log WHERE account = ? ORDER BY id LIMIT ?) RETURNING id`;
