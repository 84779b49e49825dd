import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { settle } from '../../../src/ledger/engine/account-engine.ts';
import type { RequestRow } from '../../../src/ledger/engine/account-rows.ts';
import { DeletionQueue } from '../../../src/ledger/stores/memory/deletion-queue.ts';
import { DueQueue, type Queued } from '../../../src/ledger/stores/memory/due-queue.ts';
import type { CompactedSums, JournalLine, Settle } from '../../../src/ledger/contract/ledger-store.ts';
import { grant } from '../../../src/ledger/engine/grants.ts';
import { MemoryAccount } from '../../../src/ledger/stores/memory/memory-account.ts';
import { MemoryJournal } from '../../../src/ledger/stores/memory/memory-journal.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import {
  packLine,
  packRequest,
  unpackLine,
  unpackRequest,
} from '../../../src/ledger/stores/memory/packed-rows.ts';
import { TextArchive } from '../../../src/ledger/stores/memory/text-archive.ts';
import { runs } from '../../helpers/runs.ts';
import { describeLedgerStore } from '../../contracts/index.ts';

describeLedgerStore('MemoryStore', ({ now }) => new MemoryStore({ now }), { sequences: 4000 });

describe('MemoryStore', () => {
  it('reads the wall clock unless it is given another', async () => {
    const before = Date.now();
    const { now } = await new MemoryStore().grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(now).toBeGreaterThanOrEqual(before);
    expect(now).toBeLessThanOrEqual(Date.now());
  });

  it('folds the oldest lines of a journal longer than 50,000', async () => {
    const store = new MemoryStore({ now: () => NOW });
    await store.grant({ account: 'acme', id: 'g1', amount: 60_000n });
    for (let n = 0; n < 50_249; n++) await store.settle(orphan(n, 1n));
    const state = await store.snapshot('acme');
    expect(state?.compacted).toEqual({
      seq: 250n,
      at: NOW,
      granted: 60_000n,
      spent: 249n,
      expired: 0n,
      writtenOff: 0n,
    });
    expect(await store.journal('acme', 0n, 100_000)).toHaveLength(50_000);
  });
});

describe('DueQueue', () => {
  it('keeps the order of what remains, whatever is removed', () => {
    const entries = fc.array(fc.record({ due: fc.nat(50), removed: fc.boolean() }), {
      maxLength: 90,
      size: 'max',
    });
    fc.assert(
      fc.property(entries, (all) => {
        const queue = new DueQueue();
        const queued = all.map(({ due }, n): Queued => {
          return { row: row(n + 10, due), due: 0, position: -1 };
        });
        for (const entry of queued) queue.add(entry);
        for (const [n, entry] of queued.entries()) if (all[n]?.removed) queue.remove(entry);
        const left = queued.filter((_, n) => !all[n]?.removed);
        for (const entry of left.toSorted((a, b) => a.due - b.due || a.row.id.localeCompare(b.row.id))) {
          expect(queue.first).toBe(entry);
          queue.remove(entry);
        }
        expect(queue.first).toBeUndefined();
      }),
    );
  });
});

describe('DeletionQueue', () => {
  it('has them by due, then id, whatever is added in between', () => {
    const added = fc.record({ due: fc.nat(20), id: fc.nat(50).map(String) });
    fc.assert(
      fc.property(fc.array(fc.option(added, { freq: 3 }), { maxLength: 200, size: 'max' }), (steps) => {
        const queue = new DeletionQueue();
        let expected: { due: number; id: string }[] = [];
        for (const step of steps) {
          if (step) {
            queue.add(step);
            expected = [...expected, step].toSorted((a, b) => a.due - b.due || (a.id < b.id ? -1 : 1));
          } else {
            queue.removeFirst();
            expected.shift();
          }
          expect(queue.first).toEqual(expected[0]);
        }
      }),
    );
  });
});

describe('MemoryJournal', () => {
  it('has the sums of the compacted lines and all others, wherever it is compacted', () => {
    const steps = fc.array(fc.record({ lines: fc.nat(300), compactedTo: fc.nat(1500) }), { maxLength: 6 });
    fc.assert(
      fc.property(steps, (all) => {
        const journal = new MemoryJournal(new TextArchive<'line'>());
        const expected: JournalLine[] = [];
        let compacted: CompactedSums = NO_LINES;
        for (const { lines, compactedTo } of all) {
          for (let n = 0; n < lines; n++) {
            const line = journalLine(compacted.seq + BigInt(expected.length + 1));
            journal.append(line);
            expected.push(line);
          }
          journal.compact(BigInt(compactedTo));
          for (const line of expected.splice(0, Math.max(0, compactedTo - Number(compacted.seq)))) {
            compacted = plus(compacted, line);
          }
          expect(journal.compacted).toEqual(compacted);
          expect(journal.lines(0n, 2000)).toEqual(expected);
          expect(journal.line(compacted.seq)).toBeUndefined();
          expect(journal.line(compacted.seq + 1n)).toEqual(expected[0]);
        }
      }),
      { numRuns: runs(500) },
    );
  });
});

const NO_LINES: CompactedSums = { seq: 0n, at: 0, granted: 0n, spent: 0n, expired: 0n, writtenOff: 0n };

const SUMMED = {
  g: 'granted',
  a: 'granted',
  x: 'expired',
  s: 'spent',
  l: 'spent',
  e: 'spent',
  o: 'spent',
  r: 'spent',
} as const;
const TYPES = Object.keys(SUMMED) as JournalLine['type'][];

function journalLine(seq: bigint): JournalLine {
  const n = Number(seq);
  const type = TYPES[n % TYPES.length] ?? 's';
  const line = { type, seq, at: NOW - (n % 7), id: `r${n}`, amount: seq * 3n, available: 9n };
  return n % 5 === 0 ? { ...line, writtenOff: seq } : line;
}

function plus(sums: CompactedSums, { seq, at, type, amount, writtenOff = 0n }: JournalLine): CompactedSums {
  const name = SUMMED[type];
  const sum = { [name]: sums[name] + amount, writtenOff: sums.writtenOff + writtenOff };
  return { ...sums, seq, at: Math.max(sums.at, at), ...sum };
}

describe('TextArchive', () => {
  it('has each text until it is deleted', () => {
    const archive = new TextArchive<'one' | 'other'>();
    const kept = new Map<number, string>();
    for (let n = 0; n < 5000; n++) {
      const text = `${n} é東🚲`.repeat(1 + (n % 40)) + (n % 1000 === 0 ? 'long'.repeat(40_000) : '');
      const place = archive.add(text, n % 3 === 0 ? 'one' : 'other');
      expect(kept.has(place)).toBe(false);
      kept.set(place, text);
      for (const [first] of [...kept].slice(0, kept.size > 1000 ? 2 : n % 2)) {
        archive.delete(first);
        kept.delete(first);
      }
    }
    for (const [place, text] of kept) expect(archive.read(place)).toBe(text);
  });

  it('releases the memory of texts that are kept for a short time, though others stay', () => {
    const archive = new TextArchive<'long' | 'short'>();
    const short: number[] = [];
    for (let n = 0; n < 50_000; n++) {
      if (n % 100 === 0) archive.add('stays'.repeat(20), 'long');
      short.push(archive.add('goes'.repeat(20), 'short'));
      const oldest = short.length > 1000 ? short.shift() : undefined;
      if (oldest !== undefined) archive.delete(oldest);
    }
    // 500 of 104 bytes, 1,000 of 84, and a slab of each that is not full.
    expect(archive.bytes).toBeLessThan(52_000 + 84_000 + 2 * 65_536);
  });
});

describe('a packed row', () => {
  it('is the row again', () => {
    const held = row(1, 10);
    expect(unpackRequest(packRequest(held))).toEqual(held);
    const ended: RequestRow = {
      id: 'r2',
      key: 'k2',
      countedAt: 3,
      countedBy: { key: true, account: false, endUser: 'u~1' },
      tokens: 4,
      idempotencyKey: { key: 'k', body: 'b' },
      state: 'settled',
      amount: 10n ** 30n,
      checkpoint: 5n,
      due: 6,
      model: 'some/model',
      line: 7n,
      ending: 'finished',
      provider: 'openai',
    };
    expect(unpackRequest(packRequest(ended))).toStrictEqual(ended);
    const line = { type: 's' as const, seq: 2n ** 70n, at: 1.5, id: '5', amount: -12n, available: 0n };
    expect(unpackLine(packLine(line))).toStrictEqual(line);
    const usage = { ...orphan(1, 1n).usage, cost: 10n ** 20n };
    const texts = { key: 'k3', model: 'some/model', reason: 'gift', dimensions: { user: 'é"' } };
    const full = { ...line, hold: 0n, writtenOff: 1n, available: 2n, usage, ...texts };
    expect(unpackLine(packLine(full))).toStrictEqual(full);
  });
});

describe('an account whose books do not add up', () => {
  it('is frozen by the next command, and not repaired', () => {
    const account = new MemoryAccount();
    grant(account, { account: 'acme', id: 'g1', amount: 100n }, NOW);
    account.totals.available += 1n;
    settle(account, orphan(1, 10n), NOW);
    expect(account.totals).toMatchObject({ frozen: true, available: 91n, granted: 100n, spent: 10n });
  });

  it('is frozen by a command that changes nothing, too', async () => {
    const account = new MemoryAccount();
    grant(account, { account: 'acme', id: 'g1', amount: 100n }, NOW);
    account.totals.spent += 1n;
    grant(account, { account: 'acme', id: 'g1', amount: 100n }, NOW);
    expect(account.totals.frozen).toBe(true);
  });
});

const NOW = Date.parse('2026-03-04T12:00Z');

function row(id: number, due: number): RequestRow {
  return {
    id: String(id),
    key: 'k1',
    countedAt: 0,
    countedBy: { key: true, account: false, endUser: undefined },
    tokens: 0,
    state: 'held',
    amount: 0n,
    checkpoint: 0n,
    idempotencyKey: undefined,
    due,
    model: '',
    line: undefined,
    ending: undefined,
    provider: undefined,
  };
}

function orphan(n: number, amount: bigint): Settle {
  return {
    account: 'acme',
    requestId: `${NOW.toString(36).padStart(9, '0')}gate${String(n).padStart(6, '0')}`,
    amount,
    key: 'k1',
    model: 'some/model',
    usage: {
      promptTokens: 1,
      cachedTokens: 0,
      completionTokens: 1,
      reasoningTokens: 0,
      source: 'upstream',
      price: 'v1',
      ending: 'finished',
    },
    force: true,
  };
}
