import { type AccountRows, type AllowanceRow, type LotRow, replyMeta, writeLine } from './account-rows.ts';
import {
  type Allow,
  allowanceLotId,
  type AllowResult,
  type EndAllowance,
  type EndAllowanceResult,
  MAX_ALLOWANCES,
} from '../contract/allowances.ts';
import { MAX_AMOUNT, type NanoDollars, smaller } from '../contract/money.ts';
import { updateCredits } from './due-credits.ts';
import { addLot } from './lots.ts';
import { laterPeriod, periodStart } from './periods.ts';
import { grantPeriods, lotExpiry, lotsOf, roomFor } from './renewals.ts';
import { type Transition, witnessed } from './witnesses.ts';

export const allow: Transition<Allow, AllowResult> = witnessed((account, command, now) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  updateCredits(account, now);
  const row = account.allowances().find(({ id }) => id === command.id);
  const until = command.until ?? Infinity;
  if (!row && until <= now && !command.granted) return { code: 'ended', ...replyMeta(account, now) };
  if (!row && account.allowances().length >= MAX_ALLOWANCES) {
    return { code: 'too_many_allowances', ...replyMeta(account, now) };
  }
  if (row && (row.per !== command.per || row.anchor !== command.anchor)) {
    return { code: 'conflict', ...replyMeta(account, now) };
  }
  const isKnown = row !== undefined && (isRepeated(row, command) || hasTerms(row, command));
  const allowance = isKnown
    ? row
    : row
      ? changed(account, row, command, now)
      : created(account, command, now);
  return {
    code: isKnown ? 'duplicate' : 'ok',
    available: account.totals.available,
    version: allowance.version,
    resetsAt: laterPeriod(allowance, allowance.period, 1),
    ...replyMeta(account, now),
  };
});

export const endAllowance: Transition<EndAllowance, EndAllowanceResult> = witnessed(
  (account, command, now) => {
    if (!account) return { code: 'no_account', ...replyMeta(account, now) };
    updateCredits(account, now);
    const row = account.allowances().find(({ id }) => id === command.id);
    if (!row) return { code: 'no_allowance', ...replyMeta(account, now) };
    const end = command.at === 'now' ? now : laterPeriod(row, row.period, 1);
    const isEnded = row.until <= end && (command.at === 'period_end' || row.granted === 0n);
    if (isRepeated(row, command) || isEnded) {
      const { available } = account.totals;
      return { code: 'duplicate', available, version: row.version, ...replyMeta(account, now) };
    }

    row.until = Math.min(row.until, end);
    row.version += 1;
    if (command.at === 'now') row.granted = 0n;
    account.saveAllowance(row);
    if (command.at === 'now') {
      for (const lot of lotsOf(account, row.id)) replaceLot(account, lot, { ...lot, expiresAt: now });
      account.totals.nextExpiry = now;
      updateCredits(account, now);
    }
    const { available } = account.totals;
    return { code: 'ok', available, version: row.version, ...replyMeta(account, now) };
  },
);

function created(account: AccountRows, command: Allow, now: number): AllowanceRow {
  const { id, amount, per, anchor, rollover, priority, until = Infinity, granted } = command;
  const { period, amount: last } = granted ?? { period: periodStart(command, now), amount };
  const terms = { amount, rollover, priority, until };
  const row = { id, version: 1, per, anchor, period, granted: last, ...terms };
  account.saveAllowance(row);
  if (!granted) grantPeriods(account, row, 1, now);
  account.totals.nextExpiry = Math.min(account.totals.nextExpiry, laterPeriod(row, row.period, 1));
  return row;
}

function changed(account: AccountRows, row: AllowanceRow, command: Allow, now: number): AllowanceRow {
  const { amount, rollover, priority, until = Infinity } = command;
  row.version += 1;
  if (command.change === 'prorate') {
    prorate(account, row, command, now);
    row.granted = amount;
  }
  Object.assign(row, { amount, rollover, priority, until });
  account.saveAllowance(row);
  return row;
}

/** Adjusts the lot of the current period by the difference of the amounts, for the time that is left of it. */
function prorate(account: AccountRows, row: AllowanceRow, command: Allow, now: number): void {
  const end = laterPeriod(row, row.period, 1);
  const left = BigInt(Math.min(Math.max(0, end - now), end - row.period));
  const more = ((command.amount - row.granted) * left) / BigInt(end - row.period);
  const id = allowanceLotId(row.id, row.period);
  const lot = account.openLots().find((each) => each.id === id);
  const delta = more > 0n ? smaller(more, roomFor(account)) : -takeable(account, lot, -more);
  if (delta === 0n) return;
  const { totals } = account;
  totals.granted += delta;
  totals.available += delta;
  writeLine(account, now, { type: 'a', id: `${id}:${row.version}`, amount: delta, reason: 'prorated' });
  if (delta < 0n && lot) {
    lot.remaining += delta;
    return account.saveLot(lot);
  }
  const { priority } = lot ?? command;
  // The lot of an allowance that was ended is due: it lasts as long as its period again.
  const isDue = !lot || (lot.expiresAt !== undefined && lot.expiresAt <= now);
  const expiresAt = isDue ? lotExpiry(row, command.rollover, row.period) : lot.expiresAt;
  const [amount, remaining] = lot ? [lot.amount, lot.remaining] : [0n, 0n];
  if (lot) {
    lot.remaining = 0n;
    account.saveLot(lot);
  }
  // What was taken back counts in it, too.
  const granted = smaller(amount + delta, MAX_AMOUNT);
  addLot(account, { id, amount: granted, expiresAt, priority }, remaining + delta);
}

/** As much as can be taken back: what was used, or is held, can't. */
function takeable({ totals }: AccountRows, lot: LotRow | undefined, amount: NanoDollars): NanoDollars {
  if (!lot || totals.available <= 0n) return 0n;
  return smaller(smaller(amount, lot.remaining), totals.available);
}

/** The expiry of a lot is part of its place in the burn order. */
function replaceLot(account: AccountRows, lot: LotRow, by: LotRow): void {
  lot.remaining = 0n;
  account.saveLot(lot);
  account.saveLot(by);
}

function isRepeated({ version }: AllowanceRow, command: Pick<Allow, 'version'>): boolean {
  return command.version !== undefined && version >= command.version;
}

function hasTerms(
  row: AllowanceRow,
  { amount, rollover, priority, until = Infinity, change }: Allow,
): boolean {
  return (
    row.amount === amount &&
    row.rollover === rollover &&
    row.priority === priority &&
    row.until === until &&
    (change !== 'prorate' || row.granted === amount)
  );
}
