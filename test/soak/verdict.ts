import { type Availability, measureAvailability } from './availability.ts';
import type { Evidence } from './evidence.ts';
import { judgeBooks, type ChangeDiscrepancy, judgeChanges } from './judge-changes.ts';
import { type ChargeDiscrepancy, judgeCharges } from './judge-charges.ts';
import { type Excess, judgeIdempotency, judgeLimits, type RepeatedCharge } from './judge-keys.ts';

/** What the evidence of a scenario comes to. */
export interface Verdict {
  readonly charges: readonly ChargeDiscrepancy[];
  readonly changes: readonly ChangeDiscrepancy[];
  readonly books: readonly string[];
  readonly repeated: readonly RepeatedCharge[];
  readonly excesses: readonly Excess[];
  readonly availability: Availability;
}

export function judge(evidence: Evidence): Verdict {
  return {
    charges: judgeCharges(evidence),
    changes: judgeChanges(evidence),
    books: judgeBooks(evidence),
    repeated: judgeIdempotency(evidence),
    excesses: judgeLimits(evidence),
    availability: measureAvailability(evidence),
  };
}

/** Whether all is as the docs say. */
export function isSound(
  { charges, changes, books, repeated, excesses, availability }: Verdict,
  { books: { stuck, rememberedRequests } }: Evidence,
): boolean {
  const isForgiven = ({ verdict }: { readonly verdict: string }): boolean =>
    verdict === 'documented' || verdict === 'told';
  return (
    charges.every(isForgiven) &&
    changes.every(isForgiven) &&
    books.length === 0 &&
    stuck.length === 0 &&
    rememberedRequests === 0 &&
    repeated.every(({ isInWindow }) => isInWindow) &&
    !excesses.some(({ limit }) => limit === 'budget') &&
    availability.neverRecovered.length === 0 &&
    availability.servedWhileEmpty === 0
  );
}
