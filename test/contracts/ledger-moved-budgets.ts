import { describe, expect, it } from 'vitest';
import type { SettleResult } from '../../src/ledger/contract/ledger-store.ts';
import type { Budget, MovedBudget } from '../../src/ledger/contract/key-records.ts';
import { HOUR, type LedgerFixture, MINUTE, NOON, requestId } from './ledger-fixture.ts';

/** What the reply of a settle says of the budgets that its charge moves. */
export function describeMovedBudgets(ledger: LedgerFixture): void {
  const { clock, admit, settle, voidRequest } = ledger;
  const account = 'acme';
  const watching = { watchesBudgets: true };
  const hourly: Budget = { amount: 30n, per: 'hour' };

  function budgetsOf(result: SettleResult): readonly MovedBudget[] | undefined {
    if (result.code !== 'ok') throw new Error(`the settle is ${result.code}`);
    return result.budgets;
  }

  describe('the budgets that a charge moves', () => {
    it('are those of its key, its account and its end user', async () => {
      await ledger.createKey('k2', { budgets: [{ amount: 50n, per: 'lifetime' }, hourly] });
      await ledger.store.updateKey({
        account,
        key: '@',
        version: 0,
        name: '',
        limits: { budgets: [{ amount: 60n, per: 'month' }] },
        endUsers: { budgets: [{ amount: 20n, per: 'day' }] },
      });
      await admit(1, 5n, { key: 'k2', endUser: 'ann@x' });
      await settle(1, 5n);
      await admit(2, 4n, { key: 'k2', endUser: 'ann@x' });
      const result = await settle(2, 7n, watching);
      const moved = { spentBefore: 5n, spent: 12n };
      expect(budgetsOf(result)).toEqual([
        { limitedBy: 'key', key: 'k2', amount: 50n, per: 'lifetime', ...moved },
        { limitedBy: 'key', key: 'k2', ...hourly, ...moved, resetsAt: NOON + HOUR },
        { limitedBy: 'account', amount: 60n, per: 'month', ...moved, resetsAt: Date.UTC(2026, 3, 1) },
        {
          limitedBy: 'end_user',
          endUser: 'ann@x',
          amount: 20n,
          per: 'day',
          ...moved,
          resetsAt: NOON + 12 * HOUR,
        },
      ]);
    });

    it('name the key whose limits of end users they are, and those who share one', async () => {
      const endUsers = { budgets: [hourly], max: 1 };
      await ledger.store.updateKey({ account, key: 'k1', version: 1, name: '', endUsers });
      await admit(1, 1n, { endUser: 'ann' });
      await admit(2, 2n, { endUser: 'ben' });
      const ben = budgetsOf(await settle(2, 2n, watching));
      expect(ben).toMatchObject([{ limitedBy: 'end_user', key: 'k1', endUser: '', spent: 2n }]);
      const ann = budgetsOf(await settle(1, 1n, watching));
      expect(ann).toMatchObject([{ limitedBy: 'end_user', key: 'k1', endUser: 'ann', spent: 1n }]);
    });

    it('are not told unasked, nor where there are none, nor of a charge that was posted before', async () => {
      await ledger.createKey('k2', { budgets: [hourly] });
      await admit(1, 1n, { key: 'k2' });
      expect(await settle(1, 1n)).not.toHaveProperty('budgets');
      await admit(2, 1n);
      expect(await settle(2, 1n, watching)).not.toHaveProperty('budgets');
      await admit(3, 1n, { key: 'k2' });
      await settle(3, 1n, watching);
      expect(await settle(3, 1n, watching)).toMatchObject({ code: 'duplicate' });
      await admit(4, 1n, { key: 'k2' });
      await voidRequest(4);
      expect(await settle(4, 1n, watching)).toMatchObject({ code: 'voided' });
    });

    it('do not have one whose window was over before the charge', async () => {
      const daily: Budget = { amount: 40n, per: 'day' };
      await ledger.createKey('k2', { budgets: [hourly, daily] });
      await admit(1, 6n, { key: 'k2', leaseMs: 2 * HOUR });
      clock.now += HOUR;
      await admit(2, 3n, { key: 'k2', requestId: requestId(2, clock.now) });
      const late = budgetsOf(await settle(1, 6n, watching));
      expect(late).toMatchObject([{ ...daily, spentBefore: 0n, spent: 6n }]);
      const current = await settle(2, 3n, { ...watching, requestId: requestId(2, clock.now) });
      expect(budgetsOf(current)).toMatchObject([
        { ...hourly, spentBefore: 0n, spent: 3n, resetsAt: NOON + 2 * HOUR },
        { ...daily, spentBefore: 6n, spent: 9n },
      ]);
    });

    it('are moved by what an expiry has not charged yet', async () => {
      await ledger.createKey('k2', { budgets: [{ amount: 500n, per: 'lifetime' }] });
      await admit(1, 9n, { key: 'k2', leaseMs: MINUTE });
      await ledger.extend(1, 9n, { checkpoint: 4n, leaseMs: MINUTE });
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(10);
      const rest = budgetsOf(await settle(1, 9n, watching));
      expect(rest).toMatchObject([{ spentBefore: 4n, spent: 9n }]);
    });

    it('are exact beyond what a number can be', async () => {
      await ledger.createKey('k2', { budgets: [{ amount: 2n ** 53n - 1n, per: 'lifetime' }] });
      const half = 2n ** 53n - 101n;
      await ledger.grant('big', half);
      await admit(1, half, { key: 'k2' });
      await settle(1, half);
      await ledger.grant('big-again', half);
      await admit(2, 50n, { key: 'k2' });
      const moved = budgetsOf(await settle(2, half, watching));
      expect(moved).toMatchObject([{ spentBefore: half, spent: 2n * half }]);
    });
  });
}
