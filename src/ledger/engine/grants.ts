import { type AccountRows, replyMeta, writeLine } from './account-rows.ts';
import type { SetFloor, SetFloorResult } from '../contract/account-changes.ts';
import type { Adjust, AdjustResult, Grant, GrantResult } from '../contract/ledger-store.ts';
import { MAX_AMOUNT } from '../contract/money.ts';
import { updateCredits } from './due-credits.ts';
import { addLot, burn } from './lots.ts';
import { type Transition, witnessed } from './witnesses.ts';

/** Maximum of open lots at which a grant adds one, to bound the loops over them. */
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

  updateCredits(account, now);
  if (totals.available + totals.held + amount > MAX_AMOUNT)
    return { code: 'too_big', ...replyMeta(account, now) };
  if (account.openLots().length >= MAX_OPEN_LOTS)
    return { code: 'too_many_lots', ...replyMeta(account, now) };

  totals.granted += amount;
  totals.available += amount;
  account.saveFingerprint(id, fingerprint);
  addLot(account, { id, amount, expiresAt, priority }, amount);
  totals.nextExpiry = Math.min(totals.nextExpiry, expiresAt ?? Infinity);
  writeLine(account, now, { type: 'g', id, amount });
  return { code: 'ok', available: totals.available, ...replyMeta(account, now) };
});

export const adjust: Transition<Adjust, AdjustResult> = witnessed((account, command, now) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { id, delta, reason, force = false } = command;
  const { totals } = account;
  const fingerprint = `adjust|${delta}|${reason}`;
  const known = account.fingerprint(id);
  if (known === fingerprint) {
    return { code: 'duplicate', available: totals.available, ...replyMeta(account, now) };
  }
  if (known !== undefined) return { code: 'conflict', ...replyMeta(account, now) };

  updateCredits(account, now);
  if (delta > 0n && totals.available + totals.held + delta > MAX_AMOUNT) {
    return { code: 'too_big', ...replyMeta(account, now) };
  }
  if (delta < 0n && totals.available + delta < (force ? -MAX_AMOUNT : totals.floor)) {
    return { code: 'below_floor', available: totals.available, ...replyMeta(account, now) };
  }

  totals.granted += delta;
  totals.available += delta;
  account.saveFingerprint(id, fingerprint);
  burn(account, -delta);
  if (force) {
    totals.frozen = true;
    if (totals.available < totals.lowestFloor) totals.lowestFloor = totals.available;
  }
  writeLine(account, now, { type: 'a', id, amount: delta, reason });
  return { code: 'ok', available: totals.available, ...replyMeta(account, now) };
});

/** A debt beyond a raised floor stays; until it is paid, nothing more is admitted. */
export function setFloor(account: AccountRows | undefined, command: SetFloor, now: number): SetFloorResult {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { totals } = account;
  const { floor, from = totals.floor } = command;
  const before = totals.floor;
  if (before !== from && before !== floor) return { code: 'changed', ...replyMeta(account, now) };
  totals.floor = floor;
  if (floor < totals.lowestFloor) totals.lowestFloor = floor;
  return { code: 'ok', before, available: totals.available, ...replyMeta(account, now) };
}
