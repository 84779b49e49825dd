import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Redis } from 'ioredis';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';

import { verifyLedger } from '../../../src/ledger/operations/verify.ts';
import type { AccountState, JournalLine, LedgerStore } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { behavesLikeTheModel, MODEL_TIMEOUT_MS } from '../../contracts/ledger-commands.ts';
import { MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { findingsOf } from '../../helpers/audit.ts';
import { admission, namespace, settlement } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';
import { runs } from '../../helpers/runs.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const folder = mkdtempSync(join(tmpdir(), 'ccr-audit-'));
let files = 0;
const newFile = (): string => join(folder, `${(files += 1)}.db`);

let redis: Redis;

useRedis((own) => ({ redis } = own));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** One request settled (line 2), one held, one expired (line 3) and settled late (line 4), one voided. */
async function live(store: LedgerStore, clock: { now: number }): Promise<void> {
  await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
  await store.admit(admission(1, 30_000n));
  await store.settle(settlement(1, 12_000n));
  await store.admit({ ...admission(2, 10_000n), leaseMs: 10 * MINUTE });
  await store.admit(admission(3, 20_000n));
  const extension = { account: 'acme', requestId: requestId(3), hold: 0n, leaseMs: MINUTE };
  await store.extend({ ...extension, checkpoint: 5000n });
  clock.now += 2 * MINUTE;
  await store.sweep(100);
  await store.settle(settlement(3, 9000n));
  await store.admit(admission(4, 1000n));
  await store.void({ account: 'acme', requestId: requestId(4) });
}

type Case = [what: string, damage: string[], findings: string[]];

describe('an audit of a file', () => {
  it.each<Case>([
    ['nothing', [], []],
    [
      'credit granted by another hand',
      ['UPDATE accounts SET granted = granted + 7'],
      [
        'I1 granted is 0.000100007, but available 0.000069 + held 0.00001 + spent 0.000021 + expired 0.00 is 0.0001',
        'I6 granted is 0.000100007, but its journal totals 0.0001',
      ],
    ],
    [
      'a balance lowered by another hand',
      ['UPDATE accounts SET available = available - 7'],
      [
        'I1 granted is 0.0001, but available 0.000068993 + held 0.00001 + spent 0.000021 + expired 0.00 is 0.000099993',
        'I1 open lots total 0.000079, but available + held is 0.000078993',
      ],
    ],
    [
      'a hold of which there is no request',
      [`DELETE FROM requests WHERE id = '${requestId(2)}'`],
      [
        'I2 held is 0.00001, but its requests hold 0.00',
        'I2 key label has 1 running with 0.00001 held, but its requests are 0 with 0.00',
      ],
    ],
    [
      'a key that lost its counters',
      ['UPDATE keys SET held = 0, running = 0'],
      ['I2 key label has 0 running with 0.00 held, but its requests are 1 with 0.00001'],
    ],
    [
      'a key that is gone',
      ["DELETE FROM keys WHERE id = 'label'"],
      ["I2 1 requests hold 0.00001 for key label, which doesn't exist"],
    ],
    [
      'a record that says another charge',
      [`UPDATE requests SET amount = 11 WHERE id = '${requestId(1)}'`],
      [`I3 request ${requestId(1)} is settled with 0.000000011 charged, but its lines total 0.000012`],
    ],
    [
      'a charge that is held again',
      [
        `UPDATE requests SET state = 'held', amount = 0 WHERE id = '${requestId(1)}'`,
        'UPDATE keys SET running = 2',
      ],
      [`I3 request ${requestId(1)} is held, but was charged 0.000012`],
    ],
    [
      'a charge whose record is gone',
      [`DELETE FROM requests WHERE id = '${requestId(1)}'`],
      [`I3 request ${requestId(1)} was charged 0.000012, but has no record, and is too new to be deleted`],
    ],
    [
      'a voided request that is settled',
      [`UPDATE requests SET state = 'settled' WHERE id = '${requestId(4)}'`],
      [`I3 request ${requestId(4)} is settled, but has no line in the journal`],
    ],
    [
      'a request that was charged twice',
      [`UPDATE journal SET id = '${requestId(1)}' WHERE seq = 3`],
      [
        `I3 request ${requestId(1)} was posted by line 2, and again by line 3`,
        `I3 request ${requestId(3)} is corrected by line 4, but never expired`,
        `I3 request ${requestId(1)} is settled with 0.000012 charged, but its lines total 0.000017`,
        `I3 request ${requestId(3)} is settled with 0.000009 charged, but its lines total 0.000004`,
      ],
    ],
    [
      'a late charge in full',
      ["UPDATE journal SET type = 'o' WHERE seq = 4"],
      [`I3 request ${requestId(3)} expired by line 3, and was charged in full again by line 4`],
    ],
    [
      'an overspent account',
      [
        'UPDATE accounts SET available = -1, spent = spent + 69001, compacted_spent = 69001',
        'DELETE FROM lots',
      ],
      [
        'I7 spent is 0.000090001, but its usage rows total 0.000021',
        'I4 available is -0.000000001, below the floor of 0.00',
        'I6 line 1 left 0.0001 available, but only 0.000030999 was granted and not used',
        'I6 line 2 left 0.000088 available, but only 0.000018999 was granted and not used',
        'I6 line 3 left 0.000073 available, but only 0.000013999 was granted and not used',
        'I6 line 4 left 0.000069 available, but only 0.000009999 was granted and not used',
      ],
    ],
    [
      'a floor that was broken through once',
      ['UPDATE journal SET available = -5 WHERE seq = 4'],
      ['I4 line 4 left -0.000000005 available, below the floor of 0.00'],
    ],
    [
      'holds that took what was not there',
      ['UPDATE journal SET hold = 100000 WHERE seq = 4'],
      ['I5 before line 4, holds reduced available to -0.000027'],
    ],
    [
      'an expiry that charged more than was held',
      ['UPDATE journal SET hold = 4000 WHERE seq = 3'],
      ['I5 line 3 charged 0.000005 for a lease that ended with 0.000004 held'],
    ],
    [
      'a line that is gone',
      ['DELETE FROM journal WHERE seq = 1', 'UPDATE accounts SET compacted_granted = 100000'],
      ['I6 line 2 follows line 0'],
    ],
    [
      'a last line that is gone',
      [
        'DELETE FROM journal WHERE seq = 4',
        `UPDATE requests SET state = 'expired', amount = 5000 WHERE id = '${requestId(3)}'`,
        'UPDATE accounts SET spent = spent - 4000, available = available + 4000',
      ],
      [
        'I7 spent is 0.000017, but its usage rows total 0.000021',
        'I6 the journal ends with line 3, but the last one written is 4',
      ],
    ],
    [
      'charges that no line tells of',
      ['UPDATE accounts SET spent = spent + 7, available = available - 7', 'DELETE FROM lots'],
      [
        'I7 spent is 0.000021007, but its usage rows total 0.000021',
        'I6 spent is 0.000021007, but its journal totals 0.000021',
      ],
    ],
    [
      'a day whose charges were changed',
      ['UPDATE usage SET charged = charged - 1'],
      ['I7 spent is 0.000021, but its usage rows total 0.000020998'],
    ],
    [
      'folded days of which too much is said',
      ['UPDATE accounts SET usage_compacted = 5'],
      ['I7 spent is 0.000021, but its usage rows total 0.000021005'],
    ],
    [
      'end users of more requests than there were',
      [
        `INSERT INTO usage_by_dimension SELECT account, day, 'user', 'ann', 9, 0, 0, 0, 0, 0, 0, 0, 0 FROM usage LIMIT 1`,
      ],
      ['I7 user counts 9 requests of 2026-03-04, which had 3'],
    ],
    [
      'write-offs that no line tells of',
      ['UPDATE accounts SET written_off = 3'],
      ['I6 written off is 0.000000003, but its journal totals 0.00'],
    ],
  ])('finds %s', async (_what, damage, findings) => {
    const file = newFile();
    const clock = { now: NOON };
    const store = new SqliteStore(file, { now: () => clock.now });
    await live(store, clock);
    const database = new DatabaseSync(file);
    for (const sql of damage) database.exec(sql);
    database.close();
    expect(shown(await findingsOf(store))).toEqual(findings);
    await store.close();
  });
});

describe('an audit of Redis', () => {
  it.each<[string, string[][], string[]]>([
    ['nothing', [], []],
    [
      'expired credit that there was not',
      [['hset', 'a', 'x', '5']],
      [
        'I1 granted is 0.0001, but available 0.000069 + held 0.00001 + spent 0.000021 + expired 0.000000005 is 0.000100005',
        'I6 expired is 0.000000005, but its journal totals 0.00',
      ],
    ],
    [
      'a hold that is another',
      [['hset', 'r', requestId(2), `H 9000 0 0 0 0 label`]],
      [
        'I2 held is 0.00001, but its requests hold 0.000009',
        'I2 key label has 1 running with 0.00001 held, but its requests are 1 with 0.000009',
      ],
    ],
    [
      'a charge that was voided',
      [['hset', 'r', requestId(1), `V 0 0 0 0 0 label`]],
      [`I3 request ${requestId(1)} is voided with 0.00 charged, but its lines total 0.000012`],
    ],
    [
      'an overspent account',
      [
        ['hset', 'a', 'av', '-1'],
        ['hset', 'a', 'h', '79001'],
        ['hset', 'r', requestId(2), `H 79001 0 0 0 0 label`],
        ['hset', 'k', 'label:s', '79001 1 0 0 0 0 0 0'],
      ],
      ['I4 available is -0.000000001, below the floor of 0.00'],
    ],
    [
      'an expiry that charged more than was held',
      [['lset', 'j', '3', `e 3 ${NOON} ${requestId(3)} 5000 73000 4000 - label -`]],
      ['I5 line 3 charged 0.000005 for a lease that ended with 0.000004 held'],
    ],
    [
      'a day whose counters are gone',
      [['del', 'u']],
      ['I7 spent is 0.000021, but its usage rows total 0.00'],
    ],
    [
      'a position that no line has',
      [['hset', 'a', 'q', '5']],
      ['I6 the journal ends with line 4, but the last one written is 5'],
    ],
  ])('finds %s', async (_what, damage, findings) => {
    const keyPrefix = namespace();
    const clock = { now: NOON };
    const store = new RedisStore({ client: redis, keyPrefix, now: () => clock.now });
    await live(store, clock);
    for (const [command = '', key, ...rest] of damage) {
      await redis.call(command, `${keyPrefix}ccr:{acme}:${key}`, ...rest);
    }
    expect(shown(await findingsOf(store))).toEqual(findings);
    await store.close();
  });

  it('finds an account whose books are gone', async () => {
    const keyPrefix = namespace();
    const store = new RedisStore({ client: redis, keyPrefix });
    await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    await redis.del(`${keyPrefix}ccr:{acme}:a`);
    expect(shown(await findingsOf(store))).toEqual(['I6 this account has no totals']);
    await store.close();
  });
});

/** A memory store whose books are read wrong. */
class MisreadStore extends MemoryStore {
  misreadState = (state: AccountState): AccountState => state;
  misreadLine = (line: JournalLine): JournalLine => line;

  override async snapshot(account: string): Promise<AccountState | undefined> {
    const state = await super.snapshot(account);
    return state && this.misreadState(state);
  }

  override async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    const lines = await super.journal(account, afterSeq, limit);
    return lines.map(this.misreadLine);
  }
}

describe('an audit of a memory store', () => {
  it.each<[string, Partial<Pick<MisreadStore, 'misreadState' | 'misreadLine'>>, string[]]>([
    ['nothing', {}, []],
    [
      'I1',
      {
        misreadState: (state) => ({
          ...state,
          lots: state.lots.map((lot) => ({ ...lot, remaining: 80_000n })),
        }),
      },
      ['I1 open lots total 0.00008, but available + held is 0.000079'],
    ],
    [
      'I2',
      { misreadState: (state) => ({ ...state, keys: [] }) },
      ["I2 1 requests hold 0.00001 for key label, which doesn't exist"],
    ],
    [
      'I3',
      { misreadLine: (line) => (line.type === 's' ? { ...line, id: requestId(9) } : line) },
      [
        `I3 request ${requestId(1)} is settled, but has no line in the journal`,
        `I3 request ${requestId(9)} was charged 0.000012, but has no record, and is too new to be deleted`,
      ],
    ],
    [
      'I4',
      { misreadState: (state) => ({ ...state, lowestFloor: 80_000n }) },
      [
        'I4 available is 0.000069, below the floor of 0.00008',
        'I5 before line 2, holds reduced available to 0.00007',
        'I5 before line 3, holds reduced available to 0.000058',
        'I4 line 3 left 0.000073 available, below the floor of 0.00008',
        'I4 line 4 left 0.000069 available, below the floor of 0.00008',
      ],
    ],
    [
      'I5',
      { misreadLine: (line) => (line.type === 'e' ? { ...line, hold: 1n } : line) },
      ['I5 line 3 charged 0.000005 for a lease that ended with 0.000000001 held'],
    ],
    [
      'I6',
      { misreadLine: (line) => (line.type === 's' ? { ...line, writtenOff: 5n } : line) },
      ['I6 written off is 0.00, but its journal totals 0.000000005'],
    ],
  ])('finds %s', async (_what, misreading, findings) => {
    const clock = { now: NOON };
    const store = Object.assign(new MisreadStore({ now: () => clock.now }), misreading);
    await live(store, clock);
    expect(shown(await findingsOf(store))).toEqual(findings);
  });

  it('tells of every account, with its lines, or only of the one asked for', async () => {
    const store = new MemoryStore();
    for (const account of ['acme', 'zeta']) await store.grant({ account, id: 'g1', amount: 1n });
    await store.grant({ account: 'zeta', id: 'g2', amount: 1n });
    const acme = { account: 'acme', lines: 1, findings: [] };
    const zeta = { account: 'zeta', lines: 2, findings: [] };
    expect(await collect(verifyLedger(store))).toEqual([acme, zeta]);
    expect(await collect(verifyLedger(store, { account: 'zeta' }))).toEqual([zeta]);
  });

  it('says that an account it is asked for has no books', async () => {
    expect(shown(await findingsOf(new MemoryStore(), { account: 'acme' }))).toEqual([
      'I6 this account has no totals',
    ]);
  });

  it('tells at most a hundred findings of an account', async () => {
    const store = new MisreadStore();
    for (let n = 0; n < 200; n++) await store.grant({ account: 'acme', id: `g${n}`, amount: 1n });
    store.misreadLine = (line) => ({ ...line, available: 1000n });
    expect(await findingsOf(store)).toHaveLength(100);
  });

  it('knows what was folded from what is missing', async () => {
    const clock = { now: NOON };
    const store = new MemoryStore({ now: () => clock.now });
    await live(store, clock);
    for (const through of [1n, 2n, 3n, 4n]) {
      await store.compact('acme', through);
      expect(await findingsOf(store)).toEqual([]);
    }
  });

  describe('of charges in parts', () => {
    const clock = { now: NOON };
    let store: MisreadStore;
    const of = (n: number) => ({ account: 'acme', requestId: requestId(n) });
    const charge = (n: number) => store.settle({ ...settlement(n, 30_000n), inParts: true });
    const misreadPart = (more: Partial<JournalLine>): void => {
      store.misreadLine = (line) => (line.seq === 8n ? { ...line, ...more } : line);
    };

    /** One request expired (line 2) and voided late (4), one expired (3) and charged late (5, 9), one orphan (6, 8, 10). */
    beforeEach(async () => {
      clock.now = NOON;
      store = new MisreadStore({ now: () => clock.now });
      await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
      for (const n of [1, 2]) {
        await store.admit(admission(n, 20_000n));
        await store.extend({ ...of(n), hold: 0n, leaseMs: MINUTE, checkpoint: 5000n });
      }
      clock.now += MINUTE;
      await store.sweep(10);
      await store.void(of(1));
      await store.admit(admission(4, 90_000n));
      await charge(2);
      await charge(3);
      await store.grant({ account: 'acme', id: 'g2', amount: 10_000n });
      await charge(3);
      await store.void(of(4));
      await charge(2);
      await charge(3);
      const posted = (await store.journal('acme', 0n, 20)).filter(({ type }) => type !== 'g');
      expect(posted.map(({ type, id, seq }) => [type, id, seq])).toEqual([
        ['e', requestId(1), 2n],
        ['e', requestId(2), 3n],
        ['l', requestId(1), 4n],
        ['l', requestId(2), 5n],
        ['o', requestId(3), 6n],
        ['l', requestId(3), 8n],
        ['l', requestId(2), 9n],
        ['l', requestId(3), 10n],
      ]);
    });

    it('finds nothing, whatever was folded', async () => {
      expect(await findingsOf(store)).toEqual([]);
      for (let through = 1n; through <= 10n; through++) {
        await store.compact('acme', through);
        expect(await findingsOf(store)).toEqual([]);
      }
    });

    it('finds parts that come to more than their record says', async () => {
      store.misreadState = (state) => ({
        ...state,
        requests: state.requests.map((each) => (each.id === requestId(3) ? { ...each, amount: 7n } : each)),
      });
      expect(shown(await findingsOf(store))).toEqual([
        `I3 request ${requestId(3)} is settled with 0.000000007 charged, but its lines total 0.00003`,
      ]);
    });

    it('finds a second charge, with the usage of a first', async () => {
      misreadPart({ usage: USAGE });
      expect(shown(await findingsOf(store))).toEqual([
        `I3 request ${requestId(3)} was posted by line 6, and again by line 8`,
      ]);
    });

    it('finds a part of a request that was voided', async () => {
      misreadPart({ id: requestId(1) });
      expect(shown(await findingsOf(store))).toEqual([
        `I3 request ${requestId(1)} was posted by line 4, and again by line 8`,
        `I3 request ${requestId(1)} is voided with 0.00 charged, but its lines total 0.00001`,
        `I3 request ${requestId(3)} is settled with 0.00003 charged, but its lines total 0.00002`,
      ]);
    });

    it('finds a part of a request that was never charged', async () => {
      misreadPart({ id: requestId(4) });
      expect(shown(await findingsOf(store))).toContain(
        `I3 request ${requestId(4)} is corrected by line 8, but never expired`,
      );
    });

    it('finds a part that gives back', async () => {
      misreadPart({ amount: -10_000n });
      expect(shown(await findingsOf(store))).toContain(
        `I3 request ${requestId(3)} was posted by line 6, and again by line 8`,
      );
    });
  });

  it(
    'finds a request that was charged twice in a journal of 250,000 lines',
    { timeout: 60_000 },
    async () => {
      const store = new LongJournal();
      expect(await findingsOf(store)).toEqual([]);
      expect(store.pages).toBe(3 * 250);
      store.repeats = 249_999n;
      expect(shown(await findingsOf(store))).toEqual([
        `I3 request ${requestId(7)} was posted by line 7, and again by line 249999`,
      ]);
    },
  );
});

/** Charges of 0, each of a request that is long forgotten. */
class LongJournal extends MemoryStore {
  pages = 0;
  repeats = 0n;

  override async *accounts(): AsyncGenerator<string> {
    yield 'acme';
  }

  override async snapshot(): Promise<AccountState> {
    const [books] = [{ granted: 0n, available: 0n, held: 0n, spent: 0n, expired: 0n, writtenOff: 0n }];
    const compacted = { seq: 0n, at: 0, granted: 0n, spent: 0n, expired: 0n, writtenOff: 0n };
    const registers = { requests: [], lots: [], keys: [], endUsers: [], usage: [], usageCompacted: 0n };
    const marks = { lowWater: NOON, freeLowWater: 0 };
    return {
      ...books,
      ...registers,
      ...marks,
      dimensionUsage: [],
      compacted,
      floor: 0n,
      lowestFloor: 0n,
      allowances: [],
      frozen: false,
      seq: 250_000n,
    };
  }

  override async journal(_account: string, after: bigint, limit: number): Promise<readonly JournalLine[]> {
    this.pages += 1;
    const lines = Array.from({ length: limit }, (_, n) => after + BigInt(n + 1));
    return lines
      .filter((seq) => seq <= 250_000n)
      .map((seq) => {
        const id = requestId(seq === this.repeats ? 7 : Number(seq));
        return { type: 's', seq, at: NOON, id, amount: 0n, available: 0n, hold: 0n };
      });
  }
}

describe('an audit of a store in use', () => {
  it('is not misled by lines that are written while it reads', async () => {
    const store = new MisreadStore({ now: () => NOON });
    await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
    let n = 0;
    store.misreadState = (state) => {
      if (n < 100) void store.settle({ ...settlement((n += 1), 1n), usage: USAGE });
      return state;
    };
    expect(await findingsOf(store)).toEqual([]);
    expect(n).toBe(1);
  });

  it('reads again when lines are folded between its two reads', async () => {
    const clock = { now: NOON };
    const store = new MisreadStore({ now: () => clock.now });
    await live(store, clock);
    let reads = 0;
    store.misreadState = (state) => {
      reads += 1;
      if (reads === 1) void store.compact('acme', 3n);
      return state;
    };
    expect(await findingsOf(store)).toEqual([]);
    expect(reads).toBe(3);
  });

  it('gives up on a journal that is folded whenever it looks', async () => {
    const store = new MisreadStore({ now: () => NOON });
    await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
    let n = 0;
    store.misreadState = (state) => {
      void store.settle(settlement((n += 1), 1n));
      void store.compact('acme', state.seq);
      return state;
    };
    await expect(findingsOf(store)).rejects.toThrow(/compacted faster than it can be read/);
  });
});

describe('an audit of a healthy store', () => {
  it('knows that part of a refunded charge may have been compacted', async () => {
    const clock = { now: NOON };
    const store = new MemoryStore({ now: () => clock.now });
    await live(store, clock);
    await store.compact('acme', 3n);
    const amounts = { amount: 9000n, charged: 9000n };
    const request = { account: 'acme', requestId: requestId(3), key: 'label', model: 'some/model' };
    expect(await store.refund({ ...request, ...amounts, reason: 'broken' })).toMatchObject({ code: 'ok' });
    expect(await findingsOf(store)).toEqual([]);
  });

  it.each<[string, number, (clock: { now: number }) => LedgerStore]>([
    ['in memory', 300, (clock) => new MemoryStore({ now: () => clock.now })],
    ['in a file', 40, (clock) => new SqliteStore(newFile(), { now: () => clock.now })],
    [
      'in Redis',
      40,
      (clock) => new RedisStore({ client: redis, keyPrefix: namespace(), now: () => clock.now }),
    ],
  ])(
    '%s finds nothing, whatever it went through',
    { timeout: MODEL_TIMEOUT_MS },
    async (_where, sequences, open) => {
      let audited = 0;
      const compared = await behavesLikeTheModel(async (clock) => open(clock), {
        sequences: runs(sequences),
        atEnd: async (store) => {
          expect(await findingsOf(store)).toEqual([]);
          audited += 1;
        },
      });
      expect(audited).toBe(compared);
    },
  );
});

function shown(findings: Awaited<ReturnType<typeof findingsOf>>): string[] {
  return findings.map(({ invariant, message }) => `${invariant} ${message}`);
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
