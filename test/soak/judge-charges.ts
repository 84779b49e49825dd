import { type Evidence, type RequestEvidence, requestsOf, toldLosses } from './evidence.ts';
import { type Expectation, expectationOf } from './expectation.ts';
import type { GatewayRun } from './gateway-place.ts';
import type { Timeline } from './timeline.ts';

/**
 * `lost`: charged too little, or nothing, and not told; `double`: charged more than once; `unsent`: charged, and never at
 * the provider; `wrong`: anything else that isn't what it should be; `documented`: lost with a gateway that did not outlive
 * a rollback; `told`: given up, as operators were told.
 */
export type ChargeVerdict = 'lost' | 'double' | 'unsent' | 'wrong' | 'documented' | 'told';

export interface ChargeDiscrepancy {
  readonly verdict: ChargeVerdict;
  readonly request: RequestEvidence;
  readonly expected: Expectation;
  readonly told: bigint;
}

/** So long after a rollback was over a gateway may still have had to apply again what was lost. */
const REPAIR_MS = 60_000;
/** A mark is of a moment, and an acknowledgement on its way. */
const SLACK_MS = 2000;

/** What is charged for each request, against what it may be. */
export function judgeCharges(evidence: Evidence): readonly ChargeDiscrepancy[] {
  const told = toldLosses(evidence.runs);
  return requestsOf(evidence).flatMap((request) => {
    const expected = expectationOf(request, evidence.hasOutbox);
    const judged = { request, expected, told: told.get(request.id) ?? 0n };
    const verdict = verdictOf(judged, evidence.timeline);
    return verdict ? [{ ...judged, verdict }] : [];
  });
}

function verdictOf(
  { request, expected, told }: Omit<ChargeDiscrepancy, 'verdict'>,
  timeline: Timeline,
): ChargeVerdict | undefined {
  const { charged, lines, attempts, tried } = request;
  const postings = lines.filter(({ type }) => type !== 'l').length;
  if (postings > 1) return 'double';
  if (charged > expected.most) return attempts.length === 0 ? 'unsent' : 'wrong';
  if (charged >= expected.least) return undefined;
  if (charged + told >= expected.least) return 'told';
  const run = tried?.run;
  if (tried && run && isDocumentedLoss(run, tried.sentAt, tried.endedAt ?? tried.sentAt, timeline)) {
    return 'documented';
  }
  const isShort = charged === 0n || lines.some(({ writtenOff = 0n }) => writtenOff > 0n);
  return isShort ? 'lost' : 'wrong';
}

/** Whether what a gateway did from one time to another may be lost, because it ended with or soon after a rollback. */
export function isDocumentedLoss(run: GatewayRun, from: number, to: number, { losses }: Timeline): boolean {
  const endedAt = run.killedAt ?? run.endedAt ?? Infinity;
  return losses.some(
    (loss) =>
      to > loss.from - SLACK_MS && from < loss.to && endedAt > loss.from && endedAt < loss.to + REPAIR_MS,
  );
}
