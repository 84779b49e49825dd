import type { AccountTotals, RequestRow } from './account-rows.ts';
import { requestTime } from '../contract/request-ids.ts';

/** How long a final record is remembered, so that a repeated call is recognised. */
const RETENTION_MS = 24 * 60 * 60 * 1000;

/** The same of a request that cost nothing, and has no idempotency key: longer than any call of it is under way. */
const FREE_RETENTION_MS = 10 * 60 * 1000;

/**
 * When a final record may be forgotten. Counted from the id's own time if that
 * is later, because forgetting an id refuses all unknown ones before it.
 */
export function forgetAt(requestId: string, now: number, isFree: boolean): number {
  return Math.max(now, requestTime(requestId)) + (isFree ? FREE_RETENTION_MS : RETENTION_MS);
}

/** Notes that a final record is forgotten: an unknown id may be one of these. */
export function noteForgotten(totals: AccountTotals, { id, due }: RequestRow): void {
  const time = requestTime(id);
  // What is forgotten sooner cost nothing: others of its time are known.
  if (due < time + RETENTION_MS) totals.freeLowWater = Math.max(totals.freeLowWater, time);
  else totals.lowWater = Math.max(totals.lowWater, time);
}

/** Whether an unknown request may be one that was forgotten, and cost nothing. */
export function mayBeForgottenFree({ lowWater, freeLowWater }: AccountTotals, requestId: string): boolean {
  return requestTime(requestId) <= Math.max(lowWater, freeLowWater);
}
