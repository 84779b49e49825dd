import { beforeEach, describe, expect, it } from 'vitest';
import {
  createCredits,
  type Credits,
  type ExportJournalOptions,
} from '../../../src/ledger/operations/credits.ts';
import { type LedgerStore, StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { NOON, requestId } from '../../contracts/ledger-fixture.ts';

describe('credits', () => {
  let now: number;
  let store: LedgerStore;
  let credits: Credits;

  beforeEach(() => {
    now = NOON;
    store = new MemoryStore({ now: () => now });
    credits = createCredits(store, () => now);
  });

  const admit = async (want: bigint): Promise<unknown> =>
    store.admit({
      account: 'acme',
      key: 'label',
      requestId: REQUEST,
      want,
      min: want,
      leaseMs: 60_000,
      tokens: 0,
      notAfter: Infinity,
      externalKey: true,
    });

  it('grants a decimal amount', async () => {
    expect(await credits.grant('acme', '25', { id: 'g1' })).toEqual({ available: '25.00', duplicate: false });
  });

  it('says how safe a grant is, where the store does', async () => {
    const grant = store.grant.bind(store);
    store.grant = async (command) => {
      const result = await grant(command);
      return result.code === 'ok' ? { ...result, durable: false } : result;
    };
    expect(await credits.grant('acme', '1', { id: 'g1' })).toEqual({
      available: '1.00',
      duplicate: false,
      durable: false,
    });
  });

  it('says that a grant was made before', async () => {
    await credits.grant('acme', '25.00', { id: 'g1' });
    expect(await credits.grant('acme', '25', { id: 'g1' })).toEqual({ available: '25.00', duplicate: true });
  });

  it('refuses a grant that has expired already, save one that was made before', async () => {
    const past = { id: 'g1', expiresAt: NOON };
    await expect(credits.grant('acme', '25', past)).rejects.toThrow(
      'expiresAt must be in the future, got 2026-03-04T12:00:00.000Z',
    );
    expect(await store.balance('acme')).toBeUndefined();
    await credits.grant('acme', '25', { id: 'g1', expiresAt: NOON + 1 });
    now += 1;
    const again = await credits.grant('acme', '25', { id: 'g1', expiresAt: NOON + 1 });
    expect(again.duplicate).toBe(true);
  });

  it('takes a date and a time in ms for the same expiry', async () => {
    await credits.grant('acme', '25', { id: 'g1', expiresAt: new Date(NOON + 1000) });
    const again = await credits.grant('acme', '25', { id: 'g1', expiresAt: NOON + 1000 });
    now += 1000;
    expect(again.duplicate).toBe(true);
    expect((await credits.balance('acme')).balance).toBe('0.00');
  });

  it('uses grants by their priority', async () => {
    await credits.grant('acme', '1', { id: 'later' });
    await credits.grant('acme', '1', { id: 'sooner', priority: 1 });
    expect((await store.snapshot('acme'))?.lots.map((lot) => lot.id)).toEqual(['sooner', 'later']);
  });

  it('refuses an id that was used with another amount', async () => {
    await credits.grant('acme', '25', { id: 'g1' });
    const granted = credits.grant('acme', '26', { id: 'g1' });
    await expect(granted).rejects.toMatchObject({ name: 'CreditsConflictError', code: 'conflict' });
  });

  it('refuses a balance beyond the largest amount', async () => {
    await credits.grant('acme', '9007199', { id: 'g1' });
    await expect(credits.grant('acme', '1', { id: 'g2' })).rejects.toMatchObject({ code: 'too_big' });
  });

  it('refuses more than 100 unused grants', async () => {
    for (let n = 0; n < 100; n++) await credits.grant('acme', '1', { id: `g${n}` });
    await expect(credits.grant('acme', '1', { id: 'g100' })).rejects.toMatchObject({ code: 'too_many_lots' });
  });

  it('adjusts up and down', async () => {
    await credits.grant('acme', '25', { id: 'g1' });
    await credits.adjust('acme', '0.50', { id: 'a1', reason: 'sorry' });
    const result = await credits.adjust('acme', '-5.25', { id: 'a2', reason: 'chargeback' });
    expect(result).toEqual({ available: '20.25', duplicate: false });
  });

  it('takes no more than there is, and says why', async () => {
    await credits.grant('acme', '25', { id: 'g1' });
    await expect(credits.adjust('acme', '-25.01', { id: 'a1', reason: '' })).rejects.toMatchObject({
      code: 'below_floor',
      message: 'a1 was not applied to account acme: the account has less than that available',
    });
  });

  it('adjusts no account that there is not', async () => {
    const adjusted = credits.adjust('acme', '1', { id: 'a1', reason: '' });
    await expect(adjusted).rejects.toMatchObject({ code: 'no_account' });
  });

  it('tells the balance in decimal strings', async () => {
    await credits.grant('acme', '25', { id: 'g1' });
    await admit(2_000_000_000n);
    expect(await credits.balance('acme')).toEqual({
      balance: '23.00',
      creditLimit: '0.00',
      held: '2.00',
      totalUsed: '0.00',
      totalGranted: '25.00',
    });
  });

  it('tells zeros of an unknown account', async () => {
    expect(await credits.balance('nobody')).toEqual({
      balance: '0.00',
      creditLimit: '0.00',
      held: '0.00',
      totalUsed: '0.00',
      totalGranted: '0.00',
    });
  });

  it('tells the journal in words and decimal strings', async () => {
    await credits.grant('acme', '25', { id: 'g1' });
    await admit(2_000_000_000n);
    await store.settle({
      account: 'acme',
      requestId: REQUEST,
      amount: 26_500_000_000n,
      key: 'label',
      model: 'some/model',
      usage: { ...USAGE, cost: 125n },
      force: false,
    });
    await credits.grant('acme', '1', { id: 'g2' });
    await credits.adjust('acme', '-0.5', { id: 'a1', reason: 'chargeback' });
    expect(await credits.journal('acme', { after: 1 })).toEqual([
      {
        position: 2,
        type: 'charge',
        at: new Date(NOON),
        id: REQUEST,
        requestId: REQUEST,
        amount: '25.00',
        balance: '0.00',
        held: '2.00',
        writtenOff: '1.50',
        key: 'label',
        model: 'some/model',
        usage: { ...USAGE, cost: '0.000000125' },
      },
      { position: 3, type: 'grant', at: new Date(NOON), id: 'g2', amount: '1.00', balance: '1.00' },
      {
        position: 4,
        type: 'adjustment',
        at: new Date(NOON),
        id: 'a1',
        amount: '-0.50',
        balance: '0.50',
        reason: 'chargeback',
      },
    ]);
  });

  it('reads the journal from its newest entry, page by page, to what is compacted', async () => {
    for (let n = 1; n <= 10; n++) await credits.grant('acme', '1', { id: `g${n}` });
    const positions = async (after?: number, limit = 4): Promise<number[]> => {
      const options = { order: 'newest', limit, ...(after !== undefined && { after }) } as const;
      return (await credits.journal('acme', options)).map(({ position }) => position);
    };
    expect([await positions(), await positions(7), await positions(3)]).toEqual([
      [10, 9, 8, 7],
      [6, 5, 4, 3],
      [2, 1],
    ]);
    expect([await positions(1), await positions(0), await positions(undefined, 10)]).toEqual([
      [],
      [],
      [10, 9, 8, 7, 6, 5, 4, 3, 2, 1],
    ]);
    await credits.compact('acme', 6);
    expect([await positions(9), await positions(8), await positions(5)]).toEqual([[8, 7], [7], []]);
    expect(await credits.journal('none', { order: 'newest' })).toEqual([]);
    await expect(credits.journal('acme', { order: 'latest' as 'newest' })).rejects.toThrow(
      "order must be 'oldest' or 'newest', got \"latest\"",
    );
  });

  it('reads 100 entries of the journal unless asked for fewer', async () => {
    await credits.grant('acme', '1', { id: 'g1' });
    for (let n = 1; n <= 100; n++) await credits.adjust('acme', '1', { id: `a${n}`, reason: '' });
    expect(await credits.journal('acme')).toHaveLength(100);
    expect(await credits.journal('acme', { after: 99, limit: 1 })).toMatchObject([{ position: 100 }]);
  });

  it.each<[string, (all: Credits) => Promise<unknown>]>([
    ['amount must be a decimal string', (all) => all.grant('acme', '25,00', { id: 'g1' })],
    ['amount must be more than 0', (all) => all.grant('acme', '0', { id: 'g1' })],
    ['amount must be more than 0', (all) => all.grant('acme', '-1', { id: 'g1' })],
    ['account must be', (all) => all.grant('a b', '1', { id: 'g1' })],
    ['id must be', (all) => all.grant('acme', '1', { id: '' })],
    ['expiresAt must be', (all) => all.grant('acme', '1', { id: 'g1', expiresAt: new Date('never') })],
    ['delta must not be 0, got 0.00', (all) => all.adjust('acme', '0.00', { id: 'a1', reason: '' })],
    ['after must be', (all) => all.journal('acme', { after: -1 })],
    ['limit must be', (all) => all.journal('acme', { limit: 1001 })],
    ['through must be', (all) => all.compact('acme', -1)],
    ['after must be', (all) => all.exportJournal({ account: 'acme', after: 0.5 }).next()],
    ['after must be a function', (all) => all.exportJournal({ after: 7 }).next()],
  ])('names a wrong argument: %s', async (message, call) => {
    await expect(call(credits)).rejects.toThrow(TypeError);
    await expect(call(credits)).rejects.toThrow(message);
  });

  it('passes on that the store is unavailable', async () => {
    store.grant = async () => {
      throw new StoreUnavailableError('unknown');
    };
    await expect(credits.grant('acme', '1', { id: 'g1' })).rejects.toThrow(StoreUnavailableError);
  });
});

describe('an exported journal', () => {
  const clock = { now: NOON };
  let store: MemoryStore;
  let credits: Credits;

  beforeEach(() => {
    clock.now = NOON;
    store = new MemoryStore({ now: () => clock.now });
    credits = createCredits(store, () => clock.now);
  });

  async function exported(options?: ExportJournalOptions): Promise<object[]> {
    const entries: object[] = [];
    for await (const line of credits.exportJournal(options)) {
      expect(line.indexOf('\n')).toBe(line.length - 1);
      entries.push(JSON.parse(line) as object);
    }
    return entries;
  }

  const settle = async (n: number, amount: bigint, account = 'acme'): Promise<unknown> => {
    const settled = { requestId: requestId(n), amount, key: 'label', model: 'some/model', usage: USAGE };
    return store.settle({ ...settled, account, force: true });
  };

  it('has a line an entry, complete by itself, with amounts as decimal strings', async () => {
    await credits.grant('acme', '25', { id: 'g1' });
    await settle(1, 125n);
    expect(await exported()).toEqual([
      {
        account: 'acme',
        event: 'acme:grant:g1',
        position: 1,
        type: 'grant',
        at: '2026-03-04T12:00:00.000Z',
        id: 'g1',
        amount: '25.00',
        balance: '25.00',
      },
      {
        account: 'acme',
        event: `acme:charge:${requestId(1)}`,
        position: 2,
        type: 'orphan_charge',
        at: '2026-03-04T12:00:00.000Z',
        id: requestId(1),
        requestId: requestId(1),
        amount: '0.000000125',
        balance: '24.999999875',
        key: 'label',
        model: 'some/model',
        usage: USAGE,
      },
    ]);
  });

  it('has events of their own for an expired hold, its correction, and each part of an expired grant', async () => {
    await credits.grant('acme', '1', { id: 'g1', expiresAt: NOON + 90_000 });
    const hold = { account: 'acme', key: 'label', externalKey: true, min: 0n, tokens: 0, notAfter: Infinity };
    await store.admit({ ...hold, requestId: requestId(1), want: 400_000_000n, leaseMs: 120_000 });
    await store.admit({ ...hold, requestId: requestId(2), want: 100_000_000n, leaseMs: 60_000 });
    const extension = { account: 'acme', requestId: requestId(2), hold: 0n, leaseMs: 60_000 };
    await store.extend({ ...extension, checkpoint: 5n });
    for (const ms of [60_000, 30_000, 30_000]) {
      clock.now += ms;
      await store.sweep(100);
    }
    await settle(2, 7n);
    expect(
      (await exported({ account: 'acme', after: 1 })).map((entry) => 'event' in entry && entry.event),
    ).toEqual([
      `acme:expired_hold:${requestId(2)}`,
      'acme:expired_credit:g1:3',
      `acme:expired_hold:${requestId(1)}`,
      'acme:expired_credit:g1:5',
      `acme:late_charge:${requestId(2)}`,
    ]);
  });

  it('has an event of its own for each part of a charge', async () => {
    await credits.grant('acme', '0.00000001', { id: 'g1' });
    const charge = {
      account: 'acme',
      requestId: requestId(1),
      amount: 30n,
      key: 'label',
      model: 'some/model',
    };
    const inParts = { ...charge, usage: USAGE, force: true, inParts: true };
    await store.settle(inParts);
    for (const id of ['g2', 'g3']) {
      await credits.grant('acme', '0.00000001', { id });
      await store.settle(inParts);
    }
    const part = {
      account: 'acme',
      type: 'late_charge',
      at: '2026-03-04T12:00:00.000Z',
      id: requestId(1),
      requestId: requestId(1),
      amount: '0.00000001',
      balance: '0.00',
      key: 'label',
    };
    expect((await exported({ account: 'acme', after: 1 })).filter((_, n) => n % 2 === 0)).toEqual([
      expect.objectContaining({ event: `acme:charge:${requestId(1)}`, amount: '0.00000001' }),
      { ...part, position: 4, event: `acme:late_charge:${requestId(1)}:4` },
      { ...part, position: 6, event: `acme:late_charge:${requestId(1)}:6` },
    ]);
  });

  it('is whole, however long it is', async () => {
    await credits.grant('acme', '1', { id: 'g1' });
    for (let n = 2; n <= 2500; n++) await settle(n, 1n);
    const positions = (await exported()).map((entry) => 'position' in entry && entry.position);
    expect(positions).toEqual(Array.from({ length: 2500 }, (_, n) => n + 1));
  });

  it('goes on after a position: of one account, or of each', async () => {
    for (const account of ['acme', 'zeta']) {
      await credits.grant(account, '1', { id: 'g1' });
      await credits.grant(account, '2', { id: 'g2' });
    }
    expect(await exported({ account: 'zeta', after: 1 })).toMatchObject([{ account: 'zeta', position: 2 }]);
    const seen: Record<string, number> = { acme: 2, zeta: 1 };
    expect(await exported({ after: (account) => seen[account] ?? 0 })).toMatchObject([
      { account: 'zeta', position: 2 },
    ]);
  });

  it('begins with what was folded, unless that was exported before', async () => {
    await credits.grant('acme', '1', { id: 'g1' });
    for (let n = 2; n <= 9; n++) await settle(n, 1n);
    await credits.compact('acme', 5);
    const folded = {
      account: 'acme',
      event: 'acme:compacted:5',
      position: 5,
      type: 'compacted',
      granted: '1.00',
      charged: '0.000000004',
      expired: '0.00',
      writtenOff: '0.00',
    };
    expect((await exported({ account: 'acme', after: 4 })).slice(0, 2)).toMatchObject([
      folded,
      { position: 6 },
    ]);
    expect((await exported())[0]).toEqual(folded);
    expect((await exported({ account: 'acme', after: 5 }))[0]).toMatchObject({
      type: 'orphan_charge',
      position: 6,
    });
    await credits.compact('acme', 9);
    expect(await exported()).toMatchObject([{ type: 'compacted', position: 9, charged: '0.000000008' }]);
    expect(await exported({ account: 'acme', after: 9 })).toEqual([]);
  });

  it('skips nothing that is folded while it is read', async () => {
    await credits.grant('acme', '1', { id: 'g1' });
    for (let n = 2; n <= 2500; n++) await settle(n, 1n);
    const lines = credits.exportJournal();
    const entries: object[] = [];
    for await (const line of lines) {
      entries.push(JSON.parse(line) as object);
      if (entries.length === 1) await credits.compact('acme', 2200);
    }
    expect(entries.slice(999, 1002)).toMatchObject([
      { type: 'orphan_charge', position: 1000 },
      { type: 'compacted', position: 2200, charged: '0.000002199' },
      { type: 'orphan_charge', position: 2201 },
    ]);
    expect(entries).toHaveLength(1000 + 1 + 300);
  });

  it('ends with what was folded when nothing else is left', async () => {
    await credits.grant('acme', '1', { id: 'g1' });
    for (let n = 2; n <= 1200; n++) await settle(n, 1n);
    const entries: object[] = [];
    for await (const line of credits.exportJournal()) {
      entries.push(JSON.parse(line) as object);
      if (entries.length === 1) await credits.compact('acme', 1200);
    }
    expect(entries).toHaveLength(1000 + 1);
    expect(entries.at(-1)).toMatchObject({
      type: 'compacted',
      position: 1200,
      granted: '1.00',
      charged: '0.000001199',
    });
  });

  it('lists the accounts', async () => {
    const accounts: string[] = [];
    for (const account of ['acme', 'zeta']) await credits.grant(account, '1', { id: 'g1' });
    for await (const account of credits.accounts()) accounts.push(account);
    expect(accounts.sort()).toEqual(['acme', 'zeta']);
  });
});

const REQUEST = requestId(1);
const USAGE = {
  promptTokens: 9,
  cachedTokens: 0,
  completionTokens: 12,
  reasoningTokens: 0,
  source: 'upstream',
  price: 'v1',
  ending: 'finished',
} as const;
