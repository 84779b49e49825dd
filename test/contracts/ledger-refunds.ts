import { describe, expect, it } from 'vitest';
import type { Refund } from '../../src/ledger/contract/account-changes.ts';
import { DAY, hashOf, type LedgerFixture, NOON, requestId } from './ledger-fixture.ts';

/** Refunds, and the deletion of accounts. Part of the suite in ledger-store.ts. */
export function describeRefunds(ledger: LedgerFixture): void {
  const { clock, admit, settle, voidRequest, state, lines, usage } = ledger;
  const refund = (n: number, amount: bigint, more?: Partial<Refund>) =>
    ledger.store.refund({
      account: 'acme',
      requestId: requestId(n),
      amount,
      charged: 0n,
      key: 'k1',
      model: 'some/model',
      reason: 'broken answer',
      ...more,
    });

  describe('a refund', () => {
    it('takes back a charge: from the balance, the journal and the usage', async () => {
      await admit(1, 40n);
      await settle(1, 30n);
      expect(await refund(1, 30n)).toMatchObject({ code: 'ok', available: 100n, seq: 3n, now: NOON });
      expect(await state()).toMatchObject({ available: 100n, spent: 0n, granted: 100n, frozen: false });
      expect((await lines())[2]).toEqual({
        type: 'r',
        seq: 3n,
        at: NOON,
        id: requestId(1),
        amount: -30n,
        available: 100n,
        key: 'k1',
        model: 'some/model',
        reason: 'broken answer',
      });
      expect(await usage()).toMatchObject([{ requests: 1, charged: 0n, promptTokens: 9 }]);
      expect(await ledger.store.request('acme', requestId(1))).toMatchObject({
        state: 'settled',
        amount: 30n,
      });
    });

    it('is made once', async () => {
      await admit(1, 40n);
      await settle(1, 30n);
      await refund(1, 12n);
      expect(await refund(1, 12n, { reason: 'another word' })).toMatchObject({
        code: 'duplicate',
        available: 82n,
      });
      expect(await refund(1, 13n)).toMatchObject({ code: 'conflict' });
      expect(await state()).toMatchObject({ spent: 18n, available: 82n });
    });

    it('is at most the charge', async () => {
      await admit(1, 40n);
      await settle(1, 30n);
      expect(await refund(1, 31n)).toMatchObject({ code: 'more_than_charged', charged: 30n });
      await admit(2, 40n);
      await voidRequest(2);
      expect(await refund(2, 1n, { charged: 5n })).toMatchObject({ code: 'more_than_charged', charged: 0n });
      expect(await refund(3, 6n, { charged: 5n })).toMatchObject({ code: 'more_than_charged', charged: 5n });
    });

    it('waits until the request is settled', async () => {
      await admit(1, 40n);
      expect(await refund(1, 1n)).toMatchObject({ code: 'not_settled' });
      await ledger.extend(1, 40n, { checkpoint: 10n });
      clock.now += 10 * 60_000;
      await ledger.store.sweep(10);
      expect(await refund(1, 1n, { charged: 10n })).toMatchObject({ code: 'not_settled' });
    });

    it('is made by the journal where the record was deleted', async () => {
      await admit(1, 40n);
      await settle(1, 30n);
      clock.now += 2 * DAY;
      await ledger.store.sweep(10);
      expect(await refund(1, 30n, { charged: 30n })).toMatchObject({ code: 'ok', available: 100n });
      expect(await usage()).toMatchObject([{ day: '2026-03-04', charged: 0n }]);
    });

    it('gives back to the key’s budget, if its window still runs', async () => {
      await ledger.createKey('k2', { budgets: [{ amount: 50n, per: 'day' }] });
      await admit(1, 40n, { key: 'k2' });
      await settle(1, 40n, { key: 'k2' });
      await admit(2, 10n, { key: 'k2' });
      await settle(2, 10n, { key: 'k2' });
      await refund(1, 15n);
      const budgetOf = async () => (await ledger.store.keyState('acme', 'k2'))?.budgets[0];
      expect(await budgetOf()).toMatchObject({ spent: 35n, left: 15n });
      clock.now += DAY / 2;
      await admit(3, 5n, { key: 'k2', requestId: requestId(3, clock.now) });
      await refund(2, 10n);
      expect(await budgetOf()).toMatchObject({ spent: 0n, left: 45n });
      expect(await ledger.store.keyState('acme', 'k2')).toMatchObject({ spent: 25n });
    });

    it('gives back to the budgets of key, account and end user where the record was deleted', async () => {
      const budgets = (['week', 'month', 'lifetime'] as const).map((per) => ({ amount: 50n, per }));
      const day = { amount: 50n, per: 'day' } as const;
      const policy = { account: 'acme', key: '@', name: '', version: 0, limits: { budgets } };
      await ledger.store.updateKey({ ...policy, endUsers: { budgets } });
      await ledger.createKey('k2', { budgets: [...budgets, day] });
      clock.now += 1;
      const requestOf = (n: number) => ({ key: 'k2', requestId: requestId(n, clock.now) });
      const old = requestOf(1);
      await admit(1, 40n, { ...old, endUser: 'ann' });
      await settle(1, 40n, { ...old, dimensions: { user: 'ann' } });
      clock.now += 2 * DAY;
      await ledger.store.sweep(10);
      await admit(2, 5n, { ...requestOf(2), endUser: 'ann' });
      await settle(2, 5n, requestOf(2));
      await refund(1, 30n, { ...old, charged: 40n, dimensions: { user: 'ann' } });
      const kept = [15n, 15n, 15n];
      const spentOf = async (key: string) =>
        (await ledger.store.keyState('acme', key))?.budgets.map(({ spent }) => spent);
      expect(await spentOf('k2')).toEqual([...kept, 5n]);
      expect(await spentOf('@')).toEqual(kept);
      const endUser = await ledger.store.endUserState('acme', 'ann');
      expect(endUser?.budgets.map(({ spent }) => spent)).toEqual(kept);
    });

    it('gives a budget that is younger than the request no more than it has spent', async () => {
      await admit(1, 40n);
      await settle(1, 40n, { dimensions: { user: 'ann' } });
      clock.now += 2 * DAY;
      await ledger.store.sweep(10);
      const limits = { budgets: [{ amount: 50n, per: 'month' as const }] };
      const policy = { account: 'acme', key: '@', name: '', version: 0, limits };
      await ledger.store.updateKey({ ...policy, endUsers: limits });
      const own = { requestId: requestId(2, clock.now) };
      await admit(2, 7n, { ...own, endUser: 'ann' });
      await settle(2, 7n, own);
      await refund(1, 40n, { charged: 40n, dimensions: { user: 'ann' } });
      expect((await state()).policy).toMatchObject({ spent: 7n, countedAt: clock.now });
      expect(await ledger.store.endUserState('acme', 'ann')).toMatchObject({ spent: 0n });
    });

    it.each([
      { gateway: 'ahead', admittedMs: -5000, idMs: 5000, left: 0n },
      { gateway: 'behind', admittedMs: 5000, idMs: -5000, left: 10n },
    ])('leaves no window below 0 where a gateway’s clock was $gateway as it began', async (skew) => {
      const limits = { budgets: [{ amount: 1000n, per: 'month' as const }] };
      await ledger.createKey('k2', limits);
      const noon = new Date(NOON);
      const start = Date.UTC(noon.getUTCFullYear(), noon.getUTCMonth() + 1, 1);
      clock.now = start + skew.admittedMs;
      const skewed = { key: 'k2', requestId: requestId(1, start + skew.idMs) };
      await admit(1, 40n, skewed);
      await settle(1, 40n, skewed);
      clock.now = start + 2 * DAY;
      await ledger.store.sweep(10);
      const own = { key: 'k2', requestId: requestId(2, clock.now) };
      await admit(2, 10n, own);
      await settle(2, 10n, own);
      await refund(1, 40n, { ...skewed, charged: 40n });
      const key = await ledger.store.keyState('acme', 'k2');
      expect(key?.budgets).toMatchObject([{ spent: skew.left }]);
    });

    it('leaves a counter as it is that others took below 0', async () => {
      const budgets = [{ amount: 50n, per: 'day' as const }];
      await ledger.store.updateKey({ account: 'acme', key: '@', name: '', version: 0, limits: { budgets } });
      clock.now += 1;
      const counted = { requestId: requestId(1, clock.now) };
      await admit(1, 3n, counted);
      await settle(1, 3n, counted);
      const uncounted = (n: number) => ({ requestId: requestId(n, clock.now), charged: 1n });
      await refund(2, 1n, uncounted(2));
      await refund(1, 3n, counted);
      const { policy } = await state();
      expect(policy).toMatchObject({ spent: -1n });
      await refund(3, 1n, uncounted(3));
      expect((await state()).policy).toEqual(policy);
    });

    it('does not lift the charge of a settle that is repeated', async () => {
      await admit(1, 40n);
      await settle(1, 30n);
      await refund(1, 30n);
      expect(await settle(1, 30n, { inParts: true })).toMatchObject({ code: 'duplicate', charged: 30n });
      expect(await state()).toMatchObject({ available: 100n, spent: 0n });
    });

    it('is found by a witness', async () => {
      await admit(1, 40n);
      await settle(1, 30n);
      await refund(1, 30n);
      const there = { type: 'payment', id: `refund:${requestId(1)}` } as const;
      const missing = { type: 'payment', id: `refund:${requestId(2)}` } as const;
      const found = await ledger.store.verify({ account: 'acme', witnesses: [there, missing] });
      expect(found).toMatchObject({ code: 'ok', missing: [1] });
    });

    it('needs an account', async () => {
      expect(await refund(1, 1n, { account: 'zeta' })).toMatchObject({ code: 'no_account' });
    });
  });

  describe('a deleted account', () => {
    const remove = () => ledger.store.deleteAccount('acme');
    const allDeleted = async () => {
      const found = [];
      for await (const each of ledger.store.deletedAccounts()) found.push(each);
      return found;
    };

    it('leaves its sums under an id that says nothing of it', async () => {
      await admit(1, 40n);
      await settle(1, 30n);
      const result = await remove();
      const sums = {
        granted: 100n,
        available: 70n,
        spent: 30n,
        expired: 0n,
        writtenOff: 0n,
        deletedAt: NOON,
      };
      expect(result).toMatchObject({ code: 'ok', deleted: sums });
      const deleted = result.code === 'ok' ? result.deleted : undefined;
      expect(deleted?.id).toMatch(/^[0-9a-f-]{36}$/);
      expect(await allDeleted()).toEqual([deleted]);
    });

    it('is gone, with its keys', async () => {
      await remove();
      const ids = [];
      for await (const id of ledger.store.accounts()) ids.push(id);
      expect(ids).toEqual([]);
      expect(await ledger.store.snapshot('acme')).toBeUndefined();
      expect(await ledger.store.balance('acme')).toBeUndefined();
      expect(await ledger.store.findKey(hashOf('k1'))).toBeUndefined();
      expect(await ledger.store.keys('acme')).toEqual([]);
      expect(await ledger.store.journal('acme', 0n, 10)).toEqual([]);
      expect(await ledger.store.usage('acme', '0000-01-01', '9999-12-31')).toEqual([]);
      expect(await ledger.store.freeze('acme', true)).toBe(false);
      expect(await admit(1, 1n)).toMatchObject({ code: 'no_account' });
      expect(await remove()).toEqual({ code: 'no_account' });
      expect(await allDeleted()).toHaveLength(1);
    });

    it('is not deleted while requests run', async () => {
      await admit(1, 40n);
      await admit(2, 0n);
      expect(await remove()).toEqual({ code: 'running', requests: 2 });
      expect(await state()).toMatchObject({ available: 60n, held: 40n });
      await settle(1, 30n);
      expect(await remove()).toEqual({ code: 'running', requests: 1 });
      clock.now += 10 * 60_000;
      expect(await remove()).toMatchObject({ code: 'ok', deleted: { spent: 30n, available: 70n } });
    });

    it('has in its sums the credits that expired by then, which a refused deletion does not touch', async () => {
      await ledger.grant('trial', 10n, { expiresAt: NOON + 1 });
      await admit(1, 0n);
      clock.now += 1;
      expect(await remove()).toEqual({ code: 'running', requests: 1 });
      expect(await state()).toMatchObject({ available: 110n, expired: 0n, seq: 2n });
      await ledger.store.void({ account: 'acme', requestId: requestId(1) });
      expect(await remove()).toMatchObject({ code: 'ok', deleted: { available: 100n, expired: 10n } });
    });

    it('can be created anew, with the same ids of grants and keys', async () => {
      await remove();
      expect(await ledger.grant('opening', 7n)).toMatchObject({ code: 'ok', available: 7n, seq: 1n });
      expect(await ledger.createKey('k1')).toMatchObject({ code: 'ok' });
      clock.now += 1;
      const own = { requestId: requestId(1, clock.now) };
      expect(await admit(1, 5n, own)).toMatchObject({ code: 'ok', available: 2n });
      expect(await settle(1, 5n, own)).toMatchObject({ code: 'ok', charged: 5n });
      expect(await state()).toMatchObject({ granted: 7n, spent: 5n, seq: 2n, frozen: false });
      expect(await remove()).toMatchObject({ code: 'ok', deleted: { granted: 7n, spent: 5n } });
      expect(await allDeleted()).toHaveLength(2);
    });

    it.each(['a grant', 'a key', 'an allowance'])(
      'is charged for its own requests alone, though one with the same id was made since by %s',
      async (made) => {
        await admit(1, 40n);
        await admit(2, 40n);
        await settle(2, 30n);
        clock.now += 3 * 60_000;
        expect(await remove()).toMatchObject({ code: 'ok' });
        clock.now += DAY - 1;
        await ledger.store.sweep(10);
        if (made === 'a grant') await ledger.grant('opening', 7n);
        if (made === 'a key') await ledger.createKey('k1');
        if (made === 'an allowance') {
          const terms = { amount: 7n, per: 'month', anchor: 0, rollover: 'none', priority: 50 } as const;
          await ledger.store.allow({ account: 'acme', id: 'plan', ...terms, change: 'prorate' });
        }
        const before = await state();
        expect(before).toMatchObject({ spent: 0n, lowWater: NOON + 3 * 60_000 });
        for (const n of [1, 2]) expect(await settle(n, 5n, { force: true })).toMatchObject({ code: 'old' });
        expect(await voidRequest(1)).toMatchObject({ code: 'old' });
        expect(await state()).toEqual(before);
      },
    );

    it('says nothing of an account that is made a day later', async () => {
      await remove();
      clock.now += DAY;
      await ledger.store.sweep(10);
      await ledger.grant('opening', 7n);
      expect(await state()).toMatchObject({ lowWater: 0 });
    });

    it('refuses no request of the new account after the clock was set back', async () => {
      clock.now += 60 * 60_000;
      await remove();
      clock.now = NOON;
      await ledger.grant('opening', 7n);
      await ledger.createKey('k1');
      const own = { requestId: requestId(1, NOON + 1) };
      expect(await admit(1, 5n, own)).toMatchObject({ code: 'ok' });
    });
  });
}
