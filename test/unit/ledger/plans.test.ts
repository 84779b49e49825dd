import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createAccounts } from '../../../src/ledger/operations/accounts.ts';
import type { JournalLine } from '../../../src/ledger/contract/ledger-store.ts';
import { createCredits, type Credits } from '../../../src/ledger/operations/credits.ts';
import { statementCsv } from '../../../src/ledger/operations/statement.ts';
import { ReliableStore } from '../../../src/ledger/reliability/reliable-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { DAY, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';

describe('plans', () => {
  let now: number;
  let store: MemoryStore;
  let credits: Credits;

  beforeEach(() => {
    now = NOON;
    store = new MemoryStore({ now: () => now });
    credits = createCredits(store, () => now);
  });

  /** A request of key `label` that cost this much. */
  const spend = async (n: number, dollars: bigint, model = 'm', key = 'label'): Promise<string> => {
    const id = requestId(n, now);
    const amount = dollars * 1_000_000_000n;
    const request = { account: 'acme', key, requestId: id };
    await store.admit({
      ...request,
      want: amount,
      min: 0n,
      leaseMs: 60_000,
      tokens: 0,
      notAfter: Infinity,
      externalKey: true,
    });
    await store.settle({ ...request, amount, model, usage: USAGE, force: true });
    return id;
  };

  describe('an allowance', () => {
    it('grants by calendar months, unless it has an anchor', async () => {
      expect(await credits.allow('acme', { id: 'pro', amount: '20', per: 'month' })).toEqual({
        available: '20.00',
        duplicate: false,
        resetsAt: new Date('2026-04-01T00:00:00Z'),
      });
      expect(await credits.allowances('acme')).toEqual([
        {
          id: 'pro',
          amount: '20.00',
          granted: '20.00',
          remaining: '20.00',
          per: 'month',
          anchor: new Date(0),
          rollover: 'none',
          priority: 50,
          periodStart: new Date('2026-03-01T00:00:00Z'),
          resetsAt: new Date('2026-04-01T00:00:00Z'),
        },
      ]);
    });

    it.each([
      ['hour', '2026-03-04T13:00:00Z'],
      ['day', '2026-03-05T00:00:00Z'],
      ['week', '2026-03-09T00:00:00Z'],
    ] as const)('grants by full periods per %s', async (per, resetsAt) => {
      const change = await credits.allow('acme', { id: 'pro', amount: '1', per });
      expect(change.resetsAt).toEqual(new Date(resetsAt));
    });

    it('keeps its anchor when it changes, to the second', async () => {
      await credits.allow('acme', { id: 'pro', amount: '20', per: 'month', anchor: new Date(NOON + 999) });
      const change = await credits.allow('acme', {
        id: 'pro',
        amount: '50',
        per: 'month',
        change: 'prorate',
      });
      expect(change).toMatchObject({ available: '50.00', resetsAt: new Date('2026-04-04T12:00:00Z') });
    });

    it('ends', async () => {
      await credits.allow('acme', { id: 'pro', amount: '20', per: 'month' });
      expect(await credits.endAllowance('acme', 'pro')).toEqual({ available: '20.00', duplicate: false });
      expect(await credits.endAllowance('acme', 'pro', { at: 'now' })).toMatchObject({ available: '0.00' });
      await expect(credits.endAllowance('acme', 'free')).rejects.toMatchObject({ code: 'no_allowance' });
    });

    it.each([
      [{ id: 'pro', amount: '0', per: 'month' as const }, 'amount must be more than 0, got 0'],
      [
        { id: 'pro', amount: '20', per: 'year' as 'month' },
        'per must be "hour", "day", "week", "month", got "year"',
      ],
      [
        { id: 'p:1', amount: '20', per: 'month' as const },
        'id must be 1 to 64 characters A-Z a-z 0-9 . _ -, got "p:1"',
      ],
      [
        { id: 'pro', amount: '20', per: 'month' as const, anchor: new Date('never') },
        'anchor must be an integer',
      ],
    ])('refuses %o', async (terms, message) => {
      await expect(credits.allow('acme', terms)).rejects.toThrow(message);
      expect(await store.snapshot('acme')).toBeUndefined();
    });

    it('that has ended already is refused', async () => {
      const terms = { id: 'pro', amount: '20', per: 'month', until: NOON } as const;
      await expect(credits.allow('acme', terms)).rejects.toMatchObject({ code: 'ended' });
    });
  });

  describe('a credit limit', () => {
    it('is what an account may owe', async () => {
      await credits.grant('acme', '5', { id: 'g1' });
      expect(await credits.setCreditLimit('acme', '100')).toEqual({
        creditLimit: '100.00',
        previous: '0.00',
        available: '5.00',
      });
      await spend(1, 30n);
      expect(await credits.balance('acme')).toMatchObject({ balance: '-25.00', creditLimit: '100.00' });
    });

    it.each([
      ['-1', 'creditLimit must be 0 or more, got -1'],
      ['ten', 'creditLimit must be a decimal string'],
    ])('is refused as %s', async (limit, message) => {
      await credits.grant('acme', '5', { id: 'g1' });
      await expect(credits.setCreditLimit('acme', limit)).rejects.toThrow(message);
    });

    it('needs an account', async () => {
      await expect(credits.setCreditLimit('acme', '1')).rejects.toMatchObject({ code: 'no_account' });
    });

    it('is exceeded by a forced adjustment', async () => {
      await credits.grant('acme', '5', { id: 'g1' });
      const dispute = { id: 'dp_1', reason: 'chargeback' };
      await expect(credits.adjust('acme', '-25', dispute)).rejects.toMatchObject({ code: 'below_floor' });
      expect(await credits.adjust('acme', '-25', { ...dispute, force: true })).toMatchObject({
        available: '-20.00',
      });
      expect(await createAccounts(store).get('acme')).toMatchObject({ frozen: true, balance: '-20.00' });
    });
  });

  describe('a refund', () => {
    beforeEach(async () => {
      await credits.grant('acme', '50', { id: 'g1' });
      await credits.grant('zeta', '50', { id: 'g1' });
    });

    it('gives back what the request was charged, wherever that was', async () => {
      const id = await spend(1, 10n);
      expect(await credits.refund(id, { reason: 'broken' })).toEqual({
        account: 'acme',
        amount: '10.00',
        available: '50.00',
        duplicate: false,
      });
      expect(await credits.refund(id, { reason: 'broken', account: 'acme' })).toMatchObject({
        duplicate: true,
      });
      await expect(credits.refund(id, { reason: 'b', amount: '1' })).rejects.toMatchObject({
        code: 'conflict',
      });
      expect((await credits.journal('acme')).at(-1)).toMatchObject({
        type: 'refund',
        id,
        amount: '-10.00',
        key: 'label',
        model: 'm',
        reason: 'broken',
      });
    });

    it('is found without reading the journals of other accounts, while it has a record', async () => {
      class Unread extends MemoryStore {
        override async journal(
          account: string,
          after: bigint,
          limit: number,
        ): Promise<readonly JournalLine[]> {
          if (account !== 'acme') throw new Error('the journal was read');
          return super.journal(account, after, limit);
        }
      }
      store = new Unread({ now: () => now });
      credits = createCredits(store, () => now);
      await credits.grant('aaa', '5', { id: 'g1' });
      await credits.grant('acme', '50', { id: 'g1' });
      const id = await spend(1, 10n);
      expect(await credits.refund(id, { reason: 'broken' })).toMatchObject({ account: 'acme' });
    });

    it('finds the charge in the journal, once the record was deleted', async () => {
      const id = await spend(1, 10n);
      now += 2 * DAY;
      await store.sweep(10);
      expect(await store.request('acme', id)).toBeUndefined();
      await expect(credits.refund(id, { reason: 'b', amount: '11' })).rejects.toMatchObject({
        code: 'more_than_charged',
      });
      expect(await credits.refund(id, { reason: 'b', amount: '4' })).toMatchObject({ available: '44.00' });
    });

    it('is refused for a request that is unknown or runs', async () => {
      expect(await credits.refund(requestId(9), { reason: 'b' })).toBeUndefined();
      await expect(credits.refund('9', { reason: 'b' })).rejects.toThrow(TypeError);
      await expect(credits.refund(requestId(9), { reason: '' })).rejects.toThrow('reason must be a text');
      const free = await spend(2, 0n);
      await expect(credits.refund(free, { reason: 'b' })).rejects.toMatchObject({
        code: 'more_than_charged',
      });
    });
  });

  describe('a statement', () => {
    const at = (time: string): void => void (now = Date.parse(time));

    it('has what happened in the month, and adds up', async () => {
      at('2026-02-20T00:00Z');
      await credits.grant('acme', '100', { id: 'feb' });
      await spend(1, 10n);
      at('2026-03-01T00:00Z');
      await credits.grant('acme', '5', {
        id: 'trial',
        expiresAt: Date.parse('2026-03-20T00:00Z'),
        priority: 99,
      });
      await credits.adjust('acme', '-2', { id: 'a1', reason: 'correction, by hand' });
      await spend(2, 20n, 'gpt', 'web');
      const refunded = await spend(3, 3n, 'gpt', 'web');
      await spend(4, 1n, '=cmd', 'web');
      at('2026-03-31T23:59:59.999Z');
      await credits.refund(refunded, { account: 'acme', reason: 'b' });
      at('2026-04-01T00:00Z');
      await spend(5, 30n);
      const march = await credits.statement('acme', '2026-03');
      expect(march).toMatchObject({
        opening: '90.00',
        granted: '5.00',
        adjusted: '-2.00',
        expired: '5.00',
        charged: '24.00',
        refunded: '3.00',
        closing: '67.00',
        charges: [
          { model: '=cmd', key: 'web', requests: 1, charged: '1.00', refunded: '0.00' },
          { model: 'gpt', key: 'web', requests: 2, charged: '23.00', refunded: '3.00' },
        ],
      });
      expect(march?.credits.map(({ type, id }) => `${type} ${id}`)).toEqual([
        'grant trial',
        'adjustment a1',
        'expired_credit trial',
      ]);
      expect(await credits.statement('acme', '2026-04')).toMatchObject({
        opening: '67.00',
        closing: '37.00',
      });
      expect(await credits.balance('acme')).toMatchObject({ balance: '37.00' });
      expect(statementCsv(march!).split('\r\n')).toEqual([
        'type,at,id,model,key,requests,amount,reason',
        'opening,2026-03-01T00:00:00.000Z,,,,,90.00,',
        'grant,2026-03-01T00:00:00.000Z,trial,,,,5.00,',
        'adjustment,2026-03-01T00:00:00.000Z,a1,,,,-2.00,"correction, by hand"',
        'expired_credit,2026-03-31T23:59:59.999Z,trial,,,,-5.00,',
        "charge,,,'=cmd,web,1,-1.00,",
        'charge,,,gpt,web,2,-23.00,',
        'refund,,,gpt,web,,3.00,',
        'closing,2026-04-01T00:00:00.000Z,,,,,67.00,',
        '',
      ]);
    });

    it('counts a request whose lease ran out under the model that it is settled with', async () => {
      await credits.grant('acme', '100', { id: 'g1' });
      const request = { account: 'acme', key: 'label', requestId: requestId(1) };
      const hold = 10_000_000_000n;
      await store.admit({
        ...request,
        want: hold,
        min: hold,
        leaseMs: 1000,
        tokens: 0,
        notAfter: Infinity,
        externalKey: true,
      });
      await store.extend({
        account: 'acme',
        requestId: requestId(1),
        hold,
        leaseMs: 1000,
        checkpoint: hold / 2n,
      });
      now += DAY / 2;
      await store.sweep(10);
      expect(await credits.statement('acme', '2026-03')).toMatchObject({
        charges: [{ model: '', key: 'label', requests: 1, charged: '5.00', refunded: '0.00' }],
        endUsers: [],
      });
      const dimensions = { user: 'ann' };
      await store.settle({ ...request, amount: hold, model: 'm', usage: USAGE, dimensions, force: true });
      const sums = { requests: 1, charged: '10.00', refunded: '0.00' };
      expect(await credits.statement('acme', '2026-03')).toMatchObject({
        charges: [{ model: 'm', key: 'label', ...sums }],
        endUsers: [{ user: 'ann', ...sums }],
      });
    });

    it('has what was refunded of an earlier month, and the rest of a charge of it', async () => {
      at('2026-02-28T12:00Z');
      await credits.grant('acme', '100', { id: 'feb' });
      const refunded = await spend(1, 10n, 'gpt', 'web');
      const hold = 10_000_000_000n;
      const request = { account: 'acme', key: 'late', requestId: requestId(2, now) };
      const admission = { ...request, want: hold, min: hold, leaseMs: 1000, tokens: 0, externalKey: true };
      await store.admit({ ...admission, notAfter: Infinity });
      await store.extend({ ...admission, hold, checkpoint: hold / 2n });
      now += DAY / 4;
      await store.sweep(10);
      at('2026-03-01T00:00Z');
      await credits.refund(refunded, { account: 'acme', reason: 'b' });
      await store.settle({ ...request, amount: hold, model: 'm', usage: USAGE, force: true });
      expect(await credits.statement('acme', '2026-03')).toMatchObject({
        opening: '85.00',
        charged: '5.00',
        refunded: '10.00',
        closing: '90.00',
        charges: [
          { model: 'gpt', key: 'web', requests: 0, charged: '0.00', refunded: '10.00' },
          { model: 'm', key: 'late', requests: 0, charged: '5.00', refunded: '0.00' },
        ],
      });
    });

    it('is refused for a month of which lines were compacted', async () => {
      at('2026-02-20T00:00Z');
      await credits.grant('acme', '100', { id: 'feb' });
      at('2026-03-01T00:00Z');
      await spend(1, 10n);
      await spend(2, 10n);
      await credits.compact('acme', 1);
      expect(await credits.statement('acme', '2026-03')).toMatchObject({
        opening: '100.00',
        closing: '80.00',
      });
      await expect(credits.statement('acme', '2026-02')).rejects.toThrow(
        "the statement of account acme for 2026-02 can't be made: its journal was compacted up to 2026-02-20T00:00:00.000Z",
      );
      await credits.compact('acme', 3);
      await expect(credits.statement('acme', '2026-03')).rejects.toMatchObject({ code: 'journal_compacted' });
      expect(await credits.statement('acme', '2026-04')).toMatchObject({
        opening: '80.00',
        closing: '80.00',
      });
    });

    it('reads the whole account in no store that has the sums of compacted lines by themselves', async () => {
      at('2026-02-20T00:00Z');
      await credits.grant('acme', '100', { id: 'feb' });
      at('2026-03-01T00:00Z');
      await spend(1, 10n);
      await credits.compact('acme', 1);
      const snapshots = vi.spyOn(store, 'snapshot');
      const reliable = createCredits(new ReliableStore({ store, tell: () => {} }), () => now);
      const readBoth = async (): Promise<void> => {
        expect(await reliable.statement('acme', '2026-03')).toMatchObject({ opening: '100.00' });
        const exported = await reliable.exportJournal({ account: 'acme' })[Symbol.asyncIterator]().next();
        expect(JSON.parse(exported.value ?? '')).toMatchObject({ type: 'compacted', granted: '100.00' });
      };
      await readBoth();
      expect(snapshots).not.toHaveBeenCalled();
      Object.assign(store, { compacted: undefined });
      await readBoth();
      expect(snapshots).toHaveBeenCalledTimes(2);
    });

    it('puts no line into an earlier month than the one before it, though the clock was set back', async () => {
      await credits.grant('acme', '100', { id: 'march' });
      at('2026-02-28T00:00Z');
      await credits.adjust('acme', '-1', { id: 'a1', reason: 'r' });
      expect(await credits.statement('acme', '2026-03')).toMatchObject({
        granted: '100.00',
        adjusted: '-1.00',
      });
    });

    it.each(['2026', '2026-13', '2026-3', '2026-03-01'])('is refused for %s', async (month) => {
      await expect(credits.statement('acme', month)).rejects.toThrow('month must be a month, as "2026-11"');
    });

    it('needs an account', async () => {
      expect(await credits.statement('acme', '2026-03')).toBeUndefined();
    });
  });

  describe('an account that is deleted', () => {
    it('leaves its sums, so that the totals of all accounts stay', async () => {
      const accounts = createAccounts(store);
      await credits.grant('acme', '50', { id: 'g1' });
      await spend(1, 20n);
      const deleted = await accounts.delete('acme');
      expect(deleted).toMatchObject({ balance: '30.00', spent: '20.00', granted: '50.00', expired: '0.00' });
      expect(await accounts.delete('acme')).toBeUndefined();
      const found = [];
      for await (const each of accounts.deleted()) found.push(each);
      expect(found).toEqual([deleted]);
    });

    it('has no claim left, whose id a new account of that name would pay with', async () => {
      const accounts = createAccounts(store);
      await credits.grant('acme', '50', { id: 'g1' });
      await store.claim('top-up acme', 60_000);
      await accounts.delete('acme');
      now += 1;
      expect(await store.claim('top-up acme', 60_000)).toBe(NOON + 1);
    });

    it('has no running request', async () => {
      const accounts = createAccounts(store);
      await credits.grant('acme', '50', { id: 'g1' });
      await store.admit({
        account: 'acme',
        key: 'label',
        requestId: requestId(1),
        want: 1n,
        min: 1n,
        leaseMs: 60_000,
        tokens: 0,
        notAfter: Infinity,
        externalKey: true,
      });
      await expect(accounts.delete('acme')).rejects.toMatchObject({
        code: 'requests_running',
        message:
          "account acme can't be deleted: 1 of its requests run. Freeze it, and try again when they have ended",
      });
    });
  });
});
