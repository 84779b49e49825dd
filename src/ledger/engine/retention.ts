import type { AccountTotals, RequestRow } from './account-rows.ts';
import { requestTime } from '../contract/request-ids.ts';

/** How long a final record is kept, so that a repeated call is recognised, and a session after it expired. */
export const RETENTION_MS: number = 24 * 60 * 60 * 1000;

/** The same for a request that cost nothing and has no idempotency key: longer than any call can take. */
const FREE_RETENTION_MS = 10 * 60 * 1000;

/**
 * When a final record may be deleted, in ms. Counted from the id's own time if
 * that is later, because deleting an id refuses all unknown ones before it.
 */
export function deleteAt(requestId: string, now: number, isFree: boolean): number {
  return Math.max(now, requestTime(requestId)) + (isFree ? FREE_RETENTION_MS : RETENTION_MS);
}

/** Raises the low-water mark for a record that is deleted: an unknown id at or below it may be this one. */
export function raiseLowWater(totals: AccountTotals, { id, due }: RequestRow): void {
  const time = requestTime(id);
  // Deleted early, so it cost nothing: records of that age that cost something still exist.
  if (due < time + RETENTION_MS) totals.freeLowWater = Math.max(totals.freeLowWater, time);
  else totals.lowWater = Math.max(totals.lowWater, time);
}

/**
 * Whether an unknown request may not be admitted, because it may be one that was deleted. A mark ahead of the clock is from
 * before the clock was set back: until the clock has caught up, no new id could be above it, and an admit isn't repeated
 * after `RETENTION_MS`. Charges are: for them, the mark always holds.
 */
export function isTooOld({ lowWater }: AccountTotals, time: number, now: number): boolean {
  return time <= lowWater && lowWater <= now;
}

/** Whether an unknown request may be one that cost nothing and was deleted. */
export function mayBeDeletedFree({ lowWater, freeLowWater }: AccountTotals, requestId: string): boolean {
  return requestTime(requestId) <= Math.max(lowWater, freeLowWater);
}

/**
 * The low-water mark of a new account. Where one of the same id was deleted within a day, all requests until then were
 * that one's: their charges may still be on their way, and are not the new one's.
 */
export function firstLowWater(deletedAt: number | undefined, now: number): number {
  return deletedAt !== undefined && deletedAt > now - RETENTION_MS ? Math.min(deletedAt, now) : 0;
}
