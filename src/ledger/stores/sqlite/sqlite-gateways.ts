import { number, text } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/** Records that a gateway uses the file, until `leaseMs` from now; 0 removes it. */
export function announceGateway(sql: Sql, gateway: string, now: number, leaseMs: number): void {
  sql(FORGET).run(now, gateway);
  if (leaseMs > 0) sql(SAVE).run(gateway, now + leaseMs);
}

/** Gateway → ms until its lease ends. */
export function liveGateways(sql: Sql, now: number): ReadonlyMap<string, number> {
  const rows = sql(LIVE).all(now);
  return new Map(rows.map((row) => [text(row, 'id'), number(row, 'until') - now]));
}

const FORGET = 'DELETE FROM gateways WHERE until <= ? OR id = ?';
const SAVE = 'INSERT INTO gateways (id, until) VALUES (?, ?)';
const LIVE = 'SELECT id, until FROM gateways WHERE until > ?';
