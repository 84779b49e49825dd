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
  grantLot(account, row, { start, expiresAt, amount, kept: 0n }, now);
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
  grantLot(account, row, { start: row.period, expiresAt: undefined, amount, kept }, now);
}

interface NewLot {
  /** Of its period. */
  readonly start: number;
  readonly expiresAt: number | undefined;
  readonly amount: NanoDollars;
  /** What it takes over from earlier ones. */
  readonly kept: NanoDollars;
}

/** Makes a lot, which is then the only one of its id. */
function grantLot(account: AccountRows, row: AllowanceRow, lot: NewLot, now: number): void {
  const { start, expiresAt, amount } = lot;
  const id = allowanceLotId(row.id, start);
  const kept = lot.kept + takeOver(account, id, expiresAt);
  account.totals.granted += amount;
  account.totals.available += amount;
  writeLine(account, now, { type: 'g', id, amount });
  addLot(account, { id, amount: kept + amount, expiresAt, priority: row.priority }, kept + amount);
}

/**
 * What the new lot takes over from an open one of the same id: the allowance has ended, and was made again with another
 * period of the same start. What would expire sooner so belongs to no lot any more, and never expires.
 */
function takeOver(account: AccountRows, id: string, expiresAt = Infinity): NanoDollars {
  const lot = account.openLots().find((each) => each.id === id);
  if (!lot) return 0n;
  const { remaining } = lot;
  lot.remaining = 0n;
  account.saveLot(lot);
  return expiresAt >= (lot.expiresAt ?? Infinity) ? remaining : 0n;
}

/** When the lot of the period that begins at `start` expires; undefined: never. */
export function lotExpiry(grid: Grid, rollover: Rollover, start: number): number | undefined {
  return rollover === 'all' ? undefined : laterPeriod(grid, start, rollover === 'once' ? 2 : 1);
}

/** How much can be granted until the balance is the largest that is supported. */
export function roomFor({ totals }: AccountRows): NanoDollars {
  return smaller(MAX_AMOUNT, MAX_AMOUNT - totals.available - totals.held);
}

export function lotsOf(account: AccountRows, id: string): readonly LotRow[] {
  return account.openLots().filter((lot) => lot.id.startsWith(lotPrefix(id)));
}
