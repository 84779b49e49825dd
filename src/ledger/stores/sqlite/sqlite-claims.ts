import { CLAIM_SLACK_MS } from '../../contract/ledger-store.ts';
import { number } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/** Claims a name until `leaseMs` from now, unless it is claimed; 0 ends its claim. Returns when it was claimed first. */
export function claim(sql: Sql, name: string, now: number, leaseMs: number): number | undefined {
  if (leaseMs === 0) {
    sql(END).run(name);
    return undefined;
  }
  const claimed = sql(SAVE).get(name, now, now + leaseMs);
  return claimed && number(claimed, 'since');
}

const END = 'DELETE FROM claims WHERE id = ?';
const SAVE = `INSERT INTO claims (id, since, until) VALUES (?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET until = excluded.until
  WHERE until <= excluded.since OR until > excluded.until + ${CLAIM_SLACK_MS} RETURNING since`;
