import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';

import type {
  Admit,
  AdmitResult,
  LedgerStore,
  Settle,
  SettleResult,
} from '../../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { behavesLikeTheModel } from '../../contracts/ledger-commands.ts';
import { HOUR, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { useRedis } from '../../helpers/use-redis.ts';
import { runs } from '../../helpers/runs.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');

let redis: Redis;
let stores = 0;
const folder = mkdtempSync(join(tmpdir(), 'ccr-floor-'));
/** Store -> its file, or its prefix. */
const places = new WeakMap<LedgerStore, string>();

useRedis((own) => ({ redis } = own));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

interface Kind {
  readonly create: (clock: { now: number }) => Promise<LedgerStore>;
  readonly setFloor: (store: LedgerStore, account: string) => Promise<void>;
}

const SQLITE: Kind = {
  create: async (clock) => {
    const file = join(folder, `${(stores += 1)}.db`);
    const store = new SqliteStore(file, { now: () => clock.now });
    places.set(store, file);
    return store;
  },
  setFloor: async (store, account) => {
    const database = new DatabaseSync(places.get(store) ?? '');
    database.prepare('UPDATE accounts SET floor = -20 WHERE name = ?').run(account);
    database.close();
  },
};

const REDIS: Kind = {
  create: async (clock) => {
    const keyPrefix = `floor${(stores += 1)}:`;
    const store = new RedisStore({ client: redis, keyPrefix, now: () => clock.now });
    places.set(store, keyPrefix);
    return store;
  },
  setFloor: async (store, account) => {
    await redis.hset(`${places.get(store)}ccr:{${account}}:a`, 'fl', '-20');
  },
};

/** No command sets a floor: an operator does, in the store itself. */
describe.each([
  ['SqliteStore', SQLITE],
  ['RedisStore', REDIS],
])('an account with a floor below 0, in a %s', (_name, { create, setFloor }) => {
  const clock = { now: NOON };
  let store: LedgerStore;

  beforeEach(async () => {
    clock.now = NOON;
    store = await create(clock);
    await store.grant({ account: 'acme', id: 'opening', amount: 100n });
    await setFloor(store, 'acme');
  });

  afterEach(async () => {
    await store.close();
  });

  const admit = async (n: number, want: bigint, more?: Partial<Admit>): Promise<AdmitResult> =>
    store.admit({
      account: 'acme',
      key: 'k1',
      externalKey: true,
      requestId: requestId(n),
      want,
      min: want,
      leaseMs: 2 * MINUTE,
      tokens: 0,
      notAfter: Infinity,
      ...more,
    });
  const settle = async (n: number, amount: bigint, more?: Partial<Settle>): Promise<SettleResult> =>
    store.settle({
      account: 'acme',
      requestId: requestId(n),
      amount,
      key: 'k1',
      model: 'm',
      usage: USAGE,
      force: true,
      ...more,
    });

  it('is charged down to it, to the last nano-dollar', async () => {
    expect(await settle(1, 120n)).toMatchObject({
      code: 'ok',
      charged: 120n,
      writtenOff: 0n,
      available: -20n,
    });
    expect(await store.balance('acme')).toMatchObject({
      available: -20n,
      held: 0n,
      spent: 120n,
      granted: 100n,
    });
  });

  it('has what is beyond it written off', async () => {
    expect(await settle(1, 121n)).toMatchObject({ charged: 120n, writtenOff: 1n, available: -20n });
    expect(await settle(2, 5n)).toMatchObject({ charged: 0n, writtenOff: 5n, available: -20n });
  });

  it('is charged in parts down to it', async () => {
    await admit(1, 90n);
    const charge = (amount: bigint) => settle(2, amount, { inParts: true });
    expect(await charge(50n)).toMatchObject({ charged: 30n, writtenOff: 0n, available: -20n });
    expect(await charge(50n)).toMatchObject({ code: 'duplicate', charged: 30n });
    await store.adjust({ account: 'acme', id: 'a1', delta: 12n, reason: '' });
    expect(await charge(50n)).toMatchObject({ code: 'ok', charged: 42n, available: -20n });
    await store.void({ account: 'acme', requestId: requestId(1) });
    expect(await charge(200n)).toMatchObject({ code: 'ok', charged: 132n, available: -20n });
  });

  it('is admitted nothing below 0', async () => {
    expect(await admit(1, 101n)).toMatchObject({ code: 'no_funds', available: 100n });
    await settle(2, 110n);
    expect(await admit(3, 1n, { min: 0n })).toMatchObject({ code: 'no_funds', available: -10n });
    expect(await admit(4, 0n)).toMatchObject({ code: 'ok', hold: 0n, available: -10n });
    expect(await admit(5, 9n, { restore: true })).toMatchObject({ code: 'ok', hold: 0n, available: -10n });
  });

  it('lets no hold grow below 0', async () => {
    await admit(1, 40n);
    const extended = await store.extend({
      account: 'acme',
      requestId: requestId(1),
      hold: 101n,
      leaseMs: MINUTE,
      checkpoint: 0n,
    });
    expect(extended).toMatchObject({ code: 'no_funds', hold: 40n, available: 60n });
  });

  it('may be adjusted down to it and no further', async () => {
    const adjust = (id: string, delta: bigint) => store.adjust({ account: 'acme', id, delta, reason: '' });
    expect(await adjust('a1', -121n)).toMatchObject({ code: 'below_floor', available: 100n });
    expect(await adjust('a2', -120n)).toMatchObject({ code: 'ok', available: -20n });
    expect(await adjust('a3', 5n)).toMatchObject({ code: 'ok', available: -15n });
  });

  it('expires no credit while it has none', async () => {
    await store.grant({ account: 'acme', id: 'gift', amount: 10n, expiresAt: NOON + HOUR });
    await admit(1, 110n, { leaseMs: 2 * HOUR });
    await settle(2, 15n);
    clock.now += HOUR;
    expect(await store.balance('acme')).toMatchObject({ available: -15n, held: 110n, granted: 110n });
  });

  it('behaves like the model under any sequence of commands', { timeout: 60_000 }, async () => {
    const floor = { amount: -20n, set: setFloor };
    expect(await behavesLikeTheModel(create, { sequences: runs(60), floor })).toBe(runs(60));
  });
});
