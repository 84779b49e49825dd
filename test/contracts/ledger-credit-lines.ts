import { beforeEach, describe, expect, it } from 'vitest';
import { HOUR, type LedgerFixture, MAX, MINUTE, NOON, requestId } from './ledger-fixture.ts';

/** Floors below 0, and what operators take beyond them. Part of the suite in ledger-store.ts. */
export function describeCreditLines(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, grant, adjust, state, lines } = ledger;
  const setFloor = (floor: bigint, from?: bigint) =>
    ledger.store.setFloor({ account: 'acme', floor, ...(from !== undefined && { from }) });

  describe('a credit line of 20', () => {
    beforeEach(async () => {
      expect(await setFloor(-20n)).toMatchObject({ code: 'ok', before: 0n, available: 100n, seq: 1n });
    });

    it('is spent as what was paid is, to the last nano-dollar', async () => {
      expect(await admit(1, 121n)).toMatchObject({ code: 'no_funds', available: 120n });
      expect(await admit(2, 120n)).toMatchObject({ code: 'ok', hold: 120n, available: 0n });
      expect(await settle(2, 120n)).toMatchObject({ charged: 120n, writtenOff: 0n, available: -20n });
      expect(await admit(3, 1n, { min: 0n })).toMatchObject({ code: 'no_funds', available: 0n });
      expect(await admit(4, 0n)).toMatchObject({ code: 'ok', hold: 0n, available: 0n });
      expect(await ledger.store.balance('acme')).toMatchObject({ available: -20n, floor: -20n, spent: 120n });
    });

    it('is what a hold can grow to', async () => {
      await admit(1, 40n);
      expect(await extend(1, 121n)).toMatchObject({ code: 'no_funds', hold: 40n, available: 80n });
      expect(await extend(1, 120n)).toMatchObject({ code: 'ok', hold: 120n, available: 0n });
    });

    it('has what is beyond it written off', async () => {
      expect(await settle(1, 121n, { force: true })).toMatchObject({
        charged: 120n,
        writtenOff: 1n,
        available: -20n,
      });
      expect(await settle(2, 5n, { force: true })).toMatchObject({
        charged: 0n,
        writtenOff: 5n,
        available: -20n,
      });
    });

    it('is what an adjustment may take', async () => {
      expect(await adjust('a1', -121n)).toMatchObject({ code: 'below_floor', available: 100n });
      expect(await adjust('a2', -120n)).toMatchObject({ code: 'ok', available: -20n });
      expect(await adjust('a3', 5n)).toMatchObject({ code: 'ok', available: -15n });
    });

    it('is paid back by the next grant, whose lot has what is left', async () => {
      await adjust('a1', -115n);
      await grant('g2', 10n);
      expect(await state()).toMatchObject({ available: -5n, lots: [] });
      await grant('g3', 8n, { expiresAt: NOON + HOUR });
      expect(await state()).toMatchObject({ available: 3n, lots: [{ id: 'g3', amount: 8n, remaining: 3n }] });
      clock.now += HOUR;
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 0n, expired: 3n });
    });

    it('leaves a lot what holds cover, though there is a debt', async () => {
      await admit(1, 115n);
      await settle(1, 95n);
      await admit(2, 20n);
      expect(await state()).toMatchObject({ available: -15n, held: 20n });
      await grant('g2', 10n);
      expect(await state()).toMatchObject({
        available: -5n,
        lots: [{ id: 'g2', remaining: 10n }, { id: 'opening' }],
      });
    });

    it('charges what was held though the line was taken back', async () => {
      await admit(1, 110n);
      expect(await setFloor(0n)).toMatchObject({ code: 'ok', before: -20n, available: -10n });
      expect(await admit(2, 1n)).toMatchObject({ code: 'no_funds', available: -10n });
      expect(await extend(1, 111n)).toMatchObject({ code: 'no_funds', hold: 110n });
      expect(await settle(1, 112n)).toMatchObject({ charged: 110n, writtenOff: 2n, available: -10n });
      expect(await state()).toMatchObject({ floor: 0n, lowestFloor: -20n });
    });
  });

  describe('a floor', () => {
    it('is set from the floor that it is based on, or not at all', async () => {
      expect(await setFloor(-20n, -5n)).toMatchObject({ code: 'changed' });
      expect(await setFloor(-20n, 0n)).toMatchObject({ code: 'ok', before: 0n });
      expect(await setFloor(-20n, 0n)).toMatchObject({ code: 'ok', before: -20n });
      expect(await setFloor(-10n, 0n)).toMatchObject({ code: 'changed' });
      expect(await state()).toMatchObject({ floor: -20n, lowestFloor: -20n });
    });

    it('needs an account', async () => {
      const refused = await ledger.store.setFloor({ account: 'zeta', floor: -1n });
      expect(refused).toMatchObject({ code: 'no_account', seq: 0n });
    });

    it.each([1n, -MAX - 1n])('is refused as %s', async (floor) => {
      const refused = ledger.store.setFloor({ account: 'acme', floor });
      await expect(refused).rejects.toThrow(`floor must be nano-dollars from -${MAX} to 0, got ${floor}`);
    });
  });

  describe('holds that are more than the largest amount, of a debt,', () => {
    /** Held, of which a number doesn't show the last digit. */
    const HELD = MAX + 2n;

    beforeEach(async () => {
      await setFloor(-MAX);
      await admit(1, MAX);
      await admit(2, 2n);
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 100n - HELD });
    });

    it('leave a grant its place, to the nano-dollar', async () => {
      expect(await grant('g2', MAX - 99n)).toMatchObject({ code: 'too_big' });
      expect(await grant('g2', MAX - 100n)).toMatchObject({ code: 'ok', available: MAX - HELD });
      expect((await state()).lots.map(({ remaining }) => remaining)).toEqual([MAX - 100n, 100n]);
    });

    it('leave an adjustment its place, to the nano-dollar', async () => {
      expect(await adjust('a1', MAX - 99n)).toMatchObject({ code: 'too_big' });
      expect(await adjust('a1', MAX - 100n)).toMatchObject({ code: 'ok', available: MAX - HELD });
    });

    it('leave an allowance its place, to the nano-dollar', async () => {
      const allowed = await ledger.store.allow({
        account: 'acme',
        id: 'pro',
        amount: MAX,
        per: 'month',
        anchor: NOON,
        rollover: 'none',
        priority: 10,
        change: 'next_period',
      });
      expect(allowed).toMatchObject({ code: 'ok', available: MAX - HELD });
    });
  });

  describe('a forced adjustment', () => {
    it('takes below the floor, and freezes the account', async () => {
      await admit(1, 30n);
      expect(await adjust('dispute', -90n, { force: true })).toMatchObject({ code: 'ok', available: -20n });
      expect(await state()).toMatchObject({
        frozen: true,
        available: -20n,
        lowestFloor: -20n,
        lots: [{ remaining: 10n }],
      });
      expect(await admit(2, 0n)).toMatchObject({ code: 'frozen' });
      expect(await settle(1, 31n)).toMatchObject({ charged: 30n, writtenOff: 1n, available: -20n });
      expect((await lines())[1]).toMatchObject({ type: 'a', id: 'dispute', amount: -90n, available: -20n });
    });

    it('freezes once: repeated, it leaves an account that was unfrozen since', async () => {
      await adjust('dispute', -10n, { force: true });
      await ledger.store.freeze('acme', false);
      expect(await adjust('dispute', -10n, { force: true })).toMatchObject({ code: 'duplicate' });
      expect(await state()).toMatchObject({ frozen: false, available: 90n, lowestFloor: 0n });
    });

    it('does not take more than the largest amount', async () => {
      expect(await adjust('a1', -MAX, { force: true })).toMatchObject({ code: 'ok', available: 100n - MAX });
      expect(await adjust('a2', -101n, { force: true })).toMatchObject({ code: 'below_floor' });
      expect(await adjust('a3', -100n, { force: true })).toMatchObject({ code: 'ok', available: -MAX });
    });

    it('lets a lease that ran out be charged what was held', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 12n, leaseMs: MINUTE });
      await adjust('dispute', -90n, { force: true });
      clock.now += 10 * MINUTE;
      await ledger.store.sweep(10);
      expect(await ledger.store.request('acme', requestId(1))).toMatchObject({
        state: 'expired',
        amount: 12n,
      });
      expect(await state()).toMatchObject({ available: -2n, held: 0n });
    });
  });
}
