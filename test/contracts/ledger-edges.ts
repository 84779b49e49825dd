import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, type LedgerFixture } from './ledger-fixture.ts';

/**
 * Edge cases of every ledger store: queries, and faults from outside. Part of the suite in ledger-store.ts.
 */
export function describeEdges(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, grant, adjust, createKey, state } = ledger;

  describe('questions', () => {
    it('about an unknown account have no answer', async () => {
      expect(await ledger.store.balance('nobody')).toBeUndefined();
      expect(await ledger.store.snapshot('nobody')).toBeUndefined();
      expect(await ledger.store.freeze('nobody', true)).toBe(false);
      await ledger.store.compact('nobody', 1n);
    });

    it('about a balance have its numbers, and whether the account is frozen', async () => {
      await admit(1, 30n);
      await settle(1, 10n);
      await admit(2, 5n);
      expect(await ledger.store.balance('acme')).toEqual({
        available: 85n,
        held: 5n,
        spent: 10n,
        granted: 100n,
        expired: 0n,
        writtenOff: 0n,
        floor: 0n,
        frozen: false,
        seq: 2n,
        lots: [{ id: 'opening', amount: 100n, remaining: 90n, priority: 50 }],
        allowances: [],
      });
      await ledger.store.freeze('acme', true);
      expect(await ledger.store.balance('acme')).toMatchObject({ frozen: true });
    });

    it('name every account', async () => {
      await ledger.store.grant({ account: 'zeta', id: 'g1', amount: 5n });
      const names: string[] = [];
      for await (const account of ledger.store.accounts()) names.push(account);
      expect(names.toSorted()).toEqual(['acme', 'zeta']);
    });

    it('tell a frozen account from others', async () => {
      expect(await ledger.store.freeze('acme', true)).toBe(true);
      expect(await state()).toMatchObject({ frozen: true });
    });
  });

  describe('bugs of other ledgers', () => {
    it('64 concurrent admits against a balance for exactly 7 admit exactly 7', async () => {
      const results = await Promise.all(Array.from({ length: 64 }, (_, n) => admit(n, 14n)));
      expect(results.filter(({ code }) => code === 'ok')).toHaveLength(7);
      expect(results.filter(({ code }) => code === 'no_funds')).toHaveLength(57);
      expect(await state()).toMatchObject({ available: 2n, held: 98n });
    });

    it('64 concurrent admits against a budget for exactly 7 admit exactly 7', async () => {
      await createKey('k2', { budgets: [{ amount: 71n, per: 'day' }] });
      const results = await Promise.all(Array.from({ length: 64 }, (_, n) => admit(n, 10n, { key: 'k2' })));
      expect(results.filter(({ code }) => code === 'ok')).toHaveLength(7);
    });

    it('64 concurrent settles of one request charge once', async () => {
      await admit(1, 30n);
      const results = await Promise.all(Array.from({ length: 64 }, () => settle(1, 10n)));
      expect(results.filter(({ code }) => code === 'ok')).toHaveLength(1);
      expect(await state()).toMatchObject({ spent: 10n, available: 90n });
    });

    it('a process that dies mid-stream leaves no hold behind', async () => {
      await admit(1, 100n);
      clock.now += 2 * MINUTE;
      expect(await admit(2, 100n)).toMatchObject({ code: 'ok' });
    });

    it('a client-level retry of every command applies each once', async () => {
      await twice(() => grant('g2', 50n));
      await twice(() => admit(1, 30n));
      await twice(() => extend(1, 40n, { checkpoint: 5n }));
      await twice(() => settle(1, 12n));
      await twice(() => admit(2, 30n));
      await twice(() => voidRequest(2));
      await twice(() => adjust('a1', -8n));
      expect(await ledger.store.balance('acme')).toEqual({
        available: 130n,
        held: 0n,
        spent: 12n,
        granted: 142n,
        expired: 0n,
        writtenOff: 0n,
        floor: 0n,
        frozen: false,
        seq: 4n,
        lots: [
          { id: 'g2', amount: 50n, remaining: 30n, priority: 50 },
          { id: 'opening', amount: 100n, remaining: 100n, priority: 50 },
        ],
        allowances: [],
      });
      expect(await state()).toMatchObject({ seq: 4n });
    });

    it('a refund lowers what was spent, so that the total does not grow', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 30n });
      clock.now += HOUR;
      await ledger.store.sweep(1);
      await voidRequest(1);
      const { available, held, spent, expired, granted } = await state();
      expect(available + held + spent + expired).toBe(granted);
      expect(granted).toBe(100n);
    });

    it('the account and its key are charged in one step', async () => {
      await createKey('k2', { budgets: [{ amount: 90n, per: 'lifetime' }], concurrentRequests: 5 });
      await admit(1, 30n, { key: 'k2' });
      const [, seen] = await Promise.all([settle(1, 12n), ledger.store.snapshot('acme')]);
      const key = seen?.keys.find((each) => each.key === 'k2');
      expect([seen?.held, seen?.spent]).toEqual([key?.held, key?.spent]);
    });

    it('the budget survives a settle that is refused', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      await admit(1, 30n, { key: 'k2' });
      await settle(1, 30n);
      await settle(2, 30n, { key: 'k2' });
      expect(await admit(3, 1n, { key: 'k2' })).toMatchObject({ code: 'budget', left: 0n });
    });

    it('a hold that can not grow is not lost', async () => {
      await admit(1, 60n);
      await extend(1, 101n);
      expect(await settle(1, 60n)).toMatchObject({ code: 'ok', charged: 60n, available: 40n });
      expect(await state()).toMatchObject({ held: 0n });
    });

    it('a request of unknown cost still holds and counts', async () => {
      await createKey('k2', { concurrentRequests: 1 });
      await admit(1, 0n, { key: 'k2' });
      expect(await admit(2, 0n, { key: 'k2' })).toMatchObject({ code: 'concurrency' });
      expect(await settle(1, 12n)).toMatchObject({ code: 'ok', charged: 12n, available: 88n });
    });
  });
}

async function twice(call: () => Promise<unknown>): Promise<void> {
  await call();
  await call();
}
