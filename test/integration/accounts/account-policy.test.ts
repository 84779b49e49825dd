import { afterEach, describe, expect, it, vi } from 'vitest';

import { ApiKeyConflictError, type ChatCompletionsRouterOptions, MemoryStore } from '../../../src/index.ts';
import { clientsOf, type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';

const MODEL = { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 1000 };
const gateways: Gateway[] = [];

afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
});

type Started = Omit<Gateway, 'post' | 'fetch'> & { readonly post: Gateway['post'] };

async function start(options: Partial<ChatCompletionsRouterOptions> = {}): Promise<Started> {
  const models = { 'acme/fast': MODEL, 'acme/slow': MODEL };
  const gateway = await startGateway({ models, ...options });
  gateways.push(gateway);
  return gateway;
}

async function errorOf(response: Response): Promise<Record<string, unknown>> {
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  return { status: response.status, ...error };
}

const listed = async ({ client }: Pick<Gateway, 'client'>): Promise<string[]> =>
  (await client.models.list()).data.map(({ id }) => id);

describe('the models of an account', () => {
  it('are those of its keys too, in every process from the next completion on', async () => {
    const one = await start();
    const other = await start({ store: one.store });
    const narrow = await one.router.keys.create({ account: 'acct', models: ['acme/fast', 'acme/none'] });
    const client = clientsOf(other.baseURL, narrow.key);
    const slow = { ...QUESTION, model: 'acme/slow' };
    expect((await clientsOf(other.baseURL, one.key).post(slow)).status).toBe(200);
    await one.router.accounts.update('acct', { models: ['acme/slow', 'acme/none'] });

    expect(await errorOf(await clientsOf(other.baseURL, one.key).post(QUESTION))).toMatchObject({
      status: 403,
      code: 'model_not_allowed',
      message: 'This key may not use the model "acme/fast"; it may use "acme/none", "acme/slow".',
    });
    expect((await clientsOf(other.baseURL, one.key).post(slow)).status).toBe(200);
    expect((await client.post(QUESTION)).status).toBe(403);
    expect((await client.post(slow)).status).toBe(403);
    expect([await listed(one), await listed(client)]).toEqual([['acme/slow'], []]);

    await one.router.accounts.update('acct', { models: null });
    expect((await clientsOf(other.baseURL, one.key).post(QUESTION)).status).toBe(200);
  });

  it('are those of callers of authenticate', async () => {
    const store = new MemoryStore();
    const authenticate = () => ({ account: 'auth0|7', models: ['acme/*'] });
    const one = await start({ store, authenticate });
    const other = await start({ store, authenticate });
    await one.router.credits.grant('auth0|7', '5.00', { id: 'g1' });
    expect((await other.post(QUESTION)).status).toBe(200);
    await one.router.accounts.update('auth0|7', { models: ['acme/slow'] });
    expect(await errorOf(await other.post(QUESTION))).toMatchObject({
      status: 403,
      code: 'model_not_allowed',
    });
    expect(await listed(one)).toEqual(['acme/slow']);
    const models = await one.router.models({ account: 'auth0|7' });
    expect(models.map(({ id }) => id)).toEqual(['acme/slow']);
    await one.router.accounts.update('auth0|7', { models: ['acme/fast'] });
    expect((await other.post(QUESTION)).status).toBe(200);
  });
});

describe('the limits of an account', () => {
  it('name themselves in the error', async () => {
    const { router, post } = await start();
    await router.accounts.update('acct', { budget: { amount: '0.00', per: 'hour' } });
    const error = await errorOf(await post(QUESTION));
    expect(error).toMatchObject({
      status: 402,
      code: 'budget_exceeded',
      limited_by: 'account',
      budget: { amount: '0.00', per: 'hour', resets_at: expect.stringMatching(/:00:00\.000Z$/) },
    });
    expect(error['message']).toMatch(/^This account's budget of \$0\.00 for the hour has \$0\.00 left/);
  });

  it('are shown with what counts against them, and taken away one by one', async () => {
    const { router, post, nextSettled } = await start();
    expect((await router.accounts.get('acct'))?.policy).toEqual({});
    const policy = { name: 'Acme', metadata: { plan: 'pro' }, requestsPerMinute: 5 };
    await router.accounts.update('acct', { ...policy, budget: { amount: '1', per: 'month' } });
    const settled = nextSettled();
    await post(QUESTION);
    await settled;
    const found = (await router.accounts.get('acct'))!;
    expect(found.policy).toEqual({ ...policy, budget: { amount: '1.00', per: 'month' } });
    expect(found.limits).toMatchObject({
      spent: '0.000045',
      running: 0,
      budgetLeft: '0.999955',
      requestsLeft: 4,
    });
    const changed = await router.accounts.update('acct', { budget: null, name: null });
    expect(changed?.policy).toEqual({ metadata: { plan: 'pro' }, requestsPerMinute: 5 });
  });

  it('are refused by name, with nothing changed', async () => {
    const { router } = await start();
    const update = (policy: object): Promise<unknown> => router.accounts.update('acct', policy);
    const day = { amount: '1.00', per: 'day' };
    await expect(update({ budget: [day, day] })).rejects.toThrow(
      'budget must be at most one for each period',
    );
    await expect(update({ budget: { amount: '1', per: 'year' } })).rejects.toThrow(
      'budget.per must be "hour"',
    );
    await expect(update({ expiresAt: new Date() })).rejects.toThrow(
      "expiresAt is no field of an account's policy",
    );
    await expect(update({ requestsPerMinute: 0 })).rejects.toThrow(
      'requestsPerMinute must be an integer from 1',
    );
    await expect(update({ endUsers: { models: [] } })).rejects.toThrow('"models" is no limit of endUsers');
    await expect(update({ rpm: 5 })).rejects.toThrow('"rpm" is no field of a key');
    expect((await router.accounts.get('acct'))?.policy).toEqual({});
    expect(await router.accounts.update('nobody', { requestsPerMinute: 5 })).toBeUndefined();
  });
});

describe('the end user of a request', () => {
  const limited = { endUsers: { requestsPerMinute: 1 } };

  it('is read from the body, safety_identifier first', async () => {
    const { router, post } = await start({ dimensions: { user: true } });
    await router.accounts.update('acct', limited);
    expect((await post({ ...QUESTION, user: 'ann' })).status).toBe(200);
    expect((await post({ ...QUESTION, user: 'team', safety_identifier: 'ben' })).status).toBe(200);
    const { headers, ...refused } = await post({ ...QUESTION, user: 'x', safety_identifier: 'ann' });
    expect(refused).toBeDefined();
    expect(headers.get('x-ratelimit-limit-requests')).toBe('1');
    expect(await errorOf(await post({ ...QUESTION, user: 'ann' }))).toMatchObject({
      status: 429,
      limited_by: 'end_user',
      message: expect.stringMatching(/^This end user's limit of 1 requests per minute is reached/),
    });
    for (const user of [null, '', undefined]) expect((await post({ ...QUESTION, user })).status).toBe(200);
  });

  it('is refused by name where it can not be one', async () => {
    const { post, provider } = await start({ dimensions: { user: true } });
    for (const user of [7, 'x'.repeat(129), 'x'.repeat(2000), ['ann']]) {
      expect(await errorOf(await post({ ...QUESTION, user }))).toMatchObject({ status: 400, param: 'user' });
    }
    const twice = JSON.stringify({ ...QUESTION, user: 'ann' }).replace('"user":', '"user":"ben","user":');
    const response = await post(undefined, { body: twice });
    expect(await errorOf(response)).toMatchObject({
      status: 400,
      code: 'ambiguous_parameter',
      param: 'user',
    });
    expect(provider.received).toHaveLength(0);
  });

  it('is not read unless the option says so', async () => {
    const { router, post } = await start();
    await router.accounts.update('acct', limited);
    for (const user of ['ann', 'ann', 7]) expect((await post({ ...QUESTION, user })).status).toBe(200);
    expect(await router.accounts.get('acct')).toMatchObject({ policy: limited });
  });

  it('comes from a header, or from authenticate before all', async () => {
    const store = new MemoryStore();
    const one = await start({ store, dimensions: { user: { header: 'X-User-Id' } } });
    await one.router.accounts.update('acct', limited);
    const as = (user: string, body = 'same') =>
      one.post({ ...QUESTION, user: body }, { headers: { 'x-user-id': user } });
    expect([(await as('ann')).status, (await as('ben')).status, (await as('ann')).status]).toEqual([
      200, 200, 429,
    ]);
    expect(await errorOf(await as('x'.repeat(129)))).toMatchObject({ status: 400, param: 'x-user-id' });
    const authenticate = () => ({ account: 'acct', user: 'cem' });
    const other = await start({ store, authenticate, dimensions: { user: true } });
    expect((await other.post({ ...QUESTION, user: 'ann' })).status).toBe(200);
    expect((await other.post({ ...QUESTION, user: 'dan' })).status).toBe(429);
  });

  it('has the limits of its key, where that has some', async () => {
    const { router, baseURL, post } = await start({ dimensions: { user: true } });
    await router.accounts.update('acct', limited);
    const { key } = await router.keys.create({ account: 'acct', endUsers: { requestsPerMinute: 2 } });
    const own = clientsOf(baseURL, key);
    const asked = { ...QUESTION, user: 'ann' };
    const statuses: number[] = [];
    for (const ask of [post, own.post, own.post, own.post, post]) statuses.push((await ask(asked)).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
  });
});

describe('what counts for an end user', () => {
  it('is told of its account, and of a key that has limits of its own', async () => {
    const { router, baseURL, post } = await start({ dimensions: { user: true } });
    const budget = { amount: '1.00', per: 'hour' } as const;
    await router.accounts.update('acct', { endUsers: { budget, requestsPerMinute: 5, max: 1 } });
    const { key, id } = await router.keys.create({ account: 'acct', endUsers: { requestsPerMinute: 2 } });
    expect((await post({ ...QUESTION, user: 'ann' })).status).toBe(200);
    expect((await post({ ...QUESTION, user: 'ben' })).status).toBe(200);
    expect((await clientsOf(baseURL, key).post({ ...QUESTION, user: 'ann' })).status).toBe(200);
    await expect.poll(() => router.accounts.get('acct')).toMatchObject({ held: '0.00' });

    const ann = (await router.accounts.endUser('acct', 'ann'))!;
    expect(ann).toMatchObject({ endUser: 'ann', shared: false, running: 0, requestsLeft: 4 });
    expect(Number(ann.spent)).toBeGreaterThan(0);
    expect(Number(ann.spent) + Number(ann.budgetLeft)).toBeCloseTo(1, 9);
    expect(ann).not.toHaveProperty('key');
    expect(await router.accounts.endUser('acct', 'ben')).toMatchObject({ shared: true, spent: ann.spent });
    expect(await router.accounts.endUser('acct', 'cem', { key: id })).toMatchObject({
      key: id,
      shared: false,
      spent: '0.00',
      requestsLeft: 2,
    });
    expect(await router.accounts.endUser('acct', 'ann', { key: id })).toMatchObject({ requestsLeft: 1 });
  });

  it('is reported when it reaches a share of a budget', async () => {
    const crossed: unknown[] = [];
    const { router, post } = await start({
      dimensions: { user: true },
      thresholds: { budgetAt: ['0.0001'] },
      hooks: { onThreshold: (event) => crossed.push(event) },
    });
    await router.accounts.update('acct', { endUsers: { budget: { amount: '0.10', per: 'lifetime' } } });
    const response = await post({ ...QUESTION, user: 'ann' });
    expect(response.status).toBe(200);
    await expect.poll(() => crossed).toHaveLength(1);
    expect(crossed).toEqual([
      {
        type: 'budget_at',
        account: 'acct',
        requestId: response.headers.get('x-request-id'),
        share: '0.0001',
        limitedBy: 'end_user',
        endUser: 'ann',
        amount: '0.10',
        per: 'lifetime',
        spent: (await router.accounts.endUser('acct', 'ann'))?.spent,
      },
    ]);
  });

  it('is nothing where nothing limits end users', async () => {
    const { router } = await start();
    expect(await router.accounts.endUser('acct', 'ann')).toBeUndefined();
    expect(await router.accounts.endUser('nobody', 'ann')).toBeUndefined();
    await expect(router.accounts.endUser('acct', '')).rejects.toThrow('endUser must be a text of 1 to 128');
    await expect(router.accounts.endUser('acct', 'ann', { key: 'a b' })).rejects.toThrow('key must be');
  });
});

describe('a paused key', () => {
  it('is refused in every process until it is resumed, and stays paused when it is changed', async () => {
    const one = await start();
    const other = await start({ store: one.store });
    const { id } = (await one.router.keys.list('acct'))[0]!;
    const { post, fetch } = clientsOf(other.baseURL, one.key);
    expect((await post(QUESTION)).status).toBe(200);
    expect(await one.router.keys.pause('acct', id)).toMatchObject({ state: 'paused' });
    expect(await errorOf(await post(QUESTION))).toMatchObject({ status: 401, code: 'paused_api_key' });
    await one.router.keys.update('acct', id, { name: 'new' });
    expect(await one.router.keys.rotate('acct', id)).toMatchObject({ state: 'paused', name: 'new' });
    expect(await one.router.keys.pause('acct', 'none')).toBeUndefined();
    expect(await one.router.keys.resume('acct', id)).toMatchObject({ state: 'active', name: 'new' });
    expect((await fetch('/models')).status).toBe(401);
    await one.router.keys.revoke('acct', id);
    await expect(one.router.keys.resume('acct', id)).rejects.toThrow(ApiKeyConflictError);
  });

  it('reads nothing of its account, in a process that has not known it', async () => {
    const { router, store, key } = await start();
    const { id } = (await router.keys.list('acct'))[0]!;
    await router.keys.pause('acct', id);
    const { fetch } = clientsOf((await start({ store })).baseURL, key);
    for (const path of ['/models', '/credits', '/key', '/usage']) {
      expect(await errorOf(await fetch(path))).toMatchObject({ status: 401, code: 'paused_api_key' });
    }
  });
});

describe('a key that is found', () => {
  it('is looked for in no account by a secret that no key has any more', async () => {
    const { router, store } = await start();
    const { key } = await router.keys.create({ account: 'acct', id: 'prod' });
    await router.keys.rotate('acct', 'prod');
    const accounts = vi.spyOn(store, 'accounts');
    expect(await router.keys.find(key)).toEqual([]);
    expect(accounts).not.toHaveBeenCalled();
    expect(await router.keys.find('prod')).toHaveLength(1);
  });

  it('is one by its secret, and all by their id; the only one is revoked by either', async () => {
    const { router } = await start();
    const { keys } = router;
    const ann = await keys.create({ account: 'ann@example.com', id: 'prod' });
    const ben = await keys.create({ account: 'ben@example.com', id: 'prod' });
    expect(await keys.find(ann.key)).toEqual([
      expect.objectContaining({ account: 'ann@example.com', id: 'prod' }),
    ]);
    const accounts = (await keys.find('prod')).map(({ account }) => account);
    expect(accounts.toSorted()).toEqual(['ann@example.com', 'ben@example.com']);
    expect([await keys.find('none'), await keys.find('sk-ccr-none of them'), await keys.find('')]).toEqual([
      [],
      [],
      [],
    ]);
    await expect(keys.revokeFound('prod')).rejects.toMatchObject({ code: 'key_ambiguous' });
    expect(await keys.revokeFound(ben.key)).toMatchObject({ account: 'ben@example.com', state: 'revoked' });
    const { id } = await keys.create({ account: 'ann@example.com' });
    expect(await keys.revokeFound(id)).toMatchObject({ id, state: 'revoked' });
    expect(await keys.revokeFound('none')).toBeUndefined();
    expect(await keys.get('ann@example.com', 'prod')).toMatchObject({ state: 'active' });
  });
});
