import { describe, expect, it } from 'vitest';
import type { IdempotencyKey, Settle, SettleResult } from '../../src/ledger/contract/ledger-store.ts';
import { DAY, HOUR, type LedgerFixture, MINUTE, NOON, requestId, USAGE } from './ledger-fixture.ts';

/** Charges in parts, after a rollback, in every store but a ReliableStore. Part of the suite in ledger-store.ts. */
export function describeParts(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, grant, adjust, createKey } = ledger;
  const { state, keyState, usage, lines } = ledger;
  const inParts = (n: number, amount: bigint, more?: Partial<Settle>): Promise<SettleResult> =>
    settle(n, amount, { force: true, inParts: true, ...more });
  const record = (n: number) => ledger.store.request('acme', requestId(n));
  /** Spends of the initial 100, until this much is available. */
  const leave = (amount: bigint) => admit(99, 100n - amount, { leaseMs: 2 * DAY });

  describe('a charge in parts', () => {
    it('is covered by a credit line', async () => {
      await ledger.store.setFloor({ account: 'acme', floor: -20n });
      await admit(1, 90n);
      expect(await inParts(2, 50n)).toMatchObject({ charged: 30n, writtenOff: 0n, available: -20n });
      await voidRequest(1);
      expect(await inParts(2, 200n)).toMatchObject({ code: 'ok', charged: 120n, available: -20n });
    });

    it('moves the budgets of its key by each part', async () => {
      await createKey('k2', { budgets: [{ amount: 500n, per: 'lifetime' }] });
      await admit(1, 91n, { key: 'k2' });
      const first = await inParts(1, 120n, { watchesBudgets: true });
      expect(first).toMatchObject({ code: 'ok', budgets: [{ key: 'k2', spentBefore: 0n, spent: 100n }] });
      await grant('more', 20n);
      const second = await inParts(1, 120n, { watchesBudgets: true });
      expect(second).toMatchObject({ code: 'ok', budgets: [{ key: 'k2', spentBefore: 100n, spent: 120n }] });
    });

    it('is as any other where it is covered', async () => {
      await admit(1, 30n);
      const at = { now: NOON, seq: 2n };
      expect(await inParts(1, 12n)).toEqual({
        code: 'ok',
        charged: 12n,
        writtenOff: 0n,
        available: 88n,
        unspent: 88n,
        unspentBefore: 100n,
        ...at,
      });
      expect(await inParts(1, 12n)).toEqual({ code: 'duplicate', charged: 12n, ...at });
      expect(await inParts(1, 5n)).toEqual({ code: 'duplicate', charged: 12n, ...at });
      expect(await state()).toMatchObject({ available: 88n, held: 0n, spent: 12n, writtenOff: 0n });
    });

    it('writes nothing off, and takes the rest as far and as often as there is something', async () => {
      await admit(1, 30n);
      await admit(2, 65n);
      expect(await inParts(1, 60n)).toEqual({
        code: 'ok',
        charged: 35n,
        writtenOff: 0n,
        available: 0n,
        unspent: 65n,
        unspentBefore: 100n,
        now: NOON,
        seq: 2n,
      });
      expect(await inParts(1, 60n)).toEqual({
        code: 'duplicate',
        charged: 35n,
        isPart: true,
        now: NOON,
        seq: 2n,
      });
      await grant('g2', 20n);
      clock.now += 5;
      expect(await inParts(1, 60n)).toEqual({
        code: 'ok',
        charged: 55n,
        writtenOff: 0n,
        available: 0n,
        unspent: 65n,
        unspentBefore: 85n,
        now: NOON + 5,
        seq: 4n,
      });
      await voidRequest(2);
      expect(await inParts(1, 60n)).toMatchObject({ code: 'ok', charged: 60n, available: 60n, seq: 5n });
      expect(await inParts(1, 60n)).toEqual({ code: 'duplicate', charged: 60n, now: NOON + 5, seq: 5n });
      expect(await state()).toMatchObject({
        granted: 120n,
        available: 60n,
        held: 0n,
        spent: 60n,
        writtenOff: 0n,
      });
      const rest = { type: 'l', id: requestId(1), key: 'k1', at: NOON + 5 };
      expect((await lines()).slice(1)).toEqual([
        {
          type: 's',
          seq: 2n,
          at: NOON,
          id: requestId(1),
          amount: 35n,
          available: 0n,
          hold: 30n,
          key: 'k1',
          model: 'some/model',
          usage: USAGE,
        },
        { type: 'g', seq: 3n, at: NOON, id: 'g2', amount: 20n, available: 20n },
        { ...rest, seq: 4n, amount: 20n, available: 0n },
        { ...rest, seq: 5n, amount: 5n, available: 60n },
      ]);
      expect(await record(1)).toEqual({
        id: requestId(1),
        state: 'settled',
        amount: 60n,
        key: 'k1',
        checkpoint: 0n,
        due: NOON + DAY,
        model: 'some/model',
        line: 2n,
      });
    });

    it('ends with what was charged when it is repeated as any other', async () => {
      await leave(20n);
      await inParts(1, 50n);
      await voidRequest(99);
      expect(await settle(1, 50n)).toMatchObject({ code: 'duplicate', charged: 20n });
      expect(await state()).toMatchObject({ available: 80n, spent: 20n, writtenOff: 0n });
    });

    it('takes nothing of what was written off before', async () => {
      await admit(1, 30n);
      await admit(2, 70n);
      expect(await settle(1, 60n)).toMatchObject({ charged: 30n, writtenOff: 30n });
      await grant('g2', 50n);
      expect(await inParts(1, 60n)).toEqual({
        code: 'duplicate',
        charged: 30n,
        now: NOON,
        seq: 3n,
      });
      const again = { wasAdmitted: true, witnesses: [LOST] };
      expect(await settle(1, 60n, again)).toMatchObject({ code: 'duplicate', charged: 30n });
      expect(await state()).toMatchObject({ available: 50n, spent: 30n, writtenOff: 30n });
    });

    it('corrects what an expiry charged, and goes on from there', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 10n });
      clock.now += 2 * MINUTE;
      await ledger.store.sweep(10);
      await admit(2, 60n);
      expect(await inParts(1, 70n)).toMatchObject({ code: 'ok', charged: 40n, writtenOff: 0n, seq: 3n });
      await voidRequest(2);
      expect(await inParts(1, 70n)).toMatchObject({ code: 'ok', charged: 70n, available: 30n, seq: 4n });
      expect((await lines()).slice(1)).toMatchObject([
        { type: 'e', amount: 10n, hold: 30n },
        { type: 'l', amount: 30n, usage: USAGE },
        { type: 'l', amount: 30n },
      ]);
      expect((await lines())[3]).not.toHaveProperty('usage');
      expect(await record(1)).toMatchObject({ state: 'settled', amount: 70n, line: 3n });
    });

    it('begins with nothing where nothing is there', async () => {
      await leave(0n);
      expect(await inParts(1, 12n)).toMatchObject({ code: 'ok', charged: 0n, writtenOff: 0n, available: 0n });
      expect(await record(1)).toMatchObject({ state: 'settled', amount: 0n, line: 2n });
      expect((await lines())[1]).toMatchObject({ type: 'o', amount: 0n, usage: USAGE });
      await voidRequest(99);
      expect(await inParts(1, 12n)).toMatchObject({ code: 'ok', charged: 12n, available: 88n });
    });

    it('is refused as any other is', async () => {
      await voidRequest(1);
      expect(await inParts(1, 12n)).toMatchObject({ code: 'voided' });
      expect(await inParts(2, 12n, { force: false })).toMatchObject({ code: 'unknown' });
      await inParts(3, 1n);
      clock.now += DAY;
      await ledger.store.sweep(10);
      expect(await inParts(3, 12n)).toMatchObject({ code: 'old' });
      expect(await inParts(2, 12n, { account: 'nobody' })).toMatchObject({ code: 'no_account' });
      expect(await state()).toMatchObject({ available: 99n, seq: 2n });
    });

    it('is that of a frozen account, too', async () => {
      await leave(20n);
      await ledger.store.freeze('acme', true);
      expect(await inParts(1, 50n)).toMatchObject({ code: 'ok', charged: 20n });
      await voidRequest(99);
      expect(await inParts(1, 50n)).toMatchObject({ code: 'ok', charged: 50n, available: 50n });
      expect(await state()).toMatchObject({ frozen: true, spent: 50n });
    });

    it('counts each part into the budget of its key, in the window of its request', async () => {
      await createKey('k2', { budgets: [{ amount: 90n, per: 'day' }], tokensPerMinute: 600 });
      await admit(1, 10n, { key: 'k2', tokens: 21 });
      await leave(10n);
      await inParts(1, 50n, { key: 'k2' });
      expect(await keyState('k2')).toMatchObject({ spent: 10n, held: 0n, running: 0 });
      const { tokenBucket } = await keyState('k2');
      await grant('g2', 15n);
      await inParts(1, 50n, { key: 'k2' });
      expect(await keyState('k2')).toMatchObject({ spent: 25n, held: 0n, running: 0, tokenBucket });
      clock.now += 12 * HOUR;
      await admit(2, 0n, { key: 'k2', requestId: requestId(2, clock.now) });
      await grant('g3', 5n);
      expect(await inParts(1, 50n, { key: 'k2' })).toMatchObject({ charged: 30n });
      expect(await keyState('k2')).toMatchObject({ spent: 30n, spentIn: { day: 0n, week: 30n } });
    });

    it('counts nothing into the budget of a key that was made after it', async () => {
      await leave(10n);
      await inParts(1, 50n, { key: 'k2' });
      await createKey('k2', { budgets: [{ amount: 90n, per: 'lifetime' }] });
      await voidRequest(99);
      expect(await inParts(1, 50n, { key: 'k2' })).toMatchObject({ code: 'ok', charged: 50n });
      expect(await keyState('k2')).toMatchObject({ spent: 0n });
    });

    it('is counted as one request, with all that was charged', async () => {
      await leave(20n);
      await inParts(1, 50n);
      const row = { day: '2026-03-04', key: 'k1', model: 'some/model', requests: 1, errors: 0, aborted: 0 };
      const tokens = { promptTokens: 9, cachedTokens: 2, completionTokens: 12, reasoningTokens: 3, cost: 7n };
      expect(await usage()).toEqual([{ ...row, ...tokens, charged: 20n }]);
      await voidRequest(99, { key: 'k1', model: 'other' });
      await inParts(1, 50n);
      expect((await usage()).find(({ model }) => model === 'some/model')).toEqual({
        ...row,
        ...tokens,
        charged: 50n,
      });
    });

    it('is counted of a day that was folded, too', async () => {
      await leave(20n);
      await inParts(1, 50n);
      await ledger.store.compactUsage('acme', '2026-03-05');
      await grant('g2', 10n);
      await inParts(1, 50n);
      expect(await state()).toMatchObject({ usageCompacted: 20n, spent: 30n });
      expect(await usage()).toMatchObject([
        { day: '2026-03-04', requests: 0, promptTokens: 0, charged: 10n },
      ]);
    });

    it('uses grants in their order, those that expire then before they do', async () => {
      await leave(0n);
      await inParts(1, 50n);
      await grant('late', 20n, { priority: 80 });
      await grant('soon', 20n, { expiresAt: NOON + MINUTE, priority: 10 });
      clock.now += MINUTE;
      expect(await inParts(1, 50n)).toMatchObject({ charged: 40n, available: 0n });
      await grant('soonest', 30n, { expiresAt: clock.now + MINUTE, priority: 0 });
      clock.now += MINUTE;
      expect(await inParts(1, 50n)).toMatchObject({ code: 'ok', charged: 50n, available: 0n });
      expect((await lines()).slice(-2)).toMatchObject([
        { type: 'l', id: requestId(1), amount: 10n, available: 20n },
        { type: 'x', id: 'soonest', amount: 20n, available: 0n },
      ]);
      const { lots, expired } = await state();
      expect(expired).toBe(20n);
      expect(lots).toMatchObject([
        { id: 'opening', remaining: 80n },
        { id: 'late', remaining: 20n },
      ]);
    });

    it('takes its rest once, however many repeat it at once', async () => {
      await leave(20n);
      await inParts(1, 50n);
      await voidRequest(99);
      const results = await Promise.all(Array.from({ length: 64 }, () => inParts(1, 50n)));
      expect(results.filter(({ code }) => code === 'ok')).toHaveLength(1);
      expect(await state()).toMatchObject({ available: 50n, spent: 50n });
    });

    it('has the idempotency key of a request that was never admitted', async () => {
      await leave(0n);
      await inParts(1, 12n, { idempotencyKey: NAME });
      await voidRequest(99);
      await inParts(1, 12n, { idempotencyKey: NAME });
      expect(await record(1)).toMatchObject({ amount: 12n, idempotencyKey: NAME });
      expect(await admit(2, 30n, { idempotencyKey: NAME })).toMatchObject({ code: 'repeated' });
    });

    it('is forgotten with its request', async () => {
      await leave(20n);
      await inParts(1, 50n);
      clock.now += DAY - 1;
      await voidRequest(99);
      await inParts(1, 50n);
      clock.now += 1;
      expect(await ledger.store.sweep(10)).toBe(1);
      expect(await inParts(1, 70n)).toMatchObject({ code: 'old' });
    });
  });

  describe('a charge in an account that went back in time', () => {
    it('is one in parts where a witness is missing', async () => {
      await admit(1, 10n);
      await leave(20n);
      expect(await settle(1, 50n, { witnesses: [LOST] })).toEqual({
        code: 'ok',
        charged: 20n,
        writtenOff: 0n,
        available: 0n,
        unspent: 80n,
        unspentBefore: 100n,
        now: NOON,
        seq: 2n,
        rolledBack: true,
      });
      await grant('g2', 10n);
      expect(await settle(1, 50n)).toMatchObject({ code: 'duplicate', charged: 20n });
      expect(await settle(1, 50n, { witnesses: [LOST] })).toMatchObject({
        code: 'ok',
        charged: 30n,
        rolledBack: true,
      });
      await adjust('a1', 100n);
      expect(await inParts(1, 50n)).toMatchObject({ code: 'ok', charged: 50n });
      expect(await settle(1, 50n, { witnesses: [LOST] })).toEqual({
        code: 'duplicate',
        charged: 50n,
        now: NOON,
        seq: 6n,
        rolledBack: true,
      });
      expect(await state()).toMatchObject({ spent: 50n, writtenOff: 0n });
    });

    it('is one in parts in a frozen account, too', async () => {
      await leave(20n);
      await ledger.store.freeze('acme', true);
      const command = { force: true, witnesses: [LOST] };
      expect(await settle(1, 50n, command)).toMatchObject({ code: 'ok', charged: 20n, rolledBack: true });
      expect(await state()).toMatchObject({ frozen: true, writtenOff: 0n });
    });

    it('is one in parts where its request was admitted, and is not known', async () => {
      await leave(20n);
      const command = { force: true, wasAdmitted: true };
      expect(await settle(1, 50n, command)).toEqual({
        code: 'ok',
        charged: 20n,
        writtenOff: 0n,
        available: 0n,
        unspent: 80n,
        unspentBefore: 100n,
        now: NOON,
        seq: 2n,
        rolledBack: true,
      });
      await voidRequest(99);
      expect(await settle(1, 50n, command)).toEqual({
        code: 'duplicate',
        charged: 20n,
        isPart: true,
        now: NOON,
        seq: 2n,
      });
      expect(await inParts(1, 50n)).toMatchObject({ code: 'ok', charged: 50n });
    });

    it('is not posted unasked, but told', async () => {
      expect(await settle(1, 50n, { wasAdmitted: true })).toEqual({
        code: 'unknown',
        now: NOON,
        seq: 1n,
        rolledBack: true,
      });
    });

    it('is any other where its request is known, or may have been forgotten', async () => {
      await admit(1, 10n);
      await leave(20n);
      const command = { force: true, wasAdmitted: true };
      expect(await settle(1, 50n, command)).toEqual({
        code: 'ok',
        charged: 20n,
        writtenOff: 30n,
        available: 0n,
        unspent: 80n,
        unspentBefore: 100n,
        now: NOON,
        seq: 2n,
      });
      clock.now += DAY;
      await ledger.store.sweep(10);
      for (const force of [true, false]) {
        expect(await settle(1, 50n, { ...command, force })).not.toHaveProperty('rolledBack');
        expect(await settle(2, 50n, { ...command, force })).not.toHaveProperty('rolledBack');
      }
      expect(await settle(2, 50n, command)).toMatchObject({ code: 'old' });
    });
  });
}

const NAME: IdempotencyKey = { key: 'a'.repeat(64), body: 'b'.repeat(64) };
const LOST = { type: 'payment', id: 'lost' } as const;
