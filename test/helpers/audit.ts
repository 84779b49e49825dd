import { verifyLedger, type VerifyLedgerOptions, type Finding } from '../../src/ledger/operations/verify.ts';
import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';

/** Everything that an audit finds wrong with a store: nothing, if all is well. */
export async function findingsOf(
  store: LedgerStore,
  options?: VerifyLedgerOptions,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for await (const account of verifyLedger(store, options)) findings.push(...account.findings);
  return findings;
}
