import { describe, expect, it } from 'vitest';
import type { Admit } from '../../src/ledger/contract/ledger-store.ts';
import { DAY, HOUR, MINUTE, NOON, requestId, type LedgerFixture } from './ledger-fixture.ts';

/** Refusals by every ledger store, and their side effects. Part of the suite in ledger-store.ts. */
export function describeRefusals(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, grant, adjust, createKey, state } = ledger;

  describe('of several reasons', () => {
    it('the first is reported, from the request itself to the balance', async () => {
      await settle(1, 1n, { force: true });
      clock.now += DAY;
      await ledger.store.sweep(10);
      const idempotencyKey = { key: 'a'.repeat(64), body: 'b'.repeat(64) };
      const limits = {
        concurrentRequests: 1,
        requestsPerMinute: 1,
        tokensPerMinute: 10,
        budgets: [{ amount: 30n, per: 'day' }],
      } as const;
      await createKey('k2', limits);
      const named = {
        requestId: requestId(2, clock.now),
        key: 'k2',
        idempotencyKey,
        tokens: 10,
        leaseMs: DAY,
      };
      await admit(2, 20n, named);
      await ledger.store.revokeKey('acme', 'k2');
      await ledger.store.freeze('acme', true);

      let command: Partial<Admit> = {
        ...named,
        account: 'nobody',
        requestId: requestId(3, clock.now + HOUR),
        notAfter: clock.now - 1,
        idempotencyKey: { ...idempotencyKey, body: 'c'.repeat(64) },
      };
      const told = async (change: Partial<Admit>): Promise<string> => {
        command = { ...command, ...change };
        return (await admit(3, 101n, command)).code;
      };
      expect(await told({})).toBe('stale');
      expect(await told({ notAfter: clock.now })).toBe('ahead');
      expect(await told({ requestId: requestId(3, NOON) })).toBe('no_account');
      expect(await told({ account: 'acme' })).toBe('old');
      expect(await told({ requestId: requestId(3, clock.now) })).toBe('frozen');
      await ledger.store.freeze('acme', false);
      expect(await told({})).toBe('revoked');
      expect(await told({ externalKey: true })).toBe('key_reused');
      expect(await told({ idempotencyKey })).toBe('repeated');
      expect(await told({ idempotencyKey: { ...idempotencyKey, key: 'd'.repeat(64) } })).toBe('concurrency');
      await settle(2, 20n, { requestId: named.requestId });
      expect(await told({})).toBe('requests_per_minute');
      clock.now += 2 * MINUTE;
      expect(await told({ notAfter: Infinity })).toBe('tokens_per_minute');
      expect(await told({ tokens: 0 })).toBe('budget');
      expect(await told({ key: 'k1' })).toBe('no_funds');
    });

    it('none is reported for a request that is there', async () => {
      await admit(1, 30n);
      await ledger.store.revokeKey('acme', 'k1');
      await ledger.store.freeze('acme', true);
      expect(await admit(1, 30n, { notAfter: -Infinity })).toMatchObject({ code: 'exists', hold: 30n });
      await voidRequest(1);
      expect(await admit(1, 30n, { notAfter: -Infinity })).toMatchObject({ code: 'done', state: 'voided' });
    });
  });

  describe('a frozen account', () => {
    it('goes on with all that is no admit', async () => {
      await admit(1, 30n);
      await admit(2, 30n, { leaseMs: MINUTE });
      await ledger.store.freeze('acme', true);
      expect(await extend(1, 40n)).toMatchObject({ code: 'ok', hold: 40n });
      expect(await voidRequest(1)).toMatchObject({ code: 'ok', released: 40n });
      expect(await grant('g2', 5n)).toMatchObject({ code: 'ok', available: 75n });
      expect(await adjust('a1', -5n)).toMatchObject({ code: 'ok', available: 70n });
      expect(await createKey('k2')).toMatchObject({ code: 'ok' });
      expect(await ledger.store.revokeKey('acme', 'k2')).toBe(true);
      clock.now += MINUTE;
      expect(await ledger.store.sweep(10)).toBe(1);
      expect(await settle(2, 7n)).toMatchObject({ code: 'ok', charged: 7n, available: 93n });
      expect(await state()).toMatchObject({ frozen: true });
    });

    it('ends no lease and expires no credit by an admit that it refuses', async () => {
      await grant('trial', 50n, { expiresAt: NOON + MINUTE });
      await admit(1, 30n, { leaseMs: MINUTE });
      await ledger.store.freeze('acme', true);
      clock.now += MINUTE;
      const before = await state();
      expect(await admit(2, 1n)).toMatchObject({ code: 'frozen' });
      expect(await state()).toEqual(before);
    });
  });

  describe('a snapshot', () => {
    it('is of its moment, whatever comes after', async () => {
      await admit(1, 30n);
      const taken = await state();
      const copy = structuredClone(taken);
      await settle(1, 12n);
      await adjust('a1', -5n);
      await ledger.store.compact('acme', 2n);
      expect(taken).toEqual(copy);
    });
  });
}
