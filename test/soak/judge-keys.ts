import { chargesOf, type Evidence, type RequestEvidence, requestsOf } from './evidence.ts';
import type { Payer } from './plan.ts';

/** An idempotency key under which more than one request was charged. */
export interface RepeatedCharge {
  readonly idempotencyKey: string;
  readonly requests: readonly RequestEvidence[];
  /**
   * Of the second one, in ms: how long after a rollback that lost the first one's admission it was sent; undefined where
   * there was none.
   */
  readonly sinceRollbackMs?: number;
  /** The documented window: another gateway, soon after a rollback. */
  readonly isInWindow: boolean;
}

/** Through another gateway than the first one's a retry may be admitted until that has repaired its account. */
const WINDOW_MS = 30_000;
/** It is settled so much later than its client has its answer, at most. */
const SLACK_MS = 2000;

/** Keys of clients under which more than one request was charged. */
export function judgeIdempotency(evidence: Evidence): readonly RepeatedCharge[] {
  const byKey = new Map<string, RequestEvidence[]>();
  for (const request of requestsOf(evidence)) {
    const name = request.tried?.plan.idempotencyKey;
    if (name === undefined || request.charged <= 0n) continue;
    byKey.set(name, [...(byKey.get(name) ?? []), request]);
  }
  return [...byKey].flatMap(([idempotencyKey, charged]) => {
    if (charged.length < 2) return [];
    const requests = charged.toSorted((one, other) => one.tried!.sentAt - other.tried!.sentAt);
    const [first, second] = requests.map(({ tried }) => tried!);
    const { losses } = evidence.timeline;
    const loss = losses.find(
      ({ from, to }) => first!.sentAt < to && from < (first!.endedAt ?? Infinity) + SLACK_MS,
    );
    const sinceRollbackMs = loss && second!.sentAt - loss.to;
    const isInWindow =
      sinceRollbackMs !== undefined && sinceRollbackMs < WINDOW_MS && first!.place !== second!.place;
    return [
      { idempotencyKey, requests, isInWindow, ...(sinceRollbackMs !== undefined && { sinceRollbackMs }) },
    ];
  });
}

/** A limit of a key that was exceeded. */
export interface Excess {
  readonly key: string;
  readonly limit: 'budget' | 'requests per minute' | 'concurrent requests';
  /** Nano-dollars, or requests. */
  readonly allowed: number;
  readonly found: number;
}

export function judgeLimits(evidence: Evidence): readonly Excess[] {
  const requests = requestsOf(evidence);
  return evidence.keys.flatMap((payer) => {
    const own = requests.filter(({ tried }) => tried?.plan.payer.keyId === payer.keyId);
    return [budgetExcess(payer, evidence), rateExcess(payer, own), concurrencyExcess(payer, own)].flat();
  });
}

function budgetExcess({ budget, keyId, account }: Payer, { books }: Evidence): Excess[] {
  if (budget === undefined) return [];
  const lines = books.accounts.filter(({ name }) => name === account).flatMap(chargesOf);
  const spent = lines.filter(({ key }) => key === keyId).reduce((sum, { amount }) => sum + amount, 0n);
  return spent > budget
    ? [{ key: keyId, limit: 'budget', allowed: Number(budget), found: Number(spent) }]
    : [];
}

/** A bucket of a minute's requests that fills evenly: by how much too many were admitted at once. */
function rateExcess({ requestsPerMinute, keyId }: Payer, requests: readonly RequestEvidence[]): Excess[] {
  if (requestsPerMinute === undefined) return [];
  const arrivals = requests
    .flatMap(({ attempts }) => attempts[0]?.receivedAt ?? [])
    .toSorted((a, b) => a - b);
  let level = 0;
  let most = 0;
  let before = arrivals[0] ?? 0;
  for (const at of arrivals) {
    level = Math.max(0, level - ((at - before) * requestsPerMinute) / 60_000) + 1;
    most = Math.max(most, level);
    before = at;
  }
  // What was admitted one after the other may arrive at the provider together.
  return most > requestsPerMinute + 1.5
    ? [{ key: keyId, limit: 'requests per minute', allowed: requestsPerMinute, found: Math.round(most) }]
    : [];
}

/** The provider may hear so much later than the ledger that a request was given up. */
const NEWS_MS = 250;

/** How many ran at the provider at once. */
function concurrencyExcess(
  { concurrentRequests, keyId }: Payer,
  requests: readonly RequestEvidence[],
): Excess[] {
  if (concurrentRequests === undefined) return [];
  const changes = requests.flatMap(({ attempts }) =>
    attempts.flatMap(({ receivedAt, endedAt, outcome }) =>
      endedAt === undefined
        ? []
        : [
            { at: receivedAt, by: 1 },
            { at: outcome === 'aborted' ? endedAt - NEWS_MS : endedAt, by: -1 },
          ],
    ),
  );
  let running = 0;
  let most = 0;
  for (const { by } of changes.toSorted((one, other) => one.at - other.at || one.by - other.by)) {
    running += by;
    most = Math.max(most, running);
  }
  return most > concurrentRequests
    ? [{ key: keyId, limit: 'concurrent requests', allowed: concurrentRequests, found: most }]
    : [];
}
