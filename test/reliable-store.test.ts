import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { LedgerEvent } from '../src/ledger/events.ts';
import type { Admit, LedgerStore, Settle } from '../src/ledger/ledger.ts';
import { MemoryStore } from '../src/ledger/memory-store.ts';
import { ReliableStore, type ReliableStoreOptions } from '../src/ledger/reliable-store.ts';
import { hashOf, MINUTE, NOON, requestId, USAGE } from './contracts/ledger-fixture.ts';
import { type RollbackStore, rollbackStore } from './helpers/rollback-store.ts';

const clock = { now: NOON };
const opened: LedgerStore[] = [];

beforeEach(() => {
  vi.useFakeTimers({ now: NOON });
  clock.now = NOON;
});

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  vi.useRealTimers();
});

describe('an account that went back in time', () => {
  it('has the balance that it would have had, whatever was lost and whenever', { timeout: 60_000 }, async () => {
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
      { numRuns: 3000 },
    );
    expect(lost).toBeGreaterThan(100);
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
      arbitrary: fc.record({ type: fc.constant('rollBack' as const), commands: fc.integer({ min: 1, max: 20 }) }),
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
  for (const end = clock.now + ms; clock.now < end; ) {
    const step = Math.min(50, end - clock.now);
    clock.now += step;
    await vi.advanceTimersByTimeAsync(step);
  }
}
void hashOf;
void ((_: RollbackStore) => {});
