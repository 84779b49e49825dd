import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { LedgerEvent } from '../src/ledger/events.ts';
import { type Admit, type LedgerStore, type Settle, StoreUnavailable } from '../src/ledger/ledger.ts';
import { MemoryStore } from '../src/ledger/memory/memory-store.ts';
import { ReliableStore, type ReliableStoreOptions } from '../src/ledger/reliable/reliable-store.ts';
import { hashOf, MINUTE, NOON, requestId, USAGE } from './contracts/ledger-fixture.ts';
import { describeLedgerStore } from './contracts/ledger-store.ts';
import { type RollbackStore, rollbackStore } from './helpers/rollback-store.ts';

describeLedgerStore(
  'ReliableStore',
  async (time) => {
    const now = (): number => time.now;
    const store = Object.assign(new MemoryStore({ now }), { mayRollBack: true });
    return new ReliableStore({ store, now, tell: () => {} });
  },
  { sequences: 500 },
);

const clock = { now: NOON };
const opened: LedgerStore[] = [];

describe('a store made reliable', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: NOON });
    clock.now = NOON;
  });

  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    vi.useRealTimers();
  });

  describe('under any sequence of commands', () => {
    it(
      'has the balance that it would have had, whatever was lost and whenever',
      { timeout: 60_000 },
      async () => {
        let lost = 0;
        await fc.assert(
          fc.asyncProperty(fc.array(step(), { minLength: 5, maxLength: 60 }), async (steps) => {
            clock.now = NOON;
            const primary = rollbackStore(clock);
            const { store, events } = reliable(primary);
            const truth = new MemoryStore({ now: () => clock.now });
            for (const each of [store, truth]) {
              await each.grant({ account: 'acme', id: 'opening', amount: 1_000_000n });
            }
            const ended = new Set<number>();
            for (const [n, each] of steps.entries()) {
              clock.now += 10;
              // A request ends once; its admit is not sent after that.
              if ('request' in each && ended.has(each.request)) continue;
              if (each.type === 'settle' || each.type === 'void') ended.add(each.request);
              if (each.type === 'rollBack') {
                await primary.rollBackTo(Math.max(1, primary.length - each.commands));
                primary.losses += 1;
                continue;
              }
              await run(store, each, n);
              await run(truth, each, n);
              await settled();
            }
            // Whatever nobody asked for since is found by looking at it.
            await pass(30_000);
            const [ours, theirs] = [await store.snapshot('acme'), await truth.snapshot('acme')];
            expect(ours).toMatchObject({
              granted: theirs!.granted,
              available: theirs!.available,
              held: theirs!.held,
              spent: theirs!.spent,
              writtenOff: 0n,
              frozen: false,
            });
            expect(states(ours!.requests)).toEqual(states(theirs!.requests));
            lost += events.filter(({ type }) => type === 'rollback').length;
            await store.close();
          }),
          { numRuns: 1000 },
        );
        expect(lost).toBeGreaterThan(100);
      },
    );
  });

  describe('that rolls back', () => {
    it('applies again all that it acknowledged, and says so', async () => {
      const { primary, store, events } = await openAccount(1000n);
      await store.admit(admission(1, 100n));
      await store.settle(settlement(1, 60n));
      const copied = primary.length;
      await store.grant({ account: 'acme', id: 'g1', amount: 500n });
      await store.adjust({ account: 'acme', id: 'a1', delta: -50n, reason: '' });
      await store.settle(settlement(2, 70n));
      await store.void({ account: 'acme', requestId: requestId(3) });
      await store.admit(admission(4, 10n));
      await store.extend({
        account: 'acme',
        requestId: requestId(4),
        hold: 30n,
        leaseMs: MINUTE,
        checkpoint: 5n,
      });
      await failOver(primary, copied);
      await pass(5000);
      expect(await store.balance('acme')).toEqual({
        granted: 1450n,
        spent: 130n,
        held: 30n,
        available: 1290n,
      });
      expect(await store.request('acme', requestId(3))).toMatchObject({ state: 'voided' });
      expect(await store.request('acme', requestId(4))).toMatchObject({ state: 'held', checkpoint: 5n });
      expect(events).toEqual([
        { type: 'rollback', account: 'acme', expected: '5', found: '2' },
        { type: 'rollback_repaired', account: 'acme', reapplied: 5 },
      ]);
    });

    it('is not repaired twice by what another gateway repairs', async () => {
      const primary = rollbackStore(clock);
      const [one, other] = [reliable(primary), reliable(primary)];
      await one.store.grant({ account: 'acme', id: 'opening', amount: 1000n });
      await one.store.admit(admission(1, 10n));
      const copied = primary.length;
      for (let n = 10; n < 20; n++) {
        await one.store.settle(settlement(n, 1n));
        await other.store.settle(settlement(n + 10, 2n));
      }
      await one.store.void({ account: 'acme', requestId: requestId(1) });
      await failOver(primary, copied);
      await pass(30_000);
      expect(await one.store.balance('acme')).toMatchObject({ spent: 30n, held: 0n, available: 970n });
      expect(await one.store.journal('acme', 0n, 100)).toHaveLength(21);
      for (const { events } of [one, other]) {
        expect(events.map(({ type }) => type)).toEqual(['rollback', 'rollback_repaired']);
      }
    });

    it('is noticed where others have written since, and its journal looks longer', async () => {
      const { primary, store, events } = await openAccount(1000n);
      const copied = primary.length;
      await store.settle(settlement(1, 60n));
      await failOver(primary, copied);
      for (let n = 10; n < 20; n++) await primary.settle(settlement(n, 1n));
      await pass(5000);
      expect(await store.balance('acme')).toMatchObject({ spent: 70n });
      expect(events).toMatchObject([
        { type: 'rollback', expected: '2', found: '11' },
        { type: 'rollback_repaired', reapplied: 1 },
      ]);
    });

    it('is noticed by a charge that took the place of a lost one in the journal', async () => {
      const { primary, store } = await openAccount(1000n);
      const copied = primary.length;
      await store.settle(settlement(1, 60n));
      await primary.rollBackTo(copied);
      await store.settle(settlement(2, 5n));
      await pass(100);
      expect(await store.balance('acme')).toMatchObject({ spent: 65n });
    });

    it('is noticed by a hold that has not the size to which it grew', async () => {
      const { primary, store } = await openAccount(1000n);
      await store.admit(admission(1, 10n));
      await store.admit(admission(2, 10n));
      const copied = primary.length;
      const renewal = { account: 'acme', requestId: requestId(1), leaseMs: MINUTE, checkpoint: 0n };
      await store.extend({ ...renewal, hold: 70n });
      await failOver(primary, copied);
      await pass(5000);
      expect(await store.balance('acme')).toMatchObject({ held: 80n });
    });

    it('is repaired when that can be done, though a charge was taken before', async () => {
      const { primary, store } = await openAccount(1000n);
      const copied = primary.length;
      await store.admit(admission(1, 30n));
      await store.admit(admission(2, 10n));
      await failOver(primary, copied);
      // A store whose memory is full takes charges, and no holds.
      const extend = primary.extend.bind(primary);
      primary.extend = () => Promise.reject(new StoreUnavailable('no'));
      expect(await store.settle(settlement(2, 5n))).toMatchObject({ code: 'ok' });
      primary.extend = extend;
      await pass(6000);
      expect(await store.balance('acme')).toMatchObject({ held: 30n, spent: 5n });
    });

    it('is noticed without traffic and without a lost connection', async () => {
      const { primary, store } = await openAccount(1000n);
      const copied = primary.length;
      await store.settle(settlement(1, 60n));
      await store.void({ account: 'acme', requestId: requestId(2) });
      await primary.rollBackTo(copied);
      await pass(30_000);
      expect(await primary.balance('acme')).toMatchObject({ spent: 60n });
      expect(await primary.request('acme', requestId(2))).toMatchObject({ state: 'voided' });
    });

    it('does not take twice what is repeated for nothing', async () => {
      const { primary, store, events } = await openAccount(1000n);
      for (let n = 1; n < 5; n++) await store.settle(settlement(n, 10n));
      await store.admit(admission(7, 100n));
      primary.losses += 1;
      await pass(50_000);
      expect(await store.balance('acme')).toEqual({
        granted: 1000n,
        spent: 40n,
        held: 100n,
        available: 860n,
      });
      expect(await store.journal('acme', 0n, 100)).toHaveLength(5);
      expect(events).toEqual([]);
    });

    it('forgets what was acknowledged more than a minute ago', async () => {
      const { primary, store } = await openAccount(1000n);
      const copied = primary.length;
      await store.settle(settlement(1, 60n));
      await pass(30_000);
      await store.settle(settlement(2, 5n));
      await pass(31_000);
      await failOver(primary, copied);
      await pass(5000);
      expect(await store.balance('acme')).toMatchObject({ spent: 5n });
    });

    it('remembers for as long as it was away what it may have lost before', async () => {
      const { primary, store } = await openAccount(1000n);
      const copied = primary.length;
      await store.settle(settlement(1, 60n));
      await failOver(primary, copied);
      primary.fault = 'refuse';
      await pass(10 * MINUTE);
      primary.fault = undefined;
      await pass(10_000);
      expect(await store.balance('acme')).toMatchObject({ spent: 60n });
    });

    it('forgets after an outage what was acknowledged more than a minute before, less the outage', async () => {
      const { primary, store } = await openAccount(1000n);
      const copied = primary.length;
      await store.settle(settlement(1, 60n));
      await pass(30_000);
      primary.fault = 'refuse';
      await pass(10 * MINUTE);
      primary.fault = undefined;
      await pass(40_000);
      await failOver(primary, copied);
      await pass(10_000);
      expect(await store.balance('acme')).toMatchObject({ spent: 0n });
    });

    it('has a grant again whose first answer was lost, and which others would hide', async () => {
      const { primary, store, events } = await openAccount(1000n);
      const copied = primary.length;
      const grant = { account: 'acme', id: 'g1', amount: 500n };
      primary.fault = 'lose the answer';
      await expect(store.grant(grant)).rejects.toMatchObject({ applied: 'unknown' });
      primary.fault = undefined;
      expect(await store.grant(grant)).toMatchObject({ code: 'duplicate' });
      await failOver(primary, copied);
      for (let n = 10; n < 20; n++) await primary.settle(settlement(n, 1n));
      await pass(5000);
      expect(await store.balance('acme')).toMatchObject({ granted: 1500n });
      expect(events.slice(-2)).toMatchObject([{ type: 'rollback' }, { type: 'rollback_repaired' }]);
    });

    it('is noticed by a grant that another gateway was asked to make again', async () => {
      const { primary, store, events } = await openAccount(1000n);
      const copied = primary.length;
      await store.settle(settlement(1, 60n));
      const grant = { account: 'acme', id: 'g1', amount: 500n };
      await store.grant(grant);
      await primary.rollBackTo(copied);
      clock.now += 1000;
      await primary.grant(grant);
      await primary.settle(settlement(10, 1n));
      primary.losses += 1;
      await pass(5000);
      expect(await store.balance('acme')).toMatchObject({ granted: 1500n, spent: 61n });
      expect(events.map(({ type }) => type)).toEqual(['rollback', 'rollback_repaired']);
    });

    it('finds what was lost while it was repaired', async () => {
      const { primary, store } = await openAccount(1000n);
      const copied = primary.length;
      await store.grant({ account: 'acme', id: 'g1', amount: 500n });
      await store.settle(settlement(1, 20n));
      await failOver(primary, copied);
      const settle = primary.settle.bind(primary);
      let failovers = 0;
      primary.settle = async (command) => {
        // The grant is there again, and lost before the charge is.
        if ((failovers += 1) === 1) await failOver(primary, copied);
        return settle(command);
      };
      await pass(30_000);
      expect(await store.balance('acme')).toMatchObject({ granted: 1500n, spent: 20n });
    });

    it('tells of what the account can not take again, by what is to be adjusted', async () => {
      const { primary, store, events } = await openAccount(100n);
      const copied = primary.length;
      await store.adjust({ account: 'acme', id: 'a1', delta: -60n, reason: '' });
      await primary.rollBackTo(copied);
      await primary.settle(settlement(10, 70n));
      primary.losses += 1;
      await pass(50_000);
      expect(await store.balance('acme')).toMatchObject({ granted: 100n, spent: 70n });
      expect(events).toMatchObject([
        { type: 'rollback' },
        { type: 'repair_refused', account: 'acme', id: 'a1', amount: '-0.00000006', code: 'below_floor' },
        { type: 'rollback_repaired', reapplied: 0 },
      ]);
    });

    it('repeats no charge beyond what was told, though more could be paid now', async () => {
      const { primary, store } = await openAccount(100n);
      const copied = primary.length;
      expect(await store.settle(settlement(1, 150n))).toMatchObject({ charged: 100n, writtenOff: 50n });
      await store.grant({ account: 'acme', id: 'g1', amount: 500n });
      await failOver(primary, copied);
      await pass(5000);
      expect(await store.balance('acme')).toMatchObject({ spent: 100n, available: 500n });
    });

    it('has the keys, revocations and freezes that were lost', async () => {
      const { primary, store } = await openAccount(100n);
      const key = { account: 'acme', name: '' };
      await store.createKey({ ...key, key: 'old', hash: hashOf('old') });
      await store.settle(settlement(1, 1n));
      const copied = primary.length;
      await store.createKey({ ...key, key: 'new', hash: hashOf('new') });
      await store.revokeKey('acme', 'old');
      await store.freeze('acme', true);
      await failOver(primary, copied);
      await pass(5000);
      expect(await store.findKey(hashOf('new'))).toMatchObject({ state: 'active' });
      expect(await store.findKey(hashOf('old'))).toMatchObject({ state: 'revoked' });
      expect(await store.snapshot('acme')).toMatchObject({ frozen: true });
    });

    it('knows an idempotency key again, whose request was settled', async () => {
      const { primary, store } = await openAccount(100n);
      const idempotencyKey = { key: hashOf('once'), body: hashOf('body') };
      const copied = primary.length;
      await store.admit(admission(1, 10n, { idempotencyKey }));
      await store.settle(settlement(1, 5n));
      await failOver(primary, copied);
      expect(await store.admit(admission(2, 10n, { idempotencyKey }))).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
        state: 'settled',
      });
    });

    it('takes a lost hold again with the next renewal of it', async () => {
      const { primary, store } = await openAccount(100n);
      await store.settle(settlement(1, 5n));
      const copied = primary.length;
      await store.admit(admission(2, 10n));
      await primary.rollBackTo(copied);
      await store.settle(settlement(3, 5n));
      const renewal = {
        account: 'acme',
        requestId: requestId(2),
        hold: 10n,
        leaseMs: MINUTE,
        checkpoint: 3n,
      };
      expect(await store.extend(renewal)).toMatchObject({ code: 'ok', hold: 10n });
      expect(await store.balance('acme')).toMatchObject({ held: 10n, spent: 10n });
    });

    describe('answers an admit correctly:', () => {
      it('after a lost connection it finds the lost charges first', async () => {
        const { primary, store } = await openAccount(100n);
        const copied = primary.length;
        await store.settle(settlement(1, 95n));
        await failOver(primary, copied);
        expect(await store.admit(admission(2, 50n))).toMatchObject({ code: 'no_funds', available: 5n });
        expect(await store.balance('acme')).toMatchObject({ spent: 95n, held: 0n });
      });

      it('one that took money of a lost charge is undone, and may come again', async () => {
        const { primary, store } = await openAccount(100n);
        const copied = primary.length;
        await store.settle(settlement(1, 95n));
        await primary.rollBackTo(copied);
        const admitted = store.admit(admission(2, 50n));
        await expect(admitted).rejects.toMatchObject({ name: 'StoreUnavailable', applied: 'no' });
        expect(await store.admit(admission(3, 50n))).toMatchObject({ code: 'no_funds', available: 5n });
        expect(await store.balance('acme')).toMatchObject({ spent: 95n, held: 0n, available: 5n });
      });

      it('one that would have been admitted in any case is', async () => {
        const { primary, store } = await openAccount(1000n);
        const copied = primary.length;
        await store.settle(settlement(1, 95n));
        await primary.rollBackTo(copied);
        expect(await store.admit(admission(2, 50n))).toMatchObject({ code: 'ok' });
        await pass(100);
        expect(await store.balance('acme')).toMatchObject({ spent: 95n, held: 50n, available: 855n });
      });

      it('one that lacked a lost grant is admitted', async () => {
        const { primary, store } = await openAccount(10n);
        const copied = primary.length;
        await store.grant({ account: 'acme', id: 'g1', amount: 500n });
        await primary.rollBackTo(copied);
        expect(await store.admit(admission(1, 400n))).toMatchObject({ code: 'ok', hold: 400n });
      });

      it('nothing is admitted while the repair can not be made', async () => {
        const { primary, store } = await openAccount(1000n);
        const copied = primary.length;
        await store.settle(settlement(1, 5n));
        await failOver(primary, copied);
        primary.fault = 'lose the command';
        await expect(store.admit(admission(2, 50n))).rejects.toMatchObject({ applied: 'no' });
      });
    });
  });

  describe('that has lost an account', () => {
    it('refuses it, tells so once, and makes nothing anew', async () => {
      const { primary, store, events } = await openAccount(1000n);
      await store.settle(settlement(1, 5n));
      await failOver(primary, 0);
      for (const n of [2, 3, 4]) {
        await expect(store.admit(admission(n, 50n))).rejects.toMatchObject({
          name: 'StoreUnavailable',
          applied: 'no',
        });
      }
      await expect(store.balance('acme')).rejects.toThrow(StoreUnavailable);
      await expect(store.grant({ account: 'acme', id: 'g1', amount: 7n })).rejects.toThrow(StoreUnavailable);
      const key = { account: 'acme', key: 'k', hash: hashOf('k'), name: '' };
      await expect(store.createKey(key)).rejects.toThrow(StoreUnavailable);
      await pass(60_000);
      expect(events).toEqual([{ type: 'account_lost', account: 'acme' }]);
      expect(await primary.snapshot('acme')).toBeUndefined();
    });

    it('keeps its charges until it is restored, and repeats none that the restored one may have', async () => {
      const { primary, store } = await openAccount(1000n);
      await store.settle(settlement(1, 5n));
      await store.admit(admission(2, 50n));
      await failOver(primary, 0);
      const settled = store.settle(settlement(2, 20n));
      await pass(10_000);
      // From an export, in which the first charge is.
      await primary.grant({ account: 'acme', id: 'restored', amount: 995n });
      await pass(6000);
      expect(await settled).toMatchObject({ code: 'ok', charged: 20n });
      expect(await store.balance('acme')).toMatchObject({ granted: 995n, spent: 20n });
      expect(await store.admit(admission(3, 50n))).toMatchObject({ code: 'ok' });
    });

    it('keeps the charge of a request whose renewal was the first to find nothing', async () => {
      const { primary, store, events } = await openAccount(1000n);
      await store.admit(admission(1, 10n));
      await primary.rollBackTo(0);
      const renewal = {
        account: 'acme',
        requestId: requestId(1),
        hold: 10n,
        leaseMs: MINUTE,
        checkpoint: 0n,
      };
      const renewed = store.extend(renewal);
      const posted = store.settle(settlement(1, 5n));
      await pass(1000);
      await expect(renewed).resolves.toMatchObject({ code: 'unknown' });
      expect(events).toEqual([{ type: 'account_lost', account: 'acme' }]);
      await primary.grant({ account: 'acme', id: 'opening', amount: 1000n });
      await pass(6000);
      expect(await posted).toMatchObject({ code: 'ok', charged: 5n });
    });

    it('is not one that never knew it', async () => {
      const { store } = reliable(rollbackStore(clock));
      expect(await store.admit(admission(1, 1n))).toMatchObject({ code: 'no_account' });
      expect(await store.balance('acme')).toBeUndefined();
    });
  });

  describe('that is away', () => {
    it('has every settlement once it is back, in their order, and once', async () => {
      const { primary, store } = await openAccount(1000n);
      const held = [1, 2, 3, 4, 5];
      for (const n of held) await store.admit(admission(n, 10n));
      primary.fault = 'refuse';
      const settled = held.map((n) => store.settle(settlement(n, BigInt(n))));
      await pass(60_000);
      primary.fault = 'lose the answer';
      await pass(10_000);
      primary.fault = undefined;
      await pass(5000);
      expect(await Promise.all(settled)).toMatchObject(held.map((n) => ({ charged: BigInt(n) })));
      const lines = await store.journal('acme', 1n, 100);
      expect(lines.map(({ id }) => id)).toEqual(held.map((n) => requestId(n)));
      expect(await store.balance('acme')).toMatchObject({ spent: 15n, held: 0n });
    });

    it('is not kept down by those who wait for it', async () => {
      const { primary, store } = await openAccount(1_000_000n);
      primary.fault = 'refuse';
      for (let n = 0; n < 1000; n++) {
        store.settle({ ...settlement(n, 1n), account: n % 2 ? 'acme' : `other${n}` }).catch(() => {});
      }
      await settled();
      primary.sent.length = 0;
      await pass(60_000);
      expect(primary.sent.length).toBeGreaterThan(50);
      expect(primary.sent.length).toBeLessThan(200);
    });

    it('posts the charges of others although one can not be', async () => {
      const { primary, store } = await openAccount(1000n);
      const settle = primary.settle.bind(primary);
      primary.settle = (command) =>
        command.requestId === requestId(1)
          ? Promise.reject(new StoreUnavailable('unknown'))
          : settle(command);
      await store.grant({ account: 'other', id: 'opening', amount: 10n });
      store.settle(settlement(1, 1n)).catch(() => {});
      await pass(1000);
      const other = store.settle({ ...settlement(2, 2n), account: 'other' });
      const same = store.settle(settlement(3, 3n));
      await pass(20_000);
      expect(await other).toMatchObject({ code: 'ok' });
      expect(await same).toMatchObject({ code: 'ok' });
    });

    it('is told of once, and its return once, however many requests see it', async () => {
      const { primary, store, events } = await openAccount(1000n);
      primary.fault = 'refuse';
      for (let n = 0; n < 1000; n++) {
        await expect(store.admit(admission(n, 1n))).rejects.toThrow(StoreUnavailable);
        if (n % 100 === 0) await pass(100);
      }
      primary.fault = undefined;
      await store.admit(admission(2000, 1n));
      await pass(5000);
      expect(events).toMatchObject([{ type: 'store_away' }, { type: 'store_back', awayMs: 1000 }]);
    });

    it('is told of as away, and not as coming and going, when it answers every other time', async () => {
      const { primary, store, events } = await openAccount(100_000n);
      for (let n = 0; n < 1000; n++) {
        primary.fault = n % 2 === 0 ? 'refuse' : undefined;
        await store.admit(admission(n, 1n)).catch(() => {});
        await pass(10);
      }
      primary.fault = undefined;
      await pass(5000);
      expect(events.map(({ type }) => type)).toEqual(['store_away', 'store_back']);
    });

    it('is told of by how much waits, when that doubles', async () => {
      const { primary, store, events } = await openAccount(100_000n);
      primary.fault = 'refuse';
      for (let n = 0; n < 450; n++) {
        store.settle(settlement(n, 1n)).catch(() => {});
        await pass(10);
      }
      const growth = events.filter(({ type }) => type === 'outbox_growth');
      expect(growth.map((event) => (event.type === 'outbox_growth' ? event.waiting : 0))).toEqual([
        100, 200, 400,
      ]);
    });

    it('voids what it may have admitted, so that a late arrival holds nothing', async () => {
      const { primary, store } = await openAccount(1000n);
      primary.fault = 'lose the command';
      await expect(store.admit(admission(1, 100n))).rejects.toMatchObject({ applied: 'unknown' });
      const voided = store.void({ account: 'acme', requestId: requestId(1) });
      await pass(1000);
      primary.fault = undefined;
      await pass(1000);
      expect(await voided).toMatchObject({ code: 'planted' });
      // The command that was lost arrives after all.
      expect(await primary.admit(admission(1, 100n))).toMatchObject({ code: 'done', state: 'voided' });
      expect(await store.balance('acme')).toMatchObject({ held: 0n });
    });

    it('stops to void what no lease can hold any more', async () => {
      const { primary, store } = await openAccount(1000n);
      primary.fault = 'lose the command';
      await expect(store.admit(admission(1, 100n))).rejects.toMatchObject({ applied: 'unknown' });
      const voided = store
        .void({ account: 'acme', requestId: requestId(1) })
        .catch((error: unknown) => error);
      await pass(11 * MINUTE);
      expect(await voided).toBeInstanceOf(StoreUnavailable);
    });

    it('gives up what waits when it is closed', async () => {
      const { primary, store } = await openAccount(1000n);
      primary.fault = 'refuse';
      const settled = store.settle(settlement(1, 1n)).catch((error: unknown) => error);
      await pass(100);
      await store.close();
      expect(await settled).toBeInstanceOf(StoreUnavailable);
    });
  });

  describe('with an offline allowance', () => {
    const offlineAllowance = { perKey: 100n, perProcess: 250n, forMs: 5 * MINUTE };

    it('admits as much as it says by key and in all, and no more', async () => {
      const { primary, store } = await openAccount(100_000n, { offlineAllowance });
      for (const n of [1, 2, 3, 4]) await store.admit(admission(n, 1n, { key: `k${n}` }));
      primary.fault = 'refuse';
      const ask = async (n: number, key: string, want: bigint, min = want): Promise<bigint> => {
        const result = await store.admit(admission(n, want, { key, min })).catch(() => undefined);
        return result?.code === 'ok' ? result.hold : 0n;
      };
      expect(await ask(10, 'k1', 60n)).toBe(60n);
      expect(await ask(11, 'k1', 60n)).toBe(0n);
      expect(await ask(12, 'k1', 60n, 10n)).toBe(40n);
      expect(await ask(13, 'k1', 1n)).toBe(0n);
      expect(await ask(14, 'k2', 100n)).toBe(100n);
      expect(await ask(15, 'k3', 100n)).toBe(0n);
      expect(await ask(16, 'k3', 50n)).toBe(50n);
      expect(await ask(17, 'k4', 1n)).toBe(0n);
    });

    it('gives nothing to a request with an idempotency key, which nobody can recognize', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      const idempotencyKey = { key: hashOf('once'), body: hashOf('body') };
      await expect(store.admit(admission(2, 1n, { idempotencyKey }))).rejects.toThrow(StoreUnavailable);
      expect(await store.admit(admission(3, 1n))).toMatchObject({ code: 'ok' });
    });

    it('takes a hold back only once the store has its settlement', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      await store.admit(admission(10, 100n));
      const settled = store.settle(settlement(10, 30n));
      await pass(1000);
      await expect(store.admit(admission(11, 100n))).rejects.toThrow(StoreUnavailable);
      primary.fault = undefined;
      await pass(6000);
      expect(await settled).toMatchObject({ code: 'ok', charged: 30n });
      primary.fault = 'refuse';
      expect(await store.admit(admission(12, 100n))).toMatchObject({ code: 'ok', hold: 100n });
    });

    it('posts the charge of a request whose admit arrived after all once', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'lose the answer';
      expect(await store.admit(admission(10, 100n))).toMatchObject({ code: 'ok', hold: 100n });
      primary.fault = undefined;
      expect(await store.settle(settlement(10, 30n))).toMatchObject({ charged: 30n });
      expect(await store.balance('acme')).toMatchObject({ spent: 30n, held: 1n });
    });

    it.each<[string, (store: LedgerStore) => Promise<unknown>]>([
      ['was never admitted', async () => {}],
      ['had no credits', (store) => store.admit(admission(1, 10_000n))],
      [
        'was revoked',
        async (store) => {
          await store.admit(admission(1, 1n));
          await store.revokeKey('acme', 'k1');
        },
      ],
      [
        'is frozen',
        async (store) => {
          await store.admit(admission(1, 1n));
          await store.freeze('acme', true);
        },
      ],
    ])('gives nothing to a key that %s', async (_, before) => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await before(store);
      primary.fault = 'refuse';
      await expect(store.admit(admission(10, 1n))).rejects.toThrow(StoreUnavailable);
    });

    it('ends when the store has been away for too long', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      expect(await store.admit(admission(10, 1n))).toMatchObject({ code: 'ok' });
      await pass(5 * MINUTE + 1);
      await expect(store.admit(admission(11, 1n))).rejects.toThrow(StoreUnavailable);
    });

    it('renews its holds by itself, and lets them not grow', async () => {
      const { primary, store } = await openAccount(1000n, { offlineAllowance });
      await store.admit(admission(1, 1n));
      primary.fault = 'refuse';
      await store.admit(admission(10, 50n));
      const renewal = { account: 'acme', requestId: requestId(10), leaseMs: MINUTE, checkpoint: 1n };
      expect(await store.extend({ ...renewal, hold: 50n })).toMatchObject({ code: 'ok', hold: 50n });
      expect(await store.extend({ ...renewal, hold: 51n })).toMatchObject({ code: 'no_funds', hold: 50n });
    });
  });
});

type Step =
  | { readonly type: 'admit'; readonly request: number }
  | { readonly type: 'extend'; readonly request: number; readonly amount: bigint }
  | { readonly type: 'settle'; readonly request: number; readonly amount: bigint }
  | { readonly type: 'void'; readonly request: number }
  | { readonly type: 'grant' | 'adjust'; readonly id: number }
  | { readonly type: 'rollBack'; readonly commands: number };

function step(): fc.Arbitrary<Step> {
  const request = fc.nat(12);
  const amount = fc.bigInt(1n, 1000n);
  return fc.oneof(
    { weight: 4, arbitrary: fc.record({ type: fc.constant('admit' as const), request }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('extend' as const), request, amount }) },
    { weight: 4, arbitrary: fc.record({ type: fc.constant('settle' as const), request, amount }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('void' as const), request }) },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('grant' as const), id: fc.nat(9) }) },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('adjust' as const), id: fc.nat(9) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant('rollBack' as const),
        commands: fc.integer({ min: 1, max: 20 }),
      }),
    },
  );
}

async function run(store: LedgerStore, step: Exclude<Step, { type: 'rollBack' }>, n: number): Promise<void> {
  const account = 'acme';
  switch (step.type) {
    case 'admit':
      await store.admit(admission(step.request, 100n));
      break;
    case 'extend':
      await store.extend({
        account,
        requestId: requestId(step.request),
        hold: step.amount,
        leaseMs: 10 * MINUTE,
        checkpoint: BigInt(n),
      });
      break;
    case 'settle':
      await store.settle(settlement(step.request, step.amount));
      break;
    case 'void':
      await store.void({ account, requestId: requestId(step.request) });
      break;
    case 'grant':
      await store.grant({ account, id: `g${step.id}`, amount: 10n * BigInt(step.id + 1) });
      break;
    case 'adjust':
      await store.adjust({ account, id: `a${step.id}`, delta: -BigInt(step.id + 1), reason: '' });
      break;
  }
}

function admission(n: number, want: bigint, more: Partial<Admit> = {}): Admit {
  return {
    account: 'acme',
    key: 'k1',
    externalKey: true,
    requestId: requestId(n),
    want,
    min: want,
    leaseMs: 10 * MINUTE,
    tokens: 0,
    notAfter: Infinity,
    ...more,
  };
}

function settlement(n: number, amount: bigint, more: Partial<Settle> = {}): Settle {
  return {
    account: 'acme',
    requestId: requestId(n),
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
    ...more,
  };
}

function states(requests: readonly { id: string; state: string; amount: bigint }[]): readonly string[] {
  return requests.map(({ id, state, amount }) => `${id} ${state} ${amount}`).toSorted();
}

function reliable(
  store: LedgerStore,
  options: Partial<ReliableStoreOptions> = {},
): { store: ReliableStore; events: LedgerEvent[] } {
  const events: LedgerEvent[] = [];
  const made = new ReliableStore({
    store,
    tell: (event) => events.push(event),
    now: () => clock.now,
    ...options,
  });
  opened.push(made);
  return { store: made, events };
}

/** Lets everything happen that waits for no timer. */
async function settled(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

/** Time passes, for the store as for its users. */
async function pass(ms: number): Promise<void> {
  for (const end = clock.now + ms; clock.now < end;) {
    const step = Math.min(50, end - clock.now);
    clock.now += step;
    await vi.advanceTimersByTimeAsync(step);
  }
}

async function openAccount(
  credits: bigint,
  options: Partial<ReliableStoreOptions> = {},
): Promise<{ primary: RollbackStore; store: ReliableStore; events: LedgerEvent[] }> {
  const primary = rollbackStore(clock);
  const made = reliable(primary, options);
  await made.store.grant({ account: 'acme', id: 'opening', amount: credits });
  return { primary, ...made };
}

/** A replica that had `copied` commands is promoted, and everybody connects to it. */
async function failOver(primary: RollbackStore, copied: number): Promise<void> {
  await primary.rollBackTo(copied);
  primary.losses += 1;
}
