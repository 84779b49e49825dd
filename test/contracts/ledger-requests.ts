import { describe, expect, it } from 'vitest';
import { DAY, HOUR, MINUTE, NOON, requestId, USAGE, type LedgerFixture } from './ledger-fixture.ts';

/** The money of a request in every ledger store. Part of the suite in ledger-store.ts. */
export function describeRequests(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, createKey, state, keyState, lines } = ledger;

  describe('admit', () => {
    it('moves what a request may cost from available to held', async () => {
      expect(await admit(1, 30n)).toEqual({ code: 'ok', hold: 30n, available: 70n, now: NOON, seq: 1n });
      expect(await state()).toMatchObject({ available: 70n, held: 30n, spent: 0n, granted: 100n });
    });

    it('records the hold with its lease', async () => {
      await admit(1, 30n);
      expect((await state()).requests).toEqual([
        { id: requestId(1), state: 'held', amount: 30n, key: 'k1', checkpoint: 0n, due: NOON + 2 * MINUTE },
      ]);
    });

    it('holds the last nano-dollar', async () => {
      expect(await admit(1, 100n)).toMatchObject({ code: 'ok', available: 0n });
    });

    it('refuses one nano-dollar more than there is, and changes nothing', async () => {
      const before = await state();
      expect(await admit(1, 101n)).toMatchObject({ code: 'no_funds', available: 100n });
      expect(await state()).toEqual(before);
    });

    it('holds what there is, if that is at least the minimum', async () => {
      expect(await admit(1, 150n, { min: 100n })).toMatchObject({ code: 'ok', hold: 100n, available: 0n });
    });

    it('refuses when there is less than the minimum', async () => {
      expect(await admit(1, 150n, { min: 101n })).toMatchObject({ code: 'no_funds', available: 100n });
    });

    it('refuses a request that may cost something when nothing is available, even with a minimum of 0', async () => {
      await admit(1, 100n);
      expect(await admit(2, 10n, { min: 0n })).toMatchObject({ code: 'no_funds', available: 0n });
    });

    it('admits a free request with an empty balance', async () => {
      await admit(1, 100n);
      expect(await admit(2, 0n)).toMatchObject({ code: 'ok', hold: 0n, available: 0n });
    });

    it('answers a repeated call with the hold there is', async () => {
      await admit(1, 30n);
      expect(await admit(1, 30n)).toMatchObject({ code: 'exists', hold: 30n, available: 70n });
      expect(await state()).toMatchObject({ available: 70n, held: 30n });
    });

    it('tells a repeated call that its request is settled', async () => {
      await admit(1, 30n);
      await settle(1, 10n);
      expect(await admit(1, 30n)).toMatchObject({ code: 'done', state: 'settled' });
    });

    it('tells a repeated call that its request is voided', async () => {
      await admit(1, 30n);
      await voidRequest(1);
      expect(await admit(1, 30n)).toMatchObject({ code: 'done', state: 'voided' });
    });

    it('tells a repeated call that its request expired', async () => {
      await admit(1, 30n);
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(10);
      expect(await admit(1, 30n)).toMatchObject({ code: 'done', state: 'expired' });
    });

    it('changes nothing when it arrives after its caller gave up', async () => {
      const before = await state();
      expect(await admit(1, 30n, { notAfter: NOON - 1 })).toMatchObject({ code: 'stale' });
      expect(await state()).toEqual(before);
    });

    it('still counts in the millisecond in which its caller gives up', async () => {
      expect(await admit(1, 30n, { notAfter: NOON })).toMatchObject({ code: 'ok' });
    });

    it('refuses an id that is more than five minutes ahead', async () => {
      expect(await admit(1, 1n, { requestId: requestId(1, NOON + 5 * MINUTE + 1) })).toMatchObject({
        code: 'ahead',
      });
    });

    it('refuses an id that is a lifetime ahead, of more digits', async () => {
      expect(await admit(1, 1n, { requestId: requestId(1, Date.UTC(2100, 0)) })).toMatchObject({
        code: 'ahead',
      });
    });

    it('admits an id that is five minutes ahead', async () => {
      expect(await admit(1, 1n, { requestId: requestId(1, NOON + 5 * MINUTE) })).toMatchObject({
        code: 'ok',
      });
    });

    it('knows no account before its first grant or key, and makes none', async () => {
      expect(await admit(1, 0n, { account: 'nobody' })).toEqual({ code: 'no_account', now: NOON, seq: 0n });
      expect(await ledger.store.snapshot('nobody')).toBeUndefined();
    });

    it('refuses while the account is frozen', async () => {
      await ledger.store.freeze('acme', true);
      expect(await admit(1, 30n)).toMatchObject({ code: 'frozen' });
    });

    it('admits again when the account is thawed', async () => {
      await ledger.store.freeze('acme', true);
      await ledger.store.freeze('acme', false);
      expect(await admit(1, 30n)).toMatchObject({ code: 'ok' });
    });

    it('ends at most eight leases that ran out', async () => {
      for (let n = 1; n <= 10; n++) await admit(n, 10n);
      clock.now += 2 * MINUTE;
      expect(await admit(11, 81n)).toMatchObject({ code: 'no_funds', available: 80n });
      expect(await admit(12, 81n)).toMatchObject({ code: 'ok' });
    });

    it('keeps the accounts apart', async () => {
      await ledger.store.grant({ account: 'zeta', id: 'opening', amount: 5n });
      expect(await admit(1, 6n, { account: 'zeta', externalKey: true })).toMatchObject({
        code: 'no_funds',
      });
      expect(await admit(1, 5n, { account: 'zeta', externalKey: true })).toMatchObject({ code: 'ok' });
      expect(await state()).toMatchObject({ available: 100n, requests: [] });
    });
  });

  describe('extend', () => {
    it('renews the lease', async () => {
      await admit(1, 30n);
      clock.now += MINUTE;
      await extend(1, 30n);
      clock.now += 2 * MINUTE - 1;
      expect(await ledger.store.sweep(10)).toBe(0);
      clock.now += 1;
      expect(await ledger.store.sweep(10)).toBe(1);
    });

    it('never shortens the lease', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { leaseMs: 1 });
      expect((await state()).requests).toMatchObject([{ due: NOON + 2 * MINUTE }]);
    });

    it('grows the hold', async () => {
      await admit(1, 30n);
      expect(await extend(1, 100n)).toMatchObject({ code: 'ok', hold: 100n, available: 0n });
      expect(await state()).toMatchObject({ available: 0n, held: 100n });
      expect(await keyState('k1')).toMatchObject({ held: 100n, running: 1 });
    });

    it('grows it once when it is repeated', async () => {
      await admit(1, 30n);
      await extend(1, 50n);
      expect(await extend(1, 50n)).toMatchObject({ code: 'ok', hold: 50n, available: 50n });
    });

    it('shrinks no hold', async () => {
      await admit(1, 30n);
      expect(await extend(1, 10n)).toMatchObject({ code: 'ok', hold: 30n, available: 70n });
    });

    it('keeps the hold as it is when the balance can not cover the larger one, and renews the lease', async () => {
      await admit(1, 30n);
      clock.now += MINUTE;
      expect(await extend(1, 101n)).toMatchObject({ code: 'no_funds', hold: 30n, available: 70n });
      expect((await state()).requests).toMatchObject([{ amount: 30n, due: NOON + 3 * MINUTE }]);
    });

    it('grows no hold beyond the budget of its key', async () => {
      await createKey('k2', { budgets: [{ amount: 40n, per: 'day' }] });
      await admit(1, 30n, { key: 'k2' });
      expect(await extend(1, 41n)).toMatchObject({ code: 'no_funds', hold: 30n, available: 10n });
      expect(await extend(1, 40n)).toMatchObject({ code: 'ok', hold: 40n, available: 60n });
    });

    it('says that the balance is the least where a budget has more left', async () => {
      await createKey('k2', { budgets: [{ amount: 500n, per: 'day' }] });
      await admit(1, 30n, { key: 'k2' });
      expect(await extend(1, 200n)).toMatchObject({ code: 'no_funds', hold: 30n, available: 70n });
    });

    it('says how far a budget is overrun', async () => {
      await createKey('k2', { budgets: [{ amount: 40n, per: 'day' }] });
      await admit(1, 30n, { key: 'k2' });
      await admit(2, 10n, { key: 'k2' });
      await settle(2, 15n, { key: 'k2' });
      expect(await extend(1, 31n)).toMatchObject({ code: 'no_funds', hold: 30n, available: -5n });
    });

    it('raises the checkpoint and never lowers it', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 12n });
      await extend(1, 30n, { checkpoint: 5n });
      expect((await state()).requests).toMatchObject([{ checkpoint: 12n }]);
    });

    it('keeps the checkpoint within the hold', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 31n });
      expect((await state()).requests).toMatchObject([{ checkpoint: 30n }]);
    });

    it('renews a lease that ran out, if it was not ended yet', async () => {
      await admit(1, 30n);
      clock.now += HOUR;
      expect(await extend(1, 30n)).toMatchObject({ code: 'ok' });
    });

    it.each<[string, (n: number) => Promise<unknown>]>([
      ['settled', (n) => settle(n, 1n)],
      ['voided', voidRequest],
    ])('says that a request is %s', async (its, finish) => {
      await admit(1, 30n);
      await finish(1);
      expect(await extend(1, 30n)).toMatchObject({ code: 'closed', state: its });
    });

    it('says that a request expired', async () => {
      await admit(1, 30n);
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(1);
      expect(await extend(1, 30n)).toMatchObject({ code: 'closed', state: 'expired' });
    });

    it('does not know an id or account that was never admitted', async () => {
      expect(await extend(1, 30n)).toMatchObject({ code: 'unknown' });
      expect(await extend(1, 30n, { account: 'nobody' })).toMatchObject({ code: 'unknown' });
    });
  });

  describe('settle', () => {
    it('charges the amount and gives back the rest of the hold', async () => {
      await admit(1, 30n);
      const result = await settle(1, 12n);
      expect(result).toEqual({
        code: 'ok',
        charged: 12n,
        writtenOff: 0n,
        available: 88n,
        unspent: 88n,
        unspentBefore: 100n,
        now: NOON,
        seq: 2n,
      });
      expect(await state()).toMatchObject({ available: 88n, held: 0n, spent: 12n });
      expect(await keyState('k1')).toMatchObject({ held: 0n, running: 0, spent: 12n });
    });

    it('writes one line with all that it was for', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      expect((await lines())[1]).toEqual({
        type: 's',
        seq: 2n,
        at: NOON,
        id: requestId(1),
        amount: 12n,
        available: 88n,
        hold: 30n,
        key: 'k1',
        model: 'some/model',
        usage: USAGE,
      });
    });

    it('charges once, however often it is called', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      expect(await settle(1, 12n)).toMatchObject({ code: 'duplicate', charged: 12n });
      expect(await settle(1, 25n, { force: true })).toMatchObject({ code: 'duplicate', charged: 12n });
      expect(await state()).toMatchObject({ available: 88n, spent: 12n, seq: 2n });
    });

    it('takes a charge of zero for a charge', async () => {
      await admit(1, 30n);
      expect(await settle(1, 0n)).toMatchObject({ code: 'ok', charged: 0n, available: 100n });
      expect(await settle(1, 9n)).toMatchObject({ code: 'duplicate', charged: 0n });
      expect(await lines()).toMatchObject([{ type: 'g' }, { type: 's', amount: 0n }]);
    });

    it('charges more than the hold from what is available', async () => {
      await admit(1, 30n);
      expect(await settle(1, 45n)).toMatchObject({
        code: 'ok',
        charged: 45n,
        writtenOff: 0n,
        available: 55n,
      });
    });

    it('charges to the last nano-dollar before it writes off', async () => {
      await admit(1, 30n);
      expect(await settle(1, 100n)).toMatchObject({ charged: 100n, writtenOff: 0n, available: 0n });
    });

    it('charges down to the floor and writes off the rest', async () => {
      await admit(1, 30n);
      expect(await settle(1, 107n)).toMatchObject({ charged: 100n, writtenOff: 7n, available: 0n });
      expect(await state()).toMatchObject({ available: 0n, spent: 100n, writtenOff: 7n });
      expect((await lines())[1]).toMatchObject({ amount: 100n, writtenOff: 7n, hold: 30n });
    });

    it('writes off a single nano-dollar', async () => {
      await admit(1, 30n);
      expect(await settle(1, 101n)).toMatchObject({ charged: 100n, writtenOff: 1n, available: 0n });
    });

    it('remembers what was charged, not what was asked', async () => {
      await settle(1, 101n, { force: true });
      expect(await settle(1, 101n)).toMatchObject({ code: 'duplicate', charged: 100n });
    });

    it('says what the account has not spent, with what is held, before and after', async () => {
      await admit(1, 30n);
      await admit(2, 60n);
      expect(await settle(1, 12n)).toMatchObject({ available: 28n, unspentBefore: 100n, unspent: 88n });
      expect(await settle(2, 95n)).toMatchObject({ available: 0n, unspentBefore: 88n, unspent: 0n });
    });

    it('touches no hold of another request', async () => {
      await admit(1, 30n);
      await admit(2, 60n);
      expect(await settle(1, 50n)).toMatchObject({ charged: 40n, writtenOff: 10n, available: 0n });
      expect(await settle(2, 60n)).toMatchObject({ charged: 60n, writtenOff: 0n });
    });

    it('says that a request is voided', async () => {
      await admit(1, 30n);
      await voidRequest(1);
      expect(await settle(1, 12n, { force: true })).toMatchObject({ code: 'voided' });
      expect(await state()).toMatchObject({ available: 100n, spent: 0n });
    });

    it('does not post an unknown id unless forced', async () => {
      expect(await settle(1, 12n)).toMatchObject({ code: 'unknown' });
      expect(await state()).toMatchObject({ available: 100n, requests: [] });
    });

    it('posts an unknown id when forced, once', async () => {
      expect(await settle(1, 12n, { force: true })).toMatchObject({
        code: 'ok',
        charged: 12n,
        available: 88n,
      });
      expect(await settle(1, 12n, { force: true })).toMatchObject({ code: 'duplicate', charged: 12n });
      expect((await lines())[1]).toMatchObject({ type: 'o', amount: 12n, key: 'k1' });
      expect(await keyState('k1')).toMatchObject({ spent: 12n, running: 0, held: 0n });
    });

    it('knows no account before its first grant or key, forced or not', async () => {
      expect(await settle(1, 12n, { account: 'nobody', force: true })).toMatchObject({
        code: 'no_account',
      });
    });

    it('goes on while the account is frozen', async () => {
      await admit(1, 30n);
      await ledger.store.freeze('acme', true);
      expect(await settle(1, 12n)).toMatchObject({ code: 'ok', charged: 12n });
    });

    it('posts the difference when the lease expired before', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 5n });
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(1);
      expect(await settle(1, 12n)).toMatchObject({ code: 'ok', charged: 12n, available: 88n });
      expect(await state()).toMatchObject({ spent: 12n, available: 88n });
      expect(await keyState('k1')).toMatchObject({ spent: 12n });
      expect((await lines())[2]).toMatchObject({ type: 'l', amount: 7n, available: 88n });
    });

    it('gives back what expiry charged too much', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 20n });
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(1);
      expect(await settle(1, 12n)).toMatchObject({ code: 'ok', charged: 12n, available: 88n });
      expect((await lines())[2]).toMatchObject({ type: 'l', amount: -8n });
    });

    it('settles a late request once', async () => {
      await admit(1, 30n);
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(1);
      await settle(1, 12n);
      expect(await settle(1, 12n)).toMatchObject({ code: 'duplicate', charged: 12n });
    });

    it('keeps what expiry charged when the account has nothing left for the rest', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 20n });
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(1);
      await admit(2, 80n);
      expect(await settle(1, 25n)).toMatchObject({
        code: 'ok',
        charged: 20n,
        writtenOff: 5n,
        available: 0n,
      });
    });
  });

  describe('void', () => {
    it('gives back the whole hold', async () => {
      await admit(1, 30n);
      expect(await voidRequest(1)).toEqual({
        code: 'ok',
        released: 30n,
        available: 100n,
        now: NOON,
        seq: 1n,
      });
      expect(await state()).toMatchObject({ available: 100n, held: 0n, spent: 0n });
      expect(await keyState('k1')).toMatchObject({ held: 0n, running: 0 });
    });

    it('writes no line, for it posts nothing', async () => {
      await admit(1, 30n);
      await voidRequest(1);
      expect(await lines()).toHaveLength(1);
    });

    it('gives back once', async () => {
      await admit(1, 30n);
      await voidRequest(1);
      expect(await voidRequest(1)).toMatchObject({ code: 'duplicate' });
      expect(await state()).toMatchObject({ available: 100n });
    });

    it('leaves a settled request as it is', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      expect(await voidRequest(1)).toMatchObject({ code: 'settled', charged: 12n });
      expect(await state()).toMatchObject({ available: 88n, spent: 12n });
    });

    it('refunds what expiry charged, from spent to available', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 20n });
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(1);
      expect(await voidRequest(1)).toMatchObject({ code: 'ok', released: 20n, available: 100n });
      expect(await state()).toMatchObject({ available: 100n, spent: 0n, granted: 100n });
      expect(await keyState('k1')).toMatchObject({ spent: 0n });
      expect((await lines())[2]).toMatchObject({ type: 'l', amount: -20n, available: 100n });
    });

    it('plants a tombstone that a late admit finds', async () => {
      expect(await voidRequest(1)).toMatchObject({ code: 'planted' });
      expect(await admit(1, 30n)).toMatchObject({ code: 'done', state: 'voided' });
      expect(await state()).toMatchObject({ available: 100n, held: 0n });
    });

    it('plants it once', async () => {
      await voidRequest(1);
      expect(await voidRequest(1)).toMatchObject({ code: 'duplicate' });
    });

    it('knows no account before its first grant or key', async () => {
      expect(await ledger.store.void({ account: 'nobody', requestId: requestId(1) })).toMatchObject({
        code: 'no_account',
      });
    });
  });

  describe('leases', () => {
    it('end by charging the checkpoint and giving back the rest', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 12n });
      clock.now += 2 * MINUTE;
      expect(await ledger.store.sweep(10)).toBe(1);
      expect(await state()).toMatchObject({ available: 88n, held: 0n, spent: 12n });
      expect(await keyState('k1')).toMatchObject({ held: 0n, running: 0, spent: 12n });
      expect((await lines())[1]).toEqual({
        type: 'e',
        seq: 2n,
        at: clock.now,
        id: requestId(1),
        amount: 12n,
        available: 88n,
        hold: 30n,
        key: 'k1',
      });
    });

    it('run to their last millisecond', async () => {
      await admit(1, 30n);
      clock.now += 2 * MINUTE - 1;
      expect(await ledger.store.sweep(10)).toBe(0);
      clock.now += 1;
      expect(await ledger.store.sweep(10)).toBe(1);
    });

    it('end oldest first, as many as the sweep may', async () => {
      await admit(1, 10n, { leaseMs: 2 * MINUTE });
      await admit(2, 20n, { leaseMs: MINUTE });
      clock.now += HOUR;
      expect(await ledger.store.sweep(1)).toBe(1);
      expect(await state()).toMatchObject({ held: 10n });
      expect(await ledger.store.sweep(0)).toBe(0);
      expect(await ledger.store.sweep(5)).toBe(1);
    });

    it('end in every account', async () => {
      await ledger.store.grant({ account: 'zeta', id: 'opening', amount: 5n });
      await admit(1, 30n);
      await admit(1, 5n, { account: 'zeta', externalKey: true });
      clock.now += HOUR;
      expect(await ledger.store.sweep(10)).toBe(2);
      expect(await ledger.store.balance('zeta')).toMatchObject({ available: 5n, held: 0n });
    });

    it('may be settled in their last moment and after it, once', async () => {
      await admit(1, 30n, { leaseMs: 1000 });
      clock.now += 1000;
      await settle(1, 12n);
      expect(await ledger.store.sweep(10)).toBe(0);
      expect(await lines()).toMatchObject([{ type: 'g' }, { type: 's' }]);
    });
  });

  describe('memory of requests', () => {
    async function expire(n: number): Promise<void> {
      await admit(n, 30n, { leaseMs: 1 });
      clock.now += 1;
      expect(await ledger.store.sweep(1)).toBe(1);
    }

    it('lasts 24 hours from their end', async () => {
      await admit(1, 30n);
      clock.now += MINUTE;
      await settle(1, 12n);
      clock.now += DAY - 1;
      expect(await ledger.store.sweep(10)).toBe(0);
      expect(await settle(1, 12n)).toMatchObject({ code: 'duplicate' });
      clock.now += 1;
      expect(await ledger.store.sweep(10)).toBe(1);
      expect(await state()).toMatchObject({ requests: [], lowWater: NOON });
    });

    it('ends by refusing every unknown id as old as the forgotten one, for ever', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      clock.now += DAY;
      await ledger.store.sweep(10);
      expect(await admit(1, 30n)).toMatchObject({ code: 'old' });
      expect(await settle(1, 12n, { force: true })).toMatchObject({ code: 'old' });
      expect(await voidRequest(1)).toMatchObject({ code: 'old' });
      expect(await settle(1, 12n)).toMatchObject({ code: 'unknown' });
      expect(await state()).toMatchObject({ available: 88n, spent: 12n });
    });

    it('does not refuse an id that is younger than the forgotten one', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      clock.now += DAY;
      await ledger.store.sweep(10);
      expect(await admit(2, 30n, { requestId: requestId(2, NOON + 1) })).toMatchObject({ code: 'ok' });
    });

    it('keeps the newest time of those forgotten', async () => {
      await settle(1, 1n, { requestId: requestId(1, NOON), force: true });
      clock.now += 1;
      await settle(2, 1n, { requestId: requestId(2, NOON - HOUR), force: true });
      clock.now += DAY;
      await ledger.store.sweep(10);
      expect(await state()).toMatchObject({ requests: [], lowWater: NOON });
    });

    it('refuses no new request while a clock that was set back is behind what was forgotten', async () => {
      await settle(1, 1n, { requestId: requestId(1, NOON), force: true });
      clock.now += DAY;
      await ledger.store.sweep(10);
      clock.now = NOON - DAY;
      const earlier = { requestId: requestId(2, clock.now) };
      expect(await admit(2, 1n, earlier)).toMatchObject({ code: 'ok' });
      expect(await settle(3, 1n, { requestId: requestId(3, clock.now), force: true })).toMatchObject({
        code: 'old',
      });
      clock.now = NOON;
      expect(await admit(4, 1n, { requestId: requestId(4, NOON) })).toMatchObject({ code: 'old' });
      expect(await settle(2, 1n, earlier)).toMatchObject({ code: 'ok', charged: 1n });
    });

    it('does not end for a request that still runs', async () => {
      await admit(1, 30n, { leaseMs: 3 * DAY });
      await admit(2, 30n);
      await settle(2, 0n);
      clock.now += 2 * DAY;
      await ledger.store.sweep(10);
      expect(await settle(1, 12n)).toMatchObject({ code: 'ok', charged: 12n });
    });

    it('lasts 24 hours from the time of an id that is ahead, lest it refuse others', async () => {
      await settle(1, 1n, { requestId: requestId(1, NOON + 3 * DAY), force: true });
      clock.now += 2 * DAY;
      expect(await ledger.store.sweep(10)).toBe(0);
      expect(await admit(2, 1n, { requestId: requestId(2, clock.now) })).toMatchObject({ code: 'ok' });
    });

    it.each<[string, () => Promise<unknown>]>([
      ['was voided', () => admit(1, 30n).then(() => voidRequest(1))],
      ['was voided before it was admitted', () => voidRequest(1)],
      ['was voided after it expired', () => expire(1).then(() => voidRequest(1))],
      ['was charged 0', () => admit(1, 30n).then(() => settle(1, 0n))],
      ['was charged 0, though it was unknown', () => settle(1, 0n, { force: true })],
    ])('lasts 10 minutes for one that cost nothing, and refuses no other id: %s', async (_how, end) => {
      await end();
      clock.now += 10 * MINUTE - 1;
      expect(await ledger.store.sweep(10)).toBe(0);
      expect((await state()).requests).toHaveLength(1);
      clock.now += 1;
      expect(await ledger.store.sweep(10)).toBe(1);
      expect(await state()).toMatchObject({ requests: [], lowWater: 0 });
      expect(await settle(2, 12n, { force: true })).toMatchObject({ code: 'ok', charged: 12n });
    });

    it('lasts 24 hours for one that was written off, and so is not charged later', async () => {
      await admit(1, 100n);
      expect(await settle(2, 12n, { force: true })).toMatchObject({ charged: 0n, writtenOff: 12n });
      clock.now += HOUR;
      await voidRequest(1);
      await ledger.store.sweep(10);
      expect(await settle(2, 12n, { force: true })).toMatchObject({ code: 'duplicate', charged: 0n });
    });

    it('lasts 24 hours for one that only expired, because its charge may still come', async () => {
      await expire(1);
      clock.now += DAY - 1;
      await ledger.store.sweep(10);
      expect(await settle(1, 12n)).toMatchObject({ code: 'ok', charged: 12n });
    });

    it('is not missed of what cost nothing, though that is said again', async () => {
      await admit(1, 30n);
      await admit(2, 30n);
      await settle(1, 0n);
      await voidRequest(2);
      clock.now += 10 * MINUTE;
      await ledger.store.sweep(10);
      const [charged, voided] = [
        await settle(1, 0n, { force: true, wasAdmitted: true }),
        await voidRequest(2),
      ];
      expect([charged, voided]).toMatchObject([{ code: 'duplicate', charged: 0n }, { code: 'old' }]);
      expect([charged.rolledBack, voided.rolledBack]).toEqual([undefined, undefined]);
      expect(await state()).toMatchObject({ available: 100n, held: 0n, spent: 0n });
    });

    it('is cleared a few at a time by admits', async () => {
      for (let n = 1; n <= 9; n++) await voidRequest(n);
      clock.now += DAY;
      await admit(10, 1n, { requestId: requestId(10, clock.now) });
      expect((await state()).requests).toHaveLength(2);
    });
  });
}
