import { describe, expect, it } from 'vitest';
import type { LedgerStore } from '../../src/index.ts';
import { runs } from '../helpers/runs.ts';
import { behavesLikeTheModel, MODEL_TIMEOUT_MS } from './ledger-commands.ts';
import { describeAllowances } from './ledger-allowances.ts';
import { describeArguments } from './ledger-arguments.ts';
import { describeClaims } from './ledger-claims.ts';
import { describeCredits } from './ledger-credits.ts';
import { describeCreditLines } from './ledger-credit-lines.ts';
import { describeDimensions } from './ledger-dimensions.ts';
import { describeEdges } from './ledger-edges.ts';
import { describeEndUsers } from './ledger-end-users.ts';
import { useLedger } from './ledger-fixture.ts';
import { describeGateways } from './ledger-gateways.ts';
import { describeIdempotency } from './ledger-idempotency.ts';
import { describeKeyChanges } from './ledger-key-changes.ts';
import { describeKeys } from './ledger-keys.ts';
import { describeRestore } from './ledger-restore.ts';
import { describeRefusals } from './ledger-refusals.ts';
import { describeRefunds } from './ledger-refunds.ts';
import { describeRequests } from './ledger-requests.ts';
import { describeMovedBudgets } from './ledger-moved-budgets.ts';
import { describeOrphans } from './ledger-orphans.ts';
import { describeParts } from './ledger-parts.ts';
import { describeRequestLog } from './request-log.ts';
import { describeRouting } from './routing.ts';
import { describeUsage } from './ledger-usage.ts';
import { describeMissingWitnesses, describeWitnesses } from './ledger-witnesses.ts';

/** The only clock that a store under test may read: tests set it, forward and back. */
export interface TestClock {
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

export interface LedgerStoreSuiteOptions<Store extends LedgerStore> {
  /** Removes what `create` made, such as a database. Called after the store was closed. */
  readonly destroy?: (store: Store) => void | Promise<void>;
  /**
   * How many random sequences, of up to 100 commands each, are compared with the model, each on a store of its own. They
   * have two minutes: a store behind a network needs fewer. @default 400
   */
  readonly sequences?: number;
  /** The store is a ReliableStore: it names the witnesses itself, and never asks callers. @internal */
  readonly isReliable?: boolean;
}

/**
 * What any ledger store must do. Called once for each implementation, at the top of a Vitest file.
 *
 * @param name - of the implementation, for the names of the tests
 * @param create - makes an empty store that takes the time from `clock.now()`, for each test and each random sequence.
 *   One that shares a database with those before needs a namespace of its own. The suite closes it.
 */
export function describeLedgerStore<Store extends LedgerStore>(
  name: string,
  create: (clock: TestClock) => Store | Promise<Store>,
  options: LedgerStoreSuiteOptions<Store> = {},
): void {
  const { destroy, sequences = 400, isReliable = false } = options;
  const createAt = async (clock: { now: number }): Promise<LedgerStore> => create({ now: () => clock.now });
  const close = async (store: LedgerStore): Promise<void> => {
    await store.close();
    await destroy?.(store as Store);
  };
  describe(`${name} as a ledger store`, { timeout: 30_000 }, () => {
    const ledger = useLedger(createAt, close);
    describeRequests(ledger);
    describeRestore(ledger);
    describeClaims(ledger);
    describeIdempotency(ledger);
    describeKeys(ledger);
    describeKeyChanges(ledger);
    describeEndUsers(ledger);
    describeMovedBudgets(ledger);
    describeUsage(ledger);
    describeDimensions(ledger);
    describeGateways(ledger);
    describeRequestLog(ledger);
    describeRouting(ledger);
    describeCredits(ledger);
    describeCreditLines(ledger);
    describeAllowances(ledger);
    describeRefunds(ledger);
    describeRefusals(ledger);
    describeArguments(ledger);
    describeEdges(ledger);
    describeOrphans(ledger);
    describeWitnesses(ledger);
    if (!isReliable) {
      describeMissingWitnesses(ledger);
      describeParts(ledger);
    }

    it('behaves like the model under any sequence of commands', { timeout: MODEL_TIMEOUT_MS }, async () => {
      const compared = await behavesLikeTheModel(createAt, { sequences: runs(sequences), isReliable, close });
      expect(compared).toBe(runs(sequences));
    });
  });
}
