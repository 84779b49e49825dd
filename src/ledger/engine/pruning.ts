import type { AccountRows, EndUserRow, KeyRow } from './account-rows.ts';
import { isAsNew } from './key-limits.ts';
import { limitsOfEndUser } from './limit-holders.ts';
import { SESSION_PREFIX } from '../contract/reserved-ids.ts';
import { RETENTION_MS } from './retention.ts';

/** Deletes those of the end users that a new row would count the same for; returns how many. */
export function pruneEndUsers(account: AccountRows, rows: Iterable<EndUserRow>, now: number): number {
  let pruned = 0;
  for (const row of rows) {
    if (!isAsNew(row, limitsOfEndUser(account, row.id), now)) continue;
    account.deleteEndUser(row);
    pruned += 1;
  }
  return pruned;
}

/** Deletes those of the keys that are sessions without a use; returns how many. */
export function pruneSessions(account: AccountRows, rows: Iterable<KeyRow>, now: number): number {
  let pruned = 0;
  for (const row of rows) {
    if (!isPastSession(row, now)) continue;
    account.deleteKey(row);
    pruned += 1;
  }
  return pruned;
}

/**
 * Whether a session will never be used again. A day after it expired, because its row has what it has spent: if the clock steps
 * back to before that, it may be used again.
 */
function isPastSession({ key, hash, expiresAt = Infinity, running }: KeyRow, now: number): boolean {
  return (
    key.startsWith(SESSION_PREFIX) && hash !== undefined && running === 0 && now >= expiresAt + RETENTION_MS
  );
}
