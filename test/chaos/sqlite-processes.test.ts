import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, it, onTestFinished } from 'vitest';

import type { Settle } from '../../src/ledger/contract/ledger-store.ts';
import { SqliteLine } from '../../src/ledger/stores/sqlite/sqlite-line.ts';
import { SqliteStore } from '../../src/ledger/stores/sqlite/sqlite-store.ts';
import { NOON, requestId, USAGE } from '../contracts/ledger-fixture.ts';
import { hasAll, startWriter, type Writer } from '../helpers/sqlite-writer.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const folder = mkdtempSync(join(tmpdir(), 'ccr-sqlite-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const newFile = (): string => join(folder, `ledger-${(files += 1)}.db`);

describe('several processes on one file', () => {
  it('make it together', async () => {
    const file = newFile();
    const writers = Array.from({ length: 4 }, () => startWriter('admit', file));
    await Promise.all(writers.map(({ heard }) => heard('ready')));
    for (const { child } of writers) child.stdin.end('go');
    const answers = await Promise.all(writers.map(({ heard }) => heard('admitted')));
    expect(answers).toEqual(['admitted 0', 'admitted 0', 'admitted 0', 'admitted 0']);
  });

  it('admit exactly 7 of 64 concurrent requests against a balance for exactly 7', async () => {
    const file = newFile();
    const store = new SqliteStore(file);
    await store.grant({ account: 'acme', id: 'g1', amount: 75n });
    const writers = [startWriter('admit', file), startWriter('admit', file)];
    await Promise.all(writers.map(({ heard }) => heard('ready')));
    for (const { child } of writers) child.stdin.end('go');
    const answers = await Promise.all(writers.map(({ heard }) => heard('admitted')));
    const admitted = answers.map((answer) => Number(answer.split(' ')[1]));
    expect(admitted[0]! + admitted[1]!).toBe(7);
    expect(await store.balance('acme')).toMatchObject({ available: 5n, held: 70n });
    await store.close();
  });
});

describe('processes that all write at once', { timeout: 60_000 }, () => {
  it('are refused nothing, and charge each request once', async () => {
    const file = newFile();
    const store = new SqliteStore(file);
    await store.grant({ account: 'acme', id: 'g1', amount: 1_000_000n });
    await store.close();
    const writers = Array.from({ length: 4 }, () => startWriter('hammer', file));
    await Promise.all(writers.map(({ heard }) => heard('ready')));
    for (const { child } of writers) child.stdin.end('go');
    await Promise.all(writers.map(({ child }) => once(child, 'close')));
    for (const { lines } of writers) expect(lines).toEqual(['ready', 'settled 2000', 'refused 0']);
    const after = new SqliteStore(file);
    expect(await after.balance('acme')).toMatchObject({ spent: 8000n, held: 0n });
    await after.close();
    await hasAll(file, []);
  });

  it('let another one in between, however much they have to do', async () => {
    const file = newFile();
    const store = new SqliteStore(file);
    onTestFinished(() => store.close());
    await store.grant({ account: 'acme', id: 'g1', amount: 1_000_000n });
    const writer = startWriter('burst', file);
    await writer.heard('began');
    expect(await store.grant({ account: 'acme', id: 'g2', amount: 1n })).toMatchObject({ code: 'ok' });
    const { seq = 0n } = (await linesOf(store)).find(({ id }) => id === 'g2') ?? {};
    await writer.heard('settled');
    expect(seq).toBeLessThan(BigInt((await linesOf(store)).length));
  });
});

describe('the line for a file that is taken', () => {
  // Those in the line are respected for 250 ms: a process that gets no processor for longer is overtaken.
  it('lets those who stand in it come first', { retry: 3 }, async () => {
    const { store, other, line, writer } = await taken();
    for (let round = 0; round < 8; round++) {
      other.exec('BEGIN IMMEDIATE');
      writer.child.stdin.write(`first-${round}\n`);
      await untilWaiting(line);
      const second = store.grant({ account: 'acme', id: `second-${round}`, amount: 1n });
      other.exec('COMMIT');
      await Promise.all([second, writer.heard(`granted first-${round}`)]);
      const ids = (await linesOf(store)).slice(-2).map(({ id }) => id);
      expect(ids).toEqual([`first-${round}`, `second-${round}`]);
    }
    expect(line.hasWaiters).toBe(false);
  });

  it('ends with a process that dies in it', async () => {
    const { store, other, line, writer } = await taken();
    other.exec('BEGIN IMMEDIATE');
    writer.child.stdin.write('first\n');
    await untilWaiting(line);
    writer.child.kill('SIGKILL');
    await once(writer.child, 'close');
    expect(line.hasWaiters).toBe(false);
    other.exec('COMMIT');
    expect(await store.grant({ account: 'acme', id: 'second', amount: 1n })).toMatchObject({ code: 'ok' });
    expect((await linesOf(store)).map(({ id }) => id)).toEqual(['g1', 'second']);
  });

  it.skipIf(process.platform === 'win32')(
    'is not respected for ever while one that is stopped stands in it',
    async () => {
      const { store, other, line, writer } = await taken();
      other.exec('BEGIN IMMEDIATE');
      writer.child.stdin.write('first\n');
      await untilWaiting(line);
      writer.child.kill('SIGSTOP');
      other.exec('COMMIT');
      for (const id of ['second', 'third']) {
        expect(await store.grant({ account: 'acme', id, amount: 1n })).toMatchObject({ code: 'ok' });
      }
      writer.child.kill('SIGCONT');
      await writer.heard('granted first');
      expect((await linesOf(store)).map(({ id }) => id)).toEqual(['g1', 'second', 'third', 'first']);
    },
  );

  /** Until a process stands in the line. Two that look into it at the same moment each take the other for one. */
  async function untilWaiting(line: SqliteLine): Promise<void> {
    let seen = 0;
    await expect.poll(() => (seen = line.hasWaiters ? seen + 1 : 0), { interval: 5 }).toBeGreaterThan(2);
  }

  /** A file that `other` can take, and a process that grants what it is told. */
  async function taken(): Promise<{
    readonly store: SqliteStore;
    readonly other: InstanceType<typeof DatabaseSync>;
    readonly line: SqliteLine;
    readonly writer: Writer;
  }> {
    const file = newFile();
    const store = new SqliteStore(file);
    await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    const other = new DatabaseSync(file);
    const line = new SqliteLine(file, (path) => new DatabaseSync(path));
    const writer = startWriter('grant', file);
    onTestFinished(async () => {
      writer.child.kill('SIGKILL');
      other.close();
      line.close();
      await store.close();
    });
    await writer.heard('ready');
    return { store, other, line, writer };
  }
});

describe('commands of a process that wait together', () => {
  it('are each atomic by itself, in their order', async () => {
    const file = newFile();
    const store = new SqliteStore(file, { now: () => NOON });
    onTestFinished(() => store.close());
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const other = new DatabaseSync(file);
    other.exec('BEGIN IMMEDIATE');
    const answers = Promise.allSettled([
      store.settle(settlement(1, 5n)),
      // Fails at its line of the journal, when its request is written.
      store.settle({ ...settlement(2, 5n), usage: { ...USAGE, durationMs: 0.5 } }),
      store.settle(settlement(3, 7n)),
      store.grant({ account: 'acme', id: 'g2', amount: 20n }),
      store.ready(),
      store.grant({ account: 'acme', id: 'g2', amount: 21n }),
      store.settle(settlement(4, 50n)),
      store.balance('acme'),
    ]);
    other.exec('COMMIT');
    other.close();
    expect(await answers).toMatchObject([
      { value: { code: 'ok', available: 95n, seq: 2n } },
      { reason: { name: 'StoreUnavailableError', applied: 'no' } },
      { value: { code: 'ok', available: 88n, seq: 3n } },
      { value: { code: 'ok', available: 108n, seq: 4n, durable: true } },
      { value: undefined },
      { value: { code: 'conflict', seq: 4n } },
      { value: { code: 'ok', available: 58n, seq: 5n } },
      { value: { available: 58n, spent: 62n } },
    ]);
    expect(await store.request('acme', requestId(2))).toBeUndefined();
    const names: string[] = [];
    for await (const name of store.accounts()) names.push(name);
    expect(names).toEqual(['acme']);
  });

  it('wait no longer than they are wanted', async () => {
    const file = newFile();
    const store = new SqliteStore(file, { now: () => NOON });
    onTestFinished(() => store.close());
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const other = new DatabaseSync(file);
    other.exec('BEGIN IMMEDIATE');
    const granted = store.grant({ account: 'acme', id: 'g2', amount: 1n });
    const admitted = store.admit({
      account: 'acme',
      key: 'k1',
      externalKey: true,
      requestId: requestId(1),
      want: 1n,
      min: 1n,
      leaseMs: 1000,
      tokens: 0,
      notAfter: NOON + 300,
    });
    await expect(admitted).rejects.toMatchObject({ applied: 'no' });
    other.exec('COMMIT');
    other.close();
    expect(await granted).toMatchObject({ code: 'ok' });
    expect(await store.balance('acme')).toMatchObject({ available: 101n, held: 0n });
  });
});

describe('a process that dies', () => {
  it('loses nothing that it acknowledged, at whatever moment', { timeout: 60_000 }, async () => {
    const file = newFile();
    const acknowledged: string[] = [];
    for (let round = 0; round < 10; round++) {
      const { child, lines, heard } = startWriter('write', file);
      await heard('settle');
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
      child.kill('SIGKILL');
      await once(child, 'close');
      acknowledged.push(...lines);
      await hasAll(file, acknowledged);
    }
    expect(acknowledged.length).toBeGreaterThan(200);
  });

  it.skipIf(process.platform === 'win32').each(['fill', 'fill-together'])(
    'or a disk that is full, neither: %s',
    async (task) => {
      const file = newFile();
      const store = new SqliteStore(file);
      await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
      await store.close();
      // A limit to the size of files, in blocks of 512 or 1024 bytes, fails as a full disk does.
      const { child, lines } = startWriter(task, file, ['sh', '-c', 'ulimit -f 2000; exec "$@"', 'sh']);
      await once(child, 'close');
      expect(lines.length).toBeGreaterThan(30);
      expect(lines.filter((line) => /^(refused|unsure)/.test(line)).length).toBeGreaterThanOrEqual(3);
      await hasAll(file, lines);
    },
  );
});

const linesOf = (store: SqliteStore): ReturnType<SqliteStore['journal']> =>
  store.journal('acme', 0n, Infinity);

function settlement(n: number, amount: bigint): Settle {
  const request = { account: 'acme', requestId: requestId(n), key: 'k1', model: 'm' };
  return { ...request, amount, usage: USAGE, force: true };
}
