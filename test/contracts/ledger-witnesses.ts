import type { LedgerFixture } from './ledger-fixture.ts';

export function describeWitnesses(_ledger: LedgerFixture): void {}
