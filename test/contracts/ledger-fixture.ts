import { afterEach, beforeEach } from 'vitest';
import type {
  AccountState,
  Adjust,
  AdjustResult,
  Admit,
  AdmitResult,
  Extend,
  ExtendResult,
  Grant,
  GrantResult,
  JournalLine,
  LedgerStore,
  Settle,
  SettleResult,
  UsageRow,
  Void,
  VoidResult,
} from '../../src/ledger/contract/ledger-store.ts';
import type { CreateKeyResult, KeyLimits, KeyState } from '../../src/ledger/contract/key-records.ts';

/** A new store per test, and its commands with defaults for the arguments that a test doesn't give. */
export interface LedgerFixture {
  readonly clock: { now: number };
  readonly store: LedgerStore;
  readonly admit: (n: number, want: bigint, more?: Partial<Admit>) => Promise<AdmitResult>;
  readonly extend: (n: number, hold: bigint, more?: Partial<Extend>) => Promise<ExtendResult>;
  readonly settle: (n: number, amount: bigint, more?: Partial<Settle>) => Promise<SettleResult>;
  readonly voidRequest: (n: number, more?: Partial<Void>) => Promise<VoidResult>;
  readonly grant: (id: string, amount: bigint, more?: Partial<Grant>) => Promise<GrantResult>;
  readonly adjust: (id: string, delta: bigint, more?: Partial<Adjust>) => Promise<AdjustResult>;
  readonly createKey: (key: string, limits?: KeyLimits) => Promise<CreateKeyResult>;
  readonly state: () => Promise<AccountState>;
  readonly keyState: (key: string) => Promise<KeyState>;
  /** All usage rows, sorted by day, key and model. */
  readonly usage: () => Promise<readonly UsageRow[]>;
  /** All lines of the journal. */
  readonly lines: () => Promise<readonly JournalLine[]>;
}

/** Every test starts at NOON, with 100 available in account `acme`, which has the unlimited key `k1`. */
export function useLedger(
  create: (clock: { now: number }) => Promise<LedgerStore>,
  close: (store: LedgerStore) => Promise<void>,
): LedgerFixture {
  const account = 'acme';
  const clock = { now: NOON };
  let store: LedgerStore;

  beforeEach(async () => {
    clock.now = NOON;
    store = await create(clock);
    await fixture.grant('opening', 100n);
    await fixture.createKey('k1');
  });

  afterEach(async () => {
    await close(store);
  });

  const fixture: LedgerFixture = {
    clock,
    get store() {
      return store;
    },
    admit: async (n, want, more) =>
      store.admit({
        account,
        key: 'k1',
        requestId: requestId(n),
        want,
        min: want,
        leaseMs: 2 * MINUTE,
        tokens: 0,
        notAfter: Infinity,
        ...more,
      }),
    extend: async (n, hold, more) =>
      store.extend({
        account,
        requestId: requestId(n),
        hold,
        leaseMs: 2 * MINUTE,
        checkpoint: 0n,
        ...more,
      }),
    settle: async (n, amount, more) =>
      store.settle({
        account,
        requestId: requestId(n),
        amount,
        key: 'k1',
        model: 'some/model',
        usage: USAGE,
        force: false,
        ...more,
      }),
    voidRequest: async (n, more) => store.void({ account, requestId: requestId(n), ...more }),
    grant: (id, amount, more) => store.grant({ account, id, amount, ...more }),
    adjust: (id, delta, more) => store.adjust({ account, id, delta, reason: 'correction', ...more }),
    createKey: (key, limits) =>
      store.createKey({ account, key, hash: hashOf(key), name: `name of ${key}`, ...(limits && { limits }) }),
    state: async () => (await store.snapshot(account))!,
    keyState: async (key) => (await fixture.state()).keys.find((each) => each.key === key)!,
    usage: async () => {
      const rows = await store.usage(account, '0000-01-01', '9999-12-31');
      return rows.toSorted((a, b) => (rowId(a) < rowId(b) ? -1 : 1));
    },
    lines: () => store.journal(account, 0n, 1000),
  };
  return fixture;
}

export const MINUTE = 60_000;
export const HOUR: number = 60 * MINUTE;
export const DAY: number = 24 * HOUR;
/** A Wednesday. */
export const NOON: number = Date.parse('2026-03-04T12:00Z');
export const MAX: bigint = 2n ** 53n - 1n;

export const USAGE: Settle['usage'] = {
  promptTokens: 9,
  cachedTokens: 2,
  completionTokens: 12,
  reasoningTokens: 3,
  source: 'upstream',
  cost: 7n,
  price: 'v1',
  ending: 'finished',
};

function rowId({ day, key, model }: UsageRow): string {
  return `${day} ${key} ${model}`;
}

/** Id of the n-th request, made at `time`. */
export function requestId(n: number, time: number = NOON): string {
  return `${time.toString(36).padStart(9, '0')}gate${String(n).padStart(6, '0')}`;
}

export function hashOf(key: string): string {
  return Buffer.from(key).toString('hex').padEnd(64, '0');
}
