import { describe, expect, it } from 'vitest';

import { type ApiKeys, createApiKeys } from '../../../src/keys/api-keys.ts';
import { isApiKey, MemoryStore } from '../../../src/index.ts';
import { DAY, HOUR, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';

/** Keys in a store of their own, at noon. */
function makeKeys(): { keys: ApiKeys; store: MemoryStore; clock: { now: number }; invalidated: string[] } {
  const clock = { now: NOON };
  const store = new MemoryStore({ now: () => clock.now });
  const invalidated: string[] = [];
  const cache = {
    invalidate: (account: string, id: string): void => void invalidated.push(`${account} ${id}`),
    forget: (): void => {},
  };
  return { keys: createApiKeys(store, cache, () => clock.now), store, clock, invalidated };
}

const POLICY = {
  name: 'prod',
  metadata: { team: 'search' },
  expiresAt: new Date(NOON + DAY),
  models: ['openai/*', 'acme/fast'],
  budget: { amount: '5.00', per: 'day' },
  requestsPerMinute: 60,
  tokensPerMinute: 10_000,
  concurrentRequests: 5,
  markup: { factor: '1.2', fee: '0.01' },
} as const;

describe('router.keys', () => {
  it('makes a key that says all that it was given, and its secret once', async () => {
    const { keys } = makeKeys();
    const { key, ...info } = await keys.create({ account: 'acme', id: 'prod-1', ...POLICY });
    expect(info).toEqual({
      id: 'prod-1',
      account: 'acme',
      ...POLICY,
      state: 'active',
      createdAt: new Date(NOON),
    });
    expect(isApiKey(key)).toBe(true);
    expect(await keys.list('acme')).toEqual([info]);
    expect(await keys.get('acme', 'prod-1')).toEqual({
      ...info,
      spent: '0.00',
      held: '0.00',
      running: 0,
      budgetLeft: '5.00',
      budgetResetsAt: new Date('2026-03-05T00:00Z'),
      requestsLeft: 60,
      tokensLeft: 10_000,
    });
  });

  it('needs no more than an account', async () => {
    const { keys } = makeKeys();
    const { id } = await keys.create({ account: 'acme' });
    expect(await keys.get('acme', id)).toEqual({
      id,
      account: 'acme',
      name: '',
      state: 'active',
      createdAt: new Date(NOON),
      spent: '0.00',
      held: '0.00',
      running: 0,
    });
    expect(await keys.get('acme', 'nobody')).toBeUndefined();
    expect(await keys.list('nobody')).toEqual([]);
  });

  it('shows the key’s id in its secret, where it was not the host’s to choose', async () => {
    const { keys } = makeKeys();
    const { id, key } = await keys.create({ account: 'acme' });
    expect(key.slice(7, 17)).toBe(id);
    expect((await keys.rotate('acme', id))?.key.slice(7, 17)).toBe(id);
    expect(isApiKey((await keys.create({ account: 'acme', id: 'short' })).key)).toBe(true);
  });

  it('finds a creation that is repeated, and makes no second key of an id', async () => {
    const { keys } = makeKeys();
    const { key: _, ...first } = await keys.create({ account: 'acme', id: 'prod', name: 'one' });
    await expect(keys.create({ account: 'acme', id: 'prod', name: 'two' })).rejects.toMatchObject({
      name: 'ApiKeyConflictError',
      code: 'key_exists',
      message:
        'key prod of account acme exists already; its secret can not be shown again, but the key can be rotated',
    });
    expect(await keys.list('acme')).toEqual([first]);
    await keys.create({ account: 'zeta', id: 'prod' });
  });

  it('changes what is given, takes away what is null, and leaves the rest', async () => {
    const { keys, invalidated } = makeKeys();
    const { key: _, ...info } = await keys.create({ account: 'acme', id: 'prod', ...POLICY });
    const { markup: _m, expiresAt: _e, ...left } = info;
    const changes = { name: 'staging', requestsPerMinute: 10, markup: null, expiresAt: null };
    const changed = { ...left, name: 'staging', requestsPerMinute: 10 };
    invalidated.length = 0;
    expect(await keys.update('acme', 'prod', changes)).toEqual(changed);
    expect(await keys.list('acme')).toEqual([changed]);
    expect(invalidated).toEqual(['acme prod']);
    const nothing = {
      metadata: null,
      models: null,
      budget: null,
      tokensPerMinute: null,
      concurrentRequests: null,
    };
    const { account, id, state, createdAt } = info;
    expect(await keys.update('acme', 'prod', { ...nothing, name: null, requestsPerMinute: null })).toEqual({
      account,
      id,
      name: '',
      state,
      createdAt,
    });
    expect(await keys.update('acme', 'nobody', { name: 'x' })).toBeUndefined();
    await keys.update('acme', 'prod', { name: 'kept' });
    const undecided: object = { name: undefined };
    expect(await keys.update('acme', 'prod', undecided)).toMatchObject({ name: 'kept' });
  });

  it.each([
    ['other notes', { plan: 'pro' }, { managed_by: 'customer', made_by: 'ann', plan: 'pro' }],
    ['none', {}, { managed_by: 'customer', made_by: 'ann' }],
    ['another manager', { managed_by: 'operator' }, { managed_by: 'operator', made_by: 'ann' }],
    ['another maker', { made_by: 'bob' }, { managed_by: 'customer', made_by: 'bob' }],
    ['null', null, undefined],
  ])(
    'leaves a key to the customer who manages it, by notes that are not given: %s',
    async (_what, given, now) => {
      const { keys } = makeKeys();
      const metadata = { managed_by: 'customer', made_by: 'ann', team: 'search' };
      await keys.create({ account: 'acme', id: 'own', metadata });
      const changed = await keys.update('acme', 'own', { metadata: given });
      expect(changed?.metadata).toEqual(now);
    },
  );

  it('replaces all notes of a key that no customer manages', async () => {
    const { keys } = makeKeys();
    const metadata = { managed_by: 'terraform', made_by: 'ann' };
    await keys.create({ account: 'acme', id: 'prod', metadata });
    const changed = await keys.update('acme', 'prod', { metadata: { plan: 'pro' } });
    expect(changed?.metadata).toEqual({ plan: 'pro' });
  });

  it('loses no change of two that are made at once', async () => {
    const { keys } = makeKeys();
    await keys.create({ account: 'acme', id: 'prod' });
    await Promise.all([
      keys.update('acme', 'prod', { name: 'new' }),
      keys.update('acme', 'prod', { requestsPerMinute: 5 }),
      keys.update('acme', 'prod', { metadata: { team: 'search' } }),
      keys.rotate('acme', 'prod'),
    ]);
    expect(await keys.get('acme', 'prod')).toMatchObject({
      name: 'new',
      requestsPerMinute: 5,
      metadata: { team: 'search' },
    });
  });

  it('rotates: another secret, the same key', async () => {
    const { keys, clock } = makeKeys();
    const { key: first, ...info } = await keys.create({ account: 'acme', id: 'prod', ...POLICY });
    const rotated = await keys.rotate('acme', 'prod', { overlapMs: HOUR });
    expect(rotated).toEqual({ ...info, key: expect.any(String), overlapUntil: new Date(NOON + HOUR) });
    expect(rotated?.key).not.toBe(first);
    clock.now += HOUR;
    const { overlapUntil: _, ...again } = (await keys.rotate('acme', 'prod'))!;
    expect(again).toEqual({ ...info, key: expect.any(String) });
    expect(await keys.rotate('acme', 'nobody')).toBeUndefined();
  });

  it('does not rotate a key that is revoked', async () => {
    const { keys } = makeKeys();
    await keys.create({ account: 'acme', id: 'prod' });
    await keys.revoke('acme', 'prod');
    await expect(keys.rotate('acme', 'prod')).rejects.toMatchObject({ code: 'key_revoked' });
  });

  it('says of each key whether it is active, revoked or expired', async () => {
    const { keys, clock } = makeKeys();
    for (const id of ['a', 'b', 'c']) {
      await keys.create({ account: 'acme', id, expiresAt: new Date(NOON + (id === 'a' ? DAY : MINUTE)) });
    }
    await keys.revoke('acme', 'c');
    clock.now += MINUTE;
    const states = (await keys.list('acme')).map(({ id, state }) => `${id} ${state}`);
    expect(states.toSorted()).toEqual(['a active', 'b expired', 'c revoked']);
    expect(await keys.get('acme', 'b')).toMatchObject({ state: 'expired' });
    expect(await keys.get('acme', 'c')).toMatchObject({ state: 'revoked', revokedAt: new Date(NOON) });
  });

  it('tells what a key has spent, holds and runs', async () => {
    const { keys, store } = makeKeys();
    await keys.create({ account: 'acme', id: 'prod', ...POLICY });
    await store.grant({ account: 'acme', id: 'g', amount: 10_000_000_000n });
    const request = { account: 'acme', key: 'prod', leaseMs: MINUTE, notAfter: Infinity, tokens: 100 };
    for (const n of [1, 2]) {
      await store.admit({ ...request, requestId: requestId(n), want: 10_000_000n, min: 0n });
    }
    await store.settle({
      account: 'acme',
      requestId: requestId(1),
      key: 'prod',
      amount: 4_000_000n,
      model: 'm',
      usage: USAGE,
      force: false,
    });
    expect(await keys.get('acme', 'prod')).toMatchObject({
      spent: '0.004',
      held: '0.01',
      running: 1,
      budgetLeft: '4.986',
      requestsLeft: 58,
      tokensLeft: 10_000 - 100 - USAGE.promptTokens - USAGE.completionTokens,
    });
  });

  it.each<[string, object]>([
    ['account', { account: 'a b' }],
    ['account', { account: undefined }],
    ['id', { id: 'a/b' }],
    ['id', { id: '' }],
    ['name', { name: 'x'.repeat(201) }],
    ['name', { name: 7 }],
    ['metadata', { metadata: 'team' }],
    ['metadata', { metadata: ['team'] }],
    ['metadata', { metadata: { ['x'.repeat(65)]: '' } }],
    [
      'metadata must be an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512, got {"":""}',
      { metadata: { '': '' } },
    ],
    ['metadata', { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [n, ''])) }],
    ['metadata["team"]', { metadata: { team: 7 } }],
    ['metadata["team"]', { metadata: { team: 'x'.repeat(513) } }],
    ['expiresAt', { expiresAt: '2027-01-01' }],
    ['expiresAt', { expiresAt: new Date(NaN) }],
    ['expiresAt', { expiresAt: new Date(NOON) }],
    ['models', { models: [] }],
    ['models', { models: 'openai/*' }],
    ['models', { models: ['openai/*', ''] }],
    ['models', { models: ['open ai'] }],
    ['models', { models: [7] }],
    [
      'metadata, models and require',
      { models: Array.from({ length: 100 }, (_, n) => `${n}`.padEnd(100, 'x')) },
    ],
    ['budget', { budget: '5.00' }],
    ['budget', { budget: { amount: '5.00', per: 'day', currency: 'EUR' } }],
    ['budget.amount', { budget: { amount: 5, per: 'day' } }],
    ['budget.amount', { budget: { amount: '-1', per: 'day' } }],
    ['budget.per', { budget: { amount: '5.00', per: 'year' } }],
    ['requestsPerMinute', { requestsPerMinute: 0 }],
    ['tokensPerMinute', { tokensPerMinute: 1.5 }],
    ['concurrentRequests', { concurrentRequests: '5' }],
    ['markup.factor', { markup: { factor: '-1' } }],
    ['markup has an unknown key', { markup: { percent: '20' } }],
    ['options has an unknown key "rpm"; it takes account, id, recreate, name', { rpm: 5 }],
  ])('names the field that can not be right, and makes nothing: %s of %j', async (field, given) => {
    const { keys, store } = makeKeys();
    const made = keys.create({ account: 'acme', ...given });
    await expect(made).rejects.toBeInstanceOf(TypeError);
    await expect(made).rejects.toThrow(field);
    expect(await store.snapshot('acme')).toBeUndefined();
  });

  it('names the field of a change that can not be right, and changes nothing', async () => {
    const { keys } = makeKeys();
    await keys.create({ account: 'acme', id: 'prod', ...POLICY });
    const before = await keys.get('acme', 'prod');
    const wrong = { name: 'new', requestsPerMinute: 0 };
    await expect(keys.update('acme', 'prod', wrong)).rejects.toThrow(
      /^requestsPerMinute must be an integer from 1 to 1000000000, got 0$/,
    );
    await expect(keys.update('acme', 'nobody', wrong)).rejects.toThrow(/^requestsPerMinute/);
    await expect(keys.update('acme', 'prod', { account: 'zeta' } as never)).rejects.toThrow(
      /"account" is no field of a key/,
    );
    for (const overlapMs of [-1, 0.5, 400 * DAY]) {
      await expect(keys.rotate('acme', 'prod', { overlapMs })).rejects.toThrow(/^overlapMs must be/);
    }
    expect(await keys.get('acme', 'prod')).toEqual(before);
  });

  it('lets a key end now, and begin again', async () => {
    const { keys } = makeKeys();
    await keys.create({ account: 'acme', id: 'prod' });
    expect(await keys.update('acme', 'prod', { expiresAt: new Date(NOON) })).toMatchObject({
      state: 'expired',
    });
    expect(await keys.update('acme', 'prod', { expiresAt: null })).toMatchObject({ state: 'active' });
  });
});
