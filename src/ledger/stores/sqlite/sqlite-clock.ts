import type { ClockReading, ClockSteps } from '../../engine/clock-steps.ts';
import type { SqliteAccounts } from './sqlite-accounts.ts';
import { number } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/**
 * Moves all leases by the step that the wall clock made since the last reading of any process. Call it in the transaction
 * that uses leases, before anything else.
 */
export function followClock(accounts: SqliteAccounts, steps: ClockSteps | undefined, now: number): void {
  if (!steps) return;
  const { sql } = accounts;
  accounts.clockReading ??= lastReading(sql);
  const { step, reading } = steps.observe(now, accounts.clockReading);
  if (step !== 0) {
    accounts.forget();
    sql(MOVE_LEASES).run(step);
  }
  if (!reading) return;
  sql(SAVE_READING).run(reading.wall, reading.monotonic);
  accounts.clockReading = reading;
}

function lastReading(sql: Sql): ClockReading | undefined {
  const row = sql(LAST_READING).get();
  return row && { wall: number(row, 'wall'), monotonic: number(row, 'steady') };
}

const LAST_READING = 'SELECT wall, steady FROM clock_reading';
const SAVE_READING = `INSERT INTO clock_reading (id, wall, steady) VALUES (1, ?, ?)
  ON CONFLICT DO UPDATE SET wall = excluded.wall, steady = excluded.steady`;
const MOVE_LEASES = "UPDATE requests INDEXED BY requests_held SET due = due + ? WHERE state = 'held'";
