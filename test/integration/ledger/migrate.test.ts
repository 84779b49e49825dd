import { mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type ApiKeys, createApiKeys } from '../../../src/keys/api-keys.ts';
import type { LedgerStore, RequestRecord } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { MAX_AMOUNT } from '../../../src/ledger/contract/money.ts';
import { Maintenance } from '../../../src/ledger/operations/maintenance.ts';
import { GatewayAliveError, migrate } from '../../../src/ledger/operations/migrate.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { behavesLikeTheModel, MODEL_TIMEOUT_MS } from '../../contracts/ledger-commands.ts';
import { DAY, hashOf, MINUTE, NOON, requestId } from '../../contracts/ledger-fixture.ts';
import { findingsOf } from '../../helpers/audit.ts';
import { admission, namespace, settlement } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';
import { runs } from '../../helpers/runs.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-migrate-'));
let files = 0;
let redis: Redis;
const clock = { now: NOON };
const now = (): number => clock.now;
const opened: LedgerStore[] = [];

const inFile = (): LedgerStore => open(new SqliteStore(join(folder, `${(files += 1)}.db`), { now }));
const inRedis = (): LedgerStore => open(new RedisStore({ client: redis, keyPrefix: namespace(), now }));

function open<T extends LedgerStore>(store: T): T {
  opened.push(store);
  return store;
}

useRedis((own) => ({ redis } = own));

beforeAll(() => {
  redis.setMaxListeners(100);
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

beforeEach(() => {
  clock.now = NOON;
});

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

/** An account with all that can be moved. */
async function live(store: LedgerStore): Promise<void> {
  const account = 'acme';
  await store.grant({ account, id: 'g0', amount: 5n, priority: 1 });
  await store.grant({ account, id: 'g1', amount: 100n });
  await store.grant({ account, id: 'g2', amount: 50n, expiresAt: NOON + DAY, priority: 9 });
  await store.adjust({ account, id: 'a1', delta: 7n, reason: 'goodwill' });
  await store.admit(admission(1, 30n));
  await store.settle(settlement(1, 25n));
  const limits = {
    budgets: [{ amount: 90n, per: 'lifetime' as const }],
    requestsPerMinute: 9,
    tokensPerMinute: 900,
    concurrentRequests: 2,
  };
  await store.createKey({ account, key: 'k1', hash: hashOf('k1'), name: 'first', limits });
  await store.createKey({ account, key: 'k2', hash: hashOf('k2'), name: 'second' });
  await store.revokeKey(account, 'k2');
  const rotated = { account, key: 'k3', hash: hashOf('old'), name: 'third', policy: '{"models":["m"]}' };
  await store.createKey({ ...rotated, expiresAt: NOON + DAY });
  await store.rotateKey({ account, key: 'k3', hash: hashOf('k3'), version: 1, overlapMs: DAY / 2 });
  await store.admit({ ...admission(2, 30n), key: 'k1', externalKey: false });
  await store.settle({ ...settlement(2, 20n), key: 'k1' });
  await store.freeze(account, true);
  await store.grant({ account: 'zeta', id: 'g1', amount: 3n });
}

describe('migrate', () => {
  it.each<[string, () => LedgerStore, () => LedgerStore]>([
    ['a file to Redis', inFile, inRedis],
    ['Redis to a file', inRedis, inFile],
    ['a file to another', inFile, inFile],
    ['memory to Redis', () => new MemoryStore({ now }), inRedis],
  ])('moves what can be spent, lots and keys from %s', async (_what, openOne, openOther) => {
    const [from, to] = [openOne(), openOther()];
    await live(from);
    const told: string[] = [];
    const onAccount = (account: string, step: string): void => void told.push(`${step} ${account}`);
    expect(await migrate(from, to, { onAccount })).toEqual({
      accounts: 2,
      keys: 3,
      available: '0.00000012',
      problems: [],
    });
    expect(told.toSorted()).toEqual([
      'checked acme',
      'checked zeta',
      'compared acme',
      'compared zeta',
      'moved acme',
      'moved zeta',
    ]);

    const state = await to.snapshot('acme');
    expect(state).toMatchObject({ available: 117n, held: 0n, spent: 0n, frozen: true });
    expect(state?.lots).toEqual([
      { id: 'import:lot:g2', amount: 10n, remaining: 10n, priority: 9, expiresAt: NOON + DAY },
      { id: 'import:lot:g1', amount: 100n, remaining: 100n, priority: 50 },
    ]);
    expect((await to.balance('zeta'))?.available).toBe(3n);
    const limits = {
      budgets: [{ amount: 70n, per: 'lifetime' }],
      requestsPerMinute: 9,
      tokensPerMinute: 900,
      concurrentRequests: 2,
    };
    expect(await to.findKey(hashOf('k1'))).toMatchObject({
      account: 'acme',
      key: 'k1',
      name: 'first',
      limits,
    });
    const revoked = { key: 'k2', name: 'second', state: 'revoked', version: 2 };
    expect(await to.findKey(hashOf('k2'))).toMatchObject(revoked);
    const rotated = { key: 'k3', policy: '{"models":["m"]}', expiresAt: NOON + DAY, version: 2 };
    expect(await to.findKey(hashOf('k3'))).toMatchObject(rotated);
    expect(await to.findKey(hashOf('old'))).toMatchObject({ ...rotated, hashUntil: NOON + DAY / 2 });
    expect(await findingsOf(to)).toEqual([]);
  });

  it('moves no secret that has ended', async () => {
    const [from, to] = [inFile(), inRedis()];
    const key = { account: 'acme', key: 'k1' };
    await from.createKey({ ...key, hash: hashOf('old'), name: '' });
    await from.rotateKey({ ...key, hash: hashOf('new'), version: 1, overlapMs: 1 });
    clock.now += 1;
    expect(await migrate(from, to)).toMatchObject({ keys: 1, problems: [] });
    expect(await to.findKey(hashOf('old'))).toBeUndefined();
    expect(await to.findKey(hashOf('new'))).toMatchObject({ key: 'k1' });
  });

  it('rotates no key again whose rotation is repeated', async () => {
    const [from, to] = [inFile(), inRedis()];
    const keysIn = (store: LedgerStore): ApiKeys => {
      return createApiKeys(store, { invalidate: () => {}, forget: () => {} }, now);
    };
    const { id } = await keysIn(from).create({ account: 'acme' });
    const rotation = { id: 'r1', overlapMs: MINUTE };
    await keysIn(from).rotate('acme', id, rotation);
    const before = await from.findKey(await hashIn(from, id));
    expect(await migrate(from, to)).toMatchObject({ keys: 1, problems: [] });
    await expect(keysIn(to).rotate('acme', id, rotation)).rejects.toMatchObject({ code: 'already_rotated' });
    expect(await to.findKey(await hashIn(from, id))).toEqual(before);
  });

  it('grants no payment again that is announced again', async () => {
    const [from, to] = [inFile(), inRedis()];
    await live(from);
    await migrate(from, to);
    for (const id of ['g0', 'g1', 'g2', 'a1']) {
      expect(await to.grant({ account: 'acme', id, amount: 100n })).toMatchObject({ code: 'conflict' });
    }
    expect((await to.balance('acme'))?.available).toBe(117n);
  });

  it('expires credits in the new store when they would have in the old one', async () => {
    const [from, to] = [inFile(), inRedis()];
    await live(from);
    await migrate(from, to);
    clock.now += DAY;
    expect((await to.balance('acme'))?.available).toBe(107n);
  });

  it('changes nothing the second time', async () => {
    const [from, to] = [inFile(), inRedis()];
    await live(from);
    const report = await migrate(from, to);
    const state = await to.snapshot('acme');
    expect(await migrate(from, to)).toEqual(report);
    expect(await to.snapshot('acme')).toEqual(state);
  });

  it('goes on wherever it was interrupted', async () => {
    const from = inFile();
    await live(from);
    for (let calls = 0; calls < 14; calls++) {
      const to = inRedis();
      await expect(migrate(from, failingAfter(to, calls)), `after ${calls} calls`).rejects.toThrow(
        'interrupted',
      );
      expect((await migrate(from, to)).problems, `after ${calls} calls`).toEqual([]);
      expect((await to.balance('acme'))?.available).toBe(117n);
    }
  });

  it('ends leases that ran out since the router stopped', async () => {
    const [from, to] = [inFile(), inFile()];
    await live(from);
    await from.freeze('acme', false);
    await from.admit(admission(3, 30n));
    clock.now += 2 * MINUTE;
    expect((await migrate(from, to)).problems).toEqual([]);
    expect((await to.balance('acme'))?.available).toBe(117n);
  });

  it('refuses while a request runs, with its account, before it writes anything', async () => {
    const [from, to] = [inFile(), inFile()];
    await live(from);
    await from.admit({ ...admission(3, 1n), account: 'zeta' });
    const message = `account zeta can't be migrated: request ${requestId(3)} holds 0.000000001 until 2026-03-04T12:01:00.000Z; stop the router, which settles running requests, or wait until then`;
    await expect(migrate(from, to)).rejects.toThrow(message);
    for await (const account of to.accounts()) expect.fail(account);
  });

  it.each<[string, (to: LedgerStore) => Promise<unknown>]>([
    ['has credits of its own', (to) => to.grant({ account: 'acme', id: 'other', amount: 1n })],
    ['has an import of other amounts', (to) => to.grant({ account: 'acme', id: 'import:begin', amount: 2n })],
    [
      'folded its journal',
      async (to) => {
        await to.grant({ account: 'acme', id: 'other', amount: 1n });
        await to.compact('acme', 1n);
      },
    ],
  ])('refuses an account that in the new store %s', async (_what, prepare) => {
    const [from, to] = [inFile(), inRedis()];
    await live(from);
    await prepare(to);
    await expect(migrate(from, to)).rejects.toThrow(
      /acme can't be migrated: it already exists in the new store/,
    );
    expect(await to.snapshot('zeta')).toBeUndefined();
  });

  it('refuses to begin again once the new store is used', async () => {
    const [from, to] = [inFile(), inRedis()];
    await live(from);
    await migrate(from, to);
    await to.settle({ ...settlement(9, 1n), account: 'zeta' });
    await expect(migrate(from, to)).rejects.toThrow(/zeta can't be migrated: .* its line 5 /);
  });

  it('says what is not as it was', async () => {
    const [from, to] = [inFile(), inFile()];
    await live(from);
    const keys = to.createKey.bind(to);
    to.createKey = async (command) => {
      const result = await keys(command);
      await from.freeze('acme', false);
      await from.grant({ account: 'acme', id: 'late', amount: 1n });
      return result;
    };
    expect((await migrate(from, to)).problems.map(({ message }) => message)).toEqual([
      'available was 0.000000118, but is 0.000000117 in the new store',
      'its lots were 0.000000001 (priority 50, expires never), 0.00000001 (priority 9, expires 1772712000000), 0.0000001 (priority 50, expires never), but are 0.00000001 (priority 9, expires 1772712000000), 0.0000001 (priority 50, expires never) in the new store',
      'frozen was false, but is true in the new store',
    ]);
  });

  it('refuses a key whose hash the new store has for another', async () => {
    const [from, to] = [inFile(), inRedis()];
    await live(from);
    await to.createKey({ account: 'other', key: 'k9', hash: hashOf('k1'), name: '' });
    await expect(migrate(from, to)).rejects.toThrow(
      /acme can't be migrated: .* a different key k1, or another key with its hash/,
    );
  });

  it('moves whatever an account went through', { timeout: MODEL_TIMEOUT_MS }, async () => {
    let clock = { now: 0 };
    let moved = 0;
    const compared = await behavesLikeTheModel(
      async (model) => {
        clock = model;
        return new MemoryStore({ now: () => model.now });
      },
      {
        sequences: runs(200),
        atEnd: async (from) => {
          const to = new MemoryStore({ now: () => clock.now });
          for (const { due } of await heldRequests(from)) clock.now = Math.max(clock.now, due);
          moved += 1;
          if ((await balances(from)).some((available) => available > MAX_AMOUNT)) {
            await expect(migrate(from, to)).rejects.toThrow("can't be recreated in another store");
            return;
          }
          const { problems } = await migrate(from, to);
          expect(problems).toEqual([]);
        },
      },
    );
    expect(moved).toBe(compared);
  });
});

async function hashIn(store: LedgerStore, key: string): Promise<string> {
  const hashes = await store.keyHashes?.('acme');
  return hashes?.get(key)?.current ?? '';
}

async function balances(store: LedgerStore): Promise<bigint[]> {
  const found: bigint[] = [];
  for await (const account of store.accounts()) found.push((await store.balance(account))?.available ?? 0n);
  return found;
}

async function heldRequests(store: LedgerStore): Promise<RequestRecord[]> {
  const held: RequestRecord[] = [];
  for await (const account of store.accounts()) {
    const state = await store.snapshot(account);
    held.push(...(state?.requests.filter((request) => request.state === 'held') ?? []));
  }
  return held;
}

/** The same store, until it was asked to write so many times. */
function failingAfter(store: LedgerStore, calls: number): LedgerStore {
  let left = calls;
  const writes = new Set<PropertyKey>(['grant', 'adjust', 'createKey', 'rotateKey', 'revokeKey', 'freeze']);
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        if (writes.has(name) && left-- === 0) throw new Error('interrupted');
        return Reflect.apply(value, target, args);
      };
    },
  });
}

describe('a migration while a gateway uses a store', () => {
  const maintain = (store: LedgerStore): Maintenance =>
    new Maintenance({
      store,
      emit: () => {},
      onError: () => {},
      journalRetentionDays: 90,
      usageRetentionDays: 400,
      now,
    });
  const liveIn = async (store: LedgerStore): Promise<number> => (await store.liveGateways?.())?.size ?? 0;

  it.each([
    ['a file', inFile],
    ['Redis', inRedis],
    ['memory', () => open(new MemoryStore({ now }))],
  ])('is refused, of %s', async (_what, create) => {
    const [from, to] = [create(), inFile()];
    await from.grant({ account: 'acme', id: 'g1', amount: 5n });
    const gateway = maintain(from);
    gateway.start();
    await expect.poll(() => liveIn(from)).toBe(1);
    clock.now += 20_000;
    const refused = migrate(from, to);
    await expect(refused).rejects.toThrow(GatewayAliveError);
    await expect(refused).rejects.toThrow(
      `a gateway uses the old store (${hostname()} pid ${process.pid}, last seen 20 s ago): stop it first`,
    );
    await expect(migrate(to, from)).rejects.toThrow('a gateway uses the new store');
    expect(await to.snapshot('acme')).toBeUndefined();
    await gateway.close();
    expect(await liveIn(from)).toBe(0);
    expect(await migrate(from, to)).toMatchObject({ accounts: 1, problems: [] });
  });

  it('goes on with force, and after the lease of a gateway that was killed', async () => {
    const from = inFile();
    await from.grant({ account: 'acme', id: 'g1', amount: 5n });
    await from.announceGateway?.('web-1 pid 7 c0ffee', 120_000);
    await expect(migrate(from, inFile())).rejects.toThrow('(web-1 pid 7, last seen 0 s ago)');
    expect(await migrate(from, inFile(), { force: true })).toMatchObject({ accounts: 1 });
    clock.now += 120_000;
    expect(await migrate(from, inFile())).toMatchObject({ accounts: 1 });
  });

  it('copies changes of the routing and costs of providers once, to a store that has none', async () => {
    const [file, server, taken] = [inFile(), inRedis(), inFile()];
    await file.routing?.write({ from: '', to: 'v1', document: '{"form":1}' });
    const costs = [{ provider: 'openai', from: NOON, until: NOON + DAY, amount: 5n }];
    await file.routing?.addCosts({ writer: 'one', number: 1, costs });
    await migrate(file, server);
    await migrate(file, server);
    expect(await server.routing?.read()).toEqual({ version: 'v1', document: '{"form":1}', costs });
    await taken.routing?.write({ from: '', to: 'own', document: '{}' });
    await migrate(server, taken);
    expect(await taken.routing?.read()).toEqual({ version: 'own', document: '{}', costs });
  });
});
