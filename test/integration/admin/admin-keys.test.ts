import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import {
  type KeyStatus,
  MemoryStore,
  type RotateKey,
  type RotateKeyResult,
  StoreUnavailableError,
} from '../../../src/index.ts';
import { type AdminDoor, type Asked, startAdmin } from '../../helpers/admin.ts';
import { startRedis } from '../../helpers/redis-server.ts';

const KEYS = '/accounts/acme/keys';
const POLICY = {
  name: 'prod',
  metadata: { plan: 'pro' },
  expires_at: '2099-01-01T00:00:00Z',
  models: ['openai/*'],
  budget: { amount: '5', per: 'month' },
  requests_per_minute: 60,
  require: { region: ['eu', 'ch'], zdr: true, tier: 'gold' },
  markup: { factor: '1.2' },
};
const ON_THE_WIRE = {
  ...POLICY,
  expires_at: '2099-01-01T00:00:00.000Z',
  budget: { amount: '5.00', per: 'month' },
};

describe('the keys of the admin API', () => {
  let door: AdminDoor;

  beforeEach(async () => {
    door = await startAdmin();
  });

  afterEach(async () => {
    await door.close();
  });

  it('and the account say what counts for an end user', async () => {
    const path = '/accounts/acme/end-users/ann%40x.org';
    expect(await door.ask('GET', path)).toMatchObject({
      status: 404,
      body: { error: { code: 'account_not_found' } },
    });
    const end_users = { requests_per_minute: 3 };
    const { id } = (await door.ask('POST', KEYS, { ...POLICY, end_users })).body;
    expect(await door.ask('GET', path)).toMatchObject({
      status: 404,
      body: {
        error: {
          code: 'end_users_not_limited',
          message:
            'Account acme has no limits of end users: set end_users in its policy, or in that of a key.',
        },
      },
    });
    const fresh = { end_user: 'ann@x.org', shared: false, spent: '0.00', held: '0.00', running: 0 };
    expect((await door.ask('GET', `${path}?key=${id}`)).body).toEqual({
      ...fresh,
      key: id,
      requests_left: 3,
    });
    const policy = { end_users: { budget: { amount: '2.00', per: 'day' } } };
    await door.ask('PATCH', '/accounts/acme', { policy });
    expect((await door.ask('GET', path)).body).toEqual({
      ...fresh,
      budget_left: '2.00',
      budget_resets_at: expect.stringMatching(/T00:00:00\.000Z$/),
    });
    const long = await door.ask('GET', `/accounts/acme/end-users/${'x'.repeat(129)}`);
    expect([long.status, long.body.error.param]).toEqual([400, 'end_user']);
  });

  it('are made with all that they may do, and say how they stand', async () => {
    const made = await door.ask('POST', KEYS, POLICY);
    expect(made).toMatchObject({ status: 201, body: { ...ON_THE_WIRE, state: 'active', duplicate: false } });
    const { id } = made.body;
    expect((await door.ask('GET', `${KEYS}/${id}`)).body).toEqual({
      id,
      account: 'acme',
      state: 'active',
      created_at: made.body.created_at,
      ...ON_THE_WIRE,
      spent: '0.00',
      held: '0.00',
      running: 0,
      budget_left: '5.00',
      budget_resets_at: expect.stringMatching(/-01T00:00:00\.000Z$/),
      requests_left: 60,
    });
    expect((await door.ask('GET', KEYS)).body.data).toMatchObject([{ id, ...ON_THE_WIRE }]);
  });

  it('change in what is given, lose what is null, and keep the rest', async () => {
    const { id } = (await door.ask('POST', KEYS, POLICY)).body;
    const changed = await door.ask('PATCH', `${KEYS}/${id}`, { name: 'live', budget: null, models: null });
    expect(changed.status).toBe(200);
    const { budget: _budget, models: _models, ...rest } = ON_THE_WIRE;
    expect(changed.body).toEqual({
      id,
      account: 'acme',
      state: 'active',
      created_at: expect.any(String),
      ...rest,
      name: 'live',
    });
    expect(door.audits.at(-1)).toMatchObject({
      action: 'keys.update',
      target: id,
      before: { name: 'prod', budget: { amount: '5.00' } },
      after: { name: 'live' },
    });
    expect(door.audits.at(-1)?.after).not.toHaveProperty('budget');
  });

  it('of customers stay theirs where other notes are changed', async () => {
    const metadata = { managed_by: 'customer', made_by: 'ann' };
    const { id } = (await door.ask('POST', KEYS, { metadata })).body;
    const changed = await door.ask('PATCH', `${KEYS}/${id}`, { metadata: { plan: 'pro' } });
    expect(changed.body.metadata).toEqual({ ...metadata, plan: 'pro' });
  });

  it.each<[unknown, string, string]>([
    [{ budget: { amount: 5, per: 'day' } }, 'budget.amount', 'got 5.'],
    [
      { metadata: Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`n${n}`, 'x'.repeat(512)])) },
      'metadata',
      'metadata, models and require must be at most 8000 characters together',
    ],
    [{ budget: { amount: '5' } }, 'budget.per', 'is missing; it must be "hour" or "day" or "week"'],
    [{ budget: { amount: '5', per: 'day', x: 1 } }, 'budget.x', 'Known names: amount, per.'],
    [{ budget: [] }, 'budget', 'or a list of up to 5, each of another period, got [].'],
    [{ budget: [{ amount: '5', per: 'year' }] }, 'budget.0.per', 'got "year"'],
    [
      { budget: ['5', '6'].map((amount) => ({ amount, per: 'day' })) },
      'budget',
      'at most one for each period',
    ],
    [{ end_users: { max: 0 } }, 'end_users.max', 'an integer from 1 to 100000, got 0'],
    [{ end_users: { models: [] } }, 'end_users.models', 'Known names: budget'],
    [{ metadata: [] }, 'metadata', 'an object of at most 16 strings'],
    ...['__proto__', 'prototype', 'constructor'].flatMap((name): [unknown, string, string][] => [
      [{ require: JSON.parse(`{"${name}":true}`) }, 'require', 'an object without the names __proto__'],
      [{ metadata: JSON.parse(`{"${name}":"x"}`) }, 'metadata', 'an object without the names __proto__'],
    ]),
    [{ name: '😀'.repeat(101) }, 'name', 'a string of 0 to 200 characters'],
    [{ models: [] }, 'models', '1 to 100 model IDs'],
    [{ models: ['a b'] }, 'models.0', 'without blanks, in which * stands for any characters, got "a b".'],
    [{ metadata: { plan: 7 } }, 'metadata.plan', 'a string of 0 to 512 characters, got 7.'],
    [{ expires_at: '2001-01-01T00:00:00Z' }, 'expires_at', 'expires_at must be in the future'],
    [{ markup: { factor: '0' } }, 'markup.factor', 'above 0'],
    [{ requests_per_minute: 0 }, 'requests_per_minute', 'an integer from 1 to 1000000000, got 0.'],
  ])('are not made of %j', async (body, param, message) => {
    const refused = await door.ask('POST', KEYS, body);
    expect([refused.status, refused.body.error.param]).toEqual([400, param]);
    expect(refused.body.error.message).toContain(message);
    expect(await door.router.keys.list('acme')).toEqual([]);
  });

  it('take each model ID that the function takes', async () => {
    const models = ['acme/caf\u00e9\u00a0noir', '\u{1f600}'.repeat(128)];
    const { key: _, ...made } = await door.router.keys.create({ account: 'acme', models });
    expect(made.models).toEqual(models);
    const asked = await door.ask('POST', KEYS, { models });
    expect([asked.status, asked.body.models]).toEqual([201, models]);
  });

  it('that are revoked are not rotated', async () => {
    const { id } = (await door.ask('POST', KEYS, {})).body;
    await door.ask('DELETE', `${KEYS}/${id}`);
    const refused = await door.ask('POST', `${KEYS}/${id}/rotate`);
    expect(refused.status).toBe(415);
    const asked = await door.ask('POST', `${KEYS}/${id}/rotate`, {});
    expect([asked.status, asked.body.error.code]).toEqual([409, 'key_revoked']);
  });

  it.each([
    ['GET', '', undefined],
    ['PATCH', '', { name: 'x' }],
    ['DELETE', '', undefined],
    ['POST', '/rotate', {}],
  ])('that there are not are a 404 to %s %s', async (method, action, body) => {
    const asked = await door.ask(method, `${KEYS}/nobody${action}`, body);
    expect([asked.status, asked.body.error.code]).toEqual([404, 'key_not_found']);
  });
});

describe('an Idempotency-Key of a key', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-admin-keys-'));
  const NAMED = { 'idempotency-key': 'signup-7' };

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('makes it once, in whatever process it comes, and shows its secret once', async () => {
    const store = `sqlite:${join(folder, 'credits.db')}`;
    const doors = [await startAdmin({ store }), await startAdmin({ store })] as const;
    const asked = await Promise.all(doors.map((door) => door.ask('POST', KEYS, POLICY, NAMED)));
    const [made, again] = asked.toSorted((a, b) => b.status - a.status) as [Asked, Asked];
    expect([made.status, made.body.duplicate, typeof made.body.key]).toEqual([201, false, 'string']);
    const { key: _key, ...shown } = made.body;
    expect([again.status, again.body]).toEqual([200, { ...shown, duplicate: true }]);
    const other = await doors[1].ask('POST', KEYS, { ...POLICY, name: 'test' }, NAMED);
    expect([other.status, other.body.error.code]).toEqual([409, 'idempotency_key_reused']);
    expect(other.body.error.message).toContain(made.body.id);
    expect(await doors[0].router.keys.list('acme')).toHaveLength(1);
    for (const door of doors) await door.close();
  });

  it('makes it once where two look for it before either makes it', async () => {
    class SlowStore extends MemoryStore {
      #looked: (() => void)[] = [];
      override async keyState(account: string, key: string): Promise<KeyStatus | undefined> {
        const state = await super.keyState(account, key);
        if (state) return state;
        const both = new Promise<void>((resolve) => this.#looked.push(resolve));
        if (this.#looked.length === 2) for (const resolve of this.#looked) resolve();
        await both;
        return state;
      }
    }
    const door = await startAdmin({ store: new SlowStore() });
    const asked = await Promise.all([1, 2].map(() => door.ask('POST', KEYS, POLICY, NAMED)));
    expect(asked.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 201]);
    expect(await door.router.keys.list('acme')).toHaveLength(1);
    await door.close();
  });

  it('finds it also once it has expired', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 10, 21) });
    const door = await startAdmin();
    const body = { expires_at: '2026-11-22T00:00:00Z' };
    const made = await door.ask('POST', KEYS, body, NAMED);
    vi.setSystemTime(Date.UTC(2026, 10, 23));
    const again = await door.ask('POST', KEYS, body, NAMED);
    expect([again.status, again.body.id, again.body.state]).toEqual([200, made.body.id, 'expired']);
    await door.close();
    vi.useRealTimers();
  });

  it('is the account’s own, and without one each is another key', async () => {
    const door = await startAdmin();
    const ids = [];
    for (const account of ['acme', 'zeta']) {
      ids.push((await door.ask('POST', `/accounts/${account}/keys`, {}, NAMED)).body.id);
      ids.push((await door.ask('POST', `/accounts/${account}/keys`, {})).body.id);
    }
    expect(new Set(ids).size).toBe(4);
    const both = await door.ask('POST', KEYS, { id: 'prod' }, NAMED);
    expect([both.status, both.body.error.code]).toEqual([400, 'ambiguous_parameter']);
    await door.close();
  });

  it('finds a key again by an id of its own, which belongs to no other', async () => {
    const door = await startAdmin();
    await door.ask('POST', KEYS, { id: 'prod', name: 'a' });
    expect((await door.ask('POST', KEYS, { id: 'prod', name: 'a' })).body).toMatchObject({ duplicate: true });
    const other = await door.ask('POST', KEYS, { id: 'prod', name: 'b' });
    expect([other.status, other.body.error.code, other.body.error.param]).toEqual([
      409,
      'id_already_used',
      'id',
    ]);
    await door.close();
  });
});

describe.each(['memory', 'sqlite', 'redis'])('a rotation on %s', (kind) => {
  it('is made once for its Idempotency-Key, also when two processes are asked at once', async ({
    onTestFinished,
  }) => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-admin-rotate-'));
    const redis = kind === 'redis' ? await startRedis() : undefined;
    const store = redis?.url ?? (kind === 'sqlite' ? `sqlite:${join(folder, 'credits.db')}` : 'memory:');
    const first = await startAdmin({ store });
    const second = kind === 'memory' ? first : await startAdmin({ store });
    onTestFinished(async () => {
      for (const door of new Set([first, second])) await door.close();
      await redis?.stop();
      rmSync(folder, { recursive: true, force: true });
    });
    const { id } = (await first.ask('POST', KEYS, POLICY)).body;
    const rotate = (door: AdminDoor, name: string, overlap = 1000): Promise<Asked> =>
      door.ask('POST', `${KEYS}/${id}/rotate`, { overlap_ms: overlap }, { 'idempotency-key': name });

    const answers = await Promise.all([rotate(first, 'r1'), rotate(second, 'r1'), rotate(first, 'r1')]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const made = answers.filter(({ body }) => body.key !== undefined);
    expect(made).toHaveLength(1);
    expect(made[0]!.body.duplicate).toBe(false);
    // A change of the key between is none of the rotation's.
    await second.ask('PATCH', `${KEYS}/${id}`, { name: 'live' });
    const again = await rotate(second, 'r1');
    expect([again.status, again.body.key, again.body.duplicate]).toEqual([200, undefined, true]);
    expect(again.body).toMatchObject({ ...ON_THE_WIRE, name: 'live' });
    expect(second.audits.at(-1)).toMatchObject({ action: 'keys.rotate', outcome: 'repeated', target: id });

    const other = await rotate(first, 'r1', 2000);
    expect([other.status, other.body.error.code]).toEqual([409, 'idempotency_key_reused']);
    expect((await rotate(first, 'r2')).body.key).toMatch(/^sk-ccr-/);
  });
});

describe('a rotation that broke off', () => {
  class FailingStore extends MemoryStore {
    fails = true;
    override rotateKey(command: RotateKey): Promise<RotateKeyResult> {
      if (this.fails) return Promise.reject(new StoreUnavailableError('unknown'));
      return super.rotateKey(command);
    }
  }

  it('is made when it is asked for again, also where the key was changed between', async () => {
    const store = new FailingStore();
    const door = await startAdmin({ store });
    const { id, key: first } = (await door.ask('POST', KEYS, POLICY)).body;
    const rotate = (): Promise<Asked> =>
      door.ask('POST', `${KEYS}/${id}/rotate`, {}, { 'idempotency-key': 'r1' });
    expect((await rotate()).status).toBe(503);
    store.fails = false;
    await door.ask('PATCH', `${KEYS}/${id}`, { name: 'live' });
    const made = await rotate();
    expect([made.status, made.body.duplicate, made.body.name]).toEqual([200, false, 'live']);
    expect(made.body.key).not.toBe(first);
    expect((await rotate()).body).toMatchObject({ duplicate: true });
    await door.close();
  });
});
