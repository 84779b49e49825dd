import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, it } from 'vitest';

import type { Admit, Settle } from '../../../src/ledger/ledger.ts';
import { SqliteStore } from '../../../src/ledger/sqlite/sqlite-store.ts';
import { DAY, hashOf, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { findingsOf } from '../../helpers/audit.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const folder = mkdtempSync(join(tmpdir(), 'ccr-migration-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const newFile = (): string => join(folder, `ledger-${(files += 1)}.db`);

describe('a ledger file of version 1', () => {
  it('keeps all that it has', async () => {
    const store = new SqliteStore(fileOfVersion(1), { now: () => NOON });
    expect(await store.snapshot('acme')).toEqual({
      granted: 115n,
      available: 78n,
      held: 30n,
      spent: 7n,
      expired: 0n,
      writtenOff: 0n,
      floor: 0n,
      frozen: false,
      seq: 4n,
      lowWater: 0,
      freeLowWater: 0,
      requests: [
        { id: requestId(1), state: 'settled', amount: 7n, key: 'k1', checkpoint: 0n, due: NOON + DAY },
        { id: requestId(2), state: 'voided', amount: 0n, key: 'k1', checkpoint: 0n, due: NOON + DAY },
        { id: requestId(3), state: 'held', amount: 30n, key: 'k1', checkpoint: 0n, due: NOON + 2 * MINUTE },
      ],
      lots: [
        { id: 'gift', amount: 20n, remaining: 8n, expiresAt: NOON + 60 * MINUTE, priority: 9 },
        { id: 'opening', amount: 100n, remaining: 100n, priority: 50 },
      ],
      keys: [
        {
          account: 'acme',
          key: 'k1',
          name: 'first',
          state: 'active',
          createdAt: NOON,
          limits: { budget: { amount: 90n, per: 'day' }, tokensPerMinute: 1000 },
          version: 1,
          held: 30n,
          running: 1,
          spent: 7n,
          window: Date.UTC(2026, 2, 4),
          tokenBucket: { level: 969 * MINUTE, at: NOON },
        },
      ],
      trimmed: { seq: 0n, granted: 0n, spent: 0n, expired: 0n, writtenOff: 0n },
      usage: [],
      usageFolded: 7n,
    });
    expect(await store.journal('acme', 0n, 9)).toMatchObject([
      { type: 'g' },
      { type: 'g' },
      { type: 's' },
      { type: 'a' },
    ]);
    expect(await store.findKey(hashOf('k1'))).toMatchObject({ account: 'acme', key: 'k1' });
    await store.close();
  });

  it('goes on with what it began, and does what is new', async () => {
    const store = new SqliteStore(fileOfVersion(1), { now: () => NOON });
    const settled = await store.settle({
      account: 'acme',
      requestId: requestId(3),
      amount: 12n,
      key: 'k1',
      model: 'm',
      usage: USAGE,
      force: false,
    });
    expect(settled).toMatchObject({ code: 'ok', charged: 12n, available: 96n });
    expect(await store.admit(admission(4))).toMatchObject({ code: 'ok' });
    expect(await store.admit(admission(5))).toMatchObject({ code: 'repeated', requestId: requestId(4) });
    await store.close();
  });

  it.each([1, 2, 4] as const)('%s becomes in all what a new file is', async (version) => {
    const [old, made] = [fileOfVersion(version), newFile()];
    for (const file of [old, made]) {
      const store = new SqliteStore(file);
      await store.balance('acme');
      await store.close();
    }
    expect(shape(old)).toEqual(shape(made));
    expect(shape(old).version).toBe(7);
  });

  it('stays as it was when it can not be brought up', async () => {
    const file = fileOfVersion(1, 'CREATE TABLE requests_idempotency (in_the_way TEXT)');
    const before = shape(file);
    const store = new SqliteStore(file);
    await expect(store.balance('acme')).rejects.toMatchObject({ name: 'StoreUnavailable', applied: 'no' });
    await store.close();
    expect(shape(file)).toEqual(before);
  });

  it('is brought up once it is free, if another process is writing it', async () => {
    const file = fileOfVersion(1);
    const other = new DatabaseSync(file);
    other.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE');
    const store = new SqliteStore(file, { now: () => NOON });
    const balance = store.balance('acme');
    other.exec('COMMIT');
    other.close();
    expect(await balance).toMatchObject({ available: 78n });
    await store.close();
    expect(shape(file).version).toBe(7);
  });
});

describe('a ledger file of version 2', () => {
  it('keeps its keys, which nobody has changed yet', async () => {
    const store = new SqliteStore(fileOfVersion(2), { now: () => NOON });
    expect(await store.findKey(hashOf('k1'))).toEqual({
      account: 'acme',
      key: 'k1',
      name: 'first',
      state: 'active',
      createdAt: NOON,
      limits: { budget: { amount: 90n, per: 'day' }, tokensPerMinute: 1000 },
      version: 1,
    });
    expect(await store.findKey(hashOf('k2'))).toMatchObject({ state: 'revoked', revokedAt: NOON });
    expect(await store.keyState('acme', 'k1')).toMatchObject({ held: 30n, budgetLeft: 60n, running: 1 });
    await store.close();
  });

  it('changes them from then on', async () => {
    const store = new SqliteStore(fileOfVersion(2), { now: () => NOON });
    const update = { account: 'acme', key: 'k1', version: 1, name: 'second', policy: '{}' };
    expect(await store.updateKey(update)).toMatchObject({ code: 'ok', version: 2 });
    const rotation = { account: 'acme', key: 'k1', hash: hashOf('k3'), version: 2, overlapMs: MINUTE };
    expect(await store.rotateKey(rotation)).toMatchObject({ code: 'ok', version: 3 });
    expect(await store.findKey(hashOf('k1'))).toMatchObject({ name: 'second', hashUntil: NOON + MINUTE });
    expect(await store.findKey(hashOf('k3'))).toMatchObject({ limits: {}, policy: '{}' });
    await store.close();
  });
});

describe('a ledger file of version 3', () => {
  it('counts usage from now on, and the charges of before as folded', async () => {
    const clock = { now: NOON + 3 * MINUTE };
    const store = new SqliteStore(fileOfVersion(3), { now: () => clock.now });
    expect(await store.snapshot('acme')).toMatchObject({ spent: 11n, usage: [], usageFolded: 11n });
    // Expired with 4 charged, and held.
    await store.settle(settlement(2, 9n));
    clock.now += 10 * MINUTE;
    await store.sweep(10);
    expect(await store.usage('acme', '2026-03-04', '2026-03-04')).toMatchObject([
      { model: '', requests: 1, errors: 1, charged: 0n },
      { model: 'm', requests: 1, errors: 0, charged: 5n, promptTokens: 9 },
    ]);
    await store.settle(settlement(3, 6n));
    expect(await findingsOf(store)).toEqual([]);
    await store.close();
  });

  it('gives back what a lease was charged before, when its request is voided', async () => {
    const store = new SqliteStore(fileOfVersion(3), { now: () => NOON });
    await store.void({ account: 'acme', requestId: requestId(2), ending: 'client_gone' });
    expect(await store.snapshot('acme')).toMatchObject({
      spent: 7n,
      usage: [{ model: '', requests: 1, aborted: 1, charged: -4n }],
      usageFolded: 11n,
    });
    await store.close();
  });

  it('becomes in all what a new file is', async () => {
    const [old, made] = [fileOfVersion(3), newFile()];
    for (const file of [old, made]) {
      const store = new SqliteStore(file);
      await store.balance('acme');
      await store.close();
    }
    expect(shape(old)).toEqual(shape(made));
  });
});

describe('a ledger file of version 4', () => {
  it('knows of charges from now on what was written to a cache, searched, and whose key it was', async () => {
    const store = new SqliteStore(fileOfVersion(4), { now: () => NOON });
    const more = { cacheWriteTokens: 4, webSearches: 2, ownKey: true };
    await store.settle({ ...settlement(2, 9n), usage: { ...USAGE, ...more } });
    const [, before, after] = await store.journal('acme', 0n, 9);
    expect(before?.usage).toEqual({
      ...USAGE,
      provider: 'openai',
      upstreamModel: 'gpt',
      firstByteMs: 412,
      durationMs: 1830,
      finishReason: 'stop',
      streamed: true,
    });
    expect(after?.usage).toEqual({ ...USAGE, ...more });
    expect(await findingsOf(store)).toEqual([]);
    await store.close();
  });
});

describe('a ledger file without a version', () => {
  it('is refused though it says that it is a ledger', async () => {
    const file = fileOfVersion(1, 'PRAGMA user_version = 0');
    const store = new SqliteStore(file);
    await expect(store.balance('acme')).rejects.toMatchObject({
      applied: 'no',
      cause: { message: expect.stringContaining('version 0') },
    });
    await store.close();
  });
});

/** A file as that version of the schema was written, and then `changed`. */
function fileOfVersion(version: 1 | 2 | 3 | 4, changed = ''): string {
  const file = newFile();
  expect(existsSync(file)).toBe(false);
  const database = new DatabaseSync(file);
  database.exec(
    readFileSync(new URL(`../../fixtures/ledger-version-${version}.sql`, import.meta.url), 'utf8'),
  );
  database.exec(changed);
  database.close();
  return file;
}

function settlement(n: number, amount: bigint): Settle {
  const request = { account: 'acme', requestId: requestId(n), key: 'k1', model: 'm' };
  return { ...request, amount, usage: USAGE, force: false };
}

function admission(n: number): Admit {
  return {
    account: 'acme',
    key: 'k1',
    requestId: requestId(n),
    want: 10n,
    min: 10n,
    leaseMs: 2 * MINUTE,
    tokens: 0,
    notAfter: Infinity,
    idempotencyKey: { key: 'a'.repeat(64), body: 'b'.repeat(64) },
  };
}

/** Version, tables with their columns, and indexes with theirs. */
function shape(file: string): {
  readonly version: unknown;
  readonly tables: unknown;
  readonly indexes: unknown;
} {
  const database = new DatabaseSync(file);
  const all = (sql: string): Record<string, unknown>[] => database.prepare(sql).all();
  const names = (type: string): string[] =>
    all(`SELECT name FROM sqlite_schema WHERE type = '${type}' ORDER BY name`).map(({ name }) =>
      String(name),
    );
  const tables = names('table').map((name) => [name, all(`PRAGMA table_info(${name})`)]);
  const indexes = names('index').map((name) => [name, all(`PRAGMA index_xinfo(${name})`)]);
  const version = all('PRAGMA user_version')[0]?.['user_version'];
  database.close();
  return { version, tables, indexes };
}
