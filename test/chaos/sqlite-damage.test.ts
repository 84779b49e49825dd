import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type LedgerStore, StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import { SqliteStore } from '../../src/ledger/stores/sqlite/sqlite-store.ts';
import { hashOf, NOON, requestId, USAGE } from '../contracts/ledger-fixture.ts';
import { findingsOf } from '../helpers/audit.ts';

const FLIPS = 300;
const folder = mkdtempSync(join(tmpdir(), 'ccr-damage-'));
/** A ledger of which everything is in the file. */
const closed = join(folder, 'closed.db');
/** One of which all but the beginning is in its write-ahead log. */
const open = join(folder, 'open.db');
/** What there is to be found: the books after each command. */
const history: string[] = [];
let whole: string;

beforeAll(async () => {
  const store = new SqliteStore(closed, { now: () => NOON });
  await fill(store, async () => {});
  whole = await booksOf(store);
  await store.close();

  const writer = new SqliteStore(join(folder, 'writer.db'), { now: () => NOON });
  await fill(writer, async () => void history.push(await booksOf(writer)));
  for (const suffix of ['', '-wal']) copyFileSync(join(folder, `writer.db${suffix}`), `${open}${suffix}`);
  await writer.close();
});

afterAll(() => rmSync(folder, { recursive: true }));

describe('a bit that has flipped', { timeout: 30_000 }, () => {
  it('in a ledger file, 300 times, is refused with the name of the file, or found by the audit, or changes no amount', async () => {
    const outcomes = await flipBits(closed, '', (books) => books === whole);
    expect(outcomes).not.toHaveProperty('silently wrong');
  });

  it('in its log, 300 times, takes back the last commands at most, and leaves the books of a moment', async () => {
    const outcomes = await flipBits(open, '-wal', (books) => history.includes(books));
    expect(outcomes).not.toHaveProperty('silently wrong');
  });
});

async function flipBits(
  file: string,
  suffix: string,
  isRight: (books: string) => boolean,
): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  const bytes = readFileSync(file + suffix);
  for (let flip = 0; flip < FLIPS; flip++) {
    const damaged = join(folder, `damaged-${flip}${suffix}.db`);
    if (suffix !== '') copyFileSync(file, damaged);
    const copy = Buffer.from(bytes);
    const bit = Math.floor(((flip + Math.random()) * copy.length * 8) / FLIPS);
    copy[bit >> 3]! ^= 1 << (bit & 7);
    writeFileSync(damaged + suffix, copy);
    const outcome = await openDamaged(damaged, isRight);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  return outcomes;
}

async function openDamaged(file: string, isRight: (books: string) => boolean): Promise<string> {
  const store = new SqliteStore(file, { now: () => NOON });
  try {
    const findings = await findingsOf(store);
    if (findings.length > 0) return 'found by the audit';
    const books = await booksOf(store);
    if (isRight(books)) return 'right';
    return 'silently wrong';
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    expect((error.cause as Error).message).toContain(file);
    return 'refused';
  } finally {
    await store.close();
  }
}

/**
 * The sums, account by account. What can't be checked by adding up isn't in it: names, ids, and the rows of grants, which
 * say when a part of the balance expires and not how large it is.
 */
async function booksOf(store: LedgerStore): Promise<string> {
  const accounts = [];
  for await (const account of store.accounts()) {
    const { available, held, spent, granted, expired, writtenOff } = (await store.balance(account)) ?? {};
    const lines = await store.journal(account, 0n, Infinity);
    accounts.push([
      available,
      held,
      spent,
      granted,
      expired,
      writtenOff,
      lines.map(({ type, seq, amount }) => [type, seq, amount]),
    ]);
  }
  return JSON.stringify(accounts, (_key, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

/** Something of every kind, in two accounts. */
async function fill(store: LedgerStore, step: () => Promise<void>): Promise<void> {
  for (const account of ['acme', 'other']) {
    await step();
    await store.grant({ account, id: 'g1', amount: 100_000n });
    await step();
    await store.grant({ account, id: 'g2', amount: 1000n, expiresAt: NOON + 1000, priority: 9 });
    await step();
    await store.createKey({ account, key: 'k1', hash: hashOf(account), name: 'first' });
    for (let n = 0; n < 40; n++) {
      const common = { account, key: 'k1', requestId: requestId(n) };
      await store.admit({
        ...common,
        want: 50n,
        min: 50n,
        leaseMs: 60_000,
        tokens: 0,
        notAfter: Infinity,
      });
      await step();
      if (n % 5 !== 0) {
        await store.settle({ ...common, amount: BigInt(n), model: 'some/model', usage: USAGE, force: false });
      }
      await step();
    }
  }
}
