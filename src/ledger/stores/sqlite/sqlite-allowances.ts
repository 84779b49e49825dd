import type { AllowanceRow } from '../../engine/account-rows.ts';
import { valuesOf } from './sqlite-columns.ts';
import { ALLOWANCE } from './sqlite-rows.ts';
import type { Sql } from './sqlite-schema.ts';

/** The allowances of an account, in the order in which they were created. Each change is written at once. */
export class SqliteAllowances {
  readonly #sql: Sql;
  readonly #account: bigint;
  #rows: readonly AllowanceRow[] | undefined;

  constructor(sql: Sql, account: bigint) {
    this.#sql = sql;
    this.#account = account;
  }

  get size(): number {
    return this.#rows?.length ?? 0;
  }

  all(): readonly AllowanceRow[] {
    this.#rows ??= this.#sql(ROWS).all(this.#account).map(ALLOWANCE.read);
    return this.#rows;
  }

  save(row: AllowanceRow): void {
    const rows = this.all();
    if (!rows.includes(row)) this.#rows = [...rows, row];
    this.#sql(SAVE).run(this.#account, ...valuesOf(ALLOWANCE, row));
  }

  delete(row: AllowanceRow): void {
    this.#rows = this.all().filter((each) => each !== row);
    this.#sql(DELETE).run(this.#account, row.id);
  }
}

const ROWS = `SELECT ${ALLOWANCE.names.join(', ')} FROM allowances WHERE account = ? ORDER BY position`;
const SAVE = `
  INSERT INTO allowances (account, ${ALLOWANCE.names.join(', ')})
  VALUES (?${', ?'.repeat(ALLOWANCE.names.length)})
  ON CONFLICT (account, id) DO UPDATE SET ${ALLOWANCE.names.map((name) => `${name} = excluded.${name}`).join(', ')}`;
const DELETE = 'DELETE FROM allowances WHERE account = ? AND id = ?';
