import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { type LedgerStore, StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { SqliteStore, type SqliteStoreOptions } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { hashOf, MAX, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { describeLedgerStore } from '../../contracts/index.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const folder = mkdtempSync(join(tmpdir(), 'ccr-sqlite-'));
/** Every statement that a test of this file has prepared. */
const prepared = new Set<string>();
const prepare: InstanceType<typeof DatabaseSync>['prepare'] = Reflect.get(DatabaseSync.prototype, 'prepare');
DatabaseSync.prototype.prepare = function (sql, ...options) {
  prepared.add(sql);
  return prepare.call(this, sql, ...options);
};
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const newFile = (): string => join(folder, `ledger-${(files += 1)}.db`);

describeLedgerStore('SqliteStore', ({ now }) => new SqliteStore(newFile(), { now }), {
  sequences: 300,
});

describe('a ledger file', () => {
  it('has everything when it is opened again', async () => {
    const file = newFile();
    const before = new SqliteStore(file, { now: () => NOON });
    await fill(before);
    const [state, lines] = [await before.snapshot('acme'), await before.journal('acme', 0n, 100)];
    await before.close();

    const after = new SqliteStore(file, { now: () => NOON });
    expect(await after.snapshot('acme')).toEqual(state);
    expect(await after.journal('acme', 0n, 100)).toEqual(lines);
    expect(await after.findKey(hashOf('k1'))).toMatchObject({ account: 'acme', key: 'k1', name: 'first' });
    expect(await after.grant({ account: 'acme', id: 'g1', amount: 100n })).toMatchObject({
      code: 'duplicate',
    });
    await after.close();
  });

  it('is read a page of usage at a time, with a turn of the event loop between', async () => {
    const store = new SqliteStore(newFile(), { now: () => NOON });
    await store.grant({ account: 'acme', id: 'g1', amount: 10_000n });
    const names = Array.from({ length: 1200 }, (_, n) => `n${String(n).padStart(4, '0')}`);
    await Promise.all(
      names.map((name, n) => {
        const ids = { account: 'acme', key: 'k1', model: name, requestId: requestId(n) };
        const dimensions = { user: `u${n % 900}` };
        return store.settle({ ...ids, amount: 1n, usage: USAGE, dimensions, force: true });
      }),
    );
    for (const read of [
      async () => (await store.usage('acme', '2026-03-04', '2026-03-04')).map(({ model }) => model),
      async () => (await store.usageBy('acme', 'user', '2026-03-04', '2026-03-04')).map(({ value }) => value),
    ]) {
      let turns = 0;
      const reading = read();
      const count = (): void => {
        turns += 1;
        if (turns < 100) setImmediate(count);
      };
      setImmediate(count);
      const found = await reading;
      expect(turns).toBeGreaterThanOrEqual(2);
      expect(new Set(found).size).toBe(found.length);
      expect([900, 1200]).toContain(found.length);
    }
    await store.close();
  });

  it('is made by the first command, not by the constructor', async () => {
    const file = newFile();
    const store = new SqliteStore(file);
    expect(existsSync(file)).toBe(false);
    expect(await store.balance('acme')).toBeUndefined();
    expect(existsSync(file)).toBe(true);
    await store.close();
  });

  it('is one handle for all stores of a process, by whatever name, until the last of them closes', async () => {
    const file = newFile();
    const link = newFile();
    const one = new SqliteStore(file);
    await one.grant({ account: 'acme', id: 'g1', amount: 100n });
    symlinkSync(file, link);
    const other = new SqliteStore(link);
    expect(await other.balance('acme')).toMatchObject({ available: 100n });
    await one.close();
    await one.close();
    await other.grant({ account: 'acme', id: 'g2', amount: 1n });
    expect(existsSync(`${file}-wal`)).toBe(true);
    await other.close();
    expect(existsSync(`${file}-wal`)).toBe(false);
    expect(existsSync(`${link}-wal`)).toBe(false);
  });

  it('has a grant on the disk when that is answered, and says so', async () => {
    const store = new SqliteStore(newFile());
    const grant = { account: 'acme', id: 'g1', amount: 5n };
    expect(await store.grant(grant)).toMatchObject({ code: 'ok', durable: true });
    // It may be from a moment ago, of a process that died before it was on the disk.
    expect(await store.grant(grant)).not.toHaveProperty('durable');
    await store.close();
  });

  it('is not opened again by a store that is closed', async () => {
    const store = new SqliteStore(newFile());
    await store.close();
    await expect(store.balance('acme')).rejects.toThrow(unavailable('no', 'the store is closed'));
  });

  it('keeps money beyond 2^53 to the last nano-dollar', async () => {
    const file = newFile();
    const store = new SqliteStore(file, { now: () => NOON });
    for (const n of [1, 2, 3]) {
      await store.grant({ account: 'acme', id: `g${n}`, amount: MAX });
      await store.settle(orphan(n, MAX));
    }
    await store.settle({ ...orphan(4, 0n), usage: { ...USAGE, cost: 2n ** 62n + 1n } });
    await store.close();
    const after = new SqliteStore(file, { now: () => NOON });
    expect(await after.balance('acme')).toMatchObject({
      granted: 3n * MAX,
      spent: 3n * MAX,
      available: 0n,
      held: 0n,
    });
    const lines = await after.journal('acme', 6n, 1);
    expect(lines[0]?.usage?.cost).toBe(2n ** 62n + 1n);
    await after.compact('acme', 99n);
    expect(await after.snapshot('acme')).toMatchObject({ compacted: { granted: 3n * MAX, spent: 3n * MAX } });
    await after.close();
  });

  it('refuses money beyond 64 bits, and changes nothing', async () => {
    const store = new SqliteStore(newFile(), { now: () => NOON });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const before = await store.snapshot('acme');
    const settled = store.settle({ ...orphan(1, 1n), usage: { ...USAGE, cost: 2n ** 63n } });
    await expect(settled).rejects.toThrow(unavailable('no'));
    expect(await store.snapshot('acme')).toEqual(before);
    await store.close();
  });

  it('folds a long journal a step at a time', async () => {
    const store = new SqliteStore(newFile(), { now: () => NOON });
    await store.grant({ account: 'acme', id: 'g1', amount: 5000n });
    for (let n = 0; n < 2500; n++) await store.settle(orphan(n, 1n));
    await store.compact('acme', 2400n);
    expect(await store.snapshot('acme')).toMatchObject({
      compacted: { seq: 2400n, granted: 5000n, spent: 2399n },
    });
    expect(await store.journal('acme', 0n, Infinity)).toHaveLength(101);
    await store.close();
  });

  it('sweeps many requests and many accounts, within the budget', async () => {
    const clock = { now: NOON };
    const store = new SqliteStore(newFile(), { now: () => clock.now });
    for (let n = 0; n < 600; n++) {
      const account = `acct-${n}`;
      await store.createKey({ account, key: 'k', hash: hashOf(account), name: '' });
      await store.void({ account, requestId: requestId(n) });
    }
    for (let n = 600; n < 900; n++) await store.void({ account: 'acct-7', requestId: requestId(n) });
    expect(await store.sweep(1000)).toBe(0);
    clock.now += 25 * 3_600_000;
    expect(await store.sweep(450)).toBe(450);
    expect(await store.sweep(1000)).toBe(450);
    expect(await store.sweep(1000)).toBe(0);
    await store.close();
  });
});

describe('a file that can not be used', () => {
  it('is refused by its path when its folder is missing, until that exists', async () => {
    const file = join(newFile(), 'credits.db');
    const store = new SqliteStore(file);
    await expect(store.grant({ account: 'acme', id: 'g1', amount: 1n })).rejects.toThrow(
      unavailable('no', file),
    );
    mkdirSync(join(file, '..'));
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 1n })).toMatchObject({ code: 'ok' });
    await store.close();
  });

  it('is refused when it is no database', async () => {
    const file = newFile();
    writeFileSync(file, 'account,balance\nacme,100\n'.repeat(100));
    await refuses(file, /not a database/);
    expect(readFileSync(file, 'utf8')).toBe('account,balance\nacme,100\n'.repeat(100));
  });

  it('is refused, and left as it is, when it is a database of something else', async () => {
    const file = newFile();
    const database = new DatabaseSync(file);
    database.exec('CREATE TABLE users (id INTEGER)');
    database.close();
    const before = readFileSync(file);
    await refuses(file, /not a ledger/);
    expect(readFileSync(file)).toEqual(before);
  });

  it.each([0, 5, 7])('is refused, and left as it is, when its version is %s', async (version) => {
    const file = newFile();
    const store = new SqliteStore(file);
    await store.balance('acme');
    await store.close();
    const database = new DatabaseSync(file);
    database.exec(`PRAGMA user_version = ${version}`);
    database.close();
    const before = readFileSync(file);
    await refuses(file, new RegExp(`version ${version}; this release supports only version 6$`));
    expect(readFileSync(file)).toEqual(before);
  });

  it('is refused wherever it was cut off', async () => {
    const file = newFile();
    const store = new SqliteStore(file, { now: () => NOON });
    await fill(store);
    await store.close();
    const whole = readFileSync(file);
    const cuts = [1, 15, 16, 50, 99, 100, 101, 511, 512, 1000, 4095];
    for (let cut = 4096; cut < whole.length; cut += 1365) cuts.push(cut);
    for (const cut of [...cuts, whole.length - 1]) {
      const damaged = newFile();
      writeFileSync(damaged, whole.subarray(0, cut));
      await refuses(damaged, /./, `cut at byte ${cut} of ${whole.length}`);
    }
  });

  it.each([[''], [':memory:'], [7]])('is a mistake when it is %j', (file) => {
    expect(() => new SqliteStore(file as string)).toThrow(/^file must be the path of a file, got /);
  });

  it.each([NaN, 0, 2 ** 31])('is waited for within a time that a timer can have, not %d', (timeoutMs) => {
    expect(() => new SqliteStore(newFile(), { timeoutMs })).toThrow(
      `timeoutMs must be from 1 to 2147483647, got ${timeoutMs}`,
    );
  });
});

describe('where a file is no place for money', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('commands are refused: in next build', async () => {
    vi.stubEnv('NEXT_PHASE', 'phase-production-build');
    const file = newFile();
    await refuses(file, /next build/);
    expect(existsSync(file)).toBe(false);
  });

  it.each(['VERCEL', 'AWS_LAMBDA_FUNCTION_NAME', 'K_SERVICE'])(
    'commands are refused: where %s is set, unless that is allowed',
    async (name) => {
      vi.stubEnv(name, '1');
      const file = newFile();
      await refuses(file, /store_not_shared/);
      const store = new SqliteStore(file);
      await expect(store.balance('acme')).rejects.toMatchObject({ cause: { code: 'store_not_shared' } });
      const allowed = new SqliteStore(file, { allowServerless: true });
      expect(await allowed.balance('acme')).toBeUndefined();
      await allowed.close();
    },
  );
});

describe('a file that another process is writing', () => {
  it('is waited for, while the event loop goes on', async () => {
    const { store, other } = await contended();
    let turns = 0;
    const turning = setInterval(() => {
      turns += 1;
      if (turns === 6) other.exec('COMMIT');
    }, 5);
    expect(await store.grant({ account: 'acme', id: 'g2', amount: 1n })).toMatchObject({ available: 101n });
    clearInterval(turning);
    await store.close();
    other.close();
  });

  it('is given up after `timeoutMs`, with nothing changed', async () => {
    const { store, other } = await contended({ timeoutMs: 20 });
    const granted = store.grant({ account: 'acme', id: 'g2', amount: 1n });
    await expect(granted).rejects.toThrow(unavailable('no', 'locked'));
    other.exec('COMMIT');
    expect(await store.balance('acme')).toMatchObject({ available: 100n });
    await store.close();
    other.close();
  });

  it('can be read meanwhile', async () => {
    const { store, other } = await contended();
    expect(await store.snapshot('acme')).toMatchObject({ available: 100n });
    expect(await store.journal('acme', 0n, 10)).toHaveLength(1);
    other.close();
    await store.close();
  });

  it('lets close wait for what is under way', async () => {
    const { store, other } = await contended();
    const granted = store.grant({ account: 'acme', id: 'g2', amount: 1n });
    const closed = store.close();
    other.exec('COMMIT');
    await closed;
    expect(await granted).toMatchObject({ code: 'ok' });
    other.close();
  });

  async function contended(
    options: SqliteStoreOptions = {},
  ): Promise<{ store: SqliteStore; other: InstanceType<typeof DatabaseSync> }> {
    const file = newFile();
    const store = new SqliteStore(file, { now: () => NOON, ...options });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const other = new DatabaseSync(file);
    other.exec('BEGIN IMMEDIATE');
    return { store, other };
  }
});

describe('ready() of a SqliteStore', () => {
  it('has run every statement that a command can run', async () => {
    const before = [...prepared];
    prepared.clear();
    const store = new SqliteStore(newFile());
    await store.ready();
    await store.close();
    // All tests above have run commands: what only they prepared is what ready() left out.
    // The log of requests is not the books: requests are served without it.
    const isOurs = (sql: string): boolean =>
      /^\s*(SELECT|INSERT|UPDATE|DELETE)/.test(sql) && !sql.includes('request_log');
    expect(before.filter((sql) => isOurs(sql) && !prepared.has(sql))).toEqual([]);
    expect([...prepared].filter(isOurs).length).toBeGreaterThan(25);
  });

  it('has no statement with numbered parameters, which Node before 22.20 and 24.7 binds by name only', async () => {
    const store = new SqliteStore(newFile());
    await store.ready();
    await store.close();
    expect([...prepared].filter((sql) => /\?\d/.test(sql))).toEqual([]);
  });

  it('leaves nothing in the file', async () => {
    const store = new SqliteStore(newFile(), { now: () => NOON });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const before = await store.snapshot('acme');
    await store.ready();
    await store.ready();
    // A customer who has the name that comes to mind, and a host's label as its key, keeps nobody out.
    await store.grant({ account: 'rehearsal', id: 'g1', amount: 1n });
    await store.admit({
      account: 'rehearsal',
      key: 'k1',
      externalKey: true,
      requestId: requestId(1),
      want: 1n,
      min: 1n,
      leaseMs: 1000,
      tokens: 0,
      notAfter: NOON,
    });
    await store.ready();
    const names: string[] = [];
    for await (const name of store.accounts()) names.push(name);
    expect(names).toEqual(['acme', 'rehearsal']);
    expect(await store.snapshot('acme')).toEqual(before);
    await store.close();
  });

  it('finds a file that opens and cannot serve', async () => {
    const file = newFile();
    const before = new SqliteStore(file);
    await before.ready();
    await before.close();
    const database = new DatabaseSync(file);
    database.exec('DROP TABLE usage');
    database.close();
    const store = new SqliteStore(file);
    expect(await store.balance('acme')).toBeUndefined();
    await expect(store.ready()).rejects.toThrow(unavailable('no', 'no such table: usage'));
    await store.close();
  });

  it('waits for another process that has the file, as every command does', async () => {
    const file = newFile();
    const store = new SqliteStore(file);
    await store.ready();
    const other = new DatabaseSync(file);
    other.exec('BEGIN IMMEDIATE');
    const ready = store.ready();
    other.exec('ROLLBACK');
    await ready;
    other.close();
    await store.close();
  });
});

/** Every command of a new store on this file is refused, by its path. */
async function refuses(file: string, reason: RegExp, what?: string): Promise<void> {
  const store = new SqliteStore(file);
  const refused = await store.balance('acme').catch((error: unknown) => error);
  expect(refused, what).toBeInstanceOf(StoreUnavailableError);
  const { applied, cause } = refused as StoreUnavailableError;
  expect(applied).toBe('no');
  expect((cause as Error).message).toContain(file);
  expect((cause as Error).message).toMatch(reason);
  await store.close();
}

/** Matches a StoreUnavailableError by `applied`, and by a part of its cause. */
function unavailable(applied: 'no' | 'unknown', reason = ''): Error {
  return expect.toSatisfy(
    (error: unknown) =>
      error instanceof StoreUnavailableError &&
      error.applied === applied &&
      (error.cause as Error).message.includes(reason),
  ) as Error;
}

/** Something of every kind. */
async function fill(store: LedgerStore): Promise<void> {
  await store.grant({ account: 'acme', id: 'g1', amount: 100n });
  await store.grant({ account: 'acme', id: 'g2', amount: 10n, expiresAt: NOON + 1000, priority: 9 });
  await store.adjust({ account: 'acme', id: 'a1', delta: -5n, reason: 'correction' });
  const limits = {
    budgets: [{ amount: 90n, per: 'month' }],
    requestsPerMinute: 9,
    tokensPerMinute: 9,
  } as const;
  await store.createKey({ account: 'acme', key: 'k1', hash: hashOf('k1'), name: 'first', limits });
  await store.revokeKey('acme', 'k1');
  await store.freeze('acme', true);
  for (let n = 0; n < 100; n++) await store.settle(orphan(n, 1n));
  await store.compact('acme', 2n);
  await store.void({ account: 'acme', requestId: requestId(100) });
}

function orphan(n: number, amount: bigint): Parameters<LedgerStore['settle']>[0] {
  return {
    account: 'acme',
    requestId: requestId(n),
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
  };
}
