import { expect, it } from 'vitest';

import { HoldKeeper } from '../../../src/billing/hold-keeper.ts';
import type { LedgerEvent } from '../../../src/ledger/contract/events.ts';
import type { SettleResult } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';

it('a full dimension is told of 10,000 accounts, and of no more', () => {
  const events: LedgerEvent[] = [];
  const tell = (event: LedgerEvent) => void events.push(event);
  const keeper = new HoldKeeper({ store: new MemoryStore(), onError: () => {}, tell });
  const charged = { charged: 1n, writtenOff: 0n, available: 5n, unspent: 5n, unspentBefore: 6n };
  const result: SettleResult = { code: 'ok', now: 0, seq: 1n, ...charged, sharedDimensions: ['user'] };
  for (let n = 0; n < 10_002; n++) keeper.charged(`account-${n}`, 'request', 1n, result);
  expect(events).toHaveLength(10_000);
  expect(events.at(-1)).toEqual({ type: 'dimension_full', account: 'account-9999', dimension: 'user' });
});
