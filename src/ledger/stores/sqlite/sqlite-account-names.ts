import { text } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/** A page of account names after the given one, in order; empty after the last. */
export function accountNames(sql: Sql, after: string): string[] {
  return sql(NAMES)
    .all(after)
    .map((row) => text(row, 'name'));
}

/** Like `accountNames`, only accounts that a sweep would change. */
export function overdueAccounts(sql: Sql, after: string, now: number): string[] {
  return sql(OVERDUE_NAMES)
    .all(after, now, now, now)
    .map((row) => text(row, 'name'));
}

const NAMES = 'SELECT name FROM accounts WHERE name > ? ORDER BY name LIMIT 500';
const OVERDUE_NAMES = `
  SELECT name FROM accounts WHERE name > ? AND (
    next_expiry <= ?
    OR EXISTS (SELECT 1 FROM requests WHERE account = accounts.id AND state = 'held' AND due <= ?)
    OR EXISTS (SELECT 1 FROM requests WHERE account = accounts.id AND state <> 'held' AND due <= ?)
    OR (granted <> available + held + spent + expired AND NOT frozen)
  ) ORDER BY name LIMIT 500`;
