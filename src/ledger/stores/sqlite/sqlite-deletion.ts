import type { DeletedAccount } from '../../contract/account-changes.ts';
import { RETENTION_MS } from '../../engine/retention.ts';
import {
  type Columns,
  columnsOf,
  integer,
  integerIn,
  number,
  numberIn,
  textIn,
  valuesOf,
} from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/** Tables with rows of accounts. */
const TABLES = [
  'requests',
  'keys',
  'end_users',
  'lots',
  'allowances',
  'fingerprints',
  'journal',
  'usage',
  'usage_by_dimension',
];

const DELETED: Columns<DeletedAccount> = columnsOf<DeletedAccount>({
  id: textIn('id'),
  deletedAt: numberIn('deleted_at'),
  granted: integerIn('granted'),
  available: integerIn('available'),
  spent: integerIn('spent'),
  expired: integerIn('expired'),
  writtenOff: integerIn('written_off'),
});

/** Deletes all rows of an account, and records its sums and, for a day, that it was deleted. */
export function deleteRows(sql: Sql, account: bigint, deleted: DeletedAccount): void {
  sql(REMEMBER).run(deleted.deletedAt, account);
  for (const table of TABLES) sql(`DELETE FROM ${table} WHERE account = ?`).run(account);
  sql('DELETE FROM accounts WHERE id = ?').run(account);
  sql(INSERT).run(...valuesOf(DELETED, deleted));
}

/** When an account was deleted, if it was within a day. */
export function deletionTime(sql: Sql, name: string): number | undefined {
  const row = sql(DELETION).get(name);
  return row && number(row, 'at');
}

/** Forgets which accounts were deleted more than a day ago. */
export function forgetDeletions(sql: Sql, now: number): void {
  sql(FORGET).run(now - RETENTION_MS);
}

/** How many requests of an account run. */
export function runningRequests(sql: Sql, account: bigint): number {
  return Number(integer(sql(RUNNING).get(account) ?? {}, 'count'));
}

export function deletedAccounts(sql: Sql): DeletedAccount[] {
  return sql(ALL).all().map(DELETED.read);
}

const RUNNING = "SELECT count(*) AS count FROM requests WHERE account = ? AND state = 'held'";
const ALL = `SELECT ${DELETED.names.join(', ')} FROM deleted_accounts`;
const INSERT = `
  INSERT INTO deleted_accounts (${DELETED.names.join(', ')}) VALUES (?${', ?'.repeat(DELETED.names.length - 1)})`;
const REMEMBER = `
  INSERT INTO deletions (name, at) SELECT name, ? FROM accounts WHERE id = ?
  ON CONFLICT DO UPDATE SET at = excluded.at`;
const DELETION = 'SELECT at FROM deletions WHERE name = ?';
const FORGET = 'DELETE FROM deletions WHERE at <= ?';
