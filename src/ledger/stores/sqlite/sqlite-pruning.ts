import { pruneEndUsers, pruneSessions } from '../../engine/pruning.ts';
import { RETENTION_MS } from '../../engine/retention.ts';
import type { SqliteAccount } from './sqlite-account.ts';

/** Rows that one transaction looks at: a few ms. */
const PAGE = 1000;

/**
 * Prunes one page of end users, in the order of their ids, and one of sessions.
 *
 * @param after - id of the last end user of the page before
 * @returns how many rows were deleted, and what the next page is after, if there is one
 */
export function prunePage(
  rows: SqliteAccount,
  after: string,
  now: number,
): { readonly pruned: number; readonly next: string | undefined } {
  const endUsers = rows.idleEndUsers(after, PAGE);
  const sessions = rows.expiredSessions(now - RETENTION_MS, PAGE);
  const pruned = pruneEndUsers(rows, endUsers, now) + pruneSessions(rows, sessions, now);
  const hasMore = endUsers.length === PAGE || sessions.length === PAGE;
  return { pruned, next: hasMore ? (endUsers.at(-1)?.id ?? after) : undefined };
}
