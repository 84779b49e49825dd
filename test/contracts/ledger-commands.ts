import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { expect } from 'vitest';
import type {
  AccountState,
  Ending,
  IdempotencyKey,
  LedgerStore,
  DimensionRow,
  Dimensions,
  UsageRow,
  Witness,
} from '../../src/ledger/contract/ledger-store.ts';
import type { AllowancePeriod, Rollover } from '../../src/ledger/contract/allowances.ts';
import type { EndUserLimits, KeyLimits } from '../../src/ledger/contract/key-records.ts';
import { ACCOUNT_POLICY } from '../../src/ledger/contract/key-records.ts';
import { hashOf } from './ledger-fixture.ts';
import { countsSomething, endUserId, LedgerModel } from './ledger-model.ts';
import { type WitnessSlot, witnessesOf, witnessSlots } from './ledger-witness-commands.ts';

/**
 * Random commands for a store and for the model, with few ids so that they
 * collide, and a clock that steps in both directions.
 *
 * After every command the replies, the whole states and the journals must be
 * equal, and the invariants must hold. Returns the number of compared sequences.
 */
export async function behavesLikeTheModel(
  create: (clock: { now: number }) => Promise<LedgerStore>,
  {
    sequences,
    endOnFailure = false,
    isReliable = false,
    limitMs = 0.8 * MODEL_TIMEOUT_MS,
    atEnd,
    close = (store) => store.close(),
  }: Options,
): Promise<number> {
  let compared = 0;
  let opened: LedgerStore | undefined;
  const sequence = fc.array(command, { maxLength: 100, size: 'max' });
  const property = fc.asyncProperty(sequence, async (commands) => {
    const clock = { now: START };
    const model = new LedgerModel(clock);
    const store = (opened = await create(clock));
    const books = Object.fromEntries(ACCOUNTS.map((name) => [name, newBooks()]));
    const check = async (command: Command): Promise<void> => {
      const each = isReliable ? { ...command, ...OWN } : command;
      const requestId = 'slot' in each ? requestIdOf(each, clock.now, model) : '';
      const witnesses = witnessesIn(each, model);
      const expected = await apply(model, each, { requestId, witnesses }, clock);
      const reply = await apply(store, each, { requestId, witnesses }, clock);
      same(withoutDurability(reply), expected, 'reply');
      if ('slot' in each) {
        const record = await store.request(each.account, requestId);
        same(record, model.request(each.account, requestId), 'what became of the request');
      }
      for (const account of ACCOUNTS) {
        const state = sorted(await store.snapshot(account));
        same(state, model.snapshot(account), `state of ${account}`);
        if (!state) books[account] = newBooks();
        if (state) hasSoundBooks(state, await fold(store, account, books[account]!));
      }
    };
    for (const each of OPENING) await check(each);
    for (const each of commands) await check(atEnd ? asInUse(each, clock.now, model) : each);
    for (const account of ACCOUNTS) {
      same(await store.journal(account, 0n, 1000), model.journal(account), `journal of ${account}`);
    }
    await atEnd?.(store);
    compared += 1;
  });
  property.afterEach(async () => {
    if (opened) await close(opened);
    opened = undefined;
  });
  // A difference is reported with what it has been shortened to until then.
  const plugins = [fc.interruptAfterTimeLimit(limitMs, { failOnInterrupt: true })];
  await fc.assert(property, { numRuns: sequences, endOnFailure, plugins });
  return compared;
}

/** For tests by `behavesLikeTheModel`. */
export const MODEL_TIMEOUT_MS = 120_000;

interface Options {
  readonly sequences: number;
  readonly endOnFailure?: boolean;
  /** How long the sequences may take together, and the search for a short one after a difference. @default less than MODEL_TIMEOUT_MS */
  readonly limitMs?: number;
  /** The store is a ReliableStore, which sets the members in `OWN` itself. */
  readonly isReliable?: boolean;
  /** Checks the store after each sequence, which then has only what may happen in use. What it throws is a difference. */
  readonly atEnd?: (store: LedgerStore) => Promise<void>;
  /** Called after each sequence. @default closes the store */
  readonly close?: (store: LedgerStore) => Promise<void>;
}

/**
 * Only what a router and its machine do: usage of a day is compacted when no request of it can end any more, a refund knows
 * what was charged, and no clock is set back by a day, after which the id of a request whose record was deleted may be in use again.
 */
function asInUse(each: Command, now: number, model: LedgerModel): Command {
  switch (each.op) {
    case 'compactUsage':
      return { ...each, day: Math.min(each.day, -3) };
    case 'tick':
      return { ...each, ms: Math.max(each.ms, -HOUR) };
    case 'refund': {
      const requestId = requestIdOf(each, now, model);
      const lines = model.journal(each.account).filter(({ id, type }) => id === requestId && type !== 'r');
      const charged = lines.reduce((sum, { amount }) => sum + amount, 0n);
      // The first of its lines may have been compacted.
      return { ...each, charged: charged > 0n ? charged : 0n };
    }
    default:
      return each;
  }
}

const OWN = { witnesses: [], wasAdmitted: false, inParts: false, mustExist: false };

/** A Wednesday, one minute before midnight and the end of the month, UTC: every budget window is about to end. */
const START = Date.UTC(2026, 8, 30, 23, 59);
const ACCOUNTS = ['acme', 'zeta'];
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const LIMITS: Record<string, KeyLimits> = {
  hourly: {
    budgets: [
      { amount: 40n, per: 'month' },
      { amount: 12n, per: 'hour' },
    ],
    requestsPerMinute: 3,
  },
  daily: {
    budgets: [{ amount: 30n, per: 'day' }],
    requestsPerMinute: 2,
    tokensPerMinute: 90,
    concurrentRequests: 2,
  },
  weekly: { budgets: [{ amount: 25n, per: 'week' }] },
  monthly: { budgets: [{ amount: 25n, per: 'month' }], concurrentRequests: 1 },
  lifetime: { budgets: [{ amount: 60n, per: 'lifetime' }], tokensPerMinute: 7 },
  free: {},
  'ses-1': { budgets: [{ amount: 20n, per: 'lifetime' }] },
};
/** By the keys that have one: those of sessions alone are removed after it. */
const EXPIRIES: Record<string, number> = { 'ses-1': Date.UTC(2026, 9, 1, 1) };
const KEYS = [...Object.keys(LIMITS), 'unrecorded'];
/** Limits of end users, by the key or account whose policy names them; at most two have counters of their own. */
const END_USERS: Record<string, EndUserLimits> = {
  hourly: { budgets: [{ amount: 9n, per: 'hour' }], max: 2 },
  weekly: { requestsPerMinute: 1, tokensPerMinute: 40, concurrentRequests: 1, max: 3 },
};

/** Executed before the random commands, so that most of them find money and keys. */
const OPENING: readonly Command[] = [
  ...['hourly', 'daily', 'weekly', 'lifetime', 'free', 'ses-1'].map((key): Command => ({
    op: 'createKey',
    account: 'acme',
    key,
    name: '',
  })),
  { op: 'grant', account: 'acme', id: 'opening', amount: 40n, expires: undefined, priority: undefined },
];

const GRANTS: readonly Command[] = [
  { op: 'grant', account: 'acme', id: 'a', amount: 6n, expires: 1, priority: undefined },
  { op: 'grant', account: 'acme', id: 'b', amount: 9n, expires: undefined, priority: 9 },
  { op: 'grant', account: 'acme', id: 'c', amount: 20n, expires: 2, priority: 100 },
  { op: 'grant', account: 'acme', id: 'd', amount: 7n, expires: 24, priority: 50 },
  { op: 'grant', account: 'acme', id: 'e', amount: 5n, expires: 24, priority: 50 },
  { op: 'grant', account: 'zeta', id: 'a', amount: 30n, expires: undefined, priority: undefined },
];

/** Periods that are about to end at the start. */
const GRIDS: readonly { readonly per: AllowancePeriod; readonly anchor: number }[] = [
  { per: 'hour', anchor: Date.UTC(2026, 8, 30) },
  // Its first period begins with one of the hours.
  { per: 'day', anchor: Date.UTC(2026, 8, 30) },
  { per: 'month', anchor: Date.UTC(2026, 7, 31, 12) },
  { per: 'day', anchor: Date.UTC(2026, 9, 2, 0, 30) },
  { per: 'week', anchor: Date.UTC(2026, 8, 29, 7) },
];

/** Two idempotency keys; the first one is used with two different bodies. */
const NAMED: readonly IdempotencyKey[] = [
  { key: 'a'.repeat(64), body: 'b'.repeat(64) },
  { key: 'a'.repeat(64), body: 'c'.repeat(64) },
  { key: 'd'.repeat(64), body: 'b'.repeat(64) },
];

/**
 * Selects a request: the `settled`-th settled one, or the `held`-th held one, if there is any; else the one made `slot` ms
 * into these two hours, some hours earlier, or ahead of the clock.
 */
interface RequestSlot extends Witnessing {
  readonly held?: number | undefined;
  readonly settled?: number | undefined;
  readonly slot: number;
  readonly hoursAgo: number;
  readonly aheadMs: number;
}

interface Witnessing {
  readonly witnesses?: readonly WitnessSlot[];
}

type Command =
  | ({ op: 'admit'; account: string; key: string; want: bigint; less: bigint } & RequestSlot & {
        leaseMs: number;
        tokens: number;
        notAfterMs: number;
        externalKey: boolean;
        keyVersion: number | undefined;
        accountVersion: number | undefined;
        endUser: string | undefined;
        restore: boolean;
        idempotencyKey: IdempotencyKey | undefined;
        model: string | undefined;
      })
  | ({ op: 'extend'; account: string; hold: bigint; leaseMs: number; checkpoint: bigint } & RequestSlot)
  | ({
      op: 'settle';
      account: string;
      key: string;
      amount: bigint;
      tokens: number;
      force: boolean;
      endUser: string | undefined;
      model: string;
      ending: Ending;
      cost: bigint | undefined;
      idempotencyKey: IdempotencyKey | undefined;
      wasAdmitted: boolean;
      inParts: boolean;
      watchesBudgets: boolean;
      dimensions: Dimensions | undefined;
    } & RequestSlot)
  | ({
      op: 'void';
      account: string;
      key: string | undefined;
      model: string | undefined;
      ending: Ending | undefined;
      provider: string | undefined;
      dimensions: Dimensions | undefined;
    } & RequestSlot)
  | ({
      op: 'grant';
      account: string;
      id: string;
      amount: bigint;
      expires: number | undefined;
      priority: number | undefined;
      mustExist?: boolean;
    } & Witnessing)
  | ({ op: 'adjust'; account: string; id: string; delta: bigint; force: boolean } & Witnessing)
  | { op: 'setFloor'; account: string; floor: bigint; from: bigint | undefined }
  | ({
      op: 'allow';
      account: string;
      id: string;
      amount: bigint;
      grid: (typeof GRIDS)[number];
      rollover: Rollover;
      priority: number;
      untilHours: number | undefined;
      change: 'prorate' | 'next_period';
      version: number | undefined;
      mustExist?: boolean;
    } & Witnessing)
  | ({ op: 'endAllowance'; account: string; id: string; at: 'now' | 'period_end' } & Witnessing)
  | ({
      op: 'refund';
      account: string;
      amount: bigint;
      charged: bigint;
      key: string;
      dimensions: Dimensions | undefined;
    } & RequestSlot)
  | { op: 'deleteAccount'; account: string }
  | ({ op: 'verify'; account: string } & Witnessing)
  | { op: 'createKey'; account: string; key: string; name: string; mustExist?: boolean }
  | {
      op: 'updateKey';
      account: string;
      key: string;
      name: string;
      terms: string;
      expiresMs: number;
      paused: boolean;
      stale: number;
    }
  | { op: 'rotateKey'; account: string; key: string; secret: string; overlapMs: number; stale: number }
  | { op: 'findKey'; secret: string }
  | { op: 'keyState'; account: string; key: string }
  | { op: 'revokeKey'; account: string; key: string }
  | { op: 'freeze'; account: string; frozen: boolean }
  | { op: 'compact'; account: string; seq: bigint }
  | { op: 'usage'; account: string; days: readonly [number, number] }
  | { op: 'usageBy'; account: string; dimension: string; days: readonly [number, number] }
  | { op: 'compactUsage'; account: string; day: number }
  | { op: 'balance'; account: string }
  | { op: 'prune'; account: string }
  | { op: 'endUserState'; account: string; key: string | undefined; endUser: string }
  | { op: 'sweep' }
  | { op: 'tick'; ms: number };

const account = fc.oneof(
  { weight: 6, arbitrary: fc.constant('acme') },
  { weight: 1, arbitrary: fc.constant('zeta') },
);
const dimensions = fc.option(
  fc.record(
    { user: fc.constantFrom('u 1', 'ü=%'), 'tag:feature': fc.constantFrom('search', 'a b') },
    { requiredKeys: [], noNullPrototype: true },
  ),
  { nil: undefined },
);
const key = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('daily', 'free') },
  { weight: 2, arbitrary: fc.constantFrom(...KEYS) },
);
const endUser = fc.constantFrom(undefined, undefined, 'alice', 'bob@x.org', 'Zoë ~{}\n');
/** Also the account's own terms. */
const changedKey = fc.oneof(
  { weight: 1, arbitrary: key },
  { weight: 2, arbitrary: fc.constant(ACCOUNT_POLICY) },
);
/** Keys are created with their id as hash. */
const secret = fc.constantFrom('daily', 'free', 'weekly', 'second', 'third');
/** By how much the version that a change is based on is outdated. */
const stale = fc.constantFrom(0, 0, 0, 1);
const money = fc.oneof(
  { weight: 4, arbitrary: fc.bigInt(0n, 12n) },
  { weight: 1, arbitrary: fc.bigInt(0n, 60n) },
);
const tokens = fc.constantFrom(0, 1, 10, 30, 45, 200);
const leaseMs = fc.constantFrom(MINUTE, 2 * MINUTE, HOUR);
const request = {
  witnesses: witnessSlots,
  slot: fc.nat(5),
  hoursAgo: fc.oneof(
    { weight: 12, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(1, 25, 49) },
  ),
  aheadMs: fc.oneof(
    { weight: 20, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(4 * MINUTE, 2 * DAY) },
  ),
};
const runningRequest = { ...request, held: fc.option(fc.nat(3), { nil: undefined }) };
const mostly = (value: boolean): fc.Arbitrary<boolean> =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(value) }, { weight: 1, arbitrary: fc.constant(!value) });
const model = fc.constantFrom('m', 'm', 'some/model', '100% blank space');
const ending = fc.constantFrom(
  'finished' as const,
  'finished' as const,
  'client_gone' as const,
  'timeout' as const,
);
const op = <T extends Command['op']>(name: T): fc.Arbitrary<T> => fc.constant(name);

const anyGrant = fc.record({
  op: op('grant'),
  account,
  id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
  amount: fc.constantFrom(5n, 8n, 2n ** 53n - 1n),
  expires: fc.constantFrom(undefined, 1, 2, 24),
  priority: fc.constantFrom(undefined, 50, 9, 100),
});

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 16,
    arbitrary: fc.record({
      op: op('admit'),
      account,
      key,
      want: money,
      less: fc.constantFrom(0n, 0n, 1n, 8n),
      ...request,
      leaseMs,
      tokens,
      notAfterMs: fc.constantFrom(SECOND, SECOND, SECOND, SECOND, 0, -1),
      externalKey: mostly(false),
      keyVersion: fc.constantFrom(undefined, undefined, undefined, 1, 2),
      accountVersion: fc.constantFrom(undefined, undefined, undefined, undefined, 0, 1),
      endUser,
      restore: mostly(false),
      idempotencyKey: fc.constantFrom(undefined, undefined, ...NAMED),
      model: fc.option(model, { nil: undefined }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      op: op('extend'),
      account,
      hold: money,
      leaseMs,
      checkpoint: money,
      ...runningRequest,
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      op: op('settle'),
      account,
      key,
      amount: money,
      tokens,
      force: fc.boolean(),
      endUser,
      model,
      ending,
      cost: fc.constantFrom(undefined, 3n, 2n ** 53n - 2n, 2n ** 54n),
      idempotencyKey: fc.constantFrom(undefined, undefined, ...NAMED),
      wasAdmitted: mostly(false),
      inParts: fc.boolean(),
      watchesBudgets: fc.boolean(),
      dimensions,
      ...runningRequest,
      settled: fc.constantFrom(...Array.from({ length: 6 }, () => undefined), 0, 1),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: op('void'),
      account,
      key: fc.option(key, { nil: undefined }),
      model: fc.option(model, { nil: undefined }),
      ending: fc.option(ending, { nil: undefined }),
      provider: fc.constantFrom(undefined, 'openai', 'my own %'),
      dimensions,
      ...runningRequest,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.record({ op: op('usage'), account, days: fc.tuple(fc.integer({ min: -2, max: 0 }), fc.nat(2)) }),
      fc.record({
        op: op('usageBy'),
        account,
        dimension: fc.constantFrom('user', 'tag:feature'),
        days: fc.tuple(fc.integer({ min: -2, max: 0 }), fc.nat(2)),
      }),
      fc.record({ op: op('compactUsage'), account, day: fc.integer({ min: -3, max: 1 }) }),
    ),
  },
  {
    weight: 4,
    arbitrary: fc
      .record({
        grant: fc.oneof(
          { weight: 3, arbitrary: fc.constantFrom(...GRANTS) },
          { weight: 1, arbitrary: anyGrant },
        ),
        mustExist: mostly(false),
        witnesses: witnessSlots,
      })
      .map(({ grant, ...more }) => ({ ...grant, ...more })),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: op('adjust'),
      account,
      id: fc.constantFrom('a', 'p', 'q', 'r'),
      delta: fc.constantFrom(-15n, -3n, 4n, 10n, 2n ** 53n - 1n),
      force: mostly(false),
      witnesses: witnessSlots,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      op: op('createKey'),
      account,
      key,
      name: fc.constantFrom('', '', 'prod'),
      mustExist: mostly(false),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.oneof(
      { weight: 1, arbitrary: fc.record({ op: op('revokeKey'), account, key }) },
      { weight: 2, arbitrary: fc.record({ op: op('findKey'), secret }) },
      { weight: 2, arbitrary: fc.record({ op: op('keyState'), account, key: changedKey }) },
      {
        weight: 3,
        arbitrary: fc.record({
          op: op('endUserState'),
          account,
          key: fc.option(key, { nil: undefined }),
          endUser: endUser.map((id) => id ?? 'nobody'),
        }),
      },
      { weight: 3, arbitrary: fc.record({ op: op('balance'), account }) },
    ),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: op('updateKey'),
      account,
      key: changedKey,
      name: fc.constantFrom('', 'prod'),
      terms: key,
      expiresMs: fc.constantFrom(-1, -1, 0, HOUR),
      paused: mostly(false),
      stale,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      op: op('rotateKey'),
      account,
      key,
      secret,
      overlapMs: fc.constantFrom(0, MINUTE, DAY),
      stale,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      op: op('setFloor'),
      account,
      floor: fc.constantFrom(0n, -20n, -30n),
      from: fc.constantFrom(undefined, undefined, 0n, -20n),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: op('allow'),
      account,
      id: fc.constantFrom('pro', 'pro', 'free'),
      amount: fc.constantFrom(6n, 6n, 10n, 25n, 2n ** 53n - 1n),
      grid: fc.constantFrom(...GRIDS, GRIDS[0]!),
      rollover: fc.constantFrom('none', 'once', 'all'),
      priority: fc.constantFrom(50, 9),
      untilHours: fc.constantFrom(undefined, undefined, undefined, 0, 1, 800),
      change: fc.constantFrom('prorate', 'next_period'),
      version: fc.constantFrom(undefined, undefined, undefined, 1, 2),
      mustExist: mostly(false),
      witnesses: witnessSlots,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      op: op('endAllowance'),
      account,
      id: fc.constantFrom('pro', 'pro', 'free'),
      at: fc.constantFrom('now', 'period_end'),
      witnesses: witnessSlots,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: op('refund'),
      account,
      amount: fc.constantFrom(1n, 3n, 9n),
      charged: fc.constantFrom(0n, 3n, 9n),
      key: fc.constantFrom('free', 'hourly', 'weekly'),
      dimensions,
      ...request,
      settled: fc.constantFrom(undefined, 0, 1, 2),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.oneof(
      { weight: 1, arbitrary: fc.record({ op: op('deleteAccount'), account }) },
      { weight: 4, arbitrary: fc.record({ op: op('sweep') }) },
    ),
  },
  { weight: 1, arbitrary: fc.record({ op: op('verify'), account, witnesses: witnessSlots }) },
  { weight: 1, arbitrary: fc.record({ op: op('freeze'), account, frozen: mostly(false) }) },
  { weight: 1, arbitrary: fc.record({ op: op('compact'), account, seq: fc.bigInt(0n, 30n) }) },
  { weight: 1, arbitrary: fc.record({ op: op('sweep') }) },
  { weight: 2, arbitrary: fc.record({ op: op('prune'), account }) },
  {
    weight: 8,
    arbitrary: fc.record({
      op: op('tick'),
      ms: fc.oneof(
        { weight: 8, arbitrary: fc.constantFrom(1, 500, 7 * SECOND, 20 * SECOND, MINUTE, 2 * MINUTE) },
        { weight: 4, arbitrary: fc.constantFrom(HOUR, 12 * HOUR, DAY, 25 * HOUR, 8 * DAY, 31 * DAY) },
        { weight: 2, arbitrary: fc.constantFrom(-1, -SECOND, -2 * MINUTE, -HOUR, -26 * HOUR) },
      ),
    }),
  },
);

/** The store or the model, by their common methods. */
type Side = LedgerModel | LedgerStore;

async function apply(
  side: Side,
  each: Command,
  { requestId, witnesses }: { readonly requestId: string; readonly witnesses: readonly Witness[] },
  clock: { now: number },
): Promise<unknown> {
  switch (each.op) {
    case 'admit': {
      const { want, less, notAfterMs, externalKey, keyVersion, restore, idempotencyKey } = each;
      const min = want > less ? want - less : 0n;
      return side.admit({
        account: each.account,
        key: each.key,
        requestId,
        want,
        min,
        leaseMs: each.leaseMs,
        tokens: each.tokens,
        notAfter: clock.now + notAfterMs,
        externalKey,
        ...(keyVersion !== undefined && { keyVersion }),
        ...(each.accountVersion !== undefined && { accountVersion: each.accountVersion }),
        ...(each.endUser !== undefined && { endUser: each.endUser }),
        restore,
        ...(idempotencyKey && { idempotencyKey }),
        ...(each.model !== undefined && { model: each.model }),
        witnesses,
      });
    }
    case 'extend':
      return side.extend({ ...each, requestId, witnesses });
    case 'settle': {
      const completionTokens = Math.floor(each.tokens / 3);
      return side.settle({
        account: each.account,
        requestId,
        amount: each.amount,
        key: each.key,
        model: each.model,
        usage: {
          promptTokens: each.tokens - completionTokens,
          completionTokens,
          cachedTokens: completionTokens,
          reasoningTokens: Math.floor(completionTokens / 2),
          source: 'upstream',
          ...(each.cost !== undefined && { cost: each.cost }),
          price: 'p',
          ending: each.ending,
        },
        force: each.force,
        ...(each.endUser !== undefined && { endUser: each.endUser }),
        ...(each.idempotencyKey && { idempotencyKey: each.idempotencyKey }),
        wasAdmitted: each.wasAdmitted,
        inParts: each.inParts,
        watchesBudgets: each.watchesBudgets,
        ...(each.dimensions && { dimensions: each.dimensions }),
        witnesses,
      });
    }
    case 'void':
      return side.void({
        account: each.account,
        requestId,
        ...(each.key !== undefined && { key: each.key }),
        ...(each.model !== undefined && { model: each.model }),
        ...(each.ending !== undefined && { ending: each.ending }),
        ...(each.provider !== undefined && { provider: each.provider }),
        ...(each.dimensions && { dimensions: each.dimensions }),
        witnesses,
      });
    case 'grant': {
      const { expires, priority } = each;
      const hour = Math.floor(clock.now / HOUR) * HOUR;
      return side.grant({
        account: each.account,
        id: each.id,
        amount: each.amount,
        ...(expires !== undefined && { expiresAt: hour + expires * HOUR }),
        ...(priority !== undefined && { priority }),
        ...(each.mustExist !== undefined && { mustExist: each.mustExist }),
        witnesses,
      });
    }
    case 'adjust':
      return side.adjust({
        account: each.account,
        id: each.id,
        delta: each.delta,
        reason: 'why',
        force: each.force,
        witnesses,
      });
    case 'setFloor': {
      const { account, floor, from } = each;
      return side.setFloor({ account, floor, ...(from !== undefined && { from }) });
    }
    case 'allow': {
      const { grid, untilHours, version, op: _, ...terms } = each;
      const hour = Math.floor(clock.now / HOUR) * HOUR;
      return side.allow({
        ...terms,
        ...grid,
        ...(untilHours !== undefined && { until: hour + untilHours * HOUR }),
        ...(version !== undefined && { version }),
        witnesses,
      });
    }
    case 'endAllowance':
      return side.endAllowance({ account: each.account, id: each.id, at: each.at, witnesses });
    case 'refund': {
      const { account, amount, charged, key, dimensions } = each;
      const of = { key, model: '100% blank space', ...(dimensions && { dimensions }) };
      return side.refund({ account, requestId, amount, charged, ...of, reason: 'bad answer', witnesses });
    }
    case 'deleteAccount': {
      const result = await side.deleteAccount(each.account);
      return 'deleted' in result ? { ...result, deleted: { ...result.deleted, id: '' } } : result;
    }
    case 'verify':
      return side.verify({ account: each.account, witnesses });
    case 'createKey': {
      const limits = LIMITS[each.key];
      return side.createKey({
        account: each.account,
        key: each.key,
        name: each.name,
        hash: hashOf(each.key),
        ...(limits && { limits }),
        ...(EXPIRIES[each.key] !== undefined && { expiresAt: EXPIRIES[each.key]! }),
        ...(each.mustExist !== undefined && { mustExist: each.mustExist }),
      });
    }
    case 'updateKey': {
      const limits = LIMITS[each.terms];
      const hour = Math.floor(clock.now / HOUR) * HOUR;
      return side.updateKey({
        account: each.account,
        key: each.key,
        version: await versionOf(side, each),
        name: each.name,
        ...(limits && { limits }),
        ...(END_USERS[each.terms] && { endUsers: END_USERS[each.terms]! }),
        ...(each.expiresMs >= 0 && { policy: `{"of":"${each.terms}"}` }),
        ...(each.expiresMs >= 0 && each.key !== ACCOUNT_POLICY && { expiresAt: hour + each.expiresMs }),
        ...(each.paused && each.key !== ACCOUNT_POLICY && { paused: true }),
      });
    }
    case 'rotateKey':
      return side.rotateKey({
        account: each.account,
        key: each.key,
        hash: hashOf(each.secret),
        version: await versionOf(side, each),
        overlapMs: each.overlapMs,
      });
    case 'findKey':
      return side.findKey(hashOf(each.secret));
    case 'keyState':
      return side.keyState(each.account, each.key);
    case 'endUserState':
      return side.endUserState(each.account, each.endUser, each.key);
    case 'revokeKey':
      return side.revokeKey(each.account, each.key);
    case 'freeze':
      return side.freeze(each.account, each.frozen);
    case 'compact':
      return side.compact(each.account, each.seq);
    case 'usage': {
      const [from, to] = each.days;
      return shown(await side.usage(each.account, dayAt(clock.now, from), dayAt(clock.now, to)));
    }
    case 'usageBy': {
      const [from, to] = each.days;
      const days = [dayAt(clock.now, from), dayAt(clock.now, to)] as const;
      return shownBy(await side.usageBy(each.account, each.dimension, ...days));
    }
    case 'compactUsage':
      return side.compactUsage(each.account, dayAt(clock.now, each.day));
    case 'balance':
      return side.balance(each.account);
    case 'prune':
      return side.prune(each.account);
    case 'sweep':
      return side.sweep(1000);
    case 'tick':
      break;
  }
  if (side instanceof LedgerModel) clock.now = Math.max(clock.now + each.ms, side.earliest());
  return clock.now;
}

/** The version that a change is based on: the current one, or an outdated one. */
async function versionOf(
  side: Side,
  { account, key, stale }: { readonly account: string; readonly key: string; readonly stale: number },
): Promise<number> {
  const state = await side.keyState(account, key);
  const least = key === ACCOUNT_POLICY ? 0 : 1;
  return Math.max(least, (state?.version ?? least) - stale);
}

/** The day that is `days` days after that of a time. */
function dayAt(now: number, days: number): string {
  return new Date(now + days * DAY).toISOString().slice(0, 10);
}

/** Rows with a count other than 0, sorted. */
function shown(rows: readonly UsageRow[]): UsageRow[] {
  const id = ({ day, key: apiKey, model: name }: UsageRow): string => `${day} ${apiKey} ${name}`;
  return rows.filter(countsSomething).toSorted((a, b) => (id(a) < id(b) ? -1 : 1));
}

/** As `shown`. */
function shownBy(rows: readonly DimensionRow[]): DimensionRow[] {
  const id = ({ day, dimension, value }: DimensionRow): string => `${day} ${dimension} ${value}`;
  return rows.filter(countsSomething).toSorted((a, b) => (id(a) < id(b) ? -1 : 1));
}

function requestIdOf(each: Extract<Command, RequestSlot>, now: number, model: LedgerModel): string {
  const { slot, hoursAgo, aheadMs } = each;
  for (const state of ['settled', 'held'] as const) {
    const nth = each[state];
    if (nth === undefined) continue;
    const known = model.snapshot(each.account)?.requests.filter((request) => request.state === state) ?? [];
    if (known.length > 0) return known[nth % known.length]!.id;
  }
  const time = Math.floor(now / (2 * HOUR)) * 2 * HOUR - hoursAgo * HOUR;
  const made = (aheadMs > 0 ? now + aheadMs : time + slot).toString(36).padStart(9, '0');
  return `${made}gate00000${slot}`;
}

function witnessesIn(each: Command, model: LedgerModel): Witness[] {
  if (!('witnesses' in each) || !('account' in each) || each.witnesses.length === 0) return [];
  return witnessesOf(each.witnesses, model.snapshot(each.account), model.journal(each.account));
}

interface Books {
  seq: bigint;
  granted: bigint;
  spent: bigint;
  expired: bigint;
  writtenOff: bigint;
}

function newBooks(): Books {
  return { seq: 0n, granted: 0n, spent: 0n, expired: 0n, writtenOff: 0n };
}

/** Adds up the lines that are new since the last call. */
async function fold(store: LedgerStore, name: string, books: Books): Promise<Books> {
  for (const line of await store.journal(name, books.seq, 1000)) {
    same(line.seq, books.seq + 1n, 'journal positions have no gaps');
    books.seq = line.seq;
    books.writtenOff += line.writtenOff ?? 0n;
    if (line.type === 'g' || line.type === 'a') books.granted += line.amount;
    else if (line.type === 'x') books.expired += line.amount;
    else books.spent += line.amount;
  }
  return books;
}

/** The invariants that need no model. */
function hasSoundBooks(state: AccountState, books: Books): void {
  const { seq, granted, available, held, spent, expired, writtenOff, requests, lots } = state;
  same(granted, available + held + spent + expired, 'granted = available + held + spent + expired');
  same(available >= state.lowestFloor, true, 'available is not below the lowest floor');
  same({ seq, granted, spent, expired, writtenOff }, { ...books }, 'the journal folds to the books');
  const running = requests.filter((each) => each.state === 'held');
  same(held, sum(running), 'held is what the held requests hold');
  for (const each of state.keys) {
    const own = running.filter((record) => record.key === each.key);
    same([each.held, each.running], [sum(own), own.length], `what key ${each.key} holds`);
  }
  const ofAccount = running.filter(({ inAccount }) => inAccount);
  const holding = [state.policy?.held ?? 0n, state.policy?.running ?? 0];
  same(holding, [sum(ofAccount), ofAccount.length], 'what the account holds');
  for (const each of state.endUsers) {
    const own = running.filter((record) => record.endUser && endUserId(record.endUser) === endUserId(each));
    same([each.held, each.running], [sum(own), own.length], `what end user ${endUserId(each)} holds`);
  }
  const counted = state.usage.reduce((total, row) => total + row.charged, state.usageCompacted);
  same(counted, spent, 'what is counted comes to what was spent');
  const remaining = lots.reduce((total, lot) => total + lot.remaining, 0n);
  same(remaining <= 0n || remaining <= available + held, true, 'lots are covered');
}

function sum(records: AccountState['requests']): bigint {
  return records.reduce((total, record) => total + record.amount, 0n);
}

function sorted(state: AccountState | undefined): AccountState | undefined {
  return (
    state && {
      ...state,
      requests: state.requests.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      keys: state.keys.toSorted((a, b) => (a.key < b.key ? -1 : 1)),
      endUsers: state.endUsers.toSorted((a, b) => (endUserId(a) < endUserId(b) ? -1 : 1)),
      usage: shown(state.usage),
      dimensionUsage: shownBy(state.dimensionUsage),
    }
  );
}

/** `toStrictEqual`, which is slow, only if the two differ. */
function same(actual: unknown, expected: unknown, what: string): void {
  if (!isDeepStrictEqual(actual, expected)) expect({ [what]: actual }).toStrictEqual({ [what]: expected });
}

/** Removes `durable` and `deleted: true`, which depend on the storage and are not part of the model. */
function withoutDurability(reply: unknown): unknown {
  if (typeof reply !== 'object' || reply === null || Array.isArray(reply)) return reply;
  const shown: Record<string, unknown> = { ...reply };
  if ('durable' in shown) expect(shown['durable']).toBeTypeOf('boolean');
  delete shown['durable'];
  if (shown['deleted'] === true) delete shown['deleted'];
  return shown;
}
