import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, NOON, requestId, type LedgerFixture } from './ledger-fixture.ts';

/** Restoring a hold that may be lost, in every ledger store. Part of the suite in ledger-store.ts. */
export function describeRestore(ledger: LedgerFixture): void {
  const { clock, admit, settle, voidRequest, createKey, state, keyState } = ledger;
  const restore: typeof admit = (n, want, more) => admit(n, want, { min: 0n, restore: true, ...more });

  describe('a repeated hold', () => {
    it('that is still there stays as it is', async () => {
      await admit(1, 30n);
      expect(await restore(1, 50n)).toMatchObject({ code: 'exists', hold: 30n, available: 70n });
      expect(await state()).toMatchObject({ available: 70n, held: 30n });
    });

    it('of a request that ended is not taken again', async () => {
      await admit(1, 30n);
      await settle(1, 10n);
      expect(await restore(1, 30n)).toMatchObject({ code: 'done', state: 'settled' });
      await voidRequest(2);
      expect(await restore(2, 30n)).toMatchObject({ code: 'done', state: 'voided' });
    });

    it('that was lost is taken again, with its lease and its key', async () => {
      expect(await restore(1, 30n, { leaseMs: MINUTE })).toMatchObject({
        code: 'ok',
        hold: 30n,
        available: 70n,
      });
      expect((await state()).requests).toEqual([
        { id: requestId(1), state: 'held', amount: 30n, key: 'k1', checkpoint: 0n, due: NOON + MINUTE },
      ]);
      expect(await keyState('k1')).toMatchObject({ held: 30n, running: 1 });
    });

    it('takes what there is, whatever its minimum is', async () => {
      await admit(1, 80n);
      expect(await restore(2, 30n, { min: 30n })).toMatchObject({ code: 'ok', hold: 20n, available: 0n });
    });

    it('holds nothing where there is nothing, and is settled all the same', async () => {
      await admit(1, 100n);
      expect(await restore(2, 30n)).toMatchObject({ code: 'ok', hold: 0n, available: 0n });
      await voidRequest(1);
      expect(await settle(2, 12n)).toMatchObject({ code: 'ok', charged: 12n, available: 88n });
    });

    it('goes past the budget of its key, and counts into it', async () => {
      await createKey('k2', { budgets: [{ amount: 20n, per: 'day' }] });
      expect(await restore(1, 30n, { key: 'k2' })).toMatchObject({ code: 'ok', hold: 30n });
      await settle(1, 5n);
      expect(await admit(2, 16n, { key: 'k2' })).toMatchObject({ code: 'budget', left: 15n });
    });

    it('goes past the concurrency of its key, and counts into it', async () => {
      await createKey('k2', { concurrentRequests: 2 });
      await admit(1, 1n, { key: 'k2' });
      await admit(2, 1n, { key: 'k2' });
      expect(await restore(3, 1n, { key: 'k2' })).toMatchObject({ code: 'ok' });
      await settle(1, 1n);
      expect(await admit(4, 1n, { key: 'k2' })).toMatchObject({ code: 'concurrency' });
    });

    it('goes past the rates of its key, and counts into them', async () => {
      await createKey('k2', { requestsPerMinute: 1, tokensPerMinute: 10 });
      await admit(1, 1n, { key: 'k2', tokens: 10 });
      expect(await restore(2, 1n, { key: 'k2', tokens: 10 })).toMatchObject({ code: 'ok' });
      expect(await keyState('k2')).toMatchObject({
        requestBucket: { level: -MINUTE, at: NOON },
        tokenBucket: { level: -10 * MINUTE, at: NOON },
      });
    });

    it('is that of a key which was revoked since', async () => {
      await ledger.store.revokeKey('acme', 'k1');
      expect(await restore(1, 30n)).toMatchObject({ code: 'ok', hold: 30n });
    });

    it('is that of a key which was lost with it', async () => {
      expect(await restore(1, 30n, { key: 'k9' })).toMatchObject({ code: 'ok', hold: 30n });
      expect(await keyState('k9')).toMatchObject({ held: 30n, running: 1 });
    });

    it('is taken in a frozen account, where its money is being spent already', async () => {
      await ledger.store.freeze('acme', true);
      expect(await restore(1, 30n)).toMatchObject({ code: 'ok', hold: 30n });
      expect(await state()).toMatchObject({ frozen: true, held: 30n });
    });

    it('changes nothing when it comes too late, too early or for no account', async () => {
      await settle(1, 1n, { force: true });
      clock.now += 25 * HOUR;
      await ledger.store.sweep(10);
      const before = await state();
      expect(await restore(2, 1n)).toMatchObject({ code: 'old' });
      const requestIdAhead = requestId(3, clock.now + HOUR);
      expect(await restore(3, 1n, { requestId: requestIdAhead })).toMatchObject({ code: 'ahead' });
      const fresh = requestId(4, clock.now);
      expect(await restore(4, 1n, { requestId: fresh, notAfter: clock.now - 1 })).toMatchObject({
        code: 'stale',
      });
      expect(await restore(5, 1n, { requestId: fresh, account: 'nobody' })).toMatchObject({
        code: 'no_account',
      });
      expect(await state()).toEqual(before);
    });
  });
}
