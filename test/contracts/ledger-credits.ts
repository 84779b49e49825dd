import { beforeEach, describe, expect, it } from 'vitest';
import type { Grant } from '../../src/ledger/contract/ledger-store.ts';
import { DAY, HOUR, MAX, NOON, type LedgerFixture } from './ledger-fixture.ts';

/**
 * Grants, adjustments, expiry and compaction in every ledger store. Part of the suite in ledger-store.ts.
 */
export function describeCredits(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, grant, adjust, state, lines } = ledger;
  const remaining = async (): Promise<string[]> =>
    (await state()).lots.map((lot) => `${lot.id} ${lot.remaining}`);

  describe('grants', () => {
    it('add to what is available', async () => {
      expect(await grant('g2', 25n)).toMatchObject({ code: 'ok', available: 125n, now: NOON, seq: 2n });
      expect(await state()).toMatchObject({ available: 125n, granted: 125n });
      expect((await lines())[1]).toEqual({
        type: 'g',
        seq: 2n,
        at: NOON,
        id: 'g2',
        amount: 25n,
        available: 125n,
      });
    });

    it('make the account', async () => {
      expect(await ledger.store.grant({ account: 'zeta', id: 'g1', amount: 5n })).toMatchObject({
        code: 'ok',
        available: 5n,
      });
    });

    it('make no account that must exist', async () => {
      const account = 'zeta';
      const refused = await ledger.store.grant({ account, id: 'g1', amount: 5n, mustExist: true });
      expect(refused).toMatchObject({ code: 'no_account', seq: 0n });
      expect(await ledger.store.snapshot(account)).toBeUndefined();
      expect(await grant('g2', 5n, { mustExist: true })).toMatchObject({ code: 'ok', available: 105n });
    });

    it('are what they always are where the account may be made again', async () => {
      const zeta = { account: 'zeta', id: 'g1', amount: 5n, recreate: true };
      expect(await ledger.store.grant(zeta)).toMatchObject({ code: 'ok', available: 5n });
      expect(await ledger.store.grant(zeta)).toMatchObject({ code: 'duplicate', available: 5n });
      expect(await grant('opening', 100n, { recreate: true })).toMatchObject({ code: 'duplicate' });
      expect(await grant('g2', 5n, { recreate: true })).toMatchObject({ code: 'ok', available: 105n });
    });

    it('are applied once', async () => {
      expect(await grant('opening', 100n)).toMatchObject({ code: 'duplicate', available: 100n });
      expect(await state()).toMatchObject({ granted: 100n, seq: 1n });
    });

    it('are applied once even when they are long used up', async () => {
      await admit(1, 100n);
      await settle(1, 100n);
      expect(await grant('opening', 100n)).toMatchObject({ code: 'duplicate', available: 0n });
    });

    it('take the default priority for what it is', async () => {
      expect(await grant('opening', 100n, { priority: 50 })).toMatchObject({ code: 'duplicate' });
    });

    it.each<[string, bigint, Partial<Grant>]>([
      ['amount', 99n, {}],
      ['expiry', 100n, { expiresAt: NOON }],
      ['priority', 100n, { priority: 51 }],
    ])('refuse the same id with another %s', async (_, amount, more) => {
      expect(await grant('opening', amount, more)).toMatchObject({ code: 'conflict' });
      expect(await state()).toMatchObject({ granted: 100n, available: 100n });
    });

    it('lift the balance to the largest amount and not beyond', async () => {
      await admit(1, 60n);
      expect(await grant('g2', MAX - 99n)).toMatchObject({ code: 'too_big' });
      expect(await grant('g3', MAX - 100n)).toMatchObject({ code: 'ok', available: MAX - 60n });
    });

    it('are summed beyond 2^53 to the last nano-dollar, where the sum ends with nine zeros too', async () => {
      await admit(1, 100n);
      await settle(1, 100n);
      await grant('g2', MAX);
      await admit(2, MAX);
      await settle(2, MAX);
      await grant('g3', 745_258_914n);
      expect(await state()).toMatchObject({ granted: 9_007_200_000_000_005n });
      await adjust('a1', -5n);
      expect(await state()).toMatchObject({ granted: 9_007_200_000_000_000n });
    });

    it('find room where one of 100 expires in the same moment', async () => {
      for (let n = 2; n <= 99; n++) await grant(`g${n}`, 1n);
      await grant('g100', 1n, { expiresAt: NOON + 60_000 });
      clock.now += 60_000;
      expect(await grant('g101', 1n)).toMatchObject({ code: 'ok' });
      expect(await grant('g102', 1n)).toMatchObject({ code: 'too_many_lots' });
    });

    it('are at most 100 with something left', async () => {
      for (let n = 2; n <= 100; n++) await grant(`g${n}`, 1n);
      expect(await grant('g101', 1n)).toMatchObject({ code: 'too_many_lots' });
      await admit(1, 100n);
      await settle(1, 100n);
      expect(await grant('g101', 1n)).toMatchObject({ code: 'ok' });
    });

    it('make room for others when they expire', async () => {
      for (let n = 2; n <= 100; n++) await grant(`g${n}`, 1n, n === 50 ? { expiresAt: NOON + 1000 } : {});
      clock.now += 1000;
      expect(await grant('g101', 1n)).toMatchObject({ code: 'ok' });
    });

    it('carry into the next billion, beyond 2^53 as well', async () => {
      await grant('g1', MAX - 100n);
      await settle(1, MAX, { force: true });
      await grant('g2', 745_259_009n);
      expect(await state()).toMatchObject({ granted: 9_007_200_000_000_000n });
    });
  });

  describe('credits', () => {
    it('burn by priority, then expiry, then id', async () => {
      await grant('never', 10n, { priority: 10 });
      await grant('b', 10n, { priority: 10, expiresAt: NOON + DAY });
      await grant('a', 10n, { priority: 10, expiresAt: NOON + DAY });
      await grant('soon', 10n, { priority: 10, expiresAt: NOON + HOUR });
      await grant('first', 10n, { priority: 9 });
      expect(await remaining()).toEqual(['first 10', 'soon 10', 'a 10', 'b 10', 'never 10', 'opening 100']);
      await admit(1, 35n);
      await settle(1, 35n);
      expect(await remaining()).toEqual(['b 5', 'never 10', 'opening 100']);
    });

    it('are not burnt by a hold', async () => {
      await admit(1, 35n);
      expect(await remaining()).toEqual(['opening 100']);
    });

    it('expire in the millisecond that their grant said', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR });
      clock.now += HOUR - 1;
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 150n });
      clock.now += 1;
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 100n, granted: 150n });
      expect(await state()).toMatchObject({ expired: 50n, available: 100n, frozen: false });
      expect((await lines())[2]).toEqual({
        type: 'x',
        seq: 3n,
        at: clock.now,
        id: 'trial',
        amount: 50n,
        available: 100n,
      });
    });

    it('expire before an admit looks at the balance', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR });
      clock.now += HOUR;
      expect(await admit(1, 101n)).toMatchObject({ code: 'no_funds', available: 100n });
    });

    it('expire before a hold grows', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR });
      await admit(1, 10n, { leaseMs: DAY });
      clock.now += HOUR;
      expect(await extend(1, 101n)).toMatchObject({ code: 'no_funds', hold: 10n, available: 90n });
    });

    it('expire in a sweep, uncounted', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR });
      clock.now += HOUR;
      expect(await ledger.store.sweep(10)).toBe(0);
      expect(await state()).toMatchObject({ available: 100n, expired: 50n });
    });

    it('expire as far as they were not used', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR, priority: 1 });
      await admit(1, 30n);
      await settle(1, 30n);
      clock.now += HOUR;
      await ledger.store.sweep(1);
      expect(await state()).toMatchObject({ expired: 20n, available: 100n, spent: 30n });
    });

    it('never expire while they are held; what is given back then does', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR });
      await admit(1, 120n, { leaseMs: DAY });
      clock.now += HOUR;
      await ledger.store.sweep(1);
      expect(await state()).toMatchObject({ expired: 30n, available: 0n, held: 120n });
      await voidRequest(1);
      expect(await state()).toMatchObject({ expired: 50n, available: 100n, held: 0n });
    });

    it('that were held and expired meanwhile expire when the request is settled for less', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR });
      await admit(1, 150n, { leaseMs: DAY });
      clock.now += HOUR;
      expect(await settle(1, 20n)).toMatchObject({ code: 'ok', charged: 20n, available: 100n });
      expect(await state()).toMatchObject({ expired: 30n, spent: 20n });
    });

    it('burn by the difference when a settle is late', async () => {
      await admit(1, 50n);
      await extend(1, 50n, { checkpoint: 30n });
      clock.now += HOUR;
      await ledger.store.sweep(1);
      await settle(1, 35n);
      expect(await remaining()).toEqual(['opening 65']);
    });

    it('that come back by a late settle never expire', async () => {
      await grant('trial', 50n, { expiresAt: NOON + HOUR, priority: 1 });
      await admit(1, 50n);
      await extend(1, 50n, { checkpoint: 50n });
      clock.now += HOUR;
      await ledger.store.sweep(1);
      await settle(1, 20n);
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 130n });
    });
  });

  describe('adjustments', () => {
    it('add', async () => {
      expect(await adjust('a1', 25n)).toMatchObject({ code: 'ok', available: 125n });
      expect(await state()).toMatchObject({ granted: 125n, available: 125n });
      expect((await lines())[1]).toEqual({
        type: 'a',
        seq: 2n,
        at: NOON,
        id: 'a1',
        amount: 25n,
        available: 125n,
        reason: 'correction',
      });
    });

    it('take, from the lots too', async () => {
      expect(await adjust('a1', -25n)).toMatchObject({ code: 'ok', available: 75n });
      expect(await state()).toMatchObject({ granted: 75n, available: 75n, lots: [{ remaining: 75n }] });
      expect((await lines())[1]).toMatchObject({ type: 'a', amount: -25n });
    });

    it('are exact beyond 2^53, up and down', async () => {
      const numbers = async (): Promise<unknown> => {
        const { granted, spent } = await state();
        return { granted, spent };
      };
      await grant('g2', MAX - 100n);
      await settle(1, MAX, { force: true });
      await grant('g3', 2n);
      expect(await numbers()).toEqual({ granted: 2n ** 53n + 1n, spent: MAX });
      await adjust('a1', -2n);
      expect(await numbers()).toEqual({ granted: MAX, spent: MAX });

      await grant('g4', 2n);
      await admit(2, 2n);
      await extend(2, 2n, { checkpoint: 2n });
      clock.now += HOUR;
      await ledger.store.sweep(10);
      expect(await numbers()).toEqual({ granted: 2n ** 53n + 1n, spent: 2n ** 53n + 1n });
      await voidRequest(2);
      expect(await numbers()).toEqual({ granted: 2n ** 53n + 1n, spent: MAX });
      expect(await state()).toMatchObject({ frozen: false, available: 2n });
    });

    it('take all that is available and no more', async () => {
      await admit(1, 40n);
      expect(await adjust('a1', -61n)).toMatchObject({ code: 'below_floor', available: 60n });
      expect(await adjust('a2', -60n)).toMatchObject({ code: 'ok', available: 0n });
    });

    it('are applied once', async () => {
      await adjust('a1', 25n);
      expect(await adjust('a1', 25n)).toMatchObject({ code: 'duplicate', available: 125n });
    });

    it('refuse the same id with another amount or reason', async () => {
      await adjust('a1', 25n);
      expect(await adjust('a1', 26n)).toMatchObject({ code: 'conflict' });
      expect(await adjust('a1', 25n, { reason: 'another' })).toMatchObject({ code: 'conflict' });
    });

    it('share their ids with the grants', async () => {
      await adjust('a1', 100n);
      expect(await adjust('opening', 100n)).toMatchObject({ code: 'conflict' });
      expect(await grant('a1', 100n)).toMatchObject({ code: 'conflict' });
    });

    it('can be made after all when they were refused', async () => {
      await adjust('a1', -101n);
      await grant('g2', 1n);
      expect(await adjust('a1', -101n)).toMatchObject({ code: 'ok', available: 0n });
    });

    it('lift the balance to the largest amount and not beyond', async () => {
      expect(await adjust('a1', MAX - 99n)).toMatchObject({ code: 'too_big' });
      expect(await adjust('a2', MAX - 100n)).toMatchObject({ code: 'ok', available: MAX });
      expect(await adjust('a3', 1n)).toMatchObject({ code: 'too_big' });
      expect(await adjust('a4', -1n)).toMatchObject({ code: 'ok', available: MAX - 1n });
    });

    it('make no account', async () => {
      const result = await ledger.store.adjust({ account: 'nobody', id: 'a1', delta: 1n, reason: '' });
      expect(result).toMatchObject({ code: 'no_account' });
      expect(await ledger.store.snapshot('nobody')).toBeUndefined();
    });
  });

  describe('the journal', () => {
    beforeEach(async () => {
      await grant('g2', 20n);
      await grant('g3', 3n);
    });

    it('is read after a position, as many lines as asked for', async () => {
      expect((await ledger.store.journal('acme', 1n, 1)).map((line) => line.id)).toEqual(['g2']);
      expect((await ledger.store.journal('acme', 1n, 10)).map((line) => line.id)).toEqual(['g2', 'g3']);
      expect(await ledger.store.journal('acme', 1n, 0)).toEqual([]);
      expect(await ledger.store.journal('acme', 3n, 10)).toEqual([]);
      expect(await ledger.store.journal('acme', 99n, 10)).toEqual([]);
      expect(await ledger.store.journal('nobody', 0n, 10)).toEqual([]);
      expect(await ledger.store.journal('acme', 0n, Infinity)).toHaveLength(3);
    });

    it('folds the lines that are compacted away', async () => {
      await admit(1, 10n);
      await settle(1, 150n);
      await grant('g4', 4n);
      await ledger.store.compact('acme', 4n);
      expect((await lines()).map((line) => line.id)).toEqual(['g4']);
      expect(await state()).toMatchObject({
        seq: 5n,
        compacted: { seq: 4n, granted: 123n, spent: 123n, expired: 0n, writtenOff: 27n },
      });
    });

    it('has sums of these lines, which can be read without the rest of the account', async (test) => {
      test.skip(!ledger.store.compacted);
      const none = { seq: 0n, at: 0, granted: 0n, spent: 0n, expired: 0n, writtenOff: 0n };
      expect(await ledger.store.compacted?.('acme')).toEqual(none);
      expect(await ledger.store.compacted?.('nobody')).toBeUndefined();
      await settle(1, 150n, { force: true });
      await ledger.store.compact('acme', 4n);
      await grant('g4', 4n);
      const sums = { seq: 4n, at: NOON, granted: 123n, spent: 123n, expired: 0n, writtenOff: 27n };
      expect(await ledger.store.compacted?.('acme')).toEqual(sums);
      expect((await state()).compacted).toEqual(sums);
    });

    it('is read after a position though lines before it are folded', async () => {
      await grant('g4', 4n);
      await ledger.store.compact('acme', 1n);
      expect((await ledger.store.journal('acme', 0n, 2)).map((line) => line.id)).toEqual(['g2', 'g3']);
      expect((await ledger.store.journal('acme', 2n, 1)).map((line) => line.id)).toEqual(['g3']);
      expect((await ledger.store.journal('acme', 3n, 10)).map((line) => line.id)).toEqual(['g4']);
    });

    it('folds no line twice', async () => {
      await ledger.store.compact('acme', 2n);
      await ledger.store.compact('acme', 2n);
      await ledger.store.compact('acme', 1n);
      expect(await state()).toMatchObject({ compacted: { seq: 2n, granted: 120n } });
    });

    it('folds no further than its last line', async () => {
      await ledger.store.compact('acme', 99n);
      expect(await state()).toMatchObject({ seq: 3n, compacted: { seq: 3n, granted: 123n } });
      await grant('g4', 4n);
      expect((await lines()).map((line) => line.seq)).toEqual([4n]);
    });
  });
}
