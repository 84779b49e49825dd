import {
  type AccountRows,
  type CountedBy,
  endUserOfRow,
  endUserRowId,
  type EndUserRow,
  type KeyRow,
  type RequestRow,
} from './account-rows.ts';
import {
  budgetLeft,
  budgetStates,
  countCharge,
  countingTime,
  countRequest,
  countTokens,
  enterWindows,
  isSameWindow,
  newCounters,
  rateOf,
  waitMs,
} from './key-limits.ts';
import {
  ACCOUNT_POLICY,
  type Budget,
  DEFAULT_MAX_END_USERS,
  type EndUserLimits,
  type ExceededLimit,
  type KeyLimits,
  type KeyRate,
  type KeyRates,
  type LimitHolder,
  type MovedBudget,
} from '../contract/key-records.ts';
import type { Admit } from '../contract/ledger-store.ts';
import type { NanoDollars } from '../contract/money.ts';

/**
 * Those whose limits a request counts against: its key, its account if that has a policy, and its end user if key or
 * account limit their end users. All are judged by the same functions; the tightest limit refuses.
 */
export type Holder =
  | { readonly kind: 'key' | 'account'; readonly row: KeyRow; readonly limits: KeyLimits }
  | { readonly kind: 'end_user'; readonly row: EndUserRow; readonly limits: KeyLimits };

/** The holders of a request that is to be admitted; those that are new are saved with what they count. */
export function holdersFor(
  account: AccountRows,
  key: KeyRow,
  endUser: string | undefined,
  now: number,
): {
  readonly holders: readonly Holder[];
  readonly countedBy: CountedBy;
  readonly sharesEndUser: boolean;
} {
  const holders: Holder[] = [keyHolder(key)];
  const policy = account.totals.policyVersion > 0 ? account.key(ACCOUNT_POLICY) : undefined;
  if (policy) holders.push(accountHolder(policy));
  const found = endUser === undefined ? undefined : endUserFor(account, { key, policy }, endUser, now);
  if (found) holders.push(endUserHolder(found.row, found.limits));
  return {
    holders,
    countedBy: { key: true, account: policy !== undefined, endUser: found?.row.id },
    sharesEndUser: found?.isShared ?? false,
  };
}

/** The holders that a request counts in. */
export function holdersOf(
  account: AccountRows,
  { key: keyId, countedBy }: Pick<RequestRow, 'key' | 'countedBy'>,
): Holder[] {
  const key = countedBy.key ? account.key(keyId) : undefined;
  // An array of one takes less memory than an empty one that grows.
  const holders: Holder[] = key ? [keyHolder(key)] : [];
  const policy = countedBy.account ? account.key(ACCOUNT_POLICY) : undefined;
  if (policy) holders.push(accountHolder(policy));
  const endUser = countedBy.endUser === undefined ? undefined : account.endUser(countedBy.endUser);
  if (endUser) holders.push(endUserHolder(endUser, limitsOfEndUser(account, endUser.id)));
  return holders;
}

/** The holders that a request of a time counts in by the limits that are in force now: its record, which knows, was deleted. */
export function holdersAt(
  account: AccountRows,
  request: { readonly key: string; readonly endUser: string | undefined; readonly at: number },
): Holder[] {
  const holders: Holder[] = [];
  const key = account.key(request.key);
  if (key) holders.push(keyHolder(key));
  const policy = account.totals.policyVersion > 0 ? account.key(ACCOUNT_POLICY) : undefined;
  if (policy && policy.createdAt <= request.at) holders.push(accountHolder(policy));
  const limits = key?.endUsers ?? policy?.endUsers;
  if (!limits || request.endUser === undefined) return holders;
  const endUser = account.endUser(endUserRowId(request.endUser, key?.endUsers && key.key));
  if (endUser) holders.push(endUserHolder(endUser, limits));
  return holders;
}

function keyHolder(row: KeyRow): Holder {
  return { kind: 'key', row, limits: row.limits };
}

function accountHolder(row: KeyRow): Holder {
  return { kind: 'account', row, limits: row.limits };
}

function endUserHolder(row: EndUserRow, limits: KeyLimits): Holder {
  return { kind: 'end_user', row, limits };
}

/** Saves the counters of a holder. */
export function saveHolder(account: AccountRows, { kind, row }: Holder): void {
  if (kind === 'end_user') account.saveEndUser(row);
  else account.saveKey(row);
}

/** The limits of end users that are in force now: those of the key that the row is of, or of the account. */
export function limitsOfEndUser(account: AccountRows, rowId: string): KeyLimits {
  const scope = rowId.slice(0, rowId.indexOf('~')) || ACCOUNT_POLICY;
  return account.key(scope)?.endUsers ?? {};
}

/** The counters of an end user, and the limits that are in force: of its key, or else of its account; undefined without. */
export function endUserFor(
  account: EndUserRows,
  { key, policy }: { readonly key: KeyRow | undefined; readonly policy: KeyRow | undefined },
  endUser: string,
  now: number,
): { readonly row: EndUserRow; readonly limits: EndUserLimits; readonly isShared: boolean } | undefined {
  const limits = key?.endUsers ?? policy?.endUsers;
  if (!limits) return undefined;
  return { limits, ...findEndUser(account, { endUser, key: key?.endUsers && key.key, limits }, now) };
}

type EndUserRows = Pick<AccountRows, 'endUser' | 'endUserCount'>;

/** The row of an end user; the shared one if it has none, and there are as many as there may be. */
function findEndUser(
  account: EndUserRows,
  asked: { readonly endUser: string; readonly key: string | undefined; readonly limits: EndUserLimits },
  now: number,
): { readonly row: EndUserRow; readonly isShared: boolean } {
  const { endUser, key, limits } = asked;
  const id = endUserRowId(endUser, key);
  const own = account.endUser(id);
  if (own) return { row: own, isShared: false };
  const isShared = account.endUserCount() >= (limits.max ?? DEFAULT_MAX_END_USERS);
  const rowId = isShared ? endUserRowId('', key) : id;
  const shared = isShared ? account.endUser(rowId) : undefined;
  return { row: shared ?? { id: rowId, ...newCounters(limits, now) }, isShared };
}

/** The limit that refuses a request now, if any. Changes nothing. */
export function exceededLimit(
  holders: readonly Holder[],
  { want, min, tokens }: Pick<Admit, 'want' | 'min' | 'tokens'>,
  now: number,
): ExceededLimit | undefined {
  for (const { kind, row, limits } of holders) {
    const limit = limits.concurrentRequests;
    if (limit !== undefined && row.running >= limit) return { code: 'concurrency', limitedBy: kind, limit };
  }
  const forRequests = longestWait(holders, now, 'requests_per_minute', 1);
  if (forRequests) return forRequests;
  const forTokens = longestWait(holders, now, 'tokens_per_minute', tokens);
  if (forTokens) return forTokens;

  const least = leastBudget(holders, now);
  if (least && want > 0n && (least.left <= 0n || least.left < min)) {
    const { kind, budget, left } = least;
    return { code: 'budget', limitedBy: kind, budget, left: left > 0n ? left : 0n };
  }
  return undefined;
}

function longestWait(
  holders: readonly Holder[],
  now: number,
  code: 'requests_per_minute' | 'tokens_per_minute',
  count: number,
): ExceededLimit | undefined {
  let longest: ExceededLimit | undefined;
  let retryAfterMs = 0;
  for (const { kind, row, limits } of holders) {
    const isRequests = code === 'requests_per_minute';
    const limit = isRequests ? limits.requestsPerMinute : limits.tokensPerMinute;
    const wait = waitMs(isRequests ? row.requestBucket : row.tokenBucket, limit, count, now);
    if (limit === undefined || wait <= retryAfterMs) continue;
    retryAfterMs = wait;
    longest = { code, limitedBy: kind, limit, retryAfterMs };
  }
  return longest;
}

const NO_BUDGETS: readonly Budget[] = [];

/** The budget with the least left; undefined without any. */
export function leastBudget(
  holders: readonly Holder[],
  now: number,
): { readonly kind: LimitHolder; readonly budget: Budget; readonly left: NanoDollars } | undefined {
  let least: { kind: LimitHolder; budget: Budget; left: NanoDollars } | undefined;
  for (const { kind, row, limits } of holders) {
    for (const budget of limits.budgets ?? NO_BUDGETS) {
      const left = budgetLeft(budget, row, now);
      if (!least || left < least.left) least = { kind, budget, left };
    }
  }
  return least;
}

/** The rates member of a reply: of each kind of limit the one with the least remaining; undefined without any. */
export function ratesAt(holders: readonly Holder[], now: number): { readonly rates?: KeyRates } | undefined {
  let requests: KeyRate | undefined;
  let tokens: KeyRate | undefined;
  for (const { row, limits } of holders) {
    requests = tighter(requests, rateOf(row.requestBucket, limits.requestsPerMinute, now));
    tokens = tighter(tokens, rateOf(row.tokenBucket, limits.tokensPerMinute, now));
  }
  if (!requests && !tokens) return undefined;
  return { rates: { ...(requests && { requests }), ...(tokens && { tokens }) } };
}

function tighter(one: KeyRate | undefined, other: KeyRate | undefined): KeyRate | undefined {
  if (!one || !other) return one ?? other;
  return other.remaining < one.remaining ? other : one;
}

/** Counts an admitted request; returns the time at which it counts. */
export function countAdmission(
  account: AccountRows,
  holders: readonly Holder[],
  { hold, tokens }: { readonly hold: NanoDollars; readonly tokens: number },
  now: number,
): number {
  const time = latest(holders, now);
  for (const holder of holders) {
    const { row, limits } = holder;
    enterWindows(row, time);
    countRequest(row, limits, now);
    countTokens(row, limits, tokens, now);
    row.held += hold;
    row.running += 1;
    saveHolder(account, holder);
  }
  return time;
}

/** Counts a larger hold. */
export function countMoreHeld(
  account: AccountRows,
  holders: readonly Holder[],
  more: NanoDollars,
  now: number,
): void {
  const time = latest(holders, now);
  for (const holder of holders) {
    enterWindows(holder.row, time);
    holder.row.held += more;
    saveHolder(account, holder);
  }
}

/** The latest time whose windows count for one of them, or now. */
export function latest(holders: readonly Holder[], now: number): number {
  let time = now;
  for (const { row } of holders) time = Math.max(time, countingTime(row.countedAt, now));
  return time;
}

/** What a charge did to the budgets in whose current window it counts. */
export function movedBudgets(
  account: AccountRows,
  request: Pick<RequestRow, 'key' | 'countedBy' | 'countedAt'>,
  moved: NanoDollars,
): MovedBudget[] {
  return holdersOf(account, request).flatMap(({ kind, row, limits }) => {
    const current = (limits.budgets ?? []).filter(({ per }) =>
      isSameWindow(per, request.countedAt, row.countedAt),
    );
    return budgetStates({ budgets: current }, row, row.countedAt).map(({ amount, per, spent, resetsAt }) => ({
      limitedBy: kind,
      ...(kind === 'key' && { key: request.key }),
      ...(kind === 'end_user' && endUserOfRow(request.countedBy.endUser ?? '')),
      amount,
      per,
      spent,
      ...(resetsAt !== undefined && { resetsAt }),
      spentBefore: spent - moved,
    }));
  });
}

/** Counts what became of a request: how much of its hold is released, what was charged or refunded, its tokens. */
export function countEnded(
  account: AccountRows,
  request: Pick<RequestRow, 'key' | 'countedBy' | 'countedAt'>,
  {
    released,
    ended,
    moved,
    tokens,
  }: {
    readonly released: NanoDollars;
    readonly ended: boolean;
    readonly moved: NanoDollars;
    readonly tokens: number;
  },
  now: number,
): void {
  for (const holder of holdersOf(account, request)) {
    const { row, limits } = holder;
    row.held -= released;
    if (ended) row.running -= 1;
    countCharge(row, moved, request.countedAt);
    countTokens(row, limits, tokens, now);
    saveHolder(account, holder);
  }
}
