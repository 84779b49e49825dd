import type { ClockSteps } from '../../engine/clock-steps.ts';
import { number } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/** Moves all leases by what the wall clock was set since any process looked last. In the transaction that looks at leases. */
export function followClock(sql: Sql, steps: ClockSteps | undefined, now: number): void {
  if (!steps) return;
  const row = sql(LAST_LOOK).get();
  const last = row && { wall: number(row, 'wall'), steady: number(row, 'steady') };
  const { step, kept } = steps.look(now, last);
  if (step !== 0) sql(MOVE_LEASES).run(step);
  if (kept) sql(KEEP_LOOK).run(kept.wall, kept.steady);
}

const LAST_LOOK = 'SELECT wall, steady FROM last_look';
const KEEP_LOOK = `INSERT INTO last_look (id, wall, steady) VALUES (1, ?, ?)
  ON CONFLICT DO UPDATE SET wall = excluded.wall, steady = excluded.steady`;
const MOVE_LEASES = "UPDATE requests INDEXED BY requests_held SET due = due + ? WHERE state = 'held'";
