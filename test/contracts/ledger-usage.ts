import { describe, expect, it } from 'vitest';

import { DAY, HOUR, type LedgerFixture, MINUTE, NOON, requestId, USAGE } from './ledger-fixture.ts';

/** Requests are counted by day, key and model: each once, by its ending. */
export function describeUsage(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, usage, state, createKey } = ledger;
  const model = 'some/model';

  describe('usage', () => {
    it('counts what a request has used when it is settled', async () => {
      await admit(1, 30n);
      expect(await usage()).toEqual([]);
      await settle(1, 12n);
      expect(await usage()).toEqual([
        {
          day: '2026-03-04',
          key: 'k1',
          model,
          requests: 1,
          errors: 0,
          aborted: 0,
          promptTokens: 9,
          cachedTokens: 2,
          completionTokens: 12,
          reasoningTokens: 3,
          charged: 12n,
          cost: 7n,
        },
      ]);
    });

    it('has a row for each day, key and model', async () => {
      await createKey('k2');
      await settle(1, 1n, { force: true });
      await settle(2, 2n, { force: true });
      await settle(3, 3n, { force: true, model: 'another/model' });
      await settle(4, 4n, { force: true, key: 'k2' });
      await settle(5, 5n, { force: true, requestId: requestId(5, NOON + DAY) });
      expect(await usage()).toMatchObject([
        { day: '2026-03-04', key: 'k1', model: 'another/model', requests: 1, charged: 3n },
        { day: '2026-03-04', key: 'k1', model, requests: 2, charged: 3n, promptTokens: 18 },
        { day: '2026-03-04', key: 'k2', model, requests: 1, charged: 4n },
        { day: '2026-03-05', key: 'k1', model, requests: 1, charged: 5n },
      ]);
    });

    it('is read of one key, on the days that are asked for', async () => {
      const onDay = (n: number, key: string, day: number, more: { model?: string } = {}) =>
        settle(n, BigInt(n), { force: true, key, requestId: requestId(n, NOON + day * DAY), ...more });
      for (const key of ['k2', 'k', 'k10']) await createKey(key);
      await onDay(1, 'k2', 0);
      await onDay(2, 'k', 0, { model: 'k2 ' });
      await onDay(3, 'k10', 1);
      await onDay(4, 'k2', 2, { model: '' });
      await onDay(5, 'k2', 2, { model: 'k2' });
      await onDay(6, 'k2', 9);
      await onDay(7, 'k1', 2, { model: 'k2' });
      await settle(8, 8n, { force: true, key: 'k', dimensions: { user: 'k2', 'tag:k2': 'k2' } });
      const charged = async (from: string, to: string, key: string): Promise<bigint[]> => {
        const rows = await ledger.store.usage('acme', from, to, key);
        return rows.map((row) => row.charged).toSorted((a, b) => (a < b ? -1 : 1));
      };
      expect(await charged('0000-01-01', '9999-12-31', 'k2')).toEqual([1n, 4n, 5n, 6n]);
      expect(await charged('2026-03-05', '2026-03-13', 'k2')).toEqual([4n, 5n, 6n]);
      expect(await charged('2026-03-04', '2026-03-12', 'k2')).toEqual([1n, 4n, 5n]);
      expect(await charged('2026-03-06', '2026-03-06', 'k2')).toEqual([4n, 5n]);
      expect(await charged('2026-03-07', '2026-03-12', 'k2')).toEqual([]);
      expect(await charged('2026-03-04', '2026-03-04', 'k')).toEqual([2n, 8n]);
      expect(await charged('2026-03-04', '2026-03-13', 'k3')).toEqual([]);
    });

    it('is that of the day in which a request was made, whenever it ends', async () => {
      const late = requestId(1, Date.parse('2026-03-04T23:59:59.999Z'));
      clock.now = Date.parse('2026-03-04T23:59:59.999Z');
      await admit(1, 30n, { requestId: late });
      clock.now += MINUTE;
      await settle(1, 12n, { requestId: late });
      expect(await usage()).toMatchObject([{ day: '2026-03-04' }]);
    });

    it('counts a request once, whatever is repeated', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      const before = await usage();
      await settle(1, 12n);
      await settle(1, 99n, { force: true });
      await voidRequest(1, { key: 'k1', model, ending: 'failed' });
      await admit(1, 30n);
      clock.now += HOUR;
      await ledger.store.sweep(100);
      expect(await usage()).toEqual(before);
    });

    it.each([
      ['finished', { errors: 0, aborted: 0 }],
      ['client_gone', { errors: 0, aborted: 1 }],
      ['upstream_cut', { errors: 1, aborted: 0 }],
      ['refused', { errors: 1, aborted: 0 }],
      ['upstream_error', { errors: 1, aborted: 0 }],
      ['timeout', { errors: 1, aborted: 0 }],
      ['closed', { errors: 1, aborted: 0 }],
      ['credits_exhausted', { errors: 1, aborted: 0 }],
      ['failed', { errors: 1, aborted: 0 }],
    ] as const)('counts a charge for a request that ended as %s', async (ending, counts) => {
      await admit(1, 30n);
      await settle(1, 12n, { usage: { ...USAGE, ending } });
      expect(await usage()).toMatchObject([{ requests: 1, charged: 12n, ...counts }]);
    });

    it('counts an answer that says it is an error as one', async () => {
      await admit(1, 30n);
      await settle(1, 12n, { usage: { ...USAGE, finishReason: 'error' } });
      expect(await usage()).toMatchObject([{ requests: 1, errors: 1 }]);
    });

    it('counts a request that was voided, which failed unless its client left', async () => {
      await admit(1, 30n, { model });
      await admit(2, 30n, { model });
      await admit(3, 30n, { model });
      await voidRequest(1, { key: 'k1', model, ending: 'upstream_error' });
      await voidRequest(2, { key: 'k1', model, ending: 'client_gone' });
      await voidRequest(3);
      expect(await usage()).toMatchObject([
        { key: 'k1', model, requests: 3, errors: 2, aborted: 1, charged: 0n, promptTokens: 0 },
      ]);
    });

    it('counts a request that was voided under the model that was asked last', async () => {
      await admit(1, 30n, { model });
      await voidRequest(1, { key: 'k1', model: 'fallback', ending: 'timeout', provider: 'groq' });
      expect(await usage()).toMatchObject([{ model: 'fallback', requests: 1 }]);
      expect(await ledger.store.request('acme', requestId(1))).toMatchObject({
        state: 'voided',
        model: 'fallback',
        ending: 'timeout',
        provider: 'groq',
      });
    });

    it('counts nothing of a request that was never admitted, and that is voided', async () => {
      await voidRequest(1);
      expect(await admit(1, 30n)).toMatchObject({ code: 'done' });
      expect(await usage()).toEqual([]);
    });

    it('counts a void of which is said whose it is, though the hold was lost', async () => {
      expect(await voidRequest(1, { key: 'k1', model, ending: 'timeout' })).toMatchObject({
        code: 'planted',
      });
      await voidRequest(1, { key: 'k1', model, ending: 'timeout' });
      expect(await usage()).toMatchObject([{ key: 'k1', model, requests: 1, errors: 1, aborted: 0 }]);
    });

    it('counts a lease that ended as a request that failed, for what was admitted', async () => {
      await admit(1, 30n, { model });
      await extend(1, 30n, { checkpoint: 7n });
      clock.now += HOUR;
      await ledger.store.sweep(100);
      expect(await usage()).toMatchObject([
        { key: 'k1', model, requests: 1, errors: 1, aborted: 0, charged: 7n, completionTokens: 0 },
      ]);
    });

    it('counts the leases that an admit has ended', async () => {
      for (let n = 1; n <= 3; n++) await admit(n, 10n, { model: `m${n}` });
      clock.now += HOUR;
      await admit(4, 1n);
      expect(await usage()).toMatchObject([
        { model: 'm1', requests: 1, errors: 1 },
        { model: 'm2', requests: 1, errors: 1 },
        { model: 'm3', requests: 1, errors: 1 },
      ]);
    });

    it.each([7n, 12n, 3n])('puts a late charge of %s in place of what the expiry counted', async (amount) => {
      await admit(1, 30n, { model });
      await extend(1, 30n, { checkpoint: 7n });
      clock.now += HOUR;
      await ledger.store.sweep(100);
      await settle(1, amount);
      expect(await usage()).toMatchObject([
        { model, requests: 1, errors: 0, charged: amount, promptTokens: 9, completionTokens: 12, cost: 7n },
      ]);
      expect((await state()).spent).toBe(amount);
    });

    it('moves what an expiry counted to the model that answered', async () => {
      await admit(1, 30n, { model: 'asked' });
      await extend(1, 30n, { checkpoint: 7n });
      clock.now += HOUR;
      await ledger.store.sweep(100);
      await settle(1, 12n, { model: 'answered' });
      const rows = await usage();
      expect(rows.filter(({ requests }) => requests > 0)).toMatchObject([
        { model: 'answered', requests: 1, errors: 0, charged: 12n },
      ]);
      expect(rows.find((row) => row.model === 'asked')).toMatchObject({
        requests: 0,
        errors: 0,
        charged: 0n,
      });
    });

    it('takes back what an expiry charged and a void gives back', async () => {
      await admit(1, 30n, { model });
      await extend(1, 30n, { checkpoint: 7n });
      clock.now += HOUR;
      await ledger.store.sweep(100);
      await voidRequest(1, { key: 'k1', model, ending: 'client_gone' });
      expect(await usage()).toMatchObject([{ requests: 1, errors: 0, aborted: 1, charged: 0n }]);
    });

    it('counts what was charged, not what was written off', async () => {
      await admit(1, 30n);
      await settle(1, 150n);
      expect(await usage()).toMatchObject([{ charged: 100n }]);
    });

    it('keeps the name of a model as it is', async () => {
      for (const [n, name] of ODD.entries()) await settle(n, 1n, { force: true, model: name });
      expect((await usage()).map((row) => row.model).toSorted()).toEqual(ODD.toSorted());
      for (const [n, name] of ODD.entries()) {
        expect(await ledger.store.request('acme', requestId(n))).toMatchObject({ model: name });
      }
    });

    it('is reported for the days that are asked for', async () => {
      for (let n = 0; n < 4; n++) {
        await settle(n, 1n, { force: true, requestId: requestId(n, NOON + n * DAY) });
      }
      const rows = await ledger.store.usage('acme', '2026-03-05', '2026-03-06');
      expect(rows.map(({ day }) => day).toSorted()).toEqual(['2026-03-05', '2026-03-06']);
      expect(await ledger.store.usage('acme', '2026-03-08', '2026-03-04')).toEqual([]);
      expect(await ledger.store.usage('nobody', '2026-03-01', '2026-03-09')).toEqual([]);
    });

    it('keeps what was charged when old days are folded', async () => {
      for (let n = 0; n < 4; n++) {
        await settle(n, 2n, { force: true, requestId: requestId(n, NOON + n * DAY) });
      }
      await ledger.store.compactUsage('acme', '2026-03-06');
      await ledger.store.compactUsage('acme', '2026-03-06');
      await ledger.store.compactUsage('nobody', '2026-03-06');
      expect((await usage()).map(({ day }) => day)).toEqual(['2026-03-06', '2026-03-07']);
      expect(await state()).toMatchObject({ spent: 8n, usageCompacted: 4n });
    });

    it('keeps how a request was answered in the journal, as far as it is known', async () => {
      const answer = {
        provider: 'openai',
        upstreamModel: 'gpt-4o-mini-2024',
        firstByteMs: 412,
        durationMs: 1830,
        finishReason: 'stop',
        streamed: true,
        cacheWriteTokens: 3,
        webSearches: 1,
        byok: true,
        units: 4,
      };
      const none = { streamed: false, cacheWriteTokens: 0, webSearches: 0, byok: false, units: 0 };
      await settle(1, 1n, { force: true, usage: { ...USAGE, ...answer } });
      await settle(2, 1n, { force: true, usage: { ...USAGE, ...answer, ...none } });
      await settle(3, 1n, { force: true });
      const [, first, second, third] = await ledger.lines();
      expect(first?.usage).toEqual({ ...USAGE, ...answer });
      expect(second?.usage).toEqual({ ...USAGE, ...answer, ...none });
      expect(third?.usage).toEqual(USAGE);
    });

    it('is found in the journal by the record of its request', async () => {
      await settle(1, 1n, { force: true });
      await admit(2, 30n);
      await extend(2, 30n, { checkpoint: 7n });
      clock.now += HOUR;
      await ledger.store.sweep(100);
      const lineOf = async (n: number) => (await ledger.store.request('acme', requestId(n)))?.line;
      expect([await lineOf(1), await lineOf(2)]).toEqual([2n, 3n]);
      await settle(2, 9n);
      expect(await lineOf(2)).toBe(4n);
      expect(await ledger.store.journal('acme', 3n, 1)).toMatchObject([{ id: requestId(2), type: 'l' }]);
    });
  });
}

const ODD = ['a b', 'a\tb', '100%', '-', '=', 'é/漢 \u{1f600}', '%20', '1 k1 m'];
