import { describe, expect, it } from 'vitest';

import { type LedgerStore, StoreUnavailable } from '../../../src/ledger/ledger.ts';
import { hashOf, MINUTE, requestId } from '../../contracts/ledger-fixture.ts';
import { admission, inFakeTime, openAccount, pass, settlement } from '../../helpers/reliable-store.ts';

describe('a store made reliable', () => {
  inFakeTime();

  describe('with an offline allowance', () => {
    const offlineAllowance = { perKey: 100n, perProcess: 250n, forMs: 5 * MINUTE };

    it('admits as much as it says by key and in all, and no more', async () => {
      const { primary, store } = await openAccount(100_000n, { offlineAllowance });
      for (const n of [1, 2, 3, 4]) await store.admit(admission(n, 1n, { key: `k${n}` }));
      primary.fault = 'refuse';
      const ask = async (n: number, key: string, want: bigint, min = want): Promise<bigint> => {
        const result = await store.admit(admission(n, want, { key, min })).catch(() => undefined);
        return result?.code === 'ok' ? result.hold : 0n;
      };
      expect(await ask(10, 'k1', 60n)).toBe(60n);
      expect(await ask(11, 'k1', 60n)).toBe(0n);
      expect(await ask(12, 'k1', 60n, 10n)).toBe(40n);
      expect(await ask(13, 'k1', 1n)).toBe(0n);
      expect(await ask(14, 'k2', 100n)).toBe(100n);
      expect(await ask(15, 'k3', 100n)).toBe(0n);
      expect(await ask(16, 'k3', 50n)).toBe(50n);
      expect(await ask(17, 'k4', 1n)).toBe(0n);
    });

    it('gives nothing to a request with an idempotency key, which nobody can recognize', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      const idempotencyKey = { key: hashOf('once'), body: hashOf('body') };
      await expect(store.admit(admission(2, 1n, { idempotencyKey }))).rejects.toThrow(StoreUnavailable);
      expect(await store.admit(admission(3, 1n))).toMatchObject({ code: 'ok' });
    });

    it('takes a hold back only once the store has its settlement', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      await store.admit(admission(10, 100n));
      const settled = store.settle(settlement(10, 30n));
      await pass(1000);
      await expect(store.admit(admission(11, 100n))).rejects.toThrow(StoreUnavailable);
      primary.fault = undefined;
      await pass(6000);
      expect(await settled).toMatchObject({ code: 'ok', charged: 30n });
      primary.fault = 'refuse';
      expect(await store.admit(admission(12, 100n))).toMatchObject({ code: 'ok', hold: 100n });
    });

    it('posts the charge of a request whose admit arrived after all once', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'lose the answer';
      expect(await store.admit(admission(10, 100n))).toMatchObject({ code: 'ok', hold: 100n });
      primary.fault = undefined;
      expect(await store.settle(settlement(10, 30n))).toMatchObject({ charged: 30n });
      expect(await store.balance('acme')).toMatchObject({ spent: 30n, held: 1n });
    });

    it.each<[string, (store: LedgerStore) => Promise<unknown>]>([
      ['was never admitted', async () => {}],
      ['had no credits', (store) => store.admit(admission(1, 10_000n))],
      [
        'was revoked',
        async (store) => {
          await store.admit(admission(1, 1n));
          await store.revokeKey('acme', 'k1');
        },
      ],
      [
        'is frozen',
        async (store) => {
          await store.admit(admission(1, 1n));
          await store.freeze('acme', true);
        },
      ],
    ])('gives nothing to a key that %s', async (_, before) => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await before(store);
      primary.fault = 'refuse';
      await expect(store.admit(admission(10, 1n))).rejects.toThrow(StoreUnavailable);
    });

    it('ends when the store has been away for too long', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      expect(await store.admit(admission(10, 1n))).toMatchObject({ code: 'ok' });
      await pass(5 * MINUTE + 1);
      await expect(store.admit(admission(11, 1n))).rejects.toThrow(StoreUnavailable);
    });

    it('renews its holds by itself, and lets them not grow', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      await store.admit(admission(10, 50n));
      const renewal = { account: 'acme', requestId: requestId(10), leaseMs: MINUTE, checkpoint: 1n };
      expect(await store.extend({ ...renewal, hold: 50n })).toMatchObject({ code: 'ok', hold: 50n });
      expect(await store.extend({ ...renewal, hold: 51n })).toMatchObject({ code: 'no_funds', hold: 50n });
    });
  });
});
