import { describe, expect, it } from 'vitest';
import type { IdempotencyKey } from '../../src/ledger/contract/ledger-store.ts';
import { DAY, HOUR, MINUTE, NOON, requestId, type LedgerFixture } from './ledger-fixture.ts';

/** Idempotency keys in every ledger store. Part of the suite in ledger-store.ts. */
export function describeIdempotency(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, createKey, state, keyState } = ledger;

  describe('an idempotency key', () => {
    it('is kept with its request', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await admit(2, 30n);
      expect((await state()).requests.toSorted((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
        {
          id: requestId(1),
          state: 'held',
          amount: 30n,
          key: 'k1',
          checkpoint: 0n,
          due: NOON + 2 * MINUTE,
          idempotencyKey: NAME,
        },
        { id: requestId(2), state: 'held', amount: 30n, key: 'k1', checkpoint: 0n, due: NOON + 2 * MINUTE },
      ]);
    });

    it('admits no second request while the first runs', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      const before = await state();
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toEqual({
        code: 'repeated',
        requestId: requestId(1),
        state: 'held',
        now: NOON,
        seq: 1n,
      });
      expect(await state()).toEqual(before);
    });

    it('admits no second request once the first is charged', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await settle(1, 12n);
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
        state: 'settled',
      });
      expect(await state()).toMatchObject({ available: 88n, held: 0n, spent: 12n });
    });

    it('admits no second request once the first expired, not even the one that finds it', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await extend(1, 30n, { checkpoint: 5n });
      clock.now += 2 * MINUTE;
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
        state: 'expired',
      });
    });

    it('is free again when its request is voided', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await voidRequest(1);
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'ok' });
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(2),
      });
    });

    it('is free again when its request is voided after it expired', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(10);
      await voidRequest(1);
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'ok' });
    });

    it('is not kept with a request that was voided', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await voidRequest(1);
      expect(await ledger.store.request('acme', requestId(1))).not.toHaveProperty('idempotencyKey');
    });

    it('may mean something else once it is free', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await voidRequest(1);
      expect(await admit(2, 30n, { idempotencyKey: REUSED })).toMatchObject({ code: 'ok' });
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'key_reused' });
    });

    it('stays with the request that took it over when the voided one is forgotten', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await voidRequest(1);
      clock.now += MINUTE;
      const second = { idempotencyKey: NAME, requestId: requestId(2, clock.now), leaseMs: 2 * DAY };
      await admit(2, 30n, second);
      clock.now += 9 * MINUTE;
      expect(await ledger.store.sweep(10)).toBe(1);
      const third = { idempotencyKey: NAME, requestId: requestId(3, clock.now) };
      expect(await admit(3, 30n, third)).toMatchObject({ code: 'repeated', requestId: second.requestId });
    });

    it.each([12n, 0n])(
      'is remembered for 24 hours after its request ended, and forgotten with it: charged %s',
      async (amount) => {
        await admit(1, 30n, { idempotencyKey: NAME });
        await settle(1, amount);
        clock.now += DAY - 1;
        const second = { idempotencyKey: NAME, requestId: requestId(2, clock.now) };
        expect(await admit(2, 30n, second)).toMatchObject({ code: 'repeated', state: 'settled' });
        clock.now += 1;
        expect(await admit(2, 30n, second)).toMatchObject({ code: 'ok' });
        expect(await admit(3, 30n, { ...second, requestId: requestId(3, clock.now) })).toMatchObject({
          code: 'repeated',
          requestId: second.requestId,
          state: 'held',
        });
      },
    );

    it('is not that of a request with another body', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      const before = await state();
      expect(await admit(2, 30n, { idempotencyKey: REUSED })).toEqual({
        code: 'key_reused',
        requestId: requestId(1),
        now: NOON,
        seq: 1n,
      });
      expect(await state()).toEqual(before);
      await settle(1, 12n);
      expect(await admit(2, 30n, { idempotencyKey: REUSED })).toMatchObject({ code: 'key_reused' });
    });

    it('stands for one request of each API key', async () => {
      await createKey('k2');
      await admit(1, 30n, { idempotencyKey: NAME });
      expect(await admit(2, 30n, { idempotencyKey: NAME, key: 'k2' })).toMatchObject({ code: 'ok' });
      expect(await admit(3, 30n, { idempotencyKey: NAME, key: 'k2' })).toMatchObject({
        code: 'repeated',
        requestId: requestId(2),
      });
    });

    it('stands for one request of each account', async () => {
      await ledger.store.grant({ account: 'zeta', id: 'opening', amount: 50n });
      const external = { idempotencyKey: NAME, externalKey: true };
      await admit(1, 30n, external);
      expect(await admit(2, 30n, { ...external, account: 'zeta' })).toMatchObject({ code: 'ok' });
    });

    it('is one of many', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      const other = { ...NAME, key: 'f'.repeat(64) };
      expect(await admit(2, 30n, { idempotencyKey: other })).toMatchObject({ code: 'ok' });
    });

    it('lets the same request be admitted again', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      expect(await admit(1, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'exists', hold: 30n });
    });

    it('costs no rate limit, no concurrency and no money when it is repeated', async () => {
      await createKey('k2', {
        requestsPerMinute: 2,
        tokensPerMinute: 60,
        concurrentRequests: 1,
        budgets: [{ amount: 30n, per: 'day' }],
      });
      await admit(1, 30n, { key: 'k2', tokens: 30, idempotencyKey: NAME });
      const before = await keyState('k2');
      expect(await admit(2, 100n, { key: 'k2', tokens: 60, idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
      });
      expect(await keyState('k2')).toEqual(before);
    });

    it('is not that of a request that was refused', async () => {
      expect(await admit(1, 101n, { idempotencyKey: NAME })).toMatchObject({ code: 'no_funds' });
      expect(await admit(2, 100n, { idempotencyKey: NAME })).toMatchObject({ code: 'ok' });
    });

    it('tells nothing to a key that was revoked', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await ledger.store.revokeKey('acme', 'k1');
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'revoked' });
    });

    it('is not that of a settle that was never admitted', async () => {
      await settle(1, 12n, { force: true });
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'ok' });
    });

    it('comes back with a hold that was lost', async () => {
      await admit(1, 30n, { idempotencyKey: NAME, restore: true });
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
      });
    });

    it('stays with who took it while the hold was lost', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      expect(await admit(2, 30n, { idempotencyKey: REUSED, restore: true })).toMatchObject({ code: 'ok' });
      expect(await ledger.store.request('acme', requestId(2))).not.toHaveProperty('idempotencyKey');
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
      });
    });

    it('admits one of 64 concurrent requests', async () => {
      const results = await Promise.all(
        Array.from({ length: 64 }, (_, n) => admit(n, 1n, { idempotencyKey: NAME })),
      );
      expect(results.filter(({ code }) => code === 'ok')).toHaveLength(1);
      expect(results.filter(({ code }) => code === 'repeated')).toHaveLength(63);
      expect(await state()).toMatchObject({ held: 1n });
    });
  });

  describe('what became of a request', () => {
    it('is reported for one that runs', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await extend(1, 40n, { checkpoint: 7n, leaseMs: HOUR });
      expect(await ledger.store.request('acme', requestId(1))).toEqual({
        id: requestId(1),
        state: 'held',
        amount: 40n,
        key: 'k1',
        checkpoint: 7n,
        due: NOON + HOUR,
        idempotencyKey: NAME,
      });
    });

    it('is reported for one that ended', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      expect(await ledger.store.request('acme', requestId(1))).toEqual({
        id: requestId(1),
        state: 'settled',
        amount: 12n,
        key: 'k1',
        checkpoint: 0n,
        due: NOON + DAY,
        model: 'some/model',
        line: 2n,
      });
      await voidRequest(2);
      expect(await ledger.store.request('acme', requestId(2))).toMatchObject({ state: 'voided', key: '' });
    });

    it('is reported for one that expired', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 7n });
      clock.now += HOUR;
      await ledger.store.sweep(10);
      expect(await ledger.store.request('acme', requestId(1))).toMatchObject({
        state: 'expired',
        amount: 7n,
      });
    });

    it('is not known of others', async () => {
      await admit(1, 30n);
      expect(await ledger.store.request('acme', requestId(2))).toBeUndefined();
      expect(await ledger.store.request('nobody', requestId(1))).toBeUndefined();
    });

    it('is not known when it was forgotten', async () => {
      await voidRequest(1);
      clock.now += DAY;
      await ledger.store.sweep(10);
      expect(await ledger.store.request('acme', requestId(1))).toBeUndefined();
    });
  });
}

const NAME: IdempotencyKey = { key: 'a'.repeat(64), body: 'b'.repeat(64) };
/** The same key with a different body. */
const REUSED: IdempotencyKey = { ...NAME, body: 'c'.repeat(64) };
