import '../../src/platform/require-node.ts';

/** Published as `chat-completions-router/testing/contracts`: `scripts/contracts.ts` builds it. */
export { describeLedgerStore, type LedgerStoreSuiteOptions, type TestClock } from './ledger-store.ts';
export type { Mount, Mounted, MountFacts } from './mount.ts';
export { describeRouter } from './mounted-router.ts';
