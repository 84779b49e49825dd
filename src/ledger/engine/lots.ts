import { type AccountRows, type LotRow, writeLine } from './account-rows.ts';
import type { NanoDollars } from '../contract/money.ts';

/**
 * Credits are granted as lots, which burn in order: priority, then the soonest
 * expiry, then id.
 *
 * Lots only determine what burns and expires first; what can be spent is
 * `totals.available`. Credit that belongs to no lot (an adjustment up, a refund)
 * burns last and never expires, so the sum of open lots never exceeds
 * available + held.
 */

/** Adds a lot of credit that was granted just now. What it pays of a debt is used up already. */
export function addLot(account: AccountRows, lot: Omit<LotRow, 'remaining'>, remaining: NanoDollars): void {
  const { available, held } = account.totals;
  const others = account.openLots().reduce((total, each) => total + each.remaining, 0n);
  const room = available + held - others;
  const left = remaining < room ? remaining : room;
  if (left > 0n) account.saveLot({ ...lot, remaining: left });
}

/** Deducts a spent amount from the lots. A negative amount, a refund, belongs to no lot. */
export function burn(account: AccountRows, amount: NanoDollars): void {
  if (amount <= 0n) return;
  let left = amount;
  for (const lot of account.openLots()) {
    const burnt = lot.remaining < left ? lot.remaining : left;
    lot.remaining -= burnt;
    account.saveLot(lot);
    left -= burnt;
    if (left === 0n) return;
  }
}

/** Expires due lots, as far as their credit isn't held: the rest stays due. */
export function expireLots(account: AccountRows, now: number): void {
  const { totals } = account;
  for (const lot of account.openLots()) {
    if (lot.expiresAt === undefined || lot.expiresAt > now) continue;
    const amount = lot.remaining < totals.available ? lot.remaining : totals.available;
    if (amount <= 0n) continue;
    lot.remaining -= amount;
    account.saveLot(lot);
    totals.available -= amount;
    totals.expired += amount;
    writeLine(account, now, { type: 'x', id: lot.id, amount });
  }
}

/** Sorts lots into burn order. */
export function compareLots(a: LotRow, b: LotRow): number {
  if (a.priority !== b.priority) return a.priority - b.priority;
  const expiryA = a.expiresAt ?? Infinity;
  const expiryB = b.expiresAt ?? Infinity;
  if (expiryA !== expiryB) return expiryA < expiryB ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
