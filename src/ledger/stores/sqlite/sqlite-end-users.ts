import type { EndUserRow } from '../../engine/account-rows.ts';
import { integer, valuesOf } from './sqlite-columns.ts';
import { END_USER, KEY_STATE } from './sqlite-rows.ts';
import type { Sql } from './sqlite-schema.ts';

/** The end users of an account, read lazily. What was changed is written by `write`. */
export class SqliteEndUsers {
  readonly #sql: Sql;
  readonly #account: bigint;
  readonly #rows = new Map<string, EndUserRow>();
  /** Not saved yet. Replaced once they are, as in SqliteAccounts. */
  #changed = new Set<EndUserRow>();
  #count: number | undefined;

  constructor(sql: Sql, account: bigint) {
    this.#sql = sql;
    this.#account = account;
  }

  /** How many rows it keeps in memory. */
  get size(): number {
    return this.#rows.size;
  }

  find(id: string): EndUserRow | undefined {
    const known = this.#rows.get(id);
    if (known) return known;
    const columns = this.#sql(BY_ID).get(this.#account, id);
    if (!columns) return undefined;
    const row = END_USER.read(columns);
    this.#rows.set(id, row);
    return row;
  }

  count(): number {
    this.#count ??= Number(integer(this.#sql(COUNT).get(this.#account) ?? {}, 'count'));
    return this.#count;
  }

  save(row: EndUserRow): void {
    // A new one has been counted: `find` did not find it.
    if (this.#count !== undefined && !this.#rows.has(row.id)) this.#count += 1;
    this.#rows.set(row.id, row);
    this.#changed.add(row);
  }

  delete(row: EndUserRow): void {
    this.#rows.delete(row.id);
    this.#changed.delete(row);
    this.#sql(DELETE).run(this.#account, row.id);
    if (this.#count !== undefined) this.#count -= 1;
  }

  write(): void {
    if (this.#changed.size === 0) return;
    for (const row of this.#changed) this.#sql(SAVE).run(this.#account, ...valuesOf(END_USER, row));
    this.#changed = new Set();
  }

  /** Rows of whom nothing runs, after an id, in order, at most `most`. */
  idle(after: string, most: number): EndUserRow[] {
    this.write();
    return this.#sql(IDLE).all(this.#account, after, most).map(END_USER.read);
  }

  /** All rows, as written. */
  all(): EndUserRow[] {
    return this.#sql(ROWS).all(this.#account).map(END_USER.read);
  }
}

const ROWS = `SELECT ${END_USER.names.join(', ')} FROM end_users WHERE account = ?`;
const BY_ID = `${ROWS} AND id = ?`;
const IDLE = `${ROWS} AND id > ? AND running = 0 ORDER BY id LIMIT ?`;
const DELETE = 'DELETE FROM end_users WHERE account = ? AND id = ?';
const COUNT = 'SELECT count(*) AS count FROM end_users WHERE account = ?';
const SAVE = `INSERT INTO end_users (account, ${END_USER.names.join(', ')})
  VALUES (?${', ?'.repeat(END_USER.names.length)})
  ON CONFLICT DO UPDATE SET ${KEY_STATE.names.map((column) => `${column} = excluded.${column}`).join(', ')}`;
