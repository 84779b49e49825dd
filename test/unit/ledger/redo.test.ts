import { describe, expect, it } from 'vitest';

import { StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { hashOf, HOUR, MINUTE, requestId } from '../../contracts/ledger-fixture.ts';
import {
  admission,
  clock,
  failOver,
  inFakeTime,
  openAccount,
  pass,
  reliable,
  settlement,
} from '../../helpers/reliable-store.ts';
import { rollbackStore } from '../../helpers/rollback-store.ts';

describe('a store made reliable', () => {
  inFakeTime();

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
      expect(await store.balance('acme')).toMatchObject({
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
      primary.extend = () => Promise.reject(new StoreUnavailableError('no'));
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
      primary.loseConnection();
      await pass(50_000);
      expect(await store.balance('acme')).toMatchObject({
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

    it('remembers for as long as it was unavailable what it may have lost before', async () => {
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
      const types = events.map(({ type }) => type).filter((type) => !type.startsWith('store_'));
      expect(types).toEqual(['rollback', 'rollback_repaired']);
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
      primary.loseConnection();
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
      primary.loseConnection();
      await pass(50_000);
      expect(await store.balance('acme')).toMatchObject({ granted: 100n, spent: 70n });
      expect(events).toMatchObject([
        { type: 'rollback' },
        { type: 'repair_refused', account: 'acme', id: 'a1', amount: '-0.00000006', code: 'below_floor' },
        { type: 'rollback_repaired', reapplied: 0 },
      ]);
    });

    it('repeats no charge beyond what was reported, though more could be paid now', async () => {
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

    it('has no key that was revoked while it was lost', async () => {
      const { primary, store } = await openAccount(100n);
      const copied = primary.length;
      await store.createKey({ account: 'acme', key: 'k1', name: '', hash: hashOf('k1') });
      await primary.rollBackTo(copied);
      expect(await store.revokeKey('acme', 'k1')).toBe(true);
      expect(await store.revokeKey('acme', 'k2')).toBe(false);
      expect(await store.findKey(hashOf('k1'))).toMatchObject({ state: 'revoked' });
      await failOver(primary, copied);
      await pass(50_000);
      expect(await store.findKey(hashOf('k1'))).toMatchObject({ state: 'revoked' });
    });

    it('has no session again that has expired and was pruned', async () => {
      const { store } = await openAccount(100n);
      const expiresAt = clock.now + MINUTE;
      await store.createKey({ account: 'acme', key: 'ses-1', name: '', hash: hashOf('s'), expiresAt });
      clock.now += 2 * 24 * 60 * MINUTE;
      await store.prune('acme');
      expect(await store.revokeKey('acme', 'ses-1')).toBe(false);
      expect(await store.findKey(hashOf('s'))).toBeUndefined();
    });

    it('has the changes of keys that were lost, and brings back none that another process has changed since', async () => {
      const { primary, store, events } = await openAccount(100n);
      const key = { account: 'acme', key: 'k1', name: '' };
      await store.createKey({ ...key, hash: hashOf('old') });
      await store.createKey({ ...key, key: 'k2', hash: hashOf('k2') });
      const copied = primary.length;
      await store.updateKey({ ...key, version: 1, policy: '{"models":[]}' });
      await store.rotateKey({ ...key, hash: hashOf('new'), version: 2, overlapMs: MINUTE });
      await store.updateKey({ ...key, key: 'k2', version: 1, name: 'lost' });
      await failOver(primary, copied);
      await primary.updateKey({ ...key, key: 'k2', version: 1, name: 'other' });
      await pass(1000);
      expect(await store.findKey(hashOf('new'))).toMatchObject({ policy: '{"models":[]}', version: 3 });
      expect(await store.findKey(hashOf('old'))).toMatchObject({ hashUntil: clock.now + MINUTE });
      expect(await store.findKey(hashOf('k2'))).toMatchObject({ name: 'other', version: 2 });
      expect(events).toEqual([]);
    });

    it('has the policy of the account that was lost, and what runs counts against it', async () => {
      const { primary, store } = await openAccount(100n);
      const copied = primary.length;
      const policy = { account: 'acme', key: '@', version: 0, name: '', endUsers: { max: 5 } };
      expect(await store.updateKey({ ...policy, limits: { concurrentRequests: 1 } })).toMatchObject({
        code: 'ok',
      });
      const asked = { account: 'acme', key: 'label', externalKey: true, want: 5n, min: 5n, tokens: 0 };
      const more = { leaseMs: HOUR, notAfter: Infinity, endUser: 'ann' };
      await store.admit({ ...asked, ...more, requestId: requestId(1) });
      await failOver(primary, copied);
      await pass(5000);
      expect(await store.snapshot('acme')).toMatchObject({
        policy: { version: 1, limits: { concurrentRequests: 1 }, running: 1, held: 5n },
        endUsers: [{ endUser: 'ann', running: 1, held: 5n }],
      });
      expect(await store.admit({ ...asked, ...more, requestId: requestId(2) })).toMatchObject({
        code: 'concurrency',
        limitedBy: 'account',
      });
    });

    it('makes the changes of a key in their order, also the second time', async () => {
      const { primary, store } = await openAccount(100n);
      const key = { account: 'acme', key: 'k1', name: '' };
      await store.createKey({ ...key, hash: hashOf('old') });
      const copied = primary.length;
      await store.updateKey({ ...key, version: 1, policy: '{"models":[]}' });
      await store.rotateKey({ ...key, hash: hashOf('new'), version: 2, overlapMs: 0 });
      const updateKey = primary.updateKey.bind(primary);
      let unanswered = 0;
      primary.updateKey = async (update) => {
        const reply = await updateKey(update);
        if ((unanswered += 1) === 1) throw new StoreUnavailableError('unknown');
        return reply;
      };
      await failOver(primary, copied);
      await pass(20_000);
      expect(unanswered).toBe(2);
      expect(await store.findKey(hashOf('new'))).toMatchObject({ version: 3 });
      await failOver(primary, copied);
      await pass(20_000);
      expect(await store.findKey(hashOf('new'))).toMatchObject({ policy: '{"models":[]}', version: 3 });
    });

    it('takes a key that was rotated for no key that is lost', async () => {
      const { primary, store, events } = await openAccount(100n);
      const key = { account: 'acme', key: 'k1', name: '' };
      await store.createKey({ ...key, hash: hashOf('old') });
      await store.rotateKey({ ...key, hash: hashOf('new'), version: 1, overlapMs: 0 });
      await failOver(primary, primary.length);
      await pass(5000);
      expect(events).toEqual([]);
      expect(await store.findKey(hashOf('old'))).toBeUndefined();
      expect(await store.findKey(hashOf('new'))).toMatchObject({ version: 2 });
    });

    it('knows an idempotency key again, whose request was settled', async () => {
      const { primary, store } = await openAccount(100n);
      const idempotencyKey = { key: hashOf('once'), body: hashOf('body') };
      const copied = primary.length;
      await store.admit(admission(1, 10n, { idempotencyKey }));
      await store.settle(settlement(1, 5n, { idempotencyKey }));
      await failOver(primary, copied);
      expect(await store.admit(admission(2, 10n, { idempotencyKey }))).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
        state: 'settled',
      });
    });

    it('keeps an idempotency key that was charged from a request that was admitted meanwhile and voided', async () => {
      const { primary, store } = await openAccount(100n);
      const copied = primary.length;
      const idempotencyKey = { key: hashOf('key'), body: hashOf('body') };
      await store.admit(admission(1, 10n, { idempotencyKey }));
      await store.settle(settlement(1, 5n, { idempotencyKey }));
      await primary.rollBackTo(copied);
      // Through another gateway, that knows nothing of the first.
      expect(await primary.admit(admission(2, 10n, { idempotencyKey }))).toMatchObject({ code: 'ok' });
      expect(await store.admit(admission(3, 10n))).toMatchObject({ code: 'ok' });
      await primary.void({ account: 'acme', requestId: requestId(2) });
      expect(await store.admit(admission(4, 10n, { idempotencyKey }))).toMatchObject({
        code: 'repeated',
        requestId: requestId(1),
      });
    });

    it('is noticed after the renewal of a hold that is still there', async () => {
      const { primary, store } = await openAccount(100n);
      await store.admit(admission(1, 10n));
      const copied = primary.length;
      await store.settle(settlement(2, 60n));
      const renewal = { account: 'acme', requestId: requestId(1), leaseMs: MINUTE, checkpoint: 0n };
      await store.extend({ ...renewal, hold: 10n });
      await primary.rollBackTo(copied);
      expect(await store.admit(admission(3, 50n))).toMatchObject({ code: 'no_funds', available: 30n });
    });

    it('is noticed by what is left when the last that was acknowledged has ended', async () => {
      const { primary, store } = await openAccount(100n);
      const copied = primary.length;
      await store.settle(settlement(2, 60n));
      await store.admit(admission(1, 10n));
      await primary.rollBackTo(copied);
      // Its end is not acknowledged as one of ours: the store says that it is another's.
      await primary.settle(settlement(1, 1n));
      expect(await store.void({ account: 'acme', requestId: requestId(1) })).toMatchObject({
        code: 'settled',
      });
      expect(await store.admit(admission(3, 50n))).toMatchObject({ code: 'no_funds' });
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

      it('without a lost connection it finds them, too', async () => {
        const { primary, store } = await openAccount(100n);
        const copied = primary.length;
        await store.settle(settlement(1, 95n));
        await primary.rollBackTo(copied);
        expect(await store.admit(admission(2, 50n))).toMatchObject({ code: 'no_funds', available: 5n });
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
        primary.settle = () => Promise.reject(new StoreUnavailableError('no'));
        const refused = Promise.resolve(store.admit(admission(2, 50n))).catch((error: unknown) => error);
        await pass(3000);
        expect(await refused).toMatchObject({ name: 'StoreUnavailableError', applied: 'no' });
      });
    });
  });
});
