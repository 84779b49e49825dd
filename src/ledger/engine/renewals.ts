import { type AccountRows, type AllowanceRow, type LotRow, writeLine } from './account-rows.ts';
import { allowanceLotId, lotPrefix, type Rollover } from '../contract/allowances.ts';
import { MAX_AMOUNT, type NanoDollars, smaller } from '../contract/money.ts';
import { addLot } from './lots.ts';
import { type Grid, laterPeriod, periodsBetween, periodStart } from './periods.ts';

/**
 * An allowance makes lots, one per period. A period is granted once, because `period` only moves forward, whatever the
 * clock does and however many processes are at the boundary. What was missed in silence follows from the number of
 * periods, so it makes no difference how often the account is looked at.
 */

/** Grants what is due, and deletes allowances that have ended. Returns when the next period ends. */
export function renewAllowances(account: AccountRows, now: number): number {
  let next = Infinity;
  for (const row of account.allowances()) {
    renew(account, row, now);
    const end = laterPeriod(row, row.period, 1);
    if (end > now) next = Math.min(next, end);
    // Kept until its last period is over, so that this is not granted again.
    else account.deleteAllowance(row);
  }
  return next;
}

function renew(account: AccountRows, row: AllowanceRow, now: number): void {
  const current = periodStart(row, Math.min(now, row.until - 1));
  const missed = periodsBetween(row, row.period, current);
  if (missed <= 0) return;
  row.period = current;
  row.granted = row.amount;
  account.saveAllowance(row);
  grantPeriods(account, row, missed, now);
}

/** Grants the current period and the missed ones before it, as far as they haven't expired. */
export function grantPeriods(account: AccountRows, row: AllowanceRow, periods: number, now: number): void {
  if (row.rollover === 'all') return grantAll(account, row, periods, now);
  if (row.rollover === 'once' && periods > 1)
    grantPeriod(account, row, laterPeriod(row, row.period, -1), now);
  grantPeriod(account, row, row.period, now);
}

/** Makes the lot of one period, unless it would expire at once. */
function grantPeriod(account: AccountRows, row: AllowanceRow, start: number, now: number): void {
  const expiresAt = lotExpiry(row, row.rollover, start);
  if (expiresAt !== undefined && expiresAt <= now) return;
  const amount = smaller(row.amount, roomFor(account));
  if (amount <= 0n) return;
  const id = allowanceLotId(row.id, start);
  writeGrant(account, id, amount, now);
  addLot(account, { id, amount, expiresAt, priority: row.priority }, amount);
}

/** Makes one lot of all periods and of what earlier lots have left. */
function grantAll(account: AccountRows, row: AllowanceRow, periods: number, now: number): void {
  const amount = smaller(row.amount * BigInt(periods), roomFor(account));
  if (amount <= 0n) return;
  let kept = 0n;
  for (const lot of lotsOf(account, row.id)) {
    if (lot.expiresAt !== undefined) continue;
    kept += lot.remaining;
    lot.remaining = 0n;
    account.saveLot(lot);
  }
  const id = allowanceLotId(row.id, row.period);
  writeGrant(account, id, amount, now);
  addLot(account, { id, amount: kept + amount, expiresAt: undefined, priority: row.priority }, kept + amount);
}

/** When the lot of the period that begins at `start` expires; undefined: never. */
export function lotExpiry(grid: Grid, rollover: Rollover, start: number): number | undefined {
  return rollover === 'all' ? undefined : laterPeriod(grid, start, rollover === 'once' ? 2 : 1);
}

/** How much can be granted until the balance is the largest that is supported. */
export function roomFor({ totals }: AccountRows): NanoDollars {
  return smaller(MAX_AMOUNT, MAX_AMOUNT - totals.available - totals.held);
}

function writeGrant(account: AccountRows, id: string, amount: NanoDollars, now: number): void {
  account.totals.granted += amount;
  account.totals.available += amount;
  writeLine(account, now, { type: 'g', id, amount });
}

export function lotsOf(account: AccountRows, id: string): readonly LotRow[] {
  return account.openLots().filter((lot) => lot.id.startsWith(lotPrefix(id)));
}
