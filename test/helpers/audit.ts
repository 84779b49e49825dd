import { audit, type AuditOptions, type Finding } from '../../src/ledger/operations/verify.ts';
import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';

/** Everything that an audit finds wrong with a store: nothing, if all is well. */
export async function findingsOf(store: LedgerStore, options?: AuditOptions): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for await (const account of audit(store, options)) findings.push(...account.findings);
  return findings;
}
