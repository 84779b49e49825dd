import { beforeEach, describe, expect, it } from 'vitest';
import type { Allow } from '../../src/ledger/contract/allowances.ts';
import { DAY, HOUR, type LedgerFixture, MAX, NOON, requestId } from './ledger-fixture.ts';

/** Allowances. Part of the suite in ledger-store.ts. */
export function describeAllowances(ledger: LedgerFixture): void {
  const { clock, admit, settle, adjust, state, lines } = ledger;
  /** 20 per month from the first of March on. */
  const allow = (more: Partial<Allow> = {}) =>
    ledger.store.allow({
      account: 'acme',
      id: 'pro',
      amount: 20n,
      per: 'month',
      anchor: Date.parse('2026-03-01T00:00Z'),
      rollover: 'none',
      priority: 10,
      change: 'next_period',
      ...more,
    });
  const end = (at: 'now' | 'period_end') => ledger.store.endAllowance({ account: 'acme', id: 'pro', at });
  const at = (time: string): void => void (clock.now = Date.parse(time));
  const lots = async (): Promise<string[]> =>
    (await ledger.store.balance('acme'))!.lots
      .filter((lot) => lot.id !== 'opening')
      .map(({ id, remaining }) => `${id.slice('allowance:'.length)} ${remaining}`);
  const newLines = async (): Promise<string[]> =>
    (await lines())
      .slice(1)
      .map(({ type, id, amount }) => `${type} ${id.slice('allowance:'.length)} ${amount}`);

  describe('an allowance', () => {
    it('grants its amount for the current period, which expires at its end', async () => {
      expect(await allow()).toMatchObject({
        code: 'ok',
        available: 120n,
        version: 1,
        resetsAt: Date.parse('2026-04-01T00:00Z'),
        seq: 2n,
      });
      expect(await state()).toMatchObject({
        granted: 120n,
        lots: [
          {
            id: 'allowance:pro:2026-03-01T00:00:00Z',
            amount: 20n,
            remaining: 20n,
            expiresAt: Date.parse('2026-04-01T00:00Z'),
            priority: 10,
          },
          { id: 'opening' },
        ],
        allowances: [
          {
            id: 'pro',
            version: 1,
            amount: 20n,
            granted: 20n,
            per: 'month',
            anchor: Date.parse('2026-03-01T00:00Z'),
            rollover: 'none',
            priority: 10,
            periodStart: Date.parse('2026-03-01T00:00Z'),
            resetsAt: Date.parse('2026-04-01T00:00Z'),
          },
        ],
      });
      expect(await newLines()).toEqual(['g pro:2026-03-01T00:00:00Z 20']);
    });

    it('is renewed by the first admit of a period, and only once', async () => {
      await adjust('a1', -100n);
      await allow();
      at('2026-03-31T23:59:59.999Z');
      expect(await admit(1, 21n, { requestId: requestId(1, clock.now) })).toMatchObject({ code: 'no_funds' });
      clock.now += 1;
      expect(await admit(2, 20n, { requestId: requestId(2, clock.now) })).toMatchObject({
        code: 'ok',
        available: 0n,
      });
      expect(await admit(3, 1n, { requestId: requestId(3, clock.now) })).toMatchObject({ code: 'no_funds' });
      expect((await newLines()).slice(-2)).toEqual([
        'x pro:2026-03-01T00:00:00Z 20',
        'g pro:2026-04-01T00:00:00Z 20',
      ]);
    });

    it('is renewed before a charge that it has to cover', async () => {
      await allow();
      await admit(1, 115n);
      at('2026-04-01T00:00:01Z');
      expect(await settle(1, 138n)).toMatchObject({ charged: 138n, writtenOff: 0n, available: 2n });
    });

    it('counts as what was there before a charge that renews it', async () => {
      await adjust('a1', -100n);
      await allow();
      await admit(1, 20n);
      await admit(2, 0n);
      await settle(1, 20n);
      at('2026-04-01T00:00:01Z');
      expect(await settle(2, 16n)).toMatchObject({ unspentBefore: 20n, unspent: 4n });
    });

    it('is renewed by a sweep and a balance, too', async () => {
      await allow();
      at('2026-04-01T00:00Z');
      await ledger.store.sweep(10);
      expect((await state()).lots).toMatchObject([
        { id: 'allowance:pro:2026-04-01T00:00:00Z' },
        { id: 'opening' },
      ]);
      at('2026-05-01T00:00Z');
      expect(await lots()).toEqual(['pro:2026-05-01T00:00:00Z 20']);
    });

    it('expires what a request held of the last period once the next one covers it, however often that is looked at', async () => {
      await adjust('a1', -100n);
      await allow();
      at('2026-03-31T23:59:59Z');
      await admit(1, 4n, { requestId: requestId(1, clock.now) });
      at('2026-04-01T00:00Z');
      for (let looks = 0; looks < 3; looks++) {
        await ledger.store.sweep(10);
        expect(await state()).toMatchObject({ available: 16n, held: 4n, granted: 40n, expired: 20n });
        expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 20']);
      }
      expect((await newLines()).slice(2)).toEqual([
        'x pro:2026-03-01T00:00:00Z 16',
        'g pro:2026-04-01T00:00:00Z 20',
        'x pro:2026-03-01T00:00:00Z 4',
      ]);
    });

    it('is not granted again by a clock that steps back, nor lost by one that returns', async () => {
      await allow();
      at('2026-04-01T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 20']);
      at('2026-03-30T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 20']);
      at('2026-04-02T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 20']);
      expect(await state()).toMatchObject({ granted: 140n, expired: 20n });
    });

    it('begins on the last day of a shorter month', async () => {
      at('2026-01-31T08:00Z');
      const anchor = Date.parse('2026-01-31T07:30Z');
      expect(await allow({ anchor })).toMatchObject({ resetsAt: Date.parse('2026-02-28T07:30Z') });
      at('2026-02-28T07:30Z');
      expect(await lots()).toEqual(['pro:2026-02-28T07:30:00Z 20']);
      at('2028-02-29T07:29:59Z');
      expect(await lots()).toEqual(['pro:2028-01-31T07:30:00Z 20']);
      at('2028-02-29T07:30Z');
      expect(await lots()).toEqual(['pro:2028-02-29T07:30:00Z 20']);
    });

    it.each([
      ['hour', '2026-03-04T11:15:00Z', '2026-03-04T12:15Z'],
      ['day', '2026-03-03T12:15:00Z', '2026-03-04T12:15Z'],
      ['week', '2026-02-26T12:15:00Z', '2026-03-05T12:15Z'],
      ['month', '2026-02-05T12:15:00Z', '2026-03-05T12:15Z'],
    ] as const)('is granted per %s', async (per, start, next) => {
      const anchor = Date.parse('2027-08-05T12:15Z');
      expect(await allow({ per, anchor })).toMatchObject({ resetsAt: Date.parse(next) });
      expect(await lots()).toEqual([`pro:${start} 20`]);
    });

    it('ends at its time', async () => {
      await allow({ until: Date.parse('2026-04-20T00:00Z') });
      at('2026-04-01T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 20']);
      at('2026-05-01T00:00Z');
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 100n, allowances: [] });
      expect(await allow({ until: NOON })).toMatchObject({ code: 'ended' });
    });

    it('lifts the balance to the largest amount and not beyond', async () => {
      expect(await allow({ amount: MAX })).toMatchObject({ code: 'ok', available: MAX });
      expect(await lots()).toEqual([`pro:2026-03-01T00:00:00Z ${MAX - 100n}`]);
    });

    it('lifts one that is in debt for its holds to the largest amount, to the nano-dollar', async () => {
      await ledger.store.setFloor({ account: 'acme', floor: -20n });
      await admit(1, 110n);
      expect(await allow({ amount: MAX })).toMatchObject({ code: 'ok', available: MAX - 110n });
    });

    it('is one of ten', async () => {
      for (let n = 1; n <= 10; n++) expect(await allow({ id: `p${n}` })).toMatchObject({ code: 'ok' });
      expect(await allow({ id: 'p11' })).toMatchObject({ code: 'too_many_allowances' });
      expect(await allow({ id: 'p1' })).toMatchObject({ code: 'duplicate' });
      expect((await state()).allowances.map(({ id }) => id).at(-1)).toBe('p10');
    });

    it('makes the account, unless that must exist', async () => {
      expect(await allow({ account: 'zeta', mustExist: true })).toMatchObject({ code: 'no_account' });
      expect(await ledger.store.snapshot('zeta')).toBeUndefined();
      expect(await allow({ account: 'zeta' })).toMatchObject({ code: 'ok', available: 20n });
    });

    it.each([
      ['id', { id: 'a:b' }],
      ['amount', { amount: 0n }],
      ['per', { per: 'year' as 'month' }],
      ['anchor', { anchor: NOON + 1 }],
      ['rollover', { rollover: 'twice' as 'once' }],
      ['priority', { priority: 101 }],
      ['until', { until: -1 }],
      ['change', { change: 'now' as 'prorate' }],
    ])('is refused with a wrong %s', async (name, more) => {
      await expect(allow(more)).rejects.toThrow(`${name} must be`);
    });

    it('has ids that no grant or adjustment takes', async () => {
      const id = 'allowance:pro:2026-03-01T00:00:00Z';
      await expect(ledger.grant(id, 1n)).rejects.toThrow('an id that doesn\'t begin with "allowance:"');
      await expect(adjust('refund:1', 1n)).rejects.toThrow('an id that doesn\'t begin with "refund:"');
    });
  });

  describe('what is left of a period', () => {
    beforeEach(async () => {
      await adjust('a1', -100n);
    });

    it('expires with rollover none, after months of silence too', async () => {
      await allow();
      at('2026-09-10T00:00Z');
      expect(await lots()).toEqual(['pro:2026-09-01T00:00:00Z 20']);
      expect(await state()).toMatchObject({ available: 20n, granted: 40n, expired: 20n });
    });

    it('is kept for one period with rollover once', async () => {
      await allow({ rollover: 'once' });
      await admit(1, 5n);
      await settle(1, 5n);
      at('2026-04-10T00:00Z');
      expect(await lots()).toEqual(['pro:2026-03-01T00:00:00Z 15', 'pro:2026-04-01T00:00:00Z 20']);
      at('2026-05-10T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 20', 'pro:2026-05-01T00:00:00Z 20']);
      at('2026-09-10T00:00Z');
      expect(await lots()).toEqual(['pro:2026-08-01T00:00:00Z 20', 'pro:2026-09-01T00:00:00Z 20']);
    });

    it('is kept with rollover all, in one lot', async () => {
      await allow({ rollover: 'all' });
      await admit(1, 5n);
      await settle(1, 5n);
      at('2026-04-10T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 35']);
      at('2026-09-10T00:00Z');
      expect(await lots()).toEqual(['pro:2026-09-01T00:00:00Z 135']);
      expect((await newLines()).slice(-1)).toEqual(['g pro:2026-09-01T00:00:00Z 100']);
    });

    it('is kept in one lot, too, when it is made again with another period of the same start', async () => {
      await allow({ per: 'day', anchor: NOON, rollover: 'all', until: NOON + 1 });
      clock.now += DAY;
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 20n, allowances: [] });
      expect(await allow({ anchor: NOON, rollover: 'all' })).toMatchObject({ code: 'ok', available: 40n });
      expect((await state()).lots).toMatchObject([
        { id: 'allowance:pro:2026-03-04T12:00:00Z', amount: 40n, remaining: 40n },
      ]);
    });

    it('is summed over centuries in one step', async () => {
      await allow({ rollover: 'all', per: 'hour' });
      at('2426-03-04T12:00Z');
      const hours = BigInt((clock.now - NOON) / HOUR) + 1n;
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 20n * hours });
      expect((await lines()).length).toBe(4);
    });
  });

  describe('an allowance that is changed', () => {
    beforeEach(async () => {
      await allow();
    });

    it('is the same if its terms are', async () => {
      expect(await allow()).toMatchObject({ code: 'duplicate', version: 1, available: 120n });
      expect(await allow({ change: 'prorate' })).toMatchObject({ code: 'duplicate', version: 1 });
    });

    it('keeps its periods', async () => {
      expect(await allow({ per: 'week' })).toMatchObject({ code: 'conflict' });
      expect(await allow({ anchor: Date.parse('2026-03-02T00:00Z') })).toMatchObject({ code: 'conflict' });
    });

    it('has the new terms from the next period on', async () => {
      expect(await allow({ amount: 50n, priority: 60 })).toMatchObject({
        code: 'ok',
        version: 2,
        available: 120n,
      });
      expect((await state()).allowances).toMatchObject([{ amount: 50n, granted: 20n }]);
      at('2026-04-01T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 50']);
      expect((await state()).lots.at(-1)).toMatchObject({ priority: 60 });
    });

    it('is prorated up by the share of the period that is left, rounded down', async () => {
      // 27.5 of 31 days are left: 30 * 27.5 / 31 is 26.6.
      expect(await allow({ amount: 50n, change: 'prorate' })).toMatchObject({ version: 2, available: 146n });
      expect(await lots()).toEqual(['pro:2026-03-01T00:00:00Z 46']);
      expect((await newLines()).slice(-1)).toEqual(['a pro:2026-03-01T00:00:00Z:2 26']);
    });

    it('is prorated down and up again to what it was', async () => {
      await allow({ amount: 3n, change: 'prorate' });
      expect(await lots()).toEqual(['pro:2026-03-01T00:00:00Z 5']);
      await allow({ amount: 20n, change: 'prorate' });
      expect(await lots()).toEqual(['pro:2026-03-01T00:00:00Z 20']);
      expect(await state()).toMatchObject({ granted: 120n, available: 120n });
    });

    it('is prorated down only by what was not used', async () => {
      await admit(1, 18n);
      await settle(1, 18n);
      expect(await allow({ amount: 1n, change: 'prorate' })).toMatchObject({ available: 100n });
      expect(await lots()).toEqual([]);
    });

    it('is prorated down only by what is not held, to the last nano-dollar', async () => {
      await admit(1, 119n);
      expect(await allow({ amount: 1n, change: 'prorate' })).toMatchObject({ available: 0n });
      expect(await lots()).toEqual(['pro:2026-03-01T00:00:00Z 19']);
      expect(await state()).toMatchObject({ granted: 119n, held: 119n });
    });

    it('is prorated up though its lot is used up', async () => {
      await admit(1, 20n);
      await settle(1, 20n);
      await allow({ amount: 50n, change: 'prorate' });
      expect(await lots()).toEqual(['pro:2026-03-01T00:00:00Z 26']);
    });

    it('is prorated to the nano-dollar at the largest amounts', async () => {
      await adjust('a1', -120n);
      const largest = 2n ** 53n - 200n;
      await allow({ amount: largest, change: 'prorate' });
      const left = BigInt(Date.parse('2026-04-01T00:00Z') - NOON);
      const share = ((largest - 20n) * left) / BigInt(31 * DAY);
      expect(await ledger.store.balance('acme')).toMatchObject({ available: share });
    });

    it('has a lot of at most the largest amount, however often it is changed', async () => {
      await adjust('a1', -100n);
      for (const amount of [MAX, 6n, MAX]) await allow({ amount, change: 'prorate' });
      const amounts = (await state()).lots.map((lot) => lot.amount);
      expect(amounts.filter((amount) => amount > MAX)).toEqual([]);
    });

    it('is prorated by a change that was not, before', async () => {
      await allow({ amount: 50n });
      expect(await allow({ amount: 50n, change: 'prorate' })).toMatchObject({
        code: 'ok',
        version: 3,
        available: 146n,
      });
    });

    it('is not changed again by a change that is known', async () => {
      await allow({ amount: 50n });
      await allow({ amount: 30n });
      expect(await allow({ amount: 50n, version: 2 })).toMatchObject({ code: 'duplicate', version: 3 });
      expect(await allow({ amount: 50n, version: 4 })).toMatchObject({ code: 'ok', version: 4 });
    });
  });

  describe('an allowance that was ended', () => {
    beforeEach(async () => {
      await allow();
    });

    it('is not renewed', async () => {
      expect(await end('period_end')).toMatchObject({ code: 'ok', version: 2, available: 120n });
      expect(await end('period_end')).toMatchObject({ code: 'duplicate', version: 2 });
      at('2026-04-01T00:00Z');
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 100n, allowances: [] });
      expect(await end('period_end')).toMatchObject({ code: 'no_allowance' });
    });

    it('is not ended by a repeated command whose end another change has followed', async () => {
      const again = (version: number) =>
        ledger.store.endAllowance({ account: 'acme', id: 'pro', at: 'now', version });
      expect(await again(1)).toMatchObject({ code: 'duplicate', version: 1, available: 120n });
      expect(await again(2)).toMatchObject({ code: 'ok', version: 2, available: 100n });
    });

    it('loses what is left at once, if it is ended now', async () => {
      expect(await end('now')).toMatchObject({ code: 'ok', available: 100n });
      expect(await end('now')).toMatchObject({ code: 'duplicate' });
      expect(await state()).toMatchObject({ expired: 20n, lots: [{ id: 'opening' }] });
    });

    it('loses what is held as soon as it is free', async () => {
      await admit(1, 110n);
      expect(await end('now')).toMatchObject({ available: 0n });
      expect(await state()).toMatchObject({ expired: 10n });
      await settle(1, 1n);
      expect(await state()).toMatchObject({ expired: 19n, available: 100n });
    });

    it('is not granted a second time in the same period', async () => {
      await end('now');
      expect(await allow()).toMatchObject({ code: 'ok', version: 3, available: 100n });
      at('2026-04-01T00:00Z');
      expect(await lots()).toEqual(['pro:2026-04-01T00:00:00Z 20']);
    });

    it('is granted the share of the period that is left, if it is allowed again in proportion', async () => {
      await end('now');
      // 20 * 27.5 / 31 is 17.7.
      expect(await allow({ change: 'prorate' })).toMatchObject({ available: 117n });
    });

    it('keeps what it is granted when it is allowed again while a request holds the rest', async () => {
      await admit(1, 104n);
      expect(await end('now')).toMatchObject({ available: 0n });
      // 60 * 27.5 / 31 is 53.2.
      expect(await allow({ amount: 60n, change: 'prorate' })).toMatchObject({ available: 53n });
      await ledger.store.sweep(10);
      expect(await state()).toMatchObject({
        available: 53n,
        held: 104n,
        expired: 16n,
        lots: [
          {
            id: 'allowance:pro:2026-03-01T00:00:00Z',
            remaining: 57n,
            expiresAt: Date.parse('2026-04-01T00:00Z'),
          },
          { id: 'opening', remaining: 100n },
        ],
      });
    });

    it('takes over what its lot has left that a request holds, when it is made again with another period of the same start', async () => {
      await ledger.store.setFloor({ account: 'acme', floor: -40n });
      await end('now');
      at('2026-04-01T00:00Z');
      await allow({ id: 'plus', per: 'day', anchor: clock.now, until: clock.now + 1 });
      await admit(1, 160n);
      const monthly = { id: 'plus', anchor: clock.now };
      clock.now += DAY;
      expect(await ledger.store.balance('acme')).toMatchObject({ available: -40n, allowances: [] });
      expect(await allow(monthly)).toMatchObject({ code: 'ok', available: -20n });
      expect(await lots()).toEqual(['plus:2026-04-01T00:00:00Z 40']);
      // 20 * 29 / 30 is 19.3.
      expect(await allow({ ...monthly, amount: 40n, change: 'prorate' })).toMatchObject({ available: -1n });
      expect(await lots()).toEqual(['plus:2026-04-01T00:00:00Z 59']);
      expect(await settle(1, 0n)).toMatchObject({ code: 'ok', available: 159n });
    });

    it('takes over a lot of the same start that is still open', async () => {
      await end('now');
      at('2026-04-01T00:00Z');
      const plus = { id: 'plus', anchor: clock.now };
      await allow({ ...plus, per: 'hour', rollover: 'once', amount: 10n, until: clock.now + 1 });
      clock.now += HOUR + 1;
      await allow({ ...plus, per: 'day', rollover: 'once', amount: 50n });
      const [first] = (await ledger.store.balance('acme'))!.lots;
      expect(first).toMatchObject({ amount: 60n, remaining: 60n, expiresAt: plus.anchor + 2 * DAY });
      clock.now += HOUR;
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 160n, expired: 20n });
    });

    it('never expires what never expired, when it is made again with a period of the same start that does', async () => {
      await end('now');
      at('2026-04-01T00:00Z');
      const plus = { id: 'plus', anchor: clock.now };
      await allow({ ...plus, per: 'day', rollover: 'all', amount: 10n, until: clock.now + 1 });
      clock.now += DAY;
      await allow({ ...plus, amount: 50n, until: clock.now + 1 });
      expect(await lots()).toEqual(['plus:2026-04-01T00:00:00Z 50']);
      at('2026-05-01T00:00Z');
      expect(await ledger.store.balance('acme')).toMatchObject({ available: 110n, expired: 70n });
    });

    it('needs an account and an allowance', async () => {
      const other = await ledger.store.endAllowance({ account: 'zeta', id: 'pro', at: 'now' });
      expect(other).toMatchObject({ code: 'no_account' });
      const unknown = await ledger.store.endAllowance({ account: 'acme', id: 'free', at: 'now' });
      expect(unknown).toMatchObject({ code: 'no_allowance' });
    });
  });
}
