import { type AccountRows, type LotRow, replyMeta, writeLine } from './account-rows.ts';
import type { Adjust, AdjustResult, Grant, GrantResult } from '../contract/ledger-store.ts';
import { MAX_AMOUNT, type NanoDollars } from '../contract/money.ts';
import { type Transition, witnessed } from './witnesses.ts';

/**
 * Credits are granted as lots, which burn in order: priority, then the soonest
 * expiry, then id.
 *
 * Lots only determine what burns and expires first; what can be spent is
 * `totals.available`. Credit that belongs to no lot (an adjustment up, a refund)
 * burns last and never expires, so the sum of open lots never exceeds
 * available + held.
 */

/** Maximum of open lots per account, to bound the loops over them. */
const MAX_OPEN_LOTS = 100;

const DEFAULT_PRIORITY = 50;

export const grant: Transition<Grant, GrantResult> = witnessed((account, command, now) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { id, amount, expiresAt, priority = DEFAULT_PRIORITY } = command;
  const { totals } = account;
  const fingerprint = `grant|${amount}|${expiresAt ?? 'never'}|${priority}`;
  const known = account.fingerprint(id);
  if (known === fingerprint) {
    return { code: 'duplicate', available: totals.available, ...replyMeta(account, now) };
  }
  if (known !== undefined) return { code: 'conflict', ...replyMeta(account, now) };

  expireLots(account, now);
  if (totals.available + totals.held + amount > MAX_AMOUNT)
    return { code: 'too_big', ...replyMeta(account, now) };
  if (account.openLots().length >= MAX_OPEN_LOTS)
    return { code: 'too_many_lots', ...replyMeta(account, now) };

  totals.granted += amount;
  totals.available += amount;
  account.saveFingerprint(id, fingerprint);
  account.saveLot({ id, amount, remaining: amount, expiresAt, priority });
  totals.nextExpiry = Math.min(totals.nextExpiry, expiresAt ?? Infinity);
  writeLine(account, now, { type: 'g', id, amount });
  return { code: 'ok', available: totals.available, ...replyMeta(account, now) };
});

export const adjust: Transition<Adjust, AdjustResult> = witnessed((account, command, now) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { id, delta, reason } = command;
  const { totals } = account;
  const fingerprint = `adjust|${delta}|${reason}`;
  const known = account.fingerprint(id);
  if (known === fingerprint) {
    return { code: 'duplicate', available: totals.available, ...replyMeta(account, now) };
  }
  if (known !== undefined) return { code: 'conflict', ...replyMeta(account, now) };

  expireLots(account, now);
  if (delta > 0n && totals.available + totals.held + delta > MAX_AMOUNT) {
    return { code: 'too_big', ...replyMeta(account, now) };
  }
  if (delta < 0n && totals.available + delta < totals.floor) {
    return { code: 'below_floor', available: totals.available, ...replyMeta(account, now) };
  }

  totals.granted += delta;
  totals.available += delta;
  account.saveFingerprint(id, fingerprint);
  burn(account, -delta);
  writeLine(account, now, { type: 'a', id, amount: delta, reason });
  return { code: 'ok', available: totals.available, ...replyMeta(account, now) };
});

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

/**
 * Expires due lots, as far as their credit isn't held. The rest stays due until
 * the hold ends.
 */
export function expireLots(account: AccountRows, now: number): void {
  const { totals } = account;
  if (totals.nextExpiry > now) return;
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
  totals.nextExpiry = Math.min(Infinity, ...account.openLots().map((lot) => lot.expiresAt ?? Infinity));
}

/** Sorts lots into burn order. */
export function compareLots(a: LotRow, b: LotRow): number {
  if (a.priority !== b.priority) return a.priority - b.priority;
  const expiryA = a.expiresAt ?? Infinity;
  const expiryB = b.expiresAt ?? Infinity;
  if (expiryA !== expiryB) return expiryA < expiryB ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
