import type { ClockSteps } from '../../engine/clock-steps.ts';
import { number } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/**
 * Moves all leases by the step that the wall clock made since the last reading of any process. Call it in the transaction
 * that uses leases, before anything else.
 */
export function followClock(sql: Sql, steps: ClockSteps | undefined, now: number): void {
  if (!steps) return;
  const row = sql(LAST_READING).get();
  const last = row && { wall: number(row, 'wall'), monotonic: number(row, 'steady') };
  const { step, reading } = steps.observe(now, last);
  if (step !== 0) sql(MOVE_LEASES).run(step);
  if (reading) sql(SAVE_READING).run(reading.wall, reading.monotonic);
}

const LAST_READING = 'SELECT wall, steady FROM clock_reading';
const SAVE_READING = `INSERT INTO clock_reading (id, wall, steady) VALUES (1, ?, ?)
  ON CONFLICT DO UPDATE SET wall = excluded.wall, steady = excluded.steady`;
const MOVE_LEASES = "UPDATE requests INDEXED BY requests_held SET due = due + ? WHERE state = 'held'";
