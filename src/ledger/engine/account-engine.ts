import {
  type AccountRows,
  type KeyRow,
  type NewLine,
  type RequestRow,
  replyMeta,
  spendable,
  writeLine,
} from './account-rows.ts';
import { countRequest, enterWindows, MINUTE_MS } from './key-limits.ts';
import { newKey } from './key-states.ts';
import {
  countAdmission,
  countEnded,
  countMoreHeld,
  exceededLimit,
  holdersFor,
  holdersOf,
  latest,
  leastBudget,
  movedBudgets,
  ratesAt,
  saveHolder,
} from './limit-holders.ts';
import type {
  Admit,
  AdmitResult,
  Extend,
  ExtendResult,
  FinalState,
  Settle,
  SettleResult,
  Void,
  VoidResult,
} from '../contract/ledger-store.ts';
import type { MovedBudget } from '../contract/key-records.ts';
import { renewDue, updateCredits } from './due-credits.ts';
import { burn } from './lots.ts';
import { larger, type NanoDollars, smaller } from '../contract/money.ts';
import { requestTime } from '../contract/request-ids.ts';
import { countEnd, countMore, type Ended, type Mutable, uncountExpiry } from './usage-counters.ts';
import { deleteAt, isTooOld, mayBeDeletedFree, raiseLowWater } from './retention.ts';
import { type Transition, withAdmission, witnessed } from './witnesses.ts';

/**
 * The state machine of an account's requests: none → held → settled, voided or
 * expired; expired → settled or voided. Settled and voided are final.
 *
 * Each function is one command, executed synchronously at time `now`. It makes
 * every check before its first write, and a refused command changes nothing,
 * except that `admit` may have ended leases and expired credits that were due.
 */

/** How far a request id may be ahead of the store's clock. */
const MAX_AHEAD_MS = 5 * 60 * 1000;

/** Due records that one admit ends or deletes. */
const MAX_REAPED_BY_ADMIT = 8;

export const admit: Transition<Admit, AdmitResult> = witnessed((account, command, now, rolledBack) => {
  const { requestId, want, min, leaseMs, tokens, idempotencyKey, restore = false } = command;
  const known = account?.request(requestId);
  if (rolledBack) return { code: 'rolled_back', ...replyMeta(account, now) };
  if (account && known) {
    if (known.state !== 'held') return { code: 'done', state: known.state, ...replyMeta(account, now) };
    const rates = ratesAt(holdersOf(account, known), now);
    const available = spendable(account);
    return { code: 'exists', hold: known.amount, available, ...rates, ...replyMeta(account, now) };
  }

  const time = requestTime(requestId);
  if (now > command.notAfter) return { code: 'stale', ...replyMeta(account, now) };
  if (time > now + MAX_AHEAD_MS) return { code: 'ahead', ...replyMeta(account, now) };
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { totals } = account;
  if (isTooOld(totals, time, now)) return { code: 'old', ...replyMeta(account, now) };
  if (totals.frozen && !restore) return { code: 'frozen', ...replyMeta(account, now) };

  reap(account, MAX_REAPED_BY_ADMIT, now);
  updateCredits(account, now);

  const registered = account.key(command.key);
  const invalid = restore ? undefined : invalidKey(registered, command, totals.policyVersion, now);
  if (invalid) return { code: invalid, ...replyMeta(account, now) };
  const key = registered ?? newKey({ key: command.key, name: '' }, now);
  const { holders, countedBy, sharesEndUser } = holdersFor(account, key, command.endUser, now);
  const duplicate = idempotencyKey && account.requestByIdempotencyKey(command.key, idempotencyKey.key);
  if (duplicate && !restore) {
    const { id, state } = duplicate;
    if (duplicate.idempotencyKey?.body !== idempotencyKey.body) {
      return { code: 'key_reused', requestId: id, ...ratesAt(holders, now), ...replyMeta(account, now) };
    }
    return {
      code: 'repeated',
      requestId: id,
      state,
      ...ratesAt(holders, now),
      ...replyMeta(account, now),
    };
  }

  const refused = restore ? undefined : exceededLimit(holders, command, now);
  if (refused) return { ...refused, ...ratesAt(holders, now), ...replyMeta(account, now) };

  const left = restore ? undefined : leastBudget(holders, now)?.left;
  const affordable = smaller(spendable(account), left ?? want);
  const hold = affordable > 0n ? smaller(want, affordable) : 0n;
  if (!restore && (hold < min || (hold === 0n && want > 0n))) {
    return {
      code: 'no_funds',
      available: spendable(account),
      ...ratesAt(holders, now),
      ...replyMeta(account, now),
    };
  }

  totals.available -= hold;
  totals.held += hold;
  const countedAt = countAdmission(account, holders, { hold, tokens }, now);
  account.saveRequest({
    id: requestId,
    key: key.key,
    countedAt,
    countedBy,
    state: 'held',
    amount: hold,
    checkpoint: 0n,
    tokens,
    idempotencyKey: duplicate ? undefined : idempotencyKey,
    due: now + leaseMs,
    model: command.model ?? '',
    line: undefined,
    ending: undefined,
    provider: undefined,
  });
  const available = spendable(account);
  const { seq } = replyMeta(account, now);
  const reply = { code: 'ok' as const, hold, available, now, seq };
  const rates = ratesAt(holders, now);
  return rates || sharesEndUser ? { ...reply, ...rates, ...(sharesEndUser && { sharesEndUser }) } : reply;
});

/** Why a key is refused, whatever its limits are. */
function invalidKey(
  key: KeyRow | undefined,
  { externalKey, keyVersion, accountVersion }: Admit,
  policyVersion: number,
  now: number,
): 'no_key' | 'revoked' | 'paused' | 'expired' | 'changed' | undefined {
  if (!externalKey) {
    if (!key?.hash) return 'no_key';
    if (key.revokedAt !== undefined) return 'revoked';
    if (key.paused) return 'paused';
    if (key.expiresAt !== undefined && now >= key.expiresAt) return 'expired';
    if (keyVersion !== undefined && keyVersion !== key.version) return 'changed';
  }
  return accountVersion === undefined || accountVersion === policyVersion ? undefined : 'changed';
}

export const extend: Transition<Extend, ExtendResult> = witnessed((account, command, now) => {
  const request = account?.request(command.requestId);
  if (!account || !request) return { code: 'unknown', ...replyMeta(account, now) };
  if (request.state !== 'held') return { code: 'closed', state: request.state, ...replyMeta(account, now) };

  updateCredits(account, now);
  const more = command.hold - request.amount;
  const available = more > 0n ? growHold(account, request, more, now) : undefined;
  const checkpoint = command.checkpoint > request.checkpoint ? command.checkpoint : request.checkpoint;
  request.checkpoint = smaller(checkpoint, request.amount);
  request.due = Math.max(request.due, now + command.leaseMs);
  account.saveRequest(request);
  return {
    code: available === undefined ? 'ok' : 'no_funds',
    hold: request.amount,
    available: available ?? spendable(account),
    ...replyMeta(account, now),
  };
});

export const settle: Transition<Settle, SettleResult> = (account, command, now) =>
  post(account, withAdmission(account, command), now);

const post: Transition<Settle, SettleResult> = witnessed((account, command, now, rolledBack) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { requestId, amount, model, usage, dimensions } = command;
  const { totals } = account;
  const unspentBefore = totals.available + totals.held;
  const known = account.request(requestId);
  const inParts = command.inParts === true || rolledBack;
  if (known?.state === 'settled') {
    const before = known.amount;
    if (!inParts || !chargeMore(account, known, command, now)) {
      const isPart = isChargedInPart(account, known, amount) && { isPart: true as const };
      return { code: 'duplicate', charged: known.amount, ...isPart, ...replyMeta(account, now) };
    }
    const { available } = totals;
    const unspent = available + totals.held;
    return {
      code: 'ok',
      charged: known.amount,
      writtenOff: 0n,
      available,
      unspent,
      unspentBefore,
      ...budgetsIn(account, command, known, known.amount - before),
      ...replyMeta(account, now),
    };
  }
  if (known?.state === 'voided') return { code: 'voided', ...replyMeta(account, now) };
  if (!known && amount === 0n && mayBeDeletedFree(account.totals, requestId)) {
    return { code: 'duplicate', charged: 0n, ...replyMeta(account, now) };
  }
  if (!known && !command.force) return { code: 'unknown', ...replyMeta(account, now) };
  if (!known && requestTime(requestId) <= account.totals.lowWater) {
    return { code: 'old', ...replyMeta(account, now) };
  }

  renewDue(account, now);
  const unspentRenewed = totals.available + totals.held;
  const request = known ?? orphan(account, command, now);
  if (known) takeIdempotencyKey(account, known, command);
  const type = !known ? 'o' : known.state === 'held' ? 's' : 'l';
  const tokens = usage.promptTokens + usage.completionTokens;
  const { ending } = usage;
  const { hold, charged, moved, writtenOff, shared } = endRequest(
    account,
    request,
    { state: 'settled', amount, tokens, model, ending, usage, dimensions, inParts },
    now,
  );
  const { key } = request;
  const line: Mutable<NewLine> = { type, id: requestId, amount: moved, key, model, usage };
  if (dimensions) line.dimensions = dimensions;
  if (writtenOff > 0n) line.writtenOff = writtenOff;
  if (type === 's') line.hold = hold;
  writeLine(account, now, line);
  updateCredits(account, now);
  const { available } = totals;
  const unspent = available + totals.held;
  const { seq } = replyMeta(account, now);
  const before = larger(unspentBefore, unspentRenewed);
  const reply = {
    code: 'ok' as const,
    charged,
    writtenOff,
    available,
    unspent,
    unspentBefore: before,
    now,
    seq,
  };
  const budgets = budgetsIn(account, command, request, moved);
  if (shared.length === 0) return budgets ? { ...reply, ...budgets } : reply;
  return { ...reply, sharedDimensions: shared, ...budgets };
});

/** The budgets member of a reply. */
function budgetsIn(
  account: AccountRows,
  { watchesBudgets }: Settle,
  request: RequestRow,
  moved: NanoDollars,
): { readonly budgets?: readonly MovedBudget[] } | undefined {
  if (!watchesBudgets) return undefined;
  const budgets = movedBudgets(account, request, moved);
  return budgets.length > 0 ? { budgets } : undefined;
}

/** Whether only a part of the cost was posted, and the rest was not written off. */
function isChargedInPart(account: AccountRows, { amount, line }: RequestRow, cost: NanoDollars): boolean {
  return amount < cost && line !== undefined && account.line(line)?.writtenOff === undefined;
}

/** Charges a further part of a request, as far as the balance covers it now; returns whether anything was charged. */
function chargeMore(
  account: AccountRows,
  request: RequestRow,
  { amount, dimensions }: Settle,
  now: number,
): boolean {
  const { totals } = account;
  if (!isChargedInPart(account, request, amount)) return false;
  const moved = smaller(amount - request.amount, spendable(account));
  if (moved <= 0n) return false;
  totals.available -= moved;
  totals.spent += moved;
  burn(account, moved);
  countEnded(account, request, { released: 0n, ended: false, moved, tokens: 0 }, now);
  countMore(account, request, moved, dimensions);
  // It cost nothing until now; from now on its record is kept as long as any other.
  if (request.amount === 0n) request.due = Math.max(request.due, deleteAt(request.id, now, false));
  request.amount += moved;
  account.saveRequest(request);
  writeLine(account, now, { type: 'l', id: request.id, amount: moved, key: request.key });
  updateCredits(account, now);
  return true;
}

/** The command `void`, a reserved word: releases the hold, or refunds the charge of an expiry. */
export const release: Transition<Void, VoidResult> = witnessed((account, command, now) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const { requestId, model, ending, provider, dimensions } = command;
  const known = account.request(requestId);
  if (known?.state === 'settled')
    return { code: 'settled', charged: known.amount, ...replyMeta(account, now) };
  if (known?.state === 'voided') return { code: 'duplicate', ...replyMeta(account, now) };
  if (!known) {
    if (mayBeDeletedFree(account.totals, requestId)) return { code: 'old', ...replyMeta(account, now) };
    insertTombstone(account, command, now);
    return { code: 'planted', ...replyMeta(account, now) };
  }

  known.ending = ending;
  known.provider = provider;
  const ended = { model: model ?? known.model, ending, dimensions };
  const { hold, moved } = endRequest(
    account,
    known,
    { state: 'voided', amount: 0n, tokens: 0, ...ended },
    now,
  );
  if (moved !== 0n) writeLine(account, now, { type: 'l', id: requestId, amount: moved, key: known.key });
  updateCredits(account, now);
  return {
    code: 'ok',
    released: hold - moved,
    available: account.totals.available,
    ...replyMeta(account, now),
  };
});

/** Refuses an admit that arrives later. If the key and model are given, there was a hold: the request is counted. */
function insertTombstone(account: AccountRows, command: Void, now: number): void {
  const { requestId: id, key, model, ending, provider, dimensions } = command;
  const row: RequestRow = {
    id,
    key: key ?? '',
    countedAt: 0,
    countedBy: { key: false, account: false, endUser: undefined },
    state: 'voided',
    amount: 0n,
    checkpoint: 0n,
    tokens: 0,
    idempotencyKey: undefined,
    due: deleteAt(id, now, true),
    model: model ?? '',
    line: undefined,
    ending,
    provider,
  };
  account.saveRequest(row);
  if (key !== undefined && model !== undefined) countEnd(account, row, { model, ending, dimensions }, 0n);
}

/** Ends leases that ran out and deletes final records that are due, oldest first; returns how many. */
export function reap(account: AccountRows, budget: number, now: number): number {
  for (let count = 0; count < budget; count++) {
    const request = account.firstDue(now);
    if (!request) return count;
    if (request.state === 'held') {
      const { checkpoint: amount, tokens, model } = request;
      const expired = { state: 'expired', amount, tokens, model, ending: undefined } as const;
      const { hold, moved } = endRequest(account, request, expired, now);
      writeLine(account, now, { type: 'e', id: request.id, amount: moved, hold, key: request.key });
    } else {
      account.deleteRequest(request);
      raiseLowWater(account.totals, request);
    }
  }
  return budget;
}

/** A request that a settle posts without an admission: as if expired, with nothing charged. */
function orphan(account: AccountRows, command: Settle, now: number): RequestRow {
  const { requestId } = command;
  const known = account.key(command.key);
  const key = known ?? newKey({ key: command.key, name: '' }, now);
  const { holders: all, countedBy } = holdersFor(account, key, command.endUser, now);
  // The charge of an unknown key counts for no key, not even for one that is created later.
  const holders = known ? all : all.slice(1);
  const countedAt = latest(holders, now);
  for (const holder of holders) {
    enterWindows(holder.row, countedAt);
    if (requestTime(requestId) > now - MINUTE_MS) countRequest(holder.row, holder.limits, now);
    saveHolder(account, holder);
  }
  const request: RequestRow = {
    id: requestId,
    key: command.key,
    countedAt,
    countedBy: { ...countedBy, key: known !== undefined },
    state: 'expired',
    amount: 0n,
    checkpoint: 0n,
    tokens: 0,
    idempotencyKey: undefined,
    due: now,
    model: command.model,
    line: undefined,
    ending: undefined,
    provider: undefined,
  };
  takeIdempotencyKey(account, request, command);
  return request;
}

/** Sets the idempotency key of a charged request that has none, because its admission or hold was lost. */
function takeIdempotencyKey(account: AccountRows, request: RequestRow, { idempotencyKey }: Settle): void {
  if (!idempotencyKey || request.idempotencyKey) return;
  const duplicate = account.requestByIdempotencyKey(request.key, idempotencyKey.key);
  if (duplicate?.state === 'settled') return;
  // The other request was admitted since, and may still be voided.
  if (duplicate) account.freeIdempotencyKey(duplicate);
  request.idempotencyKey = idempotencyKey;
}

/** Increases a hold by the whole amount, or not at all: then it says by how much it could grow. */
function growHold(
  account: AccountRows,
  request: RequestRow,
  more: NanoDollars,
  now: number,
): NanoDollars | undefined {
  const { totals } = account;
  const holders = holdersOf(account, request);
  const most = smaller(spendable(account), leastBudget(holders, now)?.left ?? more);
  if (more > most) return most;
  totals.available -= more;
  totals.held += more;
  request.amount += more;
  countMoreHeld(account, holders, more, now);
  return undefined;
}

/**
 * Ends a request: the only function that charges and releases.
 *
 * Charges `amount` in total, including what its expiry has charged already; what
 * would take the account below its floor is written off. The usage is counted
 * here too, replacing what the expiry has counted.
 */
function endRequest(
  account: AccountRows,
  request: RequestRow,
  ended: Ended & {
    readonly state: FinalState;
    readonly amount: NanoDollars;
    readonly tokens: number;
    /** Don't write off what isn't covered. */
    readonly inParts?: boolean;
  },
  now: number,
): {
  hold: NanoDollars;
  charged: NanoDollars;
  moved: NanoDollars;
  writtenOff: NanoDollars;
  shared: readonly string[];
} {
  const { totals } = account;
  const { state, amount, tokens, inParts = false } = ended;
  const running = request.state === 'held';
  const hold = running ? request.amount : 0n;
  const already = request.state === 'expired' ? request.amount : 0n;
  const covered = hold + already + larger(0n, spendable(account));
  const rest = larger(0n, amount - covered);
  const writtenOff = inParts ? 0n : rest;
  const charged = amount - rest;
  const moved = charged - already;

  totals.available += hold - moved;
  totals.held -= hold;
  totals.spent += moved;
  totals.writtenOff += writtenOff;
  burn(account, moved);
  const counted = { released: hold, ended: running, moved, tokens: tokens - request.tokens };
  countEnded(account, request, counted, now);
  // An orphan has no line yet, and was not counted.
  const isCounted = request.state === 'expired' && request.line !== undefined;
  if (isCounted) uncountExpiry(account, request, already);
  const shared = countEnd(account, request, ended, isCounted ? charged : moved);
  request.state = state;
  request.amount = charged;
  const isFree = amount === 0n && (state === 'voided' || (state === 'settled' && !request.idempotencyKey));
  request.due = deleteAt(request.id, now, isFree);
  request.model = ended.model;
  // The line that the caller writes next. A voided request has none, or only a correction, which doesn't describe it.
  request.line = state === 'voided' ? undefined : totals.seq + 1n;
  account.saveRequest(request);
  if (state === 'voided') account.freeIdempotencyKey(request);
  return { hold, charged, moved, writtenOff, shared };
}
