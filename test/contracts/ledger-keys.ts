import { describe, expect, it } from 'vitest';
import type { KeyLimits } from '../../src/ledger/contract/key-records.ts';
import { DAY, hashOf, HOUR, MINUTE, NOON, requestId, USAGE, type LedgerFixture } from './ledger-fixture.ts';

/** API keys and their limits in every ledger store. Part of the suite in ledger-store.ts. */
export function describeKeys(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, createKey, state, keyState } = ledger;

  describe('keys', () => {
    it('refuses a key that is not recorded', async () => {
      expect(await admit(1, 1n, { key: 'k9' })).toMatchObject({ code: 'no_key' });
    });

    it('refuses a key of another account', async () => {
      await ledger.store.createKey({ account: 'zeta', key: 'k9', hash: hashOf('k9'), name: '' });
      expect(await admit(1, 1n, { key: 'k9' })).toMatchObject({ code: 'no_key' });
    });

    it('makes no account that must exist', async () => {
      const key = { account: 'zeta', key: 'k9', hash: hashOf('k9'), name: '' };
      expect(await ledger.store.createKey({ ...key, mustExist: true })).toMatchObject({ code: 'no_account' });
      expect(await ledger.store.snapshot('zeta')).toBeUndefined();
      expect(await ledger.store.findKey(key.hash)).toBeUndefined();
      expect(await ledger.store.createKey({ ...key, recreate: true })).toMatchObject({ code: 'ok' });
      expect(await ledger.store.createKey({ ...key, mustExist: true })).toMatchObject({ code: 'ok' });
    });

    it('refuses a revoked key at once', async () => {
      expect(await ledger.store.revokeKey('acme', 'k1')).toBe(true);
      expect(await admit(1, 1n)).toMatchObject({ code: 'revoked' });
    });

    it('says whether there was a key to revoke', async () => {
      expect(await ledger.store.revokeKey('acme', 'k9')).toBe(false);
      expect(await ledger.store.revokeKey('nobody', 'k1')).toBe(false);
    });

    it('keeps the time of the first revocation', async () => {
      await ledger.store.revokeKey('acme', 'k1');
      clock.now += MINUTE;
      expect(await ledger.store.revokeKey('acme', 'k1')).toBe(true);
      expect(await ledger.store.findKey(hashOf('k1'))).toMatchObject({ state: 'revoked', revokedAt: NOON });
    });

    it('makes an external key on first use, as a counter', async () => {
      await admit(1, 30n, { key: 'label', externalKey: true });
      expect(await keyState('label')).toMatchObject({ held: 30n, running: 1, state: 'active', limits: {} });
    });

    it('makes no external key for a refused request', async () => {
      await admit(1, 101n, { key: 'label', externalKey: true });
      expect((await state()).keys).toHaveLength(1);
    });

    it('does not take the label of an external key for a key', async () => {
      await admit(1, 1n, { key: 'label', externalKey: true });
      expect(await admit(2, 1n, { key: 'label' })).toMatchObject({ code: 'no_key' });
      expect(await ledger.store.revokeKey('acme', 'label')).toBe(false);
      expect(await ledger.store.keys('acme')).toHaveLength(1);
    });

    it('makes a key of the label that a hold has brought which was taken again, with what it holds', async () => {
      await admit(1, 30n, { key: 'k2', restore: true });
      await admit(2, 20n, { key: 'k2', restore: true });
      await settle(2, 20n);
      clock.now += MINUTE;
      await createKey('k2', { budgets: [{ amount: 60n, per: 'lifetime' }], concurrentRequests: 2 });
      expect(await keyState('k2')).toMatchObject({ held: 30n, running: 1, spent: 20n, createdAt: NOON });
      expect(await admit(3, 11n, { key: 'k2' })).toMatchObject({ code: 'budget', left: 10n });
      expect(await admit(3, 10n, { key: 'k2' })).toMatchObject({ code: 'ok' });
      await settle(1, 5n);
      expect(await keyState('k2')).toMatchObject({ held: 10n, running: 1, spent: 25n });
      expect(await ledger.store.findKey(hashOf('k2'))).toMatchObject({ key: 'k2', state: 'active' });
    });

    it('lets a host admit a key that is revoked here', async () => {
      await ledger.store.revokeKey('acme', 'k1');
      expect(await admit(1, 1n, { externalKey: true })).toMatchObject({ code: 'ok' });
    });

    it('finds a key by its hash', async () => {
      const limits: KeyLimits = { requestsPerMinute: 10 };
      await createKey('k2', limits);
      expect(await ledger.store.findKey(hashOf('k2'))).toEqual({
        account: 'acme',
        key: 'k2',
        name: 'name of k2',
        state: 'active',
        createdAt: NOON,
        limits,
        version: 1,
      });
    });

    it('finds nothing by an unknown hash', async () => {
      expect(await ledger.store.findKey(hashOf('k9'))).toBeUndefined();
    });

    it('lists the keys of an account, revoked ones too', async () => {
      await createKey('k2');
      await ledger.store.revokeKey('acme', 'k2');
      const listed = (await ledger.store.keys('acme')).map(({ key, state: its }) => `${key} ${its}`);
      expect(listed.toSorted()).toEqual(['k1 active', 'k2 revoked']);
      expect(await ledger.store.keys('nobody')).toEqual([]);
    });

    it('makes the account with its first key', async () => {
      await ledger.store.createKey({ account: 'zeta', key: 'k9', hash: hashOf('k9'), name: '' });
      expect(await ledger.store.balance('zeta')).toMatchObject({ available: 0n, granted: 0n });
    });

    it('creates the same key once', async () => {
      expect(await createKey('k1')).toMatchObject({ code: 'ok' });
      expect(await ledger.store.keys('acme')).toHaveLength(1);
    });

    it('refuses an id that another key has', async () => {
      const result = await ledger.store.createKey({
        account: 'acme',
        key: 'k1',
        hash: hashOf('k2'),
        name: 'name of k1',
      });
      expect(result).toMatchObject({ code: 'conflict' });
      expect(await ledger.store.findKey(hashOf('k2'))).toBeUndefined();
    });

    it('refuses the same key with other limits', async () => {
      expect(await createKey('k1', { tokensPerMinute: 10 })).toMatchObject({ code: 'conflict' });
    });

    it('refuses a hash that another account has, and makes no account', async () => {
      const result = await ledger.store.createKey({
        account: 'zeta',
        key: 'k1',
        hash: hashOf('k1'),
        name: 'name of k1',
      });
      expect(result).toMatchObject({ code: 'conflict', seq: 0n });
      expect(await ledger.store.snapshot('zeta')).toBeUndefined();
    });
  });

  describe('limits of a key', () => {
    it('refuses more requests at once than the limit', async () => {
      await createKey('k2', { concurrentRequests: 2 });
      await admit(1, 1n, { key: 'k2' });
      await admit(2, 1n, { key: 'k2' });
      expect(await admit(3, 1n, { key: 'k2' })).toMatchObject({ code: 'concurrency' });
    });

    it.each<[string, (n: number) => Promise<unknown>]>([
      ['settled', (n) => settle(n, 1n)],
      ['voided', voidRequest],
    ])('makes room for the next when a request is %s', async (_, finish) => {
      await createKey('k2', { concurrentRequests: 1 });
      await admit(1, 1n, { key: 'k2' });
      await finish(1);
      expect(await admit(2, 1n, { key: 'k2' })).toMatchObject({ code: 'ok' });
    });

    it('makes room for the next when a lease runs out', async () => {
      await createKey('k2', { concurrentRequests: 1 });
      await admit(1, 1n, { key: 'k2' });
      clock.now += 2 * MINUTE;
      expect(await admit(2, 1n, { key: 'k2' })).toMatchObject({ code: 'ok' });
    });

    it('refuses more requests a minute, and says when the next fits', async () => {
      await createKey('k2', { requestsPerMinute: 2 });
      await admit(1, 1n, { key: 'k2' });
      await admit(2, 1n, { key: 'k2' });
      clock.now += 10_000;
      expect(await admit(3, 1n, { key: 'k2' })).toMatchObject({
        code: 'requests_per_minute',
        retryAfterMs: 20_000,
      });
      clock.now += 19_999;
      expect(await admit(4, 1n, { key: 'k2' })).toMatchObject({
        code: 'requests_per_minute',
        retryAfterMs: 1,
      });
      clock.now += 1;
      expect(await admit(5, 1n, { key: 'k2' })).toMatchObject({ code: 'ok' });
    });

    it('refuses what fits a millisecond later', async () => {
      await createKey('k2', { requestsPerMinute: 1 });
      await createKey('k3', { tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2' });
      await admit(2, 1n, { key: 'k3', tokens: 60 });
      clock.now += 999;
      expect(await admit(3, 1n, { key: 'k3', tokens: 1 })).toMatchObject({
        code: 'tokens_per_minute',
        retryAfterMs: 1,
      });
      clock.now += MINUTE - 1000;
      expect(await admit(4, 1n, { key: 'k2' })).toMatchObject({
        code: 'requests_per_minute',
        retryAfterMs: 1,
      });
      clock.now += 1;
      expect(await admit(3, 1n, { key: 'k3', tokens: 1 })).toMatchObject({ code: 'ok' });
      expect(await admit(4, 1n, { key: 'k2' })).toMatchObject({ code: 'ok' });
    });

    it('saves up no more requests than a minute holds', async () => {
      await createKey('k2', { requestsPerMinute: 1 });
      clock.now += DAY;
      await admit(1, 1n, { key: 'k2', requestId: requestId(1, clock.now) });
      const second = await admit(2, 1n, { key: 'k2', requestId: requestId(2, clock.now) });
      expect(second).toMatchObject({ code: 'requests_per_minute', retryAfterMs: 60_000 });
    });

    it('counts no request that was refused', async () => {
      await createKey('k2', { requestsPerMinute: 1, tokensPerMinute: 10 });
      await admit(1, 101n, { key: 'k2', tokens: 10 });
      expect(await admit(2, 1n, { key: 'k2', tokens: 10 })).toMatchObject({ code: 'ok' });
    });

    it('refuses more tokens a minute, and says when the request fits', async () => {
      await createKey('k2', { tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2', tokens: 50 });
      expect(await admit(2, 1n, { key: 'k2', tokens: 15 })).toMatchObject({
        code: 'tokens_per_minute',
        retryAfterMs: 5_000,
      });
      expect(await admit(2, 1n, { key: 'k2', tokens: 10 })).toMatchObject({ code: 'ok' });
    });

    it('admits a request larger than the whole limit when the bucket is full', async () => {
      await createKey('k2', { tokensPerMinute: 60 });
      expect(await admit(1, 1n, { key: 'k2', tokens: 90 })).toMatchObject({ code: 'ok' });
      expect(await admit(2, 1n, { key: 'k2', tokens: 1 })).toMatchObject({
        code: 'tokens_per_minute',
        retryAfterMs: 31_000,
      });
    });

    it('gives back the tokens that a request did not use', async () => {
      await createKey('k2', { tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2', tokens: 60 });
      await settle(1, 1n, { usage: { ...USAGE, promptTokens: 15, completionTokens: 5 } });
      expect(await admit(2, 1n, { key: 'k2', tokens: 41 })).toMatchObject({ code: 'tokens_per_minute' });
      expect(await admit(3, 1n, { key: 'k2', tokens: 40 })).toMatchObject({ code: 'ok' });
    });

    it('takes the tokens that a request used beyond its estimate', async () => {
      await createKey('k2', { tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2', tokens: 10 });
      await settle(1, 1n, { usage: { ...USAGE, promptTokens: 60, completionTokens: 30 } });
      expect((await keyState('k2')).tokenBucket).toEqual({ level: -30 * 60_000, at: NOON });
    });

    it('gives back all tokens of a voided request', async () => {
      await createKey('k2', { tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2', tokens: 60 });
      await voidRequest(1);
      expect(await admit(2, 1n, { key: 'k2', tokens: 60 })).toMatchObject({ code: 'ok' });
    });

    it('is never in debt for more than an hour, whatever a provider counts', async () => {
      await createKey('k2', { tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2', tokens: 1 });
      await settle(1, 1n, { usage: { ...USAGE, promptTokens: Number.MAX_SAFE_INTEGER } });
      expect(await keyState('k2')).toMatchObject({ tokenBucket: { level: -60 * 60 * MINUTE } });
      clock.now += 61 * MINUTE;
      expect(await admit(2, 1n, { key: 'k2', tokens: 60 })).toMatchObject({ code: 'ok' });
    });

    it('fills no bucket when the clock steps back and forth by a minute', async () => {
      await createKey('k2', { requestsPerMinute: 2 });
      await admit(1, 1n, { key: 'k2' });
      clock.now -= MINUTE;
      await admit(2, 1n, { key: 'k2', requestId: requestId(2, clock.now) });
      clock.now += MINUTE;
      expect(await admit(3, 1n, { key: 'k2' })).toMatchObject({
        code: 'requests_per_minute',
        retryAfterMs: 30_000,
      });
    });

    it('fills a bucket when the clock was set back, in place of refusing until it has caught up', async () => {
      await createKey('k2', { requestsPerMinute: 2, tokensPerMinute: 90 });
      await admit(1, 1n, { key: 'k2', tokens: 90 });
      await admit(2, 1n, { key: 'k2', tokens: 0 });
      clock.now -= MINUTE + 1;
      const back = { key: 'k2', tokens: 60, requestId: requestId(3, clock.now) };
      expect(await admit(3, 1n, back)).toMatchObject({
        code: 'ok',
        rates: { requests: { remaining: 1 }, tokens: { remaining: 30, resetMs: 40_000 } },
      });
      expect(await keyState('k2')).toMatchObject({
        requestBucket: { at: clock.now },
        tokenBucket: { at: clock.now },
      });
    });

    it('refuses what the budget can not cover, and says what it has left', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      await admit(1, 5n, { key: 'k2' });
      await settle(1, 4n);
      await admit(2, 6n, { key: 'k2' });
      expect(await admit(3, 21n, { key: 'k2' })).toMatchObject({ code: 'budget', left: 20n });
      expect(await admit(4, 20n, { key: 'k2' })).toMatchObject({ code: 'ok' });
    });

    it('holds what the budget has left, if that is at least the minimum', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      expect(await admit(1, 50n, { key: 'k2', min: 30n })).toMatchObject({ code: 'ok', hold: 30n });
    });

    it('holds the last nano-dollar of the budget', async () => {
      await createKey('k2', { budgets: [{ amount: 31n, per: 'day' }] });
      await admit(1, 30n, { key: 'k2' });
      expect(await admit(2, 5n, { key: 'k2', min: 0n })).toMatchObject({ code: 'ok', hold: 1n });
    });

    it('refuses a request that may cost something when nothing is left, even with a minimum of 0', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      await admit(1, 30n, { key: 'k2' });
      expect(await admit(2, 1n, { key: 'k2', min: 0n })).toMatchObject({ code: 'budget', left: 0n });
    });

    it('says 0, not less, of a budget that was overrun', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      await admit(1, 30n, { key: 'k2' });
      await settle(1, 40n);
      expect(await admit(2, 1n, { key: 'k2' })).toMatchObject({ code: 'budget', left: 0n });
    });

    it('admits a free request when the budget is overrun', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      await admit(1, 30n, { key: 'k2' });
      await settle(1, 40n);
      expect(await admit(2, 0n, { key: 'k2' })).toMatchObject({ code: 'ok', hold: 0n });
    });

    it.each<['hour' | 'day' | 'week' | 'month', string, string]>([
      ['hour', '2026-03-04T12:59:59.999Z', '2026-03-04T13:00Z'],
      ['day', '2026-03-04T23:59:59.999Z', '2026-03-05T00:00Z'],
      ['week', '2026-03-08T23:59:59.999Z', '2026-03-09T00:00Z'],
      ['month', '2026-03-31T23:59:59.999Z', '2026-04-01T00:00Z'],
    ])('begins the budget of a %s anew, UTC', async (per, last, first) => {
      await createKey('k2', { budgets: [{ amount: 30n, per }] });
      clock.now = Date.parse(last);
      await admit(1, 30n, { key: 'k2', requestId: requestId(1, clock.now) });
      await settle(1, 30n, { requestId: requestId(1, clock.now) });
      const late = await admit(2, 1n, { key: 'k2', requestId: requestId(2, clock.now) });
      clock.now = Date.parse(first);
      const next = await admit(3, 30n, { key: 'k2', requestId: requestId(3, clock.now) });
      expect([late.code, next.code]).toEqual(['budget', 'ok']);
      expect(await keyState('k2')).toMatchObject({
        countedAt: Date.parse(first),
        spentIn: { [per]: 0n },
        spent: 30n,
      });
    });

    it('begins weeks on Mondays and months on their first, in any year', async () => {
      const wrong: string[] = [];
      for (const [n, date] of DATES.entries()) {
        const account = `of-date-${n}`;
        const day = new Date(date);
        const starts = {
          week: day.setUTCHours(0, 0, 0, 0),
          month: Date.UTC(day.getUTCFullYear(), day.getUTCMonth()),
        };
        while (day.getUTCDay() !== 1) starts.week = day.setUTCDate(day.getUTCDate() - 1);
        clock.now = Math.min(starts.week, starts.month) - 1;
        await ledger.store.grant({ account, id: 'g', amount: 9n });
        const spend = async (m: number, at: number): Promise<void> => {
          clock.now = at;
          const request = { account, requestId: requestId(m, at), key: 'label', externalKey: true };
          await admit(m, 1n, request);
          await settle(m, 1n, request);
        };
        const [first, second] = [starts.week, starts.month].toSorted((a, b) => a - b) as [number, number];
        await spend(1, first - 1);
        await spend(2, first);
        if (second > first) await spend(3, second - 1);
        await spend(4, second);
        await spend(5, date);
        const key = (await ledger.store.snapshot(account))?.keys[0];
        const since = (start: number): bigint =>
          [first - 1, first, ...(second > first ? [second - 1] : []), second, date].reduce(
            (count, at) => (at >= start ? count + 1n : count),
            0n,
          );
        const expected = { week: since(starts.week), month: since(starts.month) };
        const { week, month } = key?.spentIn ?? {};
        if (week !== expected.week || month !== expected.month) {
          wrong.push(
            `${new Date(date).toISOString()}: ${week} and ${month}, not ${expected.week} and ${expected.month}`,
          );
        }
      }
      expect(wrong).toEqual([]);
    });

    it('does not go back to an earlier window when the clock steps back by a minute', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'hour' }] });
      await admit(1, 20n, { key: 'k2' });
      await settle(1, 20n);
      clock.now -= MINUTE;
      const earlier = { key: 'k2', requestId: requestId(2, clock.now) };
      expect(await admit(2, 11n, earlier)).toMatchObject({ code: 'budget', left: 10n });
      expect(await admit(2, 10n, earlier)).toMatchObject({ code: 'ok' });
      expect(await keyState('k2')).toMatchObject({ spentIn: { hour: 20n }, countedAt: NOON });
    });

    it('begins the windows that a clock that was set back has left, and keeps the others', async () => {
      await createKey('k2', {
        budgets: [
          { amount: 30n, per: 'hour' },
          { amount: 60n, per: 'day' },
        ],
      });
      await admit(1, 30n, { key: 'k2' });
      await settle(1, 30n);
      clock.now -= 6 * HOUR;
      const earlier = { key: 'k2', requestId: requestId(2, clock.now) };
      expect(await admit(2, 30n, earlier)).toMatchObject({ code: 'ok' });
      await settle(2, 20n, earlier);
      const third = { key: 'k2', requestId: requestId(3, clock.now) };
      expect(await admit(3, 11n, { ...third, min: 11n })).toMatchObject({ code: 'budget', left: 10n });
      expect(await keyState('k2')).toMatchObject({ spentIn: { hour: 20n, day: 50n }, countedAt: clock.now });
    });

    it('counts in no window what was admitted before the clock was set back, and ends later', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'hour' }] });
      await admit(1, 10n, { key: 'k2' });
      clock.now -= HOUR;
      await admit(2, 20n, { key: 'k2', requestId: requestId(2, clock.now) });
      await settle(1, 10n);
      expect(await keyState('k2')).toMatchObject({ spent: 10n, spentIn: { hour: 0n, day: 10n } });
    });

    it('counts a charge in the window in which its request was admitted', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'day' }] });
      await admit(1, 10n, { key: 'k2', leaseMs: 2 * DAY });
      clock.now += DAY;
      await admit(2, 10n, { key: 'k2', requestId: requestId(2, clock.now) });
      await settle(1, 10n);
      expect(await keyState('k2')).toMatchObject({ spent: 10n, spentIn: { day: 0n, week: 10n }, held: 10n });
    });

    it('counts a charge that was never admitted in the window in which it is posted', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'day' }] });
      await admit(1, 10n, { key: 'k2' });
      await settle(1, 10n);
      clock.now += DAY;
      await settle(2, 12n, { key: 'k2', force: true });
      expect(await keyState('k2')).toMatchObject({ spent: 22n, spentIn: { day: 12n, week: 22n } });
    });

    it('lets a hold grow by the budget of a new window', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'day' }] });
      await admit(1, 10n, { key: 'k2', leaseMs: 2 * DAY });
      await admit(2, 20n, { key: 'k2' });
      await settle(2, 20n);
      clock.now += DAY;
      expect(await extend(1, 31n)).toMatchObject({ code: 'no_funds', hold: 10n });
      expect(await keyState('k2')).toMatchObject({ spentIn: { day: 20n } });
      expect(await extend(1, 30n)).toMatchObject({ code: 'ok', hold: 30n });
      expect(await keyState('k2')).toMatchObject({ spentIn: { day: 0n, week: 20n } });
    });

    it('counts what runs from the window before until it ends', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'day' }] });
      await admit(1, 10n, { key: 'k2', leaseMs: 2 * DAY });
      clock.now += DAY;
      const result = await admit(2, 21n, { key: 'k2', requestId: requestId(2, clock.now) });
      expect(result).toMatchObject({ code: 'budget', left: 20n });
    });

    it('keeps the budget spent when a later request is voided', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      await admit(1, 20n, { key: 'k2' });
      await settle(1, 20n);
      await admit(2, 10n, { key: 'k2' });
      await voidRequest(2);
      expect(await admit(3, 11n, { key: 'k2' })).toMatchObject({ code: 'budget', left: 10n });
    });
  });
}

/** Around the ends of months, leap years, centuries, and the 400-year cycle of the calendar. */
const DATES: readonly number[] = [
  1972, 1999, 2000, 2001, 2004, 2023, 2024, 2099, 2100, 2104, 2399, 2400, 2401,
].flatMap((year) => [
  Date.UTC(year, 0, 1),
  Date.UTC(year, 1, 28, 23, 59),
  Date.UTC(year, 1, 29),
  Date.UTC(year, 2, 1),
  Date.UTC(year, 6, 1),
  Date.UTC(year, 7, 31, 12),
  Date.UTC(year, 11, 31, 23, 59),
]);
