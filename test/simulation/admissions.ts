import type { KeyLimits } from '../../src/ledger/contract/key-records.ts';
import type { AccountState, RequestRecord } from '../../src/ledger/contract/ledger-store.ts';
import type { Admission, RequestTruth } from './truth.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** A bucket is in debt by what fills in so many minutes at most. */
const MAX_DEBT_MINUTES = 60;

/** What is known at the moment at which a store admits a request. */
export interface Judged {
  readonly request: RequestTruth;
  /** The gateway that sent the admit, and when. */
  readonly by: string;
  readonly sentAt: number;
  /** By the store's clock. */
  readonly at: number;
  /** Of its account, with the request in it. */
  readonly state: AccountState;
  /** All requests of its API key. */
  readonly ofKey: readonly RequestTruth[];
  /** Of what was lost by then and after the other, the gateway can't know yet. */
  readonly hidden: { readonly from: number; readonly to: number };
}

/** A request that counts; what a rollback took has no record. */
interface Use {
  readonly request: RequestTruth;
  readonly record: RequestRecord | undefined;
}

/**
 * Judges an admission by its idempotency key, and by the limits of its API key.
 *
 * What counts against it is each request that the store has, and each that a rollback took if the gateway that sent the
 * admit had been told of it before. What a rollback took and only other gateways know does not count until one of
 * them has applied it again. That is the unavoidable window: in it, and only in it, a limit can be passed and a used
 * idempotency key be admitted.
 *
 * Nor, for a moment, does what was lost while another command of the same gateway was on its way: that is acknowledged
 * last, and is there. See `Rollbacks.hiddenFrom`.
 *
 * Each sum is the least that can have been used, so that what is found here is certain.
 */
export function judge(judged: Judged): Admission {
  const { request, by, sentAt, at, state, ofKey, hidden } = judged;
  const records = new Map(state.requests.map((record) => [record.id, record]));
  const isKnown = ({ knownTo, lostAt }: RequestTruth): boolean =>
    (knownTo.get(by) ?? Infinity) < sentAt && !(lostAt >= hidden.from && lostAt <= hidden.to);
  const others = ofKey.filter((each) => each !== request && !each.isForgiven);
  const uses: Use[] = [];
  for (const other of others) {
    const record = records.get(other.id);
    if (record || (isKnown(other) && other.wasAdmitted)) uses.push({ request: other, record });
  }
  const window = windowStart(request.limits, at);
  const hold = records.get(request.id)?.amount ?? 0n;
  const repeated = repeatedKey(request, others, uses);
  const wrong = repeated.wrong ?? passedLimit(request, uses, { hold, window, at });
  return { at, window, isExcused: repeated.isExcused, wrong: wrong && `${wrong} (by ${by})` };
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
  // The store that was asked has lost it, or is a former primary that never had it.
  const isExcused = twins.some(({ state, intent }) => state !== 'refused' && intent !== 'void');
  return { wrong: undefined, isExcused };
}

/** Whether the store has another request with this one's idempotency key: applied again then, it doesn't get the key. */
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

/** It stands for its idempotency key: a request that was voided doesn't. */
function isInForce(request: RequestTruth, record: RequestRecord | undefined): boolean {
  if (record) return record.state !== 'voided';
  return request.wasAdmitted && request.intent !== 'void' && !request.isDeadLetter;
}

function passedLimit(
  { id, key, limits, tokens }: RequestTruth,
  uses: readonly Use[],
  { hold, window, at }: { readonly hold: bigint; readonly window: number; readonly at: number },
): string | undefined {
  if (!limits) return undefined;
  const { budget, concurrentRequests, requestsPerMinute, tokensPerMinute } = limits;
  if (budget) {
    let used = hold;
    for (const use of uses) if (use.request.admission?.window === window) used += spentOf(use);
    if (used > budget.amount) {
      return `I9: ${id} was admitted, and with it key ${key} has used ${used} of a budget of ${budget.amount} a ${budget.per}`;
    }
  }
  const running = uses.filter(({ request, record }) =>
    record ? record.state === 'held' : request.state === 'running',
  );
  if (concurrentRequests !== undefined && running.length >= concurrentRequests) {
    return `I9: ${id} was admitted, though ${running.length} requests of key ${key} ran`;
  }
  if (requestsPerMinute !== undefined) {
    const takes = uses
      .filter((use) => isCounted(use, at))
      .map(({ request: { admission } }) => ({ at: admission?.at ?? 0, count: 1 }));
    if (isEmpty(takes, requestsPerMinute, 1, at)) {
      return `I9: ${id} was admitted, though key ${key} has used its ${requestsPerMinute} requests per minute`;
    }
  }
  if (tokensPerMinute !== undefined) {
    const takes = uses.flatMap((use) => tokensOf(use, at));
    if (isEmpty(takes, tokensPerMinute, tokens, at)) {
      return `I9: ${id} was admitted, though key ${key} has used its ${tokensPerMinute} tokens per minute`;
    }
  }
  return undefined;
}

/** What a request uses of a budget. */
function spentOf({ request, record }: Use): bigint {
  if (record) return record.state === 'voided' ? 0n : record.amount;
  const { state, held, intent, charged } = request;
  if (state === 'running') return held.amount;
  if (intent === undefined || intent === 'void') return 0n;
  return charged ?? (intent < held.amount ? intent : held.amount);
}

/**
 * It counts against limits per minute.
 *
 * What a rollback took is counted when it is applied again, unless that is more than a minute later, or it was voided,
 * and got nothing; a process that died applies nothing again.
 */
function isCounted({ request }: Use, at: number): boolean {
  const { admission, wasAdmitted, lostBy, gateway, intent } = request;
  if (!admission || !wasAdmitted) return false;
  if (lostBy.size === 0) return true;
  return !gateway.died && intent !== 'void' && admission.at > at - MINUTE_MS;
}

/** What is given back is negative. */
interface Take {
  readonly at: number;
  readonly count: number;
}

/** What a request takes of a bucket of tokens: the estimate when it begins, and what was wrong with that when it ends. */
function tokensOf(use: Use, now: number): readonly Take[] {
  const { admission, tokens, tokensUsed = 0, finishedAt } = use.request;
  const last = finishedAt === undefined ? [] : [{ at: finishedAt, count: tokensUsed - tokens }];
  // What is given back is there, whether what was taken counts or not.
  if (!isCounted(use, now)) return last.filter(({ count }) => count < 0);
  return [{ at: admission?.at ?? 0, count: tokens }, ...last];
}

/** Whether a bucket that was full before all of these has no room for `count` more, or for all that it can have. */
function isEmpty(takes: readonly Take[], limit: number, count: number, now: number): boolean {
  // In thousandths of a sixtieth, so that a limit of n a minute fills n a millisecond.
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

/** Start of a budget's window, in UTC. */
function windowStart(limits: KeyLimits | undefined, at: number): number {
  const date = new Date(at);
  const day = Math.floor(at / DAY_MS) * DAY_MS;
  switch (limits?.budget?.per) {
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
