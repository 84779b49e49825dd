import { type AccountRows, replyMeta, writeLine } from './account-rows.ts';
import type { Refund, RefundResult } from '../contract/account-changes.ts';
import { larger, MAX_AMOUNT, type NanoDollars, smaller } from '../contract/money.ts';
import { WINDOW_PERIODS } from '../contract/key-records.ts';
import { requestTime } from '../contract/request-ids.ts';
import { refundId } from '../contract/reserved-ids.ts';
import { updateCredits } from './due-credits.ts';
import { countCharge } from './key-limits.ts';
import { countEnded, holdersAt, saveHolder } from './limit-holders.ts';
import { countMore } from './usage-counters.ts';
import { type Transition, witnessed } from './witnesses.ts';

/** Takes back a charge: from what was spent, from the usage, and from the budgets whose window still runs. */
export const refund: Transition<Refund, RefundResult> = witnessed((account, command, now) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { requestId: id, amount, reason, dimensions } = command;
  const { totals } = account;
  const known = account.fingerprint(refundId(id));
  if (known === fingerprintOf(amount)) {
    return { code: 'duplicate', available: totals.available, ...replyMeta(account, now) };
  }
  if (known !== undefined) return { code: 'conflict', ...replyMeta(account, now) };
  const request = account.request(id);
  if (request?.state === 'held' || request?.state === 'expired') {
    return { code: 'not_settled', ...replyMeta(account, now) };
  }
  const charged = request?.amount ?? command.charged;
  if (amount > charged) return { code: 'more_than_charged', charged, ...replyMeta(account, now) };
  updateCredits(account, now);
  if (totals.available + totals.held + amount > MAX_AMOUNT) {
    return { code: 'too_big', ...replyMeta(account, now) };
  }

  const { key, model } = request ?? command;
  totals.spent -= amount;
  totals.available += amount;
  if (request) {
    const refunded = { released: 0n, ended: false, moved: -amount, tokens: 0 };
    countEnded(account, request, refunded, now);
  } else {
    giveBack(account, command);
  }
  countMore(account, { id, key, model }, -amount, dimensions);
  account.saveFingerprint(refundId(id), fingerprintOf(amount));
  const line = {
    type: 'r',
    id,
    amount: -amount,
    key,
    model,
    reason,
    ...(dimensions && { dimensions }),
  } as const;
  writeLine(account, now, line);
  return { code: 'ok', available: totals.available, ...replyMeta(account, now) };
});

/**
 * Takes back from the counters what a request was charged whose record was deleted. A limit may be younger than the request, and
 * the time of its ID in another window than that of its admission: no counter falls below 0, and none begins a window.
 */
function giveBack(account: AccountRows, { requestId, key, dimensions, amount }: Refund): void {
  const at = requestTime(requestId);
  for (const holder of holdersAt(account, { key, endUser: dimensions?.['user'], at })) {
    const { row } = holder;
    if (row.spent <= 0n) continue;
    countCharge(row, -smaller(amount, row.spent), Math.min(at, row.countedAt));
    for (const per of WINDOW_PERIODS) {
      row.spentBefore[per] = smaller(larger(0n, row.spentBefore[per]), row.spent);
    }
    saveHolder(account, holder);
  }
}

function fingerprintOf(amount: NanoDollars): string {
  return `refund|${amount}`;
}
