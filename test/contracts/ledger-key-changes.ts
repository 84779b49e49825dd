import { describe, expect, it } from 'vitest';
import type {
  KeyLimits,
  KeyStatus,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../../src/ledger/contract/key-records.ts';
import { DAY, hashOf, HOUR, MINUTE, NOON, requestId, type LedgerFixture } from './ledger-fixture.ts';

/** Changes and states of keys in every ledger store. Part of the suite in ledger-store.ts. */
export function describeKeyChanges(ledger: LedgerFixture): void {
  const { clock, admit, settle, createKey, state, keyState } = ledger;
  const update = (more: Partial<UpdateKey> = {}): Promise<UpdateKeyResult> =>
    ledger.store.updateKey({ account: 'acme', key: 'k1', version: 1, name: 'name of k1', ...more });
  const rotate = (secret: string, more: Partial<RotateKey> = {}): Promise<RotateKeyResult> =>
    ledger.store.rotateKey({
      account: 'acme',
      key: 'k1',
      hash: hashOf(secret),
      version: 1,
      overlapMs: 0,
      ...more,
    });
  const found = async (secret: string): Promise<unknown> => ledger.store.findKey(hashOf(secret));

  describe('a key that expires', () => {
    it('is refused from that moment on', async () => {
      const key = { account: 'acme', key: 'k2', hash: hashOf('k2'), name: '' };
      await ledger.store.createKey({ ...key, expiresAt: NOON + HOUR });
      clock.now = NOON + HOUR - 1;
      expect(await admit(1, 1n, { key: 'k2' })).toMatchObject({ code: 'ok' });
      clock.now += 1;
      expect(await admit(2, 1n, { key: 'k2' })).toMatchObject({ code: 'expired' });
      expect(await ledger.store.createKey({ ...key, expiresAt: NOON + HOUR })).toMatchObject({ code: 'ok' });
      expect(await ledger.store.createKey(key)).toMatchObject({ code: 'conflict' });
    });

    it('is admitted again once its end was moved', async () => {
      await update({ expiresAt: NOON });
      expect(await admit(1, 1n)).toMatchObject({ code: 'expired' });
      await update({ version: 2 });
      expect(await admit(1, 1n)).toMatchObject({ code: 'ok' });
    });

    it('can be admitted with externalKey, and its lost holds restored', async () => {
      await update({ expiresAt: NOON });
      expect(await admit(1, 1n, { externalKey: true })).toMatchObject({ code: 'ok' });
      expect(await admit(2, 1n, { restore: true })).toMatchObject({ code: 'ok' });
    });

    it('is revoked rather than expired, if it is both', async () => {
      await update({ expiresAt: NOON });
      await ledger.store.revokeKey('acme', 'k1');
      expect(await admit(1, 1n)).toMatchObject({ code: 'revoked' });
    });
  });

  describe('the version of a key', () => {
    it('is 1 at first, and raised by each change', async () => {
      expect(await found('k1')).toMatchObject({ version: 1 });
      await update({ name: 'other' });
      await rotate('new', { version: 2 });
      expect(await found('new')).toMatchObject({ version: 3 });
      await ledger.store.revokeKey('acme', 'k1');
      await ledger.store.revokeKey('acme', 'k1');
      expect(await found('new')).toMatchObject({ version: 4 });
    });

    it('goes on from what it was in another store', async () => {
      const key = { account: 'acme', key: 'k2', hash: hashOf('k2'), name: '', version: 5 };
      await ledger.store.createKey(key);
      expect(await ledger.store.createKey(key)).toMatchObject({ code: 'ok' });
      expect(await found('k2')).toMatchObject({ version: 5 });
      await update({ key: 'k2', version: 5 });
      expect(await found('k2')).toMatchObject({ version: 6 });
      const terms = { expiresAt: NOON + HOUR, policy: '{"models":[]}' };
      const other = { ...key, key: 'k3', hash: hashOf('k3'), ...terms };
      for (const _ of ['made', 'repeated']) {
        expect(await ledger.store.createKey(other)).toMatchObject({ code: 'ok' });
      }
      expect(await ledger.store.createKey({ ...other, policy: '{}' })).toMatchObject({ code: 'conflict' });
      expect(await found('k3')).toMatchObject({ version: 5, ...terms });
      const hashes = await ledger.store.keyHashes?.('acme');
      if (hashes) expect(hashes.get('k3')).toEqual({ current: hashOf('k3') });
    });

    it('refuses who was judged by another one, and holds nothing', async () => {
      await update({ name: 'other' });
      expect(await admit(1, 1n, { keyVersion: 1 })).toMatchObject({ code: 'changed' });
      expect(await state()).toMatchObject({ held: 0n, requests: [] });
      expect(await admit(1, 1n, { keyVersion: 2 })).toMatchObject({ code: 'ok' });
    });

    it('does not matter to a repeated call, an external key, or a restored hold', async () => {
      await admit(1, 1n, { keyVersion: 1 });
      await update({ name: 'other' });
      expect(await admit(1, 1n, { keyVersion: 1 })).toMatchObject({ code: 'exists' });
      expect(await admit(2, 1n, { keyVersion: 1, externalKey: true })).toMatchObject({ code: 'ok' });
      expect(await admit(3, 1n, { keyVersion: 1, restore: true })).toMatchObject({ code: 'ok' });
    });

    it('is asked before limits and idempotency keys', async () => {
      await update({ limits: { concurrentRequests: 1 } });
      const idempotencyKey = { key: 'a'.repeat(64), body: 'b'.repeat(64) };
      await admit(1, 1n, { idempotencyKey });
      expect(await admit(2, 1n, { idempotencyKey, keyVersion: 1 })).toMatchObject({ code: 'changed' });
    });
  });

  describe('an update of a key', () => {
    it('replaces all its terms', async () => {
      const terms = {
        name: 'other',
        limits: { requestsPerMinute: 7 },
        expiresAt: NOON + DAY,
        policy: '{"a":"ä"}',
      };
      expect(await update(terms)).toMatchObject({ code: 'ok', version: 2 });
      expect(await found('k1')).toEqual({
        account: 'acme',
        key: 'k1',
        state: 'active',
        createdAt: NOON,
        version: 2,
        ...terms,
      });
      expect(await update({ version: 2, name: '' })).toMatchObject({ code: 'ok', version: 3 });
      expect(await found('k1')).toEqual({
        account: 'acme',
        key: 'k1',
        name: '',
        state: 'active',
        createdAt: NOON,
        limits: {},
        version: 3,
      });
    });

    it('is made once, however often it is sent', async () => {
      await update({ name: 'other', policy: '{}' });
      expect(await update({ name: 'other', policy: '{}' })).toMatchObject({ code: 'ok', version: 2 });
      expect(await found('k1')).toMatchObject({ version: 2 });
    });

    it.each<Partial<UpdateKey>>([
      { name: 'other' },
      { name: 'prod', limits: { concurrentRequests: 1 } },
      { name: 'prod', expiresAt: NOON + 1 },
      { name: 'prod', policy: '{}' },
    ])('is refused after a concurrent change, unless that was the same: %j', async (terms) => {
      await update({ name: 'prod' });
      expect(await update(terms)).toMatchObject({ code: 'changed' });
      expect(await found('k1')).toMatchObject({ name: 'prod', version: 2 });
      expect(await update({ name: 'prod' })).toMatchObject({ code: 'ok', version: 2 });
    });

    it('keeps what the key has spent, holds and runs', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'day' }] });
      await admit(1, 10n, { key: 'k2' });
      await settle(1, 10n);
      await admit(2, 5n, { key: 'k2' });
      await update({ key: 'k2', limits: { budgets: [{ amount: 20n, per: 'month' }] } });
      expect(await keyState('k2')).toMatchObject({ spent: 10n, held: 5n, running: 1 });
      expect(await admit(3, 6n, { key: 'k2' })).toMatchObject({ code: 'budget', left: 5n });
    });

    it('restarts a changed limit per minute with a full bucket, and keeps the other', async () => {
      await createKey('k2', { requestsPerMinute: 1, tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2', tokens: 60 });
      await update({ key: 'k2', limits: { requestsPerMinute: 2, tokensPerMinute: 60 } });
      expect(await keyState('k2')).toMatchObject({
        requestBucket: { level: 2 * MINUTE, at: NOON },
        tokenBucket: { level: 0, at: NOON },
      });
      await update({ key: 'k2', version: 2, limits: { requestsPerMinute: 2, tokensPerMinute: 90 } });
      expect(await keyState('k2')).toMatchObject({ tokenBucket: { level: 90 * MINUTE } });
    });

    it('limits from the next request on, and no more when the limit is taken away', async () => {
      await update({ limits: { requestsPerMinute: 1 } });
      await admit(1, 1n);
      expect(await admit(2, 1n)).toMatchObject({ code: 'requests_per_minute' });
      await update({ version: 2 });
      expect(await admit(2, 1n)).toMatchObject({ code: 'ok' });
      await update({ version: 3, limits: { requestsPerMinute: 1 } });
      expect(await keyState('k1')).toMatchObject({ requestBucket: { level: MINUTE } });
    });

    it('finds no key that is not recorded', async () => {
      await admit(1, 1n, { key: 'label', externalKey: true });
      for (const key of ['k9', 'label']) expect(await update({ key })).toMatchObject({ code: 'no_key' });
      expect(await update({ account: 'nobody' })).toMatchObject({ code: 'no_key', seq: 0n });
    });
  });

  describe('the rotation of a key', () => {
    it('ends the old secret at once without an overlap', async () => {
      expect(await rotate('new')).toMatchObject({ code: 'ok', version: 2 });
      expect(await found('k1')).toBeUndefined();
      expect(await found('new')).toMatchObject({ account: 'acme', key: 'k1', name: 'name of k1' });
    });

    it('lets both secrets work until the overlap ends', async () => {
      await rotate('new', { overlapMs: HOUR });
      clock.now += HOUR - 1;
      expect(await found('k1')).toMatchObject({
        key: 'k1',
        hashUntil: NOON + HOUR,
        overlapUntil: NOON + HOUR,
      });
      expect(await found('new')).not.toHaveProperty('hashUntil');
      clock.now += 1;
      expect(await found('k1')).toBeUndefined();
      expect(await found('new')).toMatchObject({ overlapUntil: NOON + HOUR });
    });

    it('lets both secrets work for an overlap of a millisecond', async () => {
      await rotate('new', { overlapMs: 1 });
      expect(await found('k1')).toMatchObject({ hashUntil: NOON + 1 });
      clock.now += 1;
      expect(await found('k1')).toBeUndefined();
    });

    it('keeps id, terms and counters', async () => {
      await createKey('k2', { requestsPerMinute: 2 });
      await admit(1, 10n, { key: 'k2' });
      const before = await keyState('k2');
      await rotate('new', { key: 'k2' });
      expect(await keyState('k2')).toEqual({ ...before, version: 2 });
    });

    it('is made once, however often it is sent', async () => {
      await rotate('new', { overlapMs: HOUR });
      clock.now += MINUTE;
      expect(await rotate('new', { overlapMs: HOUR })).toMatchObject({ code: 'ok', version: 2 });
      expect(await found('k1')).toMatchObject({ hashUntil: NOON + HOUR });
    });

    it('ends the secret before the last, though that had still to overlap', async () => {
      await rotate('second', { overlapMs: DAY });
      await rotate('third', { version: 2, overlapMs: HOUR });
      expect(await found('k1')).toBeUndefined();
      expect(await found('second')).toMatchObject({ hashUntil: NOON + HOUR });
      expect(await createKey('k1')).toMatchObject({ code: 'conflict' });
      expect(
        (await ledger.store.createKey({ account: 'acme', key: 'k9', hash: hashOf('k1'), name: '' })).code,
      ).toBe('ok');
    });

    it('is refused after a concurrent change of the key', async () => {
      await update({ name: 'other' });
      expect(await rotate('new')).toMatchObject({ code: 'changed' });
      expect(await found('new')).toBeUndefined();
      expect(await found('k1')).toMatchObject({ version: 2 });
    });

    it('does not bring back the secret before', async () => {
      await rotate('new', { overlapMs: HOUR });
      expect(await rotate('k1', { version: 2 })).toMatchObject({ code: 'conflict' });
      clock.now += DAY;
      expect(await rotate('k1', { version: 2 })).toMatchObject({ code: 'conflict' });
    });

    it('allows the hash of an ended secret to be used again', async () => {
      await rotate('new');
      const other = { account: 'zeta', key: 'k3', hash: hashOf('k1'), name: '' };
      expect(await ledger.store.createKey(other)).toMatchObject({ code: 'ok' });
      expect(await found('k1')).toMatchObject({ account: 'zeta' });
    });

    it('takes no hash that another key has', async () => {
      await createKey('k2');
      await ledger.store.createKey({ account: 'zeta', key: 'k3', hash: hashOf('k3'), name: '' });
      for (const secret of ['k2', 'k3']) expect(await rotate(secret)).toMatchObject({ code: 'conflict' });
      expect(await found('k3')).toMatchObject({ account: 'zeta' });
      expect(await found('k1')).toMatchObject({ version: 1 });
    });

    it('keeps others from the hash that it was refused', async () => {
      await update({ name: 'other' });
      await rotate('new');
      const other = { account: 'zeta', key: 'k3', hash: hashOf('new'), name: '' };
      expect(await ledger.store.createKey(other)).toMatchObject({ code: 'ok' });
      expect(await found('new')).toMatchObject({ account: 'zeta' });
    });

    it('is refused of a key that is revoked, or not recorded', async () => {
      await ledger.store.revokeKey('acme', 'k1');
      expect(await rotate('new', { version: 2 })).toMatchObject({ code: 'revoked' });
      await admit(1, 1n, { key: 'label', externalKey: true });
      for (const key of ['k9', 'label'])
        expect(await rotate('new', { key })).toMatchObject({ code: 'no_key' });
      expect(await rotate('new', { account: 'nobody' })).toMatchObject({ code: 'no_key', seq: 0n });
      expect(await found('new')).toBeUndefined();
    });

    it('tells both hashes to who moves the account', async () => {
      await rotate('new', { overlapMs: HOUR });
      const hashes = await ledger.store.keyHashes?.('acme');
      if (!hashes) return;
      const previous = { hash: hashOf('k1'), until: NOON + HOUR };
      expect(hashes.get('k1')).toEqual({ current: hashOf('new'), previous });
    });
  });

  describe('how a key stands', () => {
    const status = async (key: string): Promise<KeyStatus | undefined> => ledger.store.keyState('acme', key);

    it('is returned with its current counters, budget and rates', async () => {
      const limits: KeyLimits = {
        budgets: [{ amount: 30n, per: 'day' }],
        requestsPerMinute: 3,
        tokensPerMinute: 60,
      };
      await createKey('k2', limits);
      await admit(1, 10n, { key: 'k2', tokens: 21 });
      await settle(1, 10n);
      await admit(2, 5n, { key: 'k2', tokens: 9, requestId: requestId(2) });
      clock.now += 10_000;
      expect(await status('k2')).toEqual({
        account: 'acme',
        key: 'k2',
        name: 'name of k2',
        state: 'active',
        createdAt: NOON,
        limits,
        version: 1,
        now: NOON + 10_000,
        held: 5n,
        running: 1,
        spent: 10n,
        budgets: [
          { amount: 30n, per: 'day', spent: 10n, left: 15n, resetsAt: Date.parse('2026-03-05T00:00Z') },
        ],
        rates: {
          requests: { limit: 3, remaining: 1, resetMs: 30_000 },
          tokens: { limit: 60, remaining: 40, resetMs: 20_000 },
        },
      });
    });

    it('has the last nano-dollar of its budget left, and then nothing', async () => {
      await createKey('k2', { budgets: [{ amount: 11n, per: 'lifetime' }] });
      await admit(1, 10n, { key: 'k2' });
      expect(await status('k2')).toMatchObject({ budgets: [{ left: 1n }] });
      await admit(2, 1n, { key: 'k2' });
      expect(await status('k2')).toMatchObject({ budgets: [{ left: 0n }] });
    });

    it('has neither budget nor rates without limits', async () => {
      await admit(1, 10n);
      await settle(1, 10n);
      expect(await status('k1')).toEqual({
        account: 'acme',
        key: 'k1',
        name: 'name of k1',
        state: 'active',
        createdAt: NOON,
        limits: {},
        version: 1,
        now: NOON,
        held: 0n,
        running: 0,
        spent: 10n,
        budgets: [],
      });
    });

    it.each<['hour' | 'day' | 'week' | 'month', string, string]>([
      ['hour', '2026-03-04T13:00Z', '2026-03-04T14:00Z'],
      ['day', '2026-03-05T00:00Z', '2026-03-06T00:00Z'],
      ['week', '2026-03-09T00:00Z', '2026-03-16T00:00Z'],
      ['month', '2026-04-01T00:00Z', '2026-05-01T00:00Z'],
    ])('has the budget of the next %s once that has begun', async (per, end, next) => {
      await createKey('k2', { budgets: [{ amount: 30n, per }] });
      await admit(1, 10n, { key: 'k2' });
      await settle(1, 10n);
      clock.now = Date.parse(end) - 1;
      expect(await status('k2')).toMatchObject({
        spent: 10n,
        budgets: [{ spent: 10n, left: 20n, resetsAt: Date.parse(end) }],
      });
      clock.now += 1;
      expect(await status('k2')).toMatchObject({
        spent: 10n,
        budgets: [{ spent: 0n, left: 30n, resetsAt: Date.parse(next) }],
      });
    });

    it('has nothing left, not less, of a budget that was overrun, and never resets one for a lifetime', async () => {
      await createKey('k2', { budgets: [{ amount: 30n, per: 'lifetime' }] });
      await admit(1, 30n, { key: 'k2' });
      await settle(1, 40n);
      expect((await status('k2'))?.budgets).toEqual([{ amount: 30n, per: 'lifetime', spent: 40n, left: 0n }]);
    });

    it('is returned for recorded keys only', async () => {
      await admit(1, 1n, { key: 'label', externalKey: true });
      for (const key of ['k9', 'label']) expect(await status(key)).toBeUndefined();
      expect(await ledger.store.keyState('nobody', 'k1')).toBeUndefined();
    });
  });

  describe('what an admit says of the limits per minute', () => {
    it('is what is left after it', async () => {
      await createKey('k2', { requestsPerMinute: 6, tokensPerMinute: 60 });
      expect(await admit(1, 1n, { key: 'k2', tokens: 40 })).toMatchObject({
        code: 'ok',
        rates: {
          requests: { limit: 6, remaining: 5, resetMs: 10_000 },
          tokens: { limit: 60, remaining: 20, resetMs: 40_000 },
        },
      });
      clock.now += 1;
      expect(await admit(1, 1n, { key: 'k2', tokens: 40 })).toMatchObject({
        code: 'exists',
        rates: { requests: { remaining: 5, resetMs: 9_999 }, tokens: { remaining: 20 } },
      });
    });

    it('has only the limits that there are', async () => {
      await createKey('k2', { requestsPerMinute: 6 });
      await createKey('k3', { tokensPerMinute: 6 });
      expect((await admit(1, 1n, { key: 'k2' })).rates).toEqual({
        requests: { limit: 6, remaining: 5, resetMs: 10_000 },
      });
      expect((await admit(2, 1n, { key: 'k3' })).rates).toEqual({
        tokens: { limit: 6, remaining: 6, resetMs: 0 },
      });
      expect(await admit(3, 1n)).not.toHaveProperty('rates');
    });

    it('is there where something else refuses, and nothing was taken', async () => {
      const limits: KeyLimits = { requestsPerMinute: 6, tokensPerMinute: 60, concurrentRequests: 1 };
      await createKey('k2', { ...limits, budgets: [{ amount: 500n, per: 'day' }] });
      const rates = { requests: { remaining: 6 }, tokens: { remaining: 60 } };
      expect(await admit(1, 101n, { key: 'k2', tokens: 9 })).toMatchObject({ code: 'no_funds', rates });
      expect(await admit(1, 501n, { key: 'k2', tokens: 9 })).toMatchObject({ code: 'budget', rates });
      await admit(1, 1n, { key: 'k2' });
      const left = { requests: { remaining: 5 } };
      expect(await admit(2, 1n, { key: 'k2' })).toMatchObject({ code: 'concurrency', rates: left });
    });

    it('is there where a limit refuses, with nothing left of one in debt', async () => {
      await createKey('k2', { tokensPerMinute: 60 });
      await admit(1, 1n, { key: 'k2', tokens: 90 });
      expect(await admit(2, 1n, { key: 'k2', tokens: 1 })).toMatchObject({
        code: 'tokens_per_minute',
        rates: { tokens: { limit: 60, remaining: 0, resetMs: 90_000 } },
      });
      await createKey('k3', { requestsPerMinute: 1 });
      await admit(3, 1n, { key: 'k3' });
      expect(await admit(4, 1n, { key: 'k3' })).toMatchObject({
        code: 'requests_per_minute',
        rates: { requests: { limit: 1, remaining: 0, resetMs: 60_000 } },
      });
    });

    it('is there for a request that was admitted before under another id', async () => {
      await createKey('k2', { requestsPerMinute: 6 });
      const [key, body] = ['a'.repeat(64), 'b'.repeat(64)];
      await admit(1, 1n, { key: 'k2', idempotencyKey: { key, body } });
      const rates = { requests: { remaining: 5 } };
      const same = { key: 'k2', idempotencyKey: { key, body } };
      expect(await admit(2, 1n, same)).toMatchObject({ code: 'repeated', state: 'held', rates });
      const other = { key: 'k2', idempotencyKey: { key, body: key } };
      expect(await admit(2, 1n, other)).toMatchObject({ code: 'key_reused', rates });
    });
  });
}
