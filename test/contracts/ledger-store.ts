import { describe, expect, it } from 'vitest';
import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import { runs } from '../helpers/runs.ts';
import { behavesLikeTheModel } from './ledger-commands.ts';
import { describeArguments } from './ledger-arguments.ts';
import { describeCredits } from './ledger-credits.ts';
import { describeEdges } from './ledger-edges.ts';
import { useLedger } from './ledger-fixture.ts';
import { describeIdempotency } from './ledger-idempotency.ts';
import { describeKeyChanges } from './ledger-key-changes.ts';
import { describeKeys } from './ledger-keys.ts';
import { describeRestore } from './ledger-restore.ts';
import { describeRefusals } from './ledger-refusals.ts';
import { describeRequests } from './ledger-requests.ts';
import { describeOrphans } from './ledger-orphans.ts';
import { describeParts } from './ledger-parts.ts';
import { describeUsage } from './ledger-usage.ts';
import { describeMissingWitnesses, describeWitnesses } from './ledger-witnesses.ts';

/**
 * The contract of `LedgerStore`. Called once per implementation.
 *
 * @param create - creates an empty store whose clock is `clock.now`, which the tests set
 * @param options.sequences - how many random sequences of commands to compare with the model
 * @param options.isReliable - whether it is a ReliableStore, which tracks acknowledged changes itself
 */
export function describeLedgerStore(
  name: string,
  create: (clock: { now: number }) => Promise<LedgerStore>,
  {
    sequences = 4000,
    isReliable = false,
  }: { readonly sequences?: number; readonly isReliable?: boolean } = {},
): void {
  describe(`${name} as a ledger store`, () => {
    const ledger = useLedger(create);
    describeRequests(ledger);
    describeRestore(ledger);
    describeIdempotency(ledger);
    describeKeys(ledger);
    describeKeyChanges(ledger);
    describeUsage(ledger);
    describeCredits(ledger);
    describeRefusals(ledger);
    describeArguments(ledger);
    describeEdges(ledger);
    describeOrphans(ledger);
    describeWitnesses(ledger);
    if (!isReliable) {
      describeMissingWitnesses(ledger);
      describeParts(ledger);
    }

    it('behaves like the model under any sequence of commands', { timeout: 120_000 }, async () => {
      expect(await behavesLikeTheModel(create, { sequences: runs(sequences), isReliable })).toBe(
        runs(sequences),
      );
    });
  });
}
