import { describe, expect, it } from 'vitest';
import type { Admit, AdmitResult } from '../../src/ledger/contract/ledger-store.ts';
import {
  ACCOUNT_POLICY,
  type EndUserLimits,
  type EndUserState,
} from '../../src/ledger/contract/key-records.ts';
import { DAY, hashOf, HOUR, type LedgerFixture, MINUTE, NOON, requestId, USAGE } from './ledger-fixture.ts';

const HOURLY: EndUserLimits = { budgets: [{ amount: 10n, per: 'hour' }] };

/** Limits of end users, by key and by account, and what becomes of their counters and of sessions. */
export function describeEndUsers(ledger: LedgerFixture): void {
  const { clock, settle, voidRequest } = ledger;
  const account = 'acme';

  /** The limits of the end users of a key, or of the account. */
  async function limitEndUsers(endUsers: EndUserLimits | undefined, key = ACCOUNT_POLICY): Promise<void> {
    const version = (await ledger.store.keyState(account, key))?.version ?? 0;
    const name = key === ACCOUNT_POLICY ? '' : `name of ${key}`;
    const { code } = await ledger.store.updateKey({
      account,
      key,
      version,
      name,
      ...(endUsers && { endUsers }),
    });
    expect(code).toBe('ok');
  }

  /** A request that is made now. */
  function admit(
    n: number,
    endUser: string | undefined,
    want = 1n,
    more: Partial<Admit> = {},
  ): Promise<AdmitResult> {
    return ledger.admit(n, want, {
      requestId: requestId(n, clock.now),
      ...(endUser !== undefined && { endUser }),
      ...more,
    });
  }

  /** Admits and settles a request now. */
  async function charge(n: number, endUser: string, amount: bigint, key = 'k1'): Promise<void> {
    expect(await admit(n, endUser, amount, { key })).toMatchObject({ code: 'ok', hold: amount });
    await settle(n, amount, { requestId: requestId(n, clock.now) });
  }

  async function endUsers(): Promise<EndUserState[]> {
    const { endUsers: all } = await ledger.state();
    const id = ({ key = '', endUser }: EndUserState): string => `${key}~${endUser}`;
    return all.toSorted((a, b) => (id(a) < id(b) ? -1 : 1));
  }

  async function counted(): Promise<string[]> {
    return (await endUsers()).map(({ key = '', endUser }) => `${key}~${endUser}`);
  }

  describe.each([
    ['the account', ACCOUNT_POLICY, {}],
    ['a key', 'k1', { key: 'k1' }],
  ])('end users of %s', (_, scope, of) => {
    it('have a budget each', async () => {
      await limitEndUsers(HOURLY, scope);
      await charge(1, 'alice', 7n);
      expect(await admit(2, 'alice', 4n)).toMatchObject({
        code: 'budget',
        limitedBy: 'end_user',
        budget: { amount: 10n, per: 'hour' },
        left: 3n,
      });
      expect(await admit(3, 'bob', 10n)).toMatchObject({ code: 'ok', hold: 10n });
      expect(await endUsers()).toEqual([
        { ...of, endUser: 'alice', held: 0n, running: 0, spent: 7n, countedAt: NOON, spentIn: each(7n) },
        { ...of, endUser: 'bob', held: 10n, running: 1, spent: 0n, countedAt: NOON, spentIn: each(0n) },
      ]);
    });

    it('may have so many requests at once each', async () => {
      await limitEndUsers({ concurrentRequests: 1 }, scope);
      expect(await admit(1, 'alice')).toMatchObject({ code: 'ok' });
      expect(await admit(2, 'alice')).toMatchObject({ code: 'concurrency', limitedBy: 'end_user', limit: 1 });
      expect(await admit(3, 'bob')).toMatchObject({ code: 'ok' });
      await voidRequest(1);
      expect(await admit(4, 'alice')).toMatchObject({ code: 'ok' });
    });

    it('may send so many requests and tokens a minute each', async () => {
      await limitEndUsers({ requestsPerMinute: 2, tokensPerMinute: 60 }, scope);
      await admit(1, 'alice', 1n, { tokens: 50 });
      expect(await admit(2, 'alice', 1n, { tokens: 20 })).toMatchObject({
        code: 'tokens_per_minute',
        limitedBy: 'end_user',
        limit: 60,
        retryAfterMs: 10_000,
      });
      await admit(3, 'alice');
      expect(await admit(4, 'alice')).toMatchObject({
        code: 'requests_per_minute',
        limitedBy: 'end_user',
        limit: 2,
        retryAfterMs: 30_000,
      });
      expect(await admit(5, 'bob', 1n, { tokens: 60 })).toMatchObject({
        code: 'ok',
        rates: { requests: { limit: 2, remaining: 1 }, tokens: { limit: 60, remaining: 0 } },
      });
    });

    it('share one counter beyond the greatest number of them', async () => {
      await limitEndUsers({ ...HOURLY, max: 2 }, scope);
      await charge(1, 'alice', 1n);
      await charge(2, 'bob', 1n);
      expect(await admit(3, 'carol', 6n)).toMatchObject({ code: 'ok', sharesEndUser: true });
      expect(await admit(4, 'dave', 5n)).toMatchObject({ code: 'budget', limitedBy: 'end_user', left: 4n });
      expect(await admit(5, 'dave', 4n)).toMatchObject({ code: 'ok', sharesEndUser: true });
      const own = await admit(6, 'alice', 9n);
      expect(own).toMatchObject({ code: 'ok' });
      expect(own).not.toHaveProperty('sharesEndUser');
      const prefix = scope === ACCOUNT_POLICY ? '' : scope;
      expect(await counted()).toEqual([`${prefix}~`, `${prefix}~alice`, `${prefix}~bob`]);
      expect((await endUsers())[0]).toMatchObject({ endUser: '', held: 10n, running: 2 });
    });

    it('count no request without an end user', async () => {
      await limitEndUsers({ concurrentRequests: 1 }, scope);
      await admit(1, undefined);
      expect(await admit(2, undefined)).toMatchObject({ code: 'ok' });
      expect(await counted()).toEqual([]);
    });
  });

  describe('of several limits', () => {
    it('those of the key are in place of those of the account', async () => {
      await limitEndUsers({ concurrentRequests: 1 });
      await ledger.createKey('k2');
      await limitEndUsers({ concurrentRequests: 2 }, 'k2');
      await admit(1, 'alice', 1n, { key: 'k2' });
      expect(await admit(2, 'alice', 1n, { key: 'k2' })).toMatchObject({ code: 'ok' });
      expect(await admit(3, 'alice')).toMatchObject({ code: 'ok' });
      expect(await admit(4, 'alice')).toMatchObject({ code: 'concurrency', limit: 1 });
      expect(await counted()).toEqual(['k2~alice', '~alice']);
    });

    it('the tighter refuses, and says whose it is', async () => {
      await ledger.createKey('k2', { budgets: [{ amount: 20n, per: 'hour' }] });
      const version = 0;
      const budgets = [{ amount: 15n, per: 'hour' as const }];
      await ledger.store.updateKey({
        account,
        key: ACCOUNT_POLICY,
        version,
        name: '',
        limits: { budgets },
        endUsers: HOURLY,
      });
      const refused = await admit(1, 'alice', 16n, { key: 'k2' });
      expect(refused).toMatchObject({ code: 'budget', limitedBy: 'end_user', left: 10n });
      await charge(2, 'alice', 9n, 'k2');
      expect(await admit(3, 'bob', 8n, { key: 'k2' })).toMatchObject({
        code: 'budget',
        limitedBy: 'account',
        left: 6n,
      });
      expect(await admit(4, 'alice', 2n, { key: 'k2' })).toMatchObject({
        code: 'budget',
        limitedBy: 'end_user',
        left: 1n,
      });
    });
  });

  describe('the state of an end user', () => {
    it('is what counts now, of its account or of a key', async () => {
      await limitEndUsers({ ...HOURLY, requestsPerMinute: 5 });
      await ledger.createKey('k2');
      await limitEndUsers({ budgets: [{ amount: 20n, per: 'lifetime' }] }, 'k2');
      await charge(1, 'Zoë ~{}\n', 7n);
      await admit(2, 'Zoë ~{}\n', 2n);
      await charge(3, 'Zoë ~{}\n', 8n, 'k2');
      expect(await ledger.store.endUserState(account, 'Zoë ~{}\n')).toEqual({
        endUser: 'Zoë ~{}\n',
        now: NOON,
        held: 2n,
        running: 1,
        spent: 7n,
        budgets: [{ amount: 10n, per: 'hour', spent: 7n, left: 1n, resetsAt: NOON + HOUR }],
        rates: { requests: { limit: 5, remaining: 3, resetMs: 24_000 } },
      });
      expect(await ledger.store.endUserState(account, 'Zoë ~{}\n', 'k2')).toEqual({
        key: 'k2',
        endUser: 'Zoë ~{}\n',
        now: NOON,
        held: 0n,
        running: 0,
        spent: 8n,
        budgets: [{ amount: 20n, per: 'lifetime', spent: 8n, left: 12n }],
      });
      const ofOther = await ledger.store.endUserState(account, 'Zoë ~{}\n', 'k1');
      expect(ofOther).toMatchObject({ spent: 7n });
      expect(ofOther).not.toHaveProperty('key');
      clock.now += HOUR;
      expect(await ledger.store.endUserState(account, 'Zoë ~{}\n')).toMatchObject({
        budgets: [{ spent: 0n, left: 8n, resetsAt: NOON + 2 * HOUR }],
      });
    });

    it('is that of one without requests, before the first and once it was removed', async () => {
      await limitEndUsers(HOURLY);
      const fresh = { held: 0n, running: 0, spent: 0n, budgets: [{ ...HOURLY.budgets?.[0], left: 10n }] };
      expect(await ledger.store.endUserState(account, 'alice')).toMatchObject(fresh);
      expect(await counted()).toEqual([]);
      await charge(1, 'alice', 7n);
      clock.now += HOUR;
      await ledger.store.prune(account);
      expect(await ledger.store.endUserState(account, 'alice')).toMatchObject(fresh);
    });

    it('is the shared one beyond the greatest number of them', async () => {
      await limitEndUsers({ ...HOURLY, max: 1 });
      await charge(1, 'alice', 1n);
      await charge(2, 'bob', 2n);
      expect(await ledger.store.endUserState(account, 'carol')).toMatchObject({
        endUser: 'carol',
        sharesEndUser: true,
        spent: 2n,
        budgets: [{ left: 8n }],
      });
      expect(await ledger.store.endUserState(account, 'alice')).not.toHaveProperty('sharesEndUser');
    });

    it('is undefined where nothing limits end users, and without an account', async () => {
      expect(await ledger.store.endUserState(account, 'alice')).toBeUndefined();
      expect(await ledger.store.endUserState('zeta', 'alice')).toBeUndefined();
    });
  });

  describe('prune', () => {
    it('removes end users whose windows are over, and of whom nothing runs', async () => {
      await limitEndUsers(HOURLY);
      await charge(1, 'alice', 1n);
      await charge(2, 'bob', 1n);
      expect(await ledger.store.prune(account)).toBe(0);
      clock.now += HOUR;
      await charge(3, 'bob', 2n);
      await admit(4, 'carol', 1n, { leaseMs: DAY });
      clock.now += HOUR - 1;
      expect(await ledger.store.prune(account)).toBe(1);
      expect(await counted()).toEqual(['~bob', '~carol']);
      clock.now += 1;
      expect(await ledger.store.prune(account)).toBe(1);
      expect(await counted()).toEqual(['~carol']);
    });

    it('makes room for others, who begin with full budgets', async () => {
      await limitEndUsers({ ...HOURLY, max: 1 });
      await charge(1, 'alice', 10n);
      clock.now += HOUR;
      expect(await ledger.store.prune(account)).toBe(1);
      expect(await admit(2, 'bob', 10n)).not.toHaveProperty('sharesEndUser');
      expect(await counted()).toEqual(['~bob']);
    });

    it('removes the shared counter too', async () => {
      await limitEndUsers({ ...HOURLY, max: 1 });
      await charge(1, 'alice', 1n);
      await charge(2, 'bob', 1n);
      clock.now += HOUR;
      expect(await ledger.store.prune(account)).toBe(2);
      expect(await counted()).toEqual([]);
    });

    it('keeps a bucket until it is full again', async () => {
      await limitEndUsers({ requestsPerMinute: 1, tokensPerMinute: 60 });
      await admit(1, 'alice', 1n, { tokens: 30 });
      await settle(1, 1n, { usage: { ...USAGE, promptTokens: 100, completionTokens: 80 } });
      clock.now += 3 * MINUTE - 1;
      expect(await ledger.store.prune(account)).toBe(0);
      clock.now += 1;
      expect(await ledger.store.prune(account)).toBe(1);
    });

    it('keeps what counts for a lifetime', async () => {
      await limitEndUsers({ budgets: [{ amount: 10n, per: 'lifetime' }] });
      await charge(1, 'alice', 1n);
      clock.now += 800 * DAY;
      expect(await ledger.store.prune(account)).toBe(0);
      expect(await admit(2, 'alice', 10n)).toMatchObject({ code: 'budget', left: 9n });
    });

    it('keeps an end user until the longest of several windows is over', async () => {
      const month = { amount: 50n, per: 'month' } as const;
      await limitEndUsers({ budgets: [{ amount: 10n, per: 'hour' }, month] });
      await charge(1, 'alice', 1n);
      clock.now = Date.UTC(2026, 2, 31, 23, 59, 59, 999);
      expect(await ledger.store.prune(account)).toBe(0);
      clock.now += 1;
      expect(await ledger.store.prune(account)).toBe(1);
    });

    it('removes end users whom nothing limits any more', async () => {
      await limitEndUsers(HOURLY);
      await limitEndUsers(HOURLY, 'k1');
      await charge(1, 'alice', 1n);
      await limitEndUsers(undefined, 'k1');
      await charge(2, 'alice', 1n);
      expect(await ledger.store.prune(account)).toBe(1);
      expect(await counted()).toEqual(['~alice']);
    });

    it('leaves a late charge of one who was removed to the books', async () => {
      await limitEndUsers(HOURLY);
      await admit(1, 'alice', 5n, { leaseMs: MINUTE });
      clock.now += HOUR;
      await ledger.store.sweep(10);
      expect(await ledger.store.prune(account)).toBe(1);
      expect(await settle(1, 5n)).toMatchObject({ code: 'ok', charged: 5n });
      expect(await counted()).toEqual([]);
      expect(await ledger.state()).toMatchObject({ spent: 5n, available: 95n });
    });

    it('gives one who was removed nothing by a refund', async () => {
      await limitEndUsers(HOURLY);
      await charge(1, 'alice', 5n);
      clock.now += HOUR;
      await ledger.store.prune(account);
      await charge(2, 'alice', 4n);
      const refund = { account, requestId: requestId(1), amount: 5n, charged: 5n, key: 'k1', model: 'm' };
      expect(await ledger.store.refund({ ...refund, reason: 'why' })).toMatchObject({ code: 'ok' });
      expect(await admit(3, 'alice', 7n)).toMatchObject({ code: 'budget', left: 6n });
      expect(await admit(4, 'alice', 6n)).toMatchObject({ code: 'ok' });
    });

    it('keeps thousands of end users who still count, and removes thousands who do not', async () => {
      await limitEndUsers(HOURLY);
      await forEach(2100, (n) => admit(n, `user ${n}`, 0n));
      await forEach(2100, (n) => voidRequest(n));
      expect(await ledger.store.prune(account)).toBe(0);
      clock.now += HOUR;
      await forEach(50, (n) => admit(n, `user ${n}`, 0n));
      expect(await ledger.store.prune(account)).toBe(2050);
      expect(await counted()).toHaveLength(50);
    });

    it('does nothing in an account that there is not', async () => {
      expect(await ledger.store.prune('zeta')).toBe(0);
      expect(await ledger.store.snapshot('zeta')).toBeUndefined();
    });
  });

  describe('prune, of sessions', () => {
    const session = {
      account,
      key: 'ses-a',
      hash: hashOf('ses-a'),
      name: 'alice',
      limits: { budgets: [{ amount: 5n, per: 'lifetime' as const }] },
      expiresAt: NOON + HOUR,
      mustExist: true,
    };
    const ids = async (): Promise<string[]> => (await ledger.state()).keys.map(({ key }) => key).toSorted();

    it('removes one a day after it expired, with all that leads to it', async () => {
      await ledger.store.createKey(session);
      await ledger.store.rotateKey({
        account,
        key: 'ses-a',
        hash: hashOf('ses-b'),
        version: 1,
        overlapMs: 9 * DAY,
      });
      clock.now += HOUR + DAY - 1;
      expect(await ledger.store.prune(account)).toBe(0);
      clock.now += 1;
      expect(await ledger.store.prune(account)).toBe(1);
      expect(await ids()).toEqual(['k1']);
      expect(await ledger.store.keyState(account, 'ses-a')).toBeUndefined();
      for (const secret of ['ses-a', 'ses-b']) {
        expect(await ledger.store.findKey(hashOf(secret))).toBeUndefined();
        const other = { account, key: `of ${secret}`.replace(' ', '-'), hash: hashOf(secret), name: '' };
        expect(await ledger.store.createKey(other)).toMatchObject({ code: 'ok' });
      }
    });

    it('keeps one of which a request runs', async () => {
      await ledger.store.createKey(session);
      await ledger.admit(1, 5n, { key: 'ses-a', leaseMs: 3 * DAY });
      clock.now += 2 * DAY;
      expect(await ledger.store.prune(account)).toBe(0);
      await settle(1, 5n);
      expect(await ledger.store.prune(account)).toBe(1);
      expect(await ledger.state()).toMatchObject({ spent: 5n, held: 0n });
    });

    it('removes those that were revoked or paused too', async () => {
      const terms = { account, name: '', expiresAt: NOON + HOUR };
      await ledger.store.createKey({ ...session, key: 'ses-b', hash: hashOf('ses-b') });
      await ledger.store.updateKey({ ...terms, key: 'ses-b', version: 1, paused: true });
      await ledger.store.createKey(session);
      await ledger.store.revokeKey(account, 'ses-a');
      clock.now += HOUR + DAY;
      expect(await ledger.store.prune(account)).toBe(2);
      expect(await ids()).toEqual(['k1']);
    });

    it('never lets one that was removed spend again', async () => {
      await ledger.store.createKey(session);
      clock.now += HOUR + DAY;
      await ledger.store.prune(account);
      const again = { key: 'ses-a', requestId: requestId(1, clock.now) };
      expect(await ledger.admit(1, 1n, again)).toMatchObject({ code: 'no_key' });
      expect(await ledger.store.createKey(session)).toMatchObject({ code: 'ok' });
      expect(await ledger.admit(1, 1n, again)).toMatchObject({ code: 'expired' });
      expect(await ledger.store.prune(account)).toBe(1);
    });

    it('keeps keys of other kinds for ever', async () => {
      await ledger.store.createKey({ ...session, key: 'sessions', hash: hashOf('1') });
      await ledger.store.createKey({ ...session, key: 'x-ses-a', hash: hashOf('2') });
      await ledger.admit(1, 1n, { key: 'ses-label', externalKey: true });
      await settle(1, 1n);
      const { expiresAt: _, ...endless } = session;
      await ledger.store.createKey({ ...endless, key: 'ses-endless', hash: hashOf('3') });
      clock.now += 800 * DAY;
      expect(await ledger.store.prune(account)).toBe(0);
      expect(await ids()).toEqual(['k1', 'ses-endless', 'ses-label', 'sessions', 'x-ses-a']);
    });

    it('removes thousands', async () => {
      await forEach(1100, (n) =>
        ledger.store.createKey({ ...session, key: `ses-${n}`, hash: hashOf(`ses-${n}`) }),
      );
      clock.now += HOUR + DAY;
      expect(await ledger.store.prune(account)).toBe(1100);
      expect(await ids()).toEqual(['k1']);
    });
  });
}

async function forEach(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, n) => work(n)));
}

/** The same in each window. */
function each(amount: bigint): EndUserState['spentIn'] {
  return { hour: amount, day: amount, week: amount, month: amount };
}
