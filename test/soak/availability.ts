import type { Try } from './client.ts';
import type { Evidence } from './evidence.ts';

/** How soon requests were served again, and how many were not. */
export interface Availability {
  /** Answers that the store is unavailable. */
  readonly refused: number;
  /** Those sent while nothing was broken, nor had been for a while. */
  readonly refusedInCalm: number;
  readonly share: number;
  /** Of a fault's end, until a gateway served an account again; in ms. */
  readonly recovery: {
    readonly count: number;
    readonly p50: number;
    readonly p99: number;
    readonly max: number;
  };
  /** Gateways that did not serve an account again after the last fault. */
  readonly neverRecovered: readonly string[];
  /** Requests that were served while the store had none of its accounts. */
  readonly servedWhileEmpty: number;
}

const CALM_AFTER_MS = 10_000;
/** What was admitted right before may reach the provider so much later. */
const ADMITTED_BEFORE_MS = 500;

export function measureAvailability({ tries, timeline, attempts }: Evidence): Availability {
  const refused = tries.filter(({ code }) => code === 'credit_store_unavailable');
  const { times, never } = recoveryTimes(tries, timeline.faults);
  const served = tries.filter(({ requestId = '' }) => {
    const receivedAt = attempts.get(requestId)?.[0]?.receivedAt ?? 0;
    return timeline.empty.some(({ from, to }) => receivedAt > from + ADMITTED_BEFORE_MS && receivedAt < to);
  });
  return {
    refused: refused.length,
    refusedInCalm: refused.filter(({ sentAt }) => timeline.isCalm(sentAt, CALM_AFTER_MS)).length,
    share: refused.length / Math.max(1, tries.length),
    recovery: {
      count: times.length,
      p50: percentile(times, 0.5),
      p99: percentile(times, 0.99),
      max: times.at(-1) ?? 0,
    },
    neverRecovered: never,
    servedWhileEmpty: served.length,
  };
}

/** By gateway and account, sorted; where the next fault came first, nothing can be said. */
function recoveryTimes(
  tries: readonly Try[],
  faults: Evidence['timeline']['faults'],
): { readonly times: readonly number[]; readonly never: readonly string[] } {
  const groups = new Map<string, Try[]>();
  for (const tried of tries) {
    if (!showsHealth(tried)) continue;
    const name = `gateway ${tried.place}, account ${tried.plan.payer.account}`;
    groups.set(name, [...(groups.get(name) ?? []), tried]);
  }
  const times: number[] = [];
  const never: string[] = [];
  const starts = faults.map(({ startedAt }) => startedAt);
  for (const { healedAt } of faults) {
    const nextAt = Math.min(...starts.filter((at) => at > healedAt), Infinity);
    if (faults.some((other) => other.startedAt < healedAt && other.healedAt > healedAt)) continue;
    const isLast = nextAt === Infinity && !faults.some((fault) => fault.healedAt > healedAt);
    for (const [name, group] of groups) {
      const sent = group.filter(({ sentAt }) => sentAt >= healedAt);
      const served = sent.find(({ status }) => status === 200);
      if (served && served.headAt! < nextAt) times.push(served.sentAt - sent[0]!.sentAt);
      else if (!served && isLast && sent.length >= ENOUGH_TRIES) never.push(name);
    }
  }
  return { times: times.toSorted((one, other) => one - other), never };
}

/** Whether it is refused only where its gateway can't do otherwise. */
function showsHealth({ plan, status }: Try): boolean {
  const { payer, answer, departure } = plan;
  const isServed = answer.kind !== 'refused' && answer.kind !== 'silent' && departure.kind === 'stay';
  return payer.isUnlimited && isServed && status !== 409;
}

/** Fewer may all have been cut, or have met a gateway that was being started. */
const ENOUGH_TRIES = 12;

function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
