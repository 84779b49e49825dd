import type { DimensionRows } from '../../engine/account-rows.ts';
import { addCounts, type Mutable } from '../../engine/usage-counters.ts';
import type { DimensionRow } from '../../contract/ledger-store.ts';
import { integer, valuesOf } from './sqlite-columns.ts';
import { DIMENSION_USAGE, USAGE_COUNTS } from './sqlite-rows.ts';
import type { Sql } from './sqlite-schema.ts';

/** Usage rows of an account by dimension. What the commands of a transaction add is written by `save`. */
export class SqliteDimensions implements DimensionRows {
  readonly #sql: Sql;
  readonly #account: bigint;
  /** Counts that are not in the file yet, by day, dimension and value. Replaced once they are, as in SqliteAccounts. */
  #counts = new Map<string, Mutable<DimensionRow>>();
  /** "day dimension" -> how many values have a row, as far as looked up. */
  readonly #values = new Map<string, number>();

  constructor(sql: Sql, account: bigint) {
    this.#sql = sql;
    this.#account = account;
  }

  has(day: string, dimension: string, value: string): boolean {
    if (this.#counts.has(`${day} ${dimension} ${value}`)) return true;
    return this.#sql(HAS).get(this.#account, day, dimension, value) !== undefined;
  }

  values(day: string, dimension: string): number {
    const place = `${day} ${dimension}`;
    let values = this.#values.get(place);
    if (values === undefined) {
      this.save();
      values = Number(integer(this.#sql(VALUES).get(this.#account, day, dimension) ?? {}, 'count'));
      this.#values.set(place, values);
    }
    return values;
  }

  count(usage: DimensionRow): void {
    const { day, dimension, value } = usage;
    const counts = this.#counts.get(`${day} ${dimension} ${value}`);
    if (counts) {
      addCounts(counts, usage);
      return;
    }
    if (!this.has(day, dimension, value)) {
      this.#values.set(`${day} ${dimension}`, this.values(day, dimension) + 1);
    }
    this.#counts.set(`${day} ${dimension} ${value}`, { ...usage });
  }

  save(): void {
    if (this.#counts.size === 0) return;
    for (const usage of this.#counts.values()) {
      this.#sql(COUNT).run(this.#account, ...valuesOf(DIMENSION_USAGE, usage));
    }
    this.#counts = new Map();
  }

  compact(beforeDay: string): void {
    this.save();
    this.#values.clear();
    this.#sql(DELETE).run(this.#account, beforeDay);
  }

  /** The first rows of a range of days, or those after one, as saved, as many as take 2 ms. */
  page(dimension: string, fromDay: string, toDay: string, after?: DimensionRow): DimensionRow[] {
    const place = after ? [after.day, dimension, after.value] : [fromDay, '', ''];
    return this.#sql(PAGE)
      .all(this.#account, dimension, toDay, ...place)
      .map(DIMENSION_USAGE.read);
  }

  /** As saved. */
  all(): DimensionRow[] {
    return this.#sql(ALL).all(this.#account).map(DIMENSION_USAGE.read);
  }
}

const ALL = 'SELECT * FROM usage_by_dimension WHERE account = ?';
const PAGE = `${ALL} AND dimension = ? AND day <= ? AND (day, dimension, value) > (?, ?, ?)
  ORDER BY day, dimension, value LIMIT 500`;
const HAS = `${ALL} AND day = ? AND dimension = ? AND value = ?`;
const VALUES =
  'SELECT count(*) AS count FROM usage_by_dimension WHERE account = ? AND day = ? AND dimension = ?';
const DELETE = 'DELETE FROM usage_by_dimension WHERE account = ? AND day < ?';
const COUNT = `
  INSERT INTO usage_by_dimension (account, ${DIMENSION_USAGE.names.join(', ')})
  VALUES (?${', ?'.repeat(DIMENSION_USAGE.names.length)})
  ON CONFLICT DO UPDATE SET ${USAGE_COUNTS.names.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`;
