import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { type LedgerStore, StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { ReliableStore } from '../../../src/ledger/reliability/reliable-store.ts';
import { hashOf, MINUTE, NOON, requestId } from '../../contracts/ledger-fixture.ts';
import { describeLedgerStore } from '../../contracts/index.ts';
import {
  admission,
  clock,
  failOver,
  inFakeTime,
  openAccount,
  pass,
  reliable,
  settled,
  settlement,
} from '../../helpers/reliable-store.ts';
import { rollbackStore } from '../../helpers/rollback-store.ts';
import { runs } from '../../helpers/runs.ts';

describeLedgerStore(
  'ReliableStore',
  ({ now }) => {
    const store = Object.assign(new MemoryStore({ now }), { mayRollBack: true });
    return new ReliableStore({ store, now, tell: () => {} });
  },
  { sequences: 500, isReliable: true },
);

describe('a store made reliable', () => {
  inFakeTime();

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
                primary.loseConnection();
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
          { numRuns: runs(1000) },
        );
        expect(lost).toBeGreaterThan(runs(100));
      },
    );
  });

  describe('that has lost an account', () => {
    it('refuses it, tells so once, and makes nothing again', async () => {
      const { primary, store, events } = await openAccount(1000n);
      await store.settle(settlement(1, 5n));
      await failOver(primary, 0);
      for (const n of [2, 3, 4]) {
        await expect(store.admit(admission(n, 50n))).rejects.toMatchObject({
          name: 'StoreUnavailableError',
          applied: 'no',
        });
      }
      await expect(store.balance('acme')).rejects.toThrow(StoreUnavailableError);
      await expect(store.grant({ account: 'acme', id: 'g1', amount: 7n })).rejects.toThrow(
        StoreUnavailableError,
      );
      const key = { account: 'acme', key: 'k', hash: hashOf('k'), name: '' };
      await expect(store.createKey(key)).rejects.toThrow(StoreUnavailableError);
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

  describe('that is unavailable', () => {
    it('has every settlement once it is back, in their order, and once', async () => {
      const { primary, store } = await openAccount(1000n);
      const held = [1, 2, 3, 4, 5];
      for (const n of held) await store.admit(admission(n, 10n));
      primary.fault = 'refuse';
      const settled = held.map(async (n) => store.settle(settlement(n, BigInt(n))));
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
        Promise.resolve(store.settle({ ...settlement(n, 1n), account: n % 2 ? 'acme' : `other${n}` })).catch(
          () => {},
        );
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
          ? Promise.reject(new StoreUnavailableError('unknown'))
          : settle(command);
      await store.grant({ account: 'other', id: 'opening', amount: 10n });
      Promise.resolve(store.settle(settlement(1, 1n))).catch(() => {});
      await pass(1000);
      const other = store.settle({ ...settlement(2, 2n), account: 'other' });
      const same = store.settle(settlement(3, 3n));
      await pass(20_000);
      expect(await other).toMatchObject({ code: 'ok' });
      expect(await same).toMatchObject({ code: 'ok' });
    });

    it('is reported once, and its return once, however many requests see it', async () => {
      const { primary, store, events } = await openAccount(1000n);
      primary.fault = 'refuse';
      for (let n = 0; n < 1000; n++) {
        await expect(store.admit(admission(n, 1n))).rejects.toThrow(StoreUnavailableError);
        if (n % 100 === 0) await pass(100);
      }
      primary.fault = undefined;
      await store.admit(admission(2000, 1n));
      await pass(5000);
      expect(events).toMatchObject([
        { type: 'store_unavailable' },
        { type: 'store_recovered', awayMs: 1000 },
      ]);
    });

    it('is reported as unavailable, and not as coming and going, when it answers every other time', async () => {
      const { primary, store, events } = await openAccount(100_000n);
      for (let n = 0; n < 1000; n++) {
        primary.fault = n % 2 === 0 ? 'refuse' : undefined;
        await Promise.resolve(store.admit(admission(n, 1n))).catch(() => {});
        await pass(10);
      }
      primary.fault = undefined;
      await pass(5000);
      expect(events.map(({ type }) => type)).toEqual(['store_unavailable', 'store_recovered']);
    });

    it('is reported with how much waits, when that doubles', async () => {
      const { primary, store, events } = await openAccount(100_000n);
      primary.fault = 'refuse';
      for (let n = 0; n < 450; n++) {
        Promise.resolve(store.settle(settlement(n, 1n))).catch(() => {});
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
      await pass(1000);
      primary.fault = undefined;
      await pass(1000);
      // The command that was lost arrives after all.
      expect(await primary.admit(admission(1, 100n))).toMatchObject({ code: 'done', state: 'voided' });
      expect(await store.balance('acme')).toMatchObject({ held: 0n });
    });

    it('stops to void what no lease can hold any more', async () => {
      const { primary, store } = await openAccount(1000n);
      primary.fault = 'lose the command';
      await expect(store.admit(admission(1, 100n))).rejects.toMatchObject({ applied: 'unknown' });
      const voids = (): number => primary.sent.filter((name) => name === 'void').length;
      await pass(9 * MINUTE);
      const before = voids();
      await pass(30_000);
      expect(voids()).toBeGreaterThan(before);
      expect(store.waitingCharges).toBe(1);
      await pass(MINUTE);
      expect(store.waitingCharges).toBe(0);
      const after = voids();
      await pass(MINUTE);
      expect(voids()).toBe(after);
    });

    it('repeats a charge that waits for a store that loses nothing', async () => {
      const primary = rollbackStore(clock);
      primary.mayRollBack = false;
      const failed: string[] = [];
      const { store, events } = reliable(primary, { onError: (_, request) => failed.push(request) });
      await store.grant({ account: 'acme', id: 'opening', amount: 1000n });
      await store.admit(admission(1, 100n));
      primary.fault = 'lose the answer';
      const settled = store.settle(settlement(1, 60n));
      await pass(1000);
      expect(store.waitingCharges).toBe(1);
      const [waiting, ...others] = store.listWaiting(100);
      expect(others).toEqual([]);
      expect(waiting).toMatchObject({ account: 'acme', requestId: settlement(1, 60n).requestId });
      expect(waiting?.waitingMs).toBeGreaterThanOrEqual(1000);
      expect(store.listWaiting(0)).toEqual([]);
      primary.fault = undefined;
      await pass(1000);
      expect(await settled).toMatchObject({ code: 'duplicate', charged: 60n });
      expect(store.listWaiting(100)).toEqual([]);
      expect(await store.balance('acme')).toMatchObject({ available: 940n, held: 0n });
      expect(primary.sent).not.toContain('verify');
      expect(failed).toEqual([requestId(1)]);
      expect(events.map(({ type }) => type)).toEqual(['store_unavailable']);
    });

    it('gives up what waits when it is closed', async () => {
      const { primary, store } = await openAccount(1000n);
      primary.fault = 'refuse';
      const settled = Promise.resolve(store.settle(settlement(1, 1n))).catch((error: unknown) => error);
      await pass(100);
      await store.close();
      expect(await settled).toBeInstanceOf(StoreUnavailableError);
    });
  });

  describe('that loses nothing', () => {
    it('may have an account deleted: it has none then, as before it had one', async () => {
      const primary = rollbackStore(clock);
      primary.mayRollBack = false;
      const { store, events } = reliable(primary);
      await store.grant({ account: 'acme', id: 'opening', amount: 1000n });
      await store.admit(admission(1, 100n));
      await primary.rollBackTo(0);
      expect(await store.admit(admission(2, 100n))).toMatchObject({ code: 'no_account' });
      expect(await store.grant({ account: 'acme', id: 'again', amount: 1n })).toMatchObject({ code: 'ok' });
      expect(events).toEqual([]);
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

function states(requests: readonly { id: string; state: string; amount: bigint }[]): readonly string[] {
  return requests.map(({ id, state, amount }) => `${id} ${state} ${amount}`).toSorted();
}
