import { describe, expect, it } from 'vitest';
import type { IdempotencyKey, Settle, SettleResult } from '../../src/ledger/contract/ledger-store.ts';
import { DAY, type LedgerFixture, MINUTE, NOON, requestId } from './ledger-fixture.ts';

/** Charges of unknown requests in every ledger store. Part of the suite in ledger-store.ts. */
export function describeOrphans(ledger: LedgerFixture): void {
  const { clock, admit, settle, voidRequest, createKey } = ledger;
  const record = (n: number) => ledger.store.request('acme', requestId(n));

  describe('a charge of a request that was never admitted', () => {
    const orphan = (n: number, more?: Partial<Settle>): Promise<SettleResult> =>
      settle(n, 12n, { force: true, idempotencyKey: NAME, ...more });

    it('has the idempotency key that it is said to have', async () => {
      expect(await orphan(1)).toMatchObject({ code: 'ok', charged: 12n });
      expect(await record(1)).toMatchObject({ state: 'settled', idempotencyKey: NAME });
      const repeated = { code: 'repeated', requestId: requestId(1), state: 'settled' };
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject(repeated);
      const other = { ...NAME, body: 'c'.repeat(64) };
      expect(await admit(2, 30n, { idempotencyKey: other })).toMatchObject({ code: 'key_reused' });
      await createKey('k2');
      expect(await admit(3, 30n, { key: 'k2', idempotencyKey: NAME })).toMatchObject({ code: 'ok' });
    });

    it('leaves it with another request that took it and was charged', async () => {
      await admit(2, 30n, { idempotencyKey: NAME });
      await settle(2, 5n);
      expect(await orphan(1)).toMatchObject({ code: 'ok', charged: 12n });
      expect(await record(1)).not.toHaveProperty('idempotencyKey');
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(2),
        state: 'settled',
      });
    });

    it('takes it from one that runs, and may yet be voided', async () => {
      await admit(2, 30n, { idempotencyKey: NAME });
      await orphan(1);
      await voidRequest(2);
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
        state: 'settled',
      });
    });

    it('takes it, too, where its hold was taken again, from one that took it meanwhile', async () => {
      await admit(2, 30n, { idempotencyKey: NAME });
      await admit(1, 30n, { idempotencyKey: NAME, restore: true });
      await orphan(1);
      await voidRequest(2);
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
        state: 'settled',
      });
    });

    it('keeps what it took, though that one is charged, too', async () => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await orphan(2);
      await settle(1, 5n);
      expect(await record(1)).not.toHaveProperty('idempotencyKey');
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(2),
      });
    });

    it('gives free what it took when it is forgotten, and only then', async () => {
      await admit(1, 30n, { idempotencyKey: NAME, requestId: requestId(1, NOON + 1), leaseMs: 2 * DAY });
      await orphan(2);
      clock.now += DAY - 1;
      const third = { idempotencyKey: NAME, requestId: requestId(3, NOON + DAY) };
      expect(await admit(3, 30n, third)).toMatchObject({ code: 'repeated', requestId: requestId(2) });
      clock.now += 1;
      expect(await admit(3, 30n, third)).toMatchObject({ code: 'ok' });
      await voidRequest(1, { requestId: requestId(1, NOON + 1) });
      const fourth = { ...third, requestId: requestId(4, NOON + DAY) };
      expect(await admit(4, 30n, fourth)).toMatchObject({ code: 'repeated', requestId: third.requestId });
    });

    it('takes it from one that was voided', async () => {
      await admit(2, 30n, { idempotencyKey: NAME });
      await voidRequest(2);
      await orphan(1);
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
      });
    });

    it('gives it free when it is forgotten', async () => {
      await orphan(1);
      clock.now += DAY;
      const second = { idempotencyKey: NAME, requestId: requestId(2, clock.now) };
      expect(await admit(2, 30n, second)).toMatchObject({ code: 'ok' });
    });

    it('has none of a settle that was refused', async () => {
      expect(await orphan(1, { force: false })).toMatchObject({ code: 'unknown' });
      expect(await admit(3, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'ok' });
    });

    it.each([
      [0, 1],
      [MINUTE - 1, 1],
      [MINUTE, 0],
    ])("%s ms after it was made takes %s of its key's requests per minute", async (age, taken) => {
      await createKey('k2', { requestsPerMinute: 2 });
      clock.now += age;
      await settle(1, 12n, { force: true, key: 'k2' });
      await settle(1, 12n, { force: true, key: 'k2' });
      const { rates } = (await ledger.store.keyState('acme', 'k2'))!;
      expect(rates?.requests?.remaining).toBe(2 - taken);
    });
  });
}

const NAME: IdempotencyKey = { key: 'a'.repeat(64), body: 'b'.repeat(64) };
