import { beforeEach, describe, expect, it } from 'vitest';
import { createCredits, type Credits } from '../src/ledger/credits.ts';
import { type LedgerStore, StoreUnavailable } from '../src/ledger/ledger.ts';
import { MemoryStore } from '../src/ledger/memory-store.ts';

describe('credits', () => {
  let now: number;
  let store: LedgerStore;
  let credits: Credits;

  beforeEach(() => {
    now = NOON;
    store = new MemoryStore({ now: () => now });
    credits = createCredits(store);
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

  it('says that a grant was made before', async () => {
    await credits.grant('acme', '25.00', { id: 'g1' });
    expect(await credits.grant('acme', '25', { id: 'g1' })).toEqual({ available: '25.00', duplicate: true });
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

  it('tells the balance in four decimal strings', async () => {
    await credits.grant('acme', '25', { id: 'g1' });
    await admit(2_000_000_000n);
    expect(await credits.balance('acme')).toEqual({
      balance: '23.00',
      held: '2.00',
      totalUsed: '0.00',
      totalGranted: '25.00',
    });
  });

  it('tells zeros of an unknown account', async () => {
    expect(await credits.balance('nobody')).toEqual({
      balance: '0.00',
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
    ['delta must be', (all) => all.adjust('acme', '0.00', { id: 'a1', reason: '' })],
    ['after must be', (all) => all.journal('acme', { after: -1 })],
    ['limit must be', (all) => all.journal('acme', { limit: 1001 })],
  ])('names a wrong argument: %s', async (message, call) => {
    await expect(call(credits)).rejects.toThrow(TypeError);
    await expect(call(credits)).rejects.toThrow(message);
  });

  it('passes on that the store is unavailable', async () => {
    store.grant = async () => {
      throw new StoreUnavailable('unknown');
    };
    await expect(credits.grant('acme', '1', { id: 'g1' })).rejects.toThrow(StoreUnavailable);
  });
});

const NOON = Date.parse('2026-03-04T12:00Z');
const REQUEST = `${NOON.toString(36).padStart(9, '0')}gate000001`;
const USAGE = {
  promptTokens: 9,
  cachedTokens: 0,
  completionTokens: 12,
  reasoningTokens: 0,
  source: 'upstream',
  price: 'v1',
  ending: 'finished',
} as const;
