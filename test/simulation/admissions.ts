import type { BudgetPeriod, KeyLimits } from '../../src/ledger/contract/key-records.ts';
import type { AccountState, RequestRecord } from '../../src/ledger/contract/ledger-store.ts';
import type { Admission, RequestTruth } from './truth.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Maximum debt of a bucket, in minutes of refill. */
const MAX_DEBT_MINUTES = 60;

/** The state when a store admits a request. */
export interface Judged {
  readonly request: RequestTruth;
  /** The gateway that sent the admit, and when. */
  readonly by: string;
  readonly sentAt: number;
  /** By the store's clock. */
  readonly at: number;
  /** The account, including the request. */
  readonly state: AccountState;
  /** All requests of its API key. */
  readonly ofKey: readonly RequestTruth[];
  /** All requests of its account, and the limits of that. */
  readonly ofAccount: readonly RequestTruth[];
  readonly accountLimits: KeyLimits | undefined;
  /** The gateway can't know yet of what was lost between these two times. */
  readonly hidden: { readonly from: number; readonly to: number };
}

/** A request that counts. It has no record if a rollback lost it. */
interface Use {
  readonly request: RequestTruth;
  readonly record: RequestRecord | undefined;
}

/**
 * Judges an admission by its idempotency key, and by the limits of its API key.
 *
 * Counted are the requests that the store has, and those lost in a rollback that were acknowledged to the gateway that sent
 * the admit. Lost requests that only other gateways know don't count until one of them has replayed them. This is the
 * unavoidable window: only in it can a limit be exceeded, or a used idempotency key be admitted.
 *
 * What was lost while another command of the same gateway was in flight doesn't count for a moment either: that command
 * is the last acknowledged one, and is present. See `Rollbacks.hiddenFrom`.
 *
 * Each sum is a lower bound of the real usage, so every reported violation is certain.
 */
export function judge(judged: Judged): Admission {
  const { request, by, at, state, ofKey, ofAccount, accountLimits } = judged;
  const records = new Map(state.requests.map((record) => [record.id, record]));
  const uses = usesOf(judged, records, ofKey);
  const hold = records.get(request.id)?.amount ?? 0n;
  const repeated = repeatedKey(request, othersOf(request, ofKey), uses);
  const { id, key, tokens } = request;
  const ofLimits = { id, tokens, hold, at };
  const wrong =
    repeated.wrong ??
    passedLimit({ ...ofLimits, who: `key ${key}`, limits: request.limits }, uses, ofKey) ??
    passedLimit(
      { ...ofLimits, who: `account ${request.account}`, limits: accountLimits },
      accountLimits ? usesOf(judged, records, ofAccount) : [],
      ofAccount,
    );
  return { at, isExcused: repeated.isExcused, wrong: wrong && `${wrong} (by ${by})` };
}

function othersOf(request: RequestTruth, all: readonly RequestTruth[]): RequestTruth[] {
  return all.filter((each) => each !== request && !each.isForgiven);
}

/** The other requests that count. */
function usesOf(
  { request, by, sentAt, hidden }: Judged,
  records: ReadonlyMap<string, RequestRecord>,
  all: readonly RequestTruth[],
): Use[] {
  const isKnown = ({ knownTo, lostAt }: RequestTruth): boolean =>
    (knownTo.get(by) ?? Infinity) < sentAt && !(lostAt >= hidden.from && lostAt <= hidden.to);
  const uses: Use[] = [];
  for (const other of othersOf(request, all)) {
    const record = records.get(other.id);
    if (record || (isKnown(other) && other.wasAdmitted)) uses.push({ request: other, record });
  }
  return uses;
}

function repeatedKey(
  { id, idempotencyKey }: RequestTruth,
  others: readonly RequestTruth[],
  uses: readonly Use[],
): { readonly wrong: string | undefined; readonly isExcused: boolean } {
  if (!idempotencyKey) return { wrong: undefined, isExcused: false };
  const twins = others.filter((other) => other.idempotencyKey?.key === idempotencyKey.key);
  for (const { request, record } of uses) {
    if (!twins.includes(request) || !isInForce(request, record)) continue;
    if (record && request.isSucceeded) continue;
    const where = record ? `which is ${record.state}` : 'which a rollback took, and its gateway knew';
    return {
      wrong: `${id} was admitted with the idempotency key of ${request.id}, ${where}`,
      isExcused: false,
    };
  }
  // This store has lost it, or is a former primary that never had it.
  const isExcused = twins.some(({ state, intent }) => state !== 'refused' && intent !== 'void');
  return { wrong: undefined, isExcused };
}

/** Whether the store has another request with the same idempotency key: a replay then doesn't get the key. */
export function hasSuccessor(
  { id, idempotencyKey }: RequestTruth,
  { requests }: AccountState,
  ofKey: readonly RequestTruth[],
): boolean {
  const records = new Map(requests.map((record) => [record.id, record]));
  return ofKey.some((other) => {
    const record = records.get(other.id);
    return (
      other.id !== id &&
      other.idempotencyKey?.key === idempotencyKey?.key &&
      record?.idempotencyKey !== undefined &&
      record.state !== 'voided'
    );
  });
}

/** Whether it occupies its idempotency key: a voided request does not. */
function isInForce(request: RequestTruth, record: RequestRecord | undefined): boolean {
  if (record) return record.state !== 'voided';
  return request.wasAdmitted && request.intent !== 'void' && !request.isDeadLetter;
}

function passedLimit(
  {
    id,
    who,
    limits,
    tokens,
    hold,
    at,
  }: {
    readonly id: string;
    /** Whose limits they are. */
    readonly who: string;
    readonly limits: KeyLimits | undefined;
    readonly tokens: number;
    readonly hold: bigint;
    readonly at: number;
  },
  uses: readonly Use[],
  all: readonly RequestTruth[],
): string | undefined {
  if (!limits) return undefined;
  const { budgets = [], concurrentRequests, requestsPerMinute, tokensPerMinute } = limits;
  for (const budget of budgets) {
    let used = hold;
    for (const use of uses) {
      const { admission } = use.request;
      if (admission && windowStart(budget.per, admission.at) === windowStart(budget.per, at)) {
        used += spentOf(use);
      }
    }
    if (used > budget.amount) {
      return `I9: ${id} was admitted, and with it ${who} has used ${used} of a budget of ${budget.amount} a ${budget.per}`;
    }
  }
  const running = uses.filter(({ request, record }) =>
    record ? record.state === 'held' : request.state === 'running',
  );
  if (concurrentRequests !== undefined && running.length >= concurrentRequests) {
    return `I9: ${id} was admitted, though ${running.length} requests of ${who} ran`;
  }
  if (requestsPerMinute !== undefined) {
    const takes = uses
      .filter((use) => isCounted(use, at))
      .map(({ request: { admission } }) => ({ at: admission?.at ?? 0, count: 1 }));
    if (isEmpty(takes, requestsPerMinute, 1, at)) {
      return `I9: ${id} was admitted, though ${who} has used its ${requestsPerMinute} requests per minute`;
    }
  }
  if (tokensPerMinute !== undefined) {
    const forgiven = all.filter(({ isForgiven }) => isForgiven);
    const takes = [...uses.flatMap((use) => tokensOf(use, at)), ...forgiven.flatMap(returnedBy)];
    if (isEmpty(takes, tokensPerMinute, tokens, at)) {
      return `I9: ${id} was admitted, though ${who} has used its ${tokensPerMinute} tokens per minute`;
    }
  }
  return undefined;
}

/** The part of a budget that a request uses. */
function spentOf({ request, record }: Use): bigint {
  if (record) return record.state === 'voided' ? 0n : record.amount;
  const { state, held, intent, charged } = request;
  if (state === 'running') return held.amount;
  if (intent === undefined || intent === 'void') return 0n;
  return charged ?? (intent < held.amount ? intent : held.amount);
}

/**
 * Whether it counts against limits per minute.
 *
 * A request lost in a rollback counts once it is replayed, unless that is more than a minute later, or it was voided
 * without any usage; a process that died replays nothing.
 */
function isCounted({ request }: Use, at: number): boolean {
  const { admission, wasAdmitted, lostBy, gateway, intent } = request;
  if (!admission || !wasAdmitted) return false;
  if (lostBy.size === 0) return true;
  return !gateway.died && intent !== 'void' && admission.at > at - MINUTE_MS;
}

/** Returned amounts are negative. */
interface Take {
  readonly at: number;
  readonly count: number;
}

/** What a request takes from a token bucket: the estimate at its start, and the correction at its end. */
function tokensOf(use: Use, now: number): readonly Take[] {
  const { admission, tokens } = use.request;
  if (!isCounted(use, now)) return returnedBy(use.request);
  return [{ at: admission?.at ?? 0, count: tokens }, ...correctionOf(use.request)];
}

/** Returned tokens are available, whether the taken ones count or not. */
function returnedBy(request: RequestTruth): readonly Take[] {
  return correctionOf(request).filter(({ count }) => count < 0);
}

function correctionOf({ tokens, tokensUsed = 0, finishedAt }: RequestTruth): readonly Take[] {
  return finishedAt === undefined ? [] : [{ at: finishedAt, count: tokensUsed - tokens }];
}

/** Whether a bucket that was full before all of these has no room for `count` more, or for its maximum. */
function isEmpty(takes: readonly Take[], limit: number, count: number, now: number): boolean {
  // In units times 60,000, so that a limit of n per minute refills n per ms.
  const full = limit * MINUTE_MS;
  let level = full;
  let since = -Infinity;
  const fill = (at: number): void => {
    if (at > since) level = Math.min(full, level + (since === -Infinity ? full : (at - since) * limit));
    since = Math.max(since, at);
  };
  for (const take of takes.toSorted((a, b) => a.at - b.at)) {
    if (take.at > now) break;
    fill(take.at);
    level = Math.min(full, Math.max(-MAX_DEBT_MINUTES * full, level - take.count * MINUTE_MS));
  }
  fill(now);
  return level < Math.min(count, limit) * MINUTE_MS;
}

/** Start of a budget window, UTC. */
function windowStart(per: BudgetPeriod, at: number): number {
  const date = new Date(at);
  const day = Math.floor(at / DAY_MS) * DAY_MS;
  switch (per) {
    case 'hour':
      return Math.floor(at / HOUR_MS) * HOUR_MS;
    case 'day':
      return day;
    case 'week':
      return day - ((date.getUTCDay() + 6) % 7) * DAY_MS;
    case 'month':
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
    default:
      return 0;
  }
}
