import type { LedgerFixture } from './ledger-fixture.ts';

export function describeParts(_ledger: LedgerFixture): void {}
