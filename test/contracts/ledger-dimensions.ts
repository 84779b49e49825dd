import { describe, expect, it } from 'vitest';

import { DAY, HOUR, type LedgerFixture, NOON, requestId, USAGE } from './ledger-fixture.ts';
import type { DimensionRow } from '../../src/ledger/contract/ledger-store.ts';
import { MAX_DIMENSION_VALUES } from '../../src/ledger/contract/usage.ts';

/** Requests are also counted by the values of their dimensions, beside their day, key and model. */
export function describeDimensions(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, usage, state, grant } = ledger;

  const rowsBy = async (dimension: string): Promise<readonly DimensionRow[]> => {
    const rows = await ledger.store.usageBy('acme', dimension, '0000-01-01', '9999-12-31');
    return rows.toSorted((a, b) => (rowId(a) < rowId(b) ? -1 : 1));
  };

  describe('usage by dimension', () => {
    it('has a row for each day and value, beside those by key and model', async () => {
      await settle(1, 1n, { force: true, dimensions: { user: 'ann', 'tag:feature': 'search' } });
      await settle(2, 2n, { force: true, dimensions: { user: 'bob', 'tag:feature': 'search' } });
      await settle(3, 3n, { force: true, dimensions: { user: 'ann' }, model: 'another/model' });
      await settle(4, 4n, { force: true });
      await settle(6, 6n, { force: true, dimensions: { provider: 'openai' } });
      const next = requestId(5, NOON + DAY);
      await settle(5, 5n, { force: true, requestId: next, dimensions: { user: 'ann' } });

      const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = USAGE;
      expect(await rowsBy('user')).toEqual([
        {
          day: '2026-03-04',
          dimension: 'user',
          value: 'ann',
          requests: 2,
          errors: 0,
          aborted: 0,
          promptTokens: 2 * promptTokens,
          cachedTokens: 2 * cachedTokens,
          completionTokens: 2 * completionTokens,
          reasoningTokens: 2 * reasoningTokens,
          charged: 4n,
          cost: 14n,
        },
        expect.objectContaining({ day: '2026-03-04', value: 'bob', requests: 1, charged: 2n }),
        expect.objectContaining({ day: '2026-03-05', value: 'ann', requests: 1, charged: 5n }),
      ]);
      expect(await rowsBy('tag:feature')).toMatchObject([{ value: 'search', requests: 2, charged: 3n }]);
      expect(await rowsBy('provider')).toMatchObject([{ value: 'openai', requests: 1, charged: 6n }]);
      expect(await rowsBy('tag:team')).toEqual([]);
      expect((await usage()).map(({ charged }) => charged)).toEqual([3n, 13n, 5n]);
      expect((await state()).dimensionUsage).toHaveLength(5);
    });

    it('keeps values as they are, in rows and journal', async () => {
      const values = ['a b', '100%', '=', ' ', 'é/漢 \u{1f600}', 'a\nb', ':user', '-', '%20'];
      for (const [n, user] of values.entries()) await settle(n, 1n, { force: true, dimensions: { user } });
      expect((await rowsBy('user')).map(({ value }) => value).toSorted()).toEqual(values.toSorted());
      expect((await state()).dimensionUsage.map(({ value }) => value).toSorted()).toEqual(values.toSorted());
      const lines = (await ledger.lines()).filter(({ type }) => type === 'o');
      expect(lines.map(({ dimensions }) => dimensions)).toEqual(values.map((user) => ({ user })));
    });

    it('says nothing of dimensions in the journal where there are none', async () => {
      await settle(1, 1n, { force: true });
      expect((await ledger.lines()).at(-1)).not.toHaveProperty('dimensions');
      expect((await state()).dimensionUsage).toEqual([]);
    });

    it('counts a request once, whatever is repeated', async () => {
      const dimensions = { user: 'ann' };
      await admit(1, 30n);
      await settle(1, 12n, { dimensions });
      await settle(1, 12n, { dimensions });
      await voidRequest(1, { dimensions });
      expect(await rowsBy('user')).toMatchObject([{ value: 'ann', requests: 1, charged: 12n }]);
    });

    it('counts what was voided as a request that cost nothing, also if its hold was lost', async () => {
      const dimensions = { 'tag:feature': 'search' };
      const failed = { key: 'k1', model: 'some/model', ending: 'timeout', dimensions } as const;
      await admit(1, 30n);
      await voidRequest(1, failed);
      await voidRequest(2, failed);
      await voidRequest(3, { dimensions });
      expect(await rowsBy('tag:feature')).toMatchObject([{ requests: 2, errors: 2, charged: 0n }]);
    });

    it('counts a request whose lease ended once it is settled, with its whole charge', async () => {
      await admit(1, 30n);
      await extend(1, 30n, { checkpoint: 7n });
      clock.now += HOUR;
      await ledger.store.sweep(100);
      expect(await rowsBy('user')).toEqual([]);
      await settle(1, 12n, { dimensions: { user: 'ann' } });
      expect(await rowsBy('user')).toMatchObject([{ requests: 1, errors: 0, charged: 12n }]);
    });

    it('takes back a refund', async () => {
      const dimensions = { user: 'ann' };
      await admit(1, 30n);
      await settle(1, 12n, { dimensions });
      const of = { charged: 12n, key: 'k1', model: 'some/model', reason: 'bad' };
      await ledger.store.refund({ account: 'acme', requestId: requestId(1), amount: 5n, ...of, dimensions });
      expect(await rowsBy('user')).toMatchObject([{ requests: 1, charged: 7n }]);
      expect((await ledger.lines()).at(-1)).toMatchObject({ type: 'r', reason: 'bad', dimensions });
    });

    it('is reported for the days that are asked for, and deleted with the rows of old days', async () => {
      for (let n = 0; n < 4; n++) {
        const id = requestId(n, NOON + n * DAY);
        await settle(n, 2n, { force: true, requestId: id, dimensions: { user: 'ann' } });
      }
      const some = await ledger.store.usageBy('acme', 'user', '2026-03-05', '2026-03-06');
      expect(some.map(({ day }) => day).toSorted()).toEqual(['2026-03-05', '2026-03-06']);
      await ledger.store.compactUsage('acme', '2026-03-06');
      expect((await rowsBy('user')).map(({ day }) => day)).toEqual(['2026-03-06', '2026-03-07']);
      expect(await state()).toMatchObject({ spent: 8n, usageCompacted: 4n });
      expect(await ledger.store.usageBy('nobody', 'user', '2026-03-01', '2026-03-09')).toEqual([]);
    });

    it('goes with its account', async () => {
      await settle(1, 1n, { force: true, dimensions: { user: 'ann' } });
      await ledger.store.deleteAccount('acme');
      expect(await rowsBy('user')).toEqual([]);
    });

    it(`has ${MAX_DIMENSION_VALUES} values of a dimension a day, and one row for all others`, async () => {
      await grant('more', 10_000n);
      const settleFor = (n: number, user: string, more = {}) =>
        settle(n, 1n, { force: true, dimensions: { user, 'tag:feature': 'search' }, ...more });
      await Promise.all(Array.from({ length: MAX_DIMENSION_VALUES }, (_, n) => settleFor(n, `user ${n}`)));
      expect((await state()).dimensionUsage).toHaveLength(MAX_DIMENSION_VALUES + 1);

      expect(await settleFor(2001, 'user 0')).not.toHaveProperty('sharedDimensions');
      expect(await settleFor(2002, 'late')).toMatchObject({ code: 'ok', sharedDimensions: ['user'] });
      expect(await settleFor(2003, 'later')).toMatchObject({ code: 'ok', sharedDimensions: ['user'] });
      const tomorrow = { requestId: requestId(2004, NOON + DAY) };
      expect(await settleFor(2004, 'late', tomorrow)).not.toHaveProperty('sharedDimensions');

      const rows = (await state()).dimensionUsage;
      expect(rows).toHaveLength(MAX_DIMENSION_VALUES + 4);
      expect(rows.find(({ dimension, value }) => dimension === 'user' && value === '')).toMatchObject({
        requests: 2,
        charged: 2n,
      });
      expect(rows.find(({ value }) => value === 'user 0')).toMatchObject({ requests: 2 });
      expect(rows.filter(({ value }) => value === 'late')).toMatchObject([{ day: '2026-03-05' }]);
    });
  });
}

function rowId({ day, value }: DimensionRow): string {
  return `${day} ${value}`;
}
