import { describe, expect, it } from 'vitest';

import type { RequestLogRow, RequestLogStore } from '../../src/index.ts';
import { type LedgerFixture, NOON, requestId } from './ledger-fixture.ts';

const LAST = 'z'.repeat(19);
const ALL = { from: '0'.repeat(19), before: LAST, limit: 1000 };

/** The log of requests, for stores that have one. */
export function describeRequestLog(ledger: LedgerFixture): void {
  const log = (): RequestLogStore => {
    const { requestLog } = ledger.store;
    if (!requestLog) throw new Error('this store has no log');
    return requestLog;
  };
  const row = (n: number, account = 'acme', text = `"${n} ü"`): RequestLogRow => ({
    id: requestId(n, NOON + n),
    account,
    json: text,
  });
  const ids = (rows: readonly RequestLogRow[]): string[] => rows.map(({ id }) => id);

  describe('a log of requests', () => {
    it('finds a request by its id, and no other', async (test) => {
      test.skip(!ledger.store.requestLog);
      expect(await log().find(row(1).id)).toBeUndefined();
      await log().append([row(2, 'other'), row(1), row(3)]);
      expect(await log().find(row(1).id)).toEqual(row(1));
      expect(await log().find(row(2).id)).toEqual(row(2, 'other'));
      expect(await log().find(row(4).id)).toBeUndefined();
    });

    it('pages from the newest to the oldest, of all or of one account', async (test) => {
      test.skip(!ledger.store.requestLog);
      const rows = Array.from({ length: 25 }, (_, n) => row(n, n % 5 === 0 ? 'other' : 'acme'));
      await log().append(rows.slice(10));
      await log().append(rows.slice(0, 10));
      const newest = rows.toReversed();
      expect(await log().page(ALL)).toEqual(newest);
      expect(await log().page({ ...ALL, limit: 4 })).toEqual(newest.slice(0, 4));
      expect(await log().page({ ...ALL, limit: 4, before: newest[3]?.id ?? '' })).toEqual(newest.slice(4, 8));
      expect(await log().page({ ...ALL, from: row(20).id })).toEqual(newest.slice(0, 5));
      const others = await log().page({ ...ALL, account: 'other', limit: 2 });
      expect(ids(others)).toEqual([row(20).id, row(15).id]);
      expect(
        await log().page({ ...ALL, account: 'other', from: row(5).id, before: row(15).id }),
      ).toHaveLength(2);
      expect(await log().page({ ...ALL, account: 'nobody' })).toEqual([]);
    });

    it('keeps the latest row of an id', async (test) => {
      test.skip(!ledger.store.requestLog);
      await log().append([row(1), row(2)]);
      await log().append([{ ...row(1, 'acme', '"later"'), replaces: true }]);
      await log().append([row(2)]);
      const found = await log().page(ALL);
      expect(found.map(({ json }) => json)).toEqual([row(2).json, '"later"']);
      expect((await log().find(row(1).id))?.json).toBe('"later"');
    });

    it('keeps the latest of two rows of an id that are added together', async (test) => {
      test.skip(!ledger.store.requestLog);
      const later = { ...row(1, 'acme', '"a later"'), replaces: true };
      await log().append([row(1, 'acme', '"b earlier"'), row(2), later]);
      const found = await log().page({ ...ALL, account: 'acme' });
      expect(found.map(({ json }) => json)).toEqual([row(2).json, '"a later"']);
      expect((await log().find(row(1).id))?.json).toBe('"a later"');
    });

    it('is trimmed by age', async (test) => {
      test.skip(!ledger.store.requestLog);
      await log().append([row(1), row(2, 'other'), row(3), row(4)]);
      expect(await log().trim(row(3).id, 100)).toBe(2);
      expect(ids(await log().page(ALL))).toEqual([row(4).id, row(3).id]);
      expect(await log().page({ ...ALL, account: 'other' })).toEqual([]);
      expect(await log().find(row(1).id)).toBeUndefined();
      expect(await log().trim(row(3).id, 100)).toBe(0);
    });

    it('is trimmed to a number of rows, step by step', async (test) => {
      test.skip(!ledger.store.requestLog);
      for (let n = 0; n < 1500; n += 500)
        await log().append(Array.from({ length: 500 }, (_, at) => row(n + at)));
      expect(await log().trim(row(10).id, 200)).toBe(1000);
      expect(await log().trim(row(10).id, 200)).toBe(300);
      expect(await log().trim(row(10).id, 200)).toBe(0);
      const left = await log().page(ALL);
      expect([left.length, left.at(-1)?.id]).toEqual([200, row(1300).id]);
    });

    it('is trimmed by age also while it has too many rows', async (test) => {
      test.skip(!ledger.store.requestLog);
      await log().append(Array.from({ length: 10 }, (_, n) => row(n)));
      expect(await log().trim(row(5).id, 8)).toBe(5);
      expect((await log().page(ALL)).at(-1)?.id).toBe(row(5).id);
      expect(await log().trim(row(6).id, 3)).toBe(2);
      expect((await log().page(ALL)).at(-1)?.id).toBe(row(7).id);
    });

    it('is trimmed to a large number of rows', async (test) => {
      test.skip(!ledger.store.requestLog);
      for (let n = 0; n < 2500; n += 500)
        await log().append(Array.from({ length: 500 }, (_, at) => row(n + at)));
      for (const [max, trimmed] of [
        [2500, 0],
        [2300, 200],
        [2000, 300],
        [1001, 999],
        [1000, 1],
        [1000, 0],
      ] as const) {
        expect(await log().trim(row(0).id, max)).toBe(trimmed);
      }
      expect((await log().page(ALL)).at(-1)?.id).toBe(row(1500).id);
    });

    it('forgets an account', async (test) => {
      test.skip(!ledger.store.requestLog);
      await log().append([...Array.from({ length: 1200 }, (_, n) => row(n)), row(2000, 'other')]);
      await log().forget('acme');
      expect(await log().page(ALL)).toEqual([row(2000, 'other')]);
      expect(await log().page({ ...ALL, account: 'acme' })).toEqual([]);
      await log().forget('acme');
    });

    it('forgets what an account has before an id, and nothing newer', async (test) => {
      test.skip(!ledger.store.requestLog);
      await log().append([row(1), row(2), row(3)]);
      await log().append([row(4, 'other')]);
      await log().forget('acme', row(3).id);
      expect(ids(await log().page({ ...ALL, account: 'acme' }))).toEqual([row(3).id]);
      expect(ids(await log().page(ALL))).toContain(row(4).id);
    });
  });
}
