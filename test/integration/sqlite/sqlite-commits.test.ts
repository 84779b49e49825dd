import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import type { LedgerStore } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { behavesLikeTheModel, MODEL_TIMEOUT_MS } from '../../contracts/ledger-commands.ts';
import { hashOf, HOUR, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { runs } from '../../helpers/runs.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const folder = mkdtempSync(join(tmpdir(), 'ccr-commits-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const newFile = (): string => join(folder, `ledger-${(files += 1)}.db`);

describe('the commands of one turn of the event loop', () => {
  it('share commits, whatever their accounts', async () => {
    const { store, file } = await funded();
    const before = commitsOf(file);
    const numbers = Array.from({ length: 50 }, (_, n) => n);
    await Promise.all(
      numbers.flatMap((n) =>
        ['acme', 'other'].map((account) => store.admit({ ...admission(account, n), want: 1n })),
      ),
    );
    // One, but for what a turn with the file has no time for.
    expect(commitsOf(file) - before).toBeLessThan(50);
    const between = commitsOf(file);
    await store.settle(settlement('acme', 1, 5n));
    expect(commitsOf(file)).toBe(between + 1);
  });

  it('are answered once they are committed, and not before', async () => {
    const { store, file } = await funded();
    const other = new DatabaseSync(file);
    onTestFinished(() => other.close());
    const line = other.prepare('SELECT count(*) AS count FROM journal WHERE id = ?');
    const seen = Array.from({ length: 50 }, async (_, n) => {
      await store.settle(settlement('acme', n, 1n));
      return line.get(requestId(n))?.['count'];
    });
    expect(await Promise.all(seen)).toEqual(seen.map(() => 1));
  });

  it('fail each by itself, and leave the others as they would be without it', async () => {
    const { store } = await funded();
    const answers = await Promise.allSettled([
      store.settle(settlement('acme', 1, 5n)),
      // Fails at its line of the journal, when its request is written.
      store.settle({ ...settlement('acme', 2, 5n), usage: { ...USAGE, durationMs: 0.5 } }),
      // Fails when the counts of the turn are written.
      store.settle({ ...settlement('acme', 3, 5n), usage: { ...USAGE, promptTokens: 0.5 } }),
      store.settle(settlement('other', 4, 7n)),
      store.balance('acme'),
    ]);
    expect(answers).toMatchObject([
      { value: { code: 'ok', available: 95n, seq: 2n } },
      { reason: { name: 'StoreUnavailableError', applied: 'no' } },
      { status: 'rejected' },
      { value: { code: 'ok', available: 93n, seq: 2n } },
      { value: { available: 95n, spent: 5n } },
    ]);
    expect(await store.request('acme', requestId(2))).toBeUndefined();
    expect(await store.usage('acme', '0000-01-01', '9999-12-31')).toMatchObject([
      { requests: 1, charged: 5n },
    ]);
  });

  it('answer as they would one by one', { timeout: 60_000 }, async () => {
    let clock = NOON;
    const now = (): number => clock;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(anyCommand(), { minLength: 1, maxLength: 12 })), async (turns) => {
        clock = NOON;
        const stores = [new SqliteStore(newFile(), { now }), new MemoryStore({ now })] as const;
        const [together, single] = stores;
        try {
          for (const turn of turns) {
            const answers = await Promise.all(turn.map((command) => command(together)));
            const expected: unknown[] = [];
            for (const command of turn) expected.push(withoutDurable(await command(single)));
            expect(answers.map(withoutDurable)).toEqual(expected);
            clock += HOUR;
          }
          for (const account of ACCOUNTS) {
            expect(sorted(await together.snapshot(account))).toEqual(sorted(await single.snapshot(account)));
          }
        } finally {
          for (const store of stores) await store.close();
        }
      }),
      { numRuns: runs(150) },
    );
  });
});

describe('what a process keeps of a file', () => {
  it('is what all processes have written last', { timeout: MODEL_TIMEOUT_MS }, async () => {
    const compared = await behavesLikeTheModel(async (clock) => inTurns(newFile(), () => clock.now), {
      sequences: runs(200),
      isReliable: false,
      close: (store) => store.close(),
    });
    expect(compared).toBe(runs(200));
  });

  it('may be less than an account has open', { timeout: 60_000 }, async () => {
    const store = new SqliteStore(newFile(), { now: () => NOON });
    onTestFinished(() => store.close());
    await store.grant({ account: 'acme', id: 'g1', amount: 1_000_000n });
    const all = Array.from({ length: 20_500 }, (_, n) => n);
    await Promise.all(all.map((n) => store.admit(admission('acme', n))));
    await Promise.all(all.map((n) => store.settle(settlement('acme', n, 1n))));
    expect(await store.balance('acme')).toMatchObject({ available: 979_500n, held: 0n, spent: 20_500n });
  });
});

/** A store of which each command goes to one of two handles to the same file, at random. */
function inTurns(file: string, now: () => number): LedgerStore {
  const stores = [ownHandle(file, now), ownHandle(file, now)];
  return new Proxy(stores[0]!, {
    get(_, name) {
      if (name === 'close') return () => Promise.all(stores.map((store) => store.close()));
      const store = stores[Math.random() < 0.5 ? 0 : 1]!;
      const member: unknown = Reflect.get(store, name);
      return typeof member === 'function' ? member.bind(store) : member;
    },
  });
}

/** A store with a handle of its own, as in another process: without it, all stores of a process share one. */
function ownHandle(file: string, now: () => number): SqliteStore {
  const store = new SqliteStore(file, { now });
  const [shared] = Object.getOwnPropertySymbols(globalThis).filter(({ description = '' }) =>
    description.startsWith('chat-completions-router.sqlite.'),
  );
  if (shared) Reflect.deleteProperty(globalThis, shared);
  void store.ready();
  if (shared) Reflect.deleteProperty(globalThis, shared);
  return store;
}

/** The commits in the file's write-ahead log: the frame that ends one has the size of the file. */
function commitsOf(file: string): number {
  const log = readFileSync(`${file}-wal`);
  const frame = 24 + log.readUInt32BE(8);
  let commits = 0;
  for (let at = 32; at + frame <= log.length; at += frame) if (log.readUInt32BE(at + 4) > 0) commits += 1;
  return commits;
}

/** A store with 100 in each of two accounts. */
async function funded(): Promise<{ readonly store: SqliteStore; readonly file: string }> {
  const file = newFile();
  const store = new SqliteStore(file, { now: () => NOON });
  onTestFinished(() => store.close());
  for (const account of ['acme', 'other']) await store.grant({ account, id: 'g1', amount: 100n });
  return { store, file };
}

const ACCOUNTS = ['acme', 'other'];

/** A command on one of two accounts, of which most are about the same few requests and keys. */
function anyCommand(): fc.Arbitrary<(store: LedgerStore) => unknown> {
  return fc
    .record({
      account: fc.constantFrom(...ACCOUNTS),
      n: fc.nat(5),
      amount: fc.bigInt(0n, 60n),
      kind: fc.constantFrom('admit', 'settle', 'settle', 'extend', 'void', 'grant', 'adjust', 'balance'),
      idempotencyKey: fc.constantFrom(undefined, { key: hashOf('i'), body: hashOf('b') }),
    })
    .map(({ account, n, amount, kind, idempotencyKey }) => (store) => {
      switch (kind) {
        case 'admit':
          return store.admit({
            ...admission(account, n),
            want: amount,
            ...(idempotencyKey && { idempotencyKey }),
          });
        case 'settle':
          return store.settle({ ...settlement(account, n, amount), force: n > 2 });
        case 'extend':
          return store.extend({
            account,
            requestId: requestId(n),
            hold: amount,
            leaseMs: HOUR,
            checkpoint: 1n,
          });
        case 'void':
          return store.void({ account, requestId: requestId(n) });
        case 'grant':
          return store.grant({
            account,
            id: `g${n}`,
            amount: amount + 1n,
            expiresAt: NOON + n * HOUR + HOUR,
          });
        case 'adjust':
          return store.adjust({ account, id: `a${n}`, delta: amount - 30n || 1n, reason: 'correction' });
        default:
          return store.balance(account);
      }
    });
}

function withoutDurable(reply: unknown): unknown {
  if (typeof reply !== 'object' || reply === null) return reply;
  return Object.fromEntries(Object.entries(reply).filter(([name]) => name !== 'durable'));
}

/** A snapshot, with what has no order sorted. */
function sorted(state: Awaited<ReturnType<LedgerStore['snapshot']>>): unknown {
  if (!state) return state;
  const byText = (a: object, b: object): number => (textOf(a) < textOf(b) ? -1 : 1);
  return {
    ...state,
    requests: state.requests.toSorted(byText),
    keys: state.keys.toSorted(byText),
    usage: state.usage.toSorted(byText),
  };
}

function textOf(value: object): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === 'bigint' ? String(member) : member,
  );
}

function admission(account: string, n: number): Parameters<LedgerStore['admit']>[0] {
  const request = { account, requestId: requestId(n), key: `k${n % 2}`, externalKey: true };
  return { ...request, want: 10n, min: 0n, leaseMs: 2 * HOUR, tokens: 0, notAfter: Infinity };
}

function settlement(account: string, n: number, amount: bigint): Parameters<LedgerStore['settle']>[0] {
  const request = { account, requestId: requestId(n), key: `k${n % 2}`, model: 'some/model' };
  return { ...request, amount, usage: USAGE, force: true };
}
