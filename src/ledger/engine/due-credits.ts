import type { AccountRows } from './account-rows.ts';
import { expireLots } from './lots.ts';
import { renewAllowances } from './renewals.ts';

/**
 * Expires lots and renews allowances that are due. One comparison, if none is. A second call at the same time changes
 * nothing: what a new period grants can free the rest of a lot that requests held, so lots expire once more after it.
 */
export function updateCredits(account: AccountRows, now: number): void {
  const { totals } = account;
  if (totals.nextExpiry > now) return;
  expireLots(account, now);
  const nextPeriod = renewAllowances(account, now);
  expireLots(account, now);
  const expiries = account.openLots().map((lot) => lot.expiresAt ?? Infinity);
  totals.nextExpiry = Math.min(nextPeriod, ...expiries);
}

/** Renews allowances that are due, before a charge that they may have to cover. */
export function renewDue(account: AccountRows, now: number): void {
  if (account.totals.nextExpiry <= now) renewAllowances(account, now);
}
