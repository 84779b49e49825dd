import { describe, expect, it } from 'vitest';

import {
  type Admit,
  type AdmitResult,
  type Settle,
  type SettleResult,
  StoreUnavailableError,
  type Void,
  type VoidResult,
} from '../../../src/ledger/contract/ledger-store.ts';
import { ReliableStore } from '../../../src/ledger/reliability/reliable-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { describeLedgerStore } from '../../contracts/index.ts';
import { admission, clock, inFakeTime, pass, settlement } from '../../helpers/reliable-store.ts';

/** The same store, by promises. */
class LateStore extends MemoryStore {
  override async admit(command: Admit): Promise<AdmitResult> {
    return super.admit(command);
  }

  override async settle(command: Settle): Promise<SettleResult> {
    return super.settle(command);
  }

  override async void(command: Void): Promise<VoidResult> {
    return super.void(command);
  }
}

describeLedgerStore(
  'ReliableStore of a store that answers later',
  ({ now }) => new ReliableStore({ store: new LateStore({ now }), now, tell: () => {} }),
  { sequences: 50, isReliable: true },
);

/** Applies a command or not, and throws at once. */
class ThrowingStore extends MemoryStore {
  failure: 'lost command' | 'lost answer' | undefined;

  override admit(command: Admit): AdmitResult | Promise<AdmitResult> {
    return this.#run(() => super.admit(command));
  }

  override settle(command: Settle): SettleResult | Promise<SettleResult> {
    return this.#run(() => super.settle(command));
  }

  #run<T>(command: () => T): T {
    if (this.failure === 'lost command') throw new StoreUnavailableError('no');
    const reply = command();
    if (this.failure === 'lost answer') throw new StoreUnavailableError('unknown');
    return reply;
  }
}

describe('a store that answers at once', () => {
  inFakeTime();

  const open = async (): Promise<{ primary: ThrowingStore; store: ReliableStore }> => {
    const now = (): number => clock.now;
    const primary = new ThrowingStore({ now });
    const store = new ReliableStore({ store: primary, now, tell: () => {} });
    await store.grant({ account: 'acme', id: 'opening', amount: 1000n });
    return { primary, store };
  };

  it('needs no promise', async () => {
    const { store } = await open();
    expect(store.admit(admission(1, 100n))).toMatchObject({ code: 'ok', hold: 100n });
    expect(store.settle(settlement(1, 60n))).toMatchObject({ code: 'ok', charged: 60n });
    expect(store.settle(settlement(1, 60n))).toMatchObject({ code: 'duplicate', charged: 60n });
    expect(await store.balance('acme')).toMatchObject({ available: 940n, held: 0n });
  });

  it('is repeated a charge that it threw at, and charges it once', async () => {
    const { primary, store } = await open();
    await store.admit(admission(1, 100n));
    for (const failure of ['lost command', 'lost answer'] as const) {
      primary.failure = failure;
      const settled = store.settle(settlement(1, 60n));
      await pass(1000);
      expect(store.waitingCharges).toBe(1);
      primary.failure = undefined;
      await pass(10_000);
      expect(await settled).toMatchObject({ charged: 60n });
    }
    expect(await store.balance('acme')).toMatchObject({ available: 940n, held: 0n });
  });

  it('gets a void of what it may have admitted before it threw', async () => {
    const { primary, store } = await open();
    primary.failure = 'lost answer';
    await expect(store.admit(admission(1, 100n))).rejects.toMatchObject({ applied: 'unknown' });
    primary.failure = undefined;
    await pass(1000);
    expect(await store.balance('acme')).toMatchObject({ available: 1000n, held: 0n });
  });
});
