import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { clientsOf, type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';

let gateway: Gateway;

beforeEach(async () => {
  gateway = await startGateway({
    sessions: { secret: 'a secret of the tests, of 32 characters or more' },
    dimensions: { user: true },
  });
});

afterEach(() => gateway.close());

const today = new Date().toISOString().slice(0, 10);

/** Asks with a key, and returns the charge. */
async function charge(key = gateway.key, more: object = {}): Promise<number> {
  const settled = gateway.nextSettled();
  const origin = key.startsWith('ses-') ? { origin: 'https://chat.example' } : undefined;
  await (
    await clientsOf(gateway.baseURL, key).post(
      { ...QUESTION, ...more },
      { ...(origin && { headers: origin }) },
    )
  ).text();
  return Number((await settled).charged);
}

// oxlint-disable-next-line typescript/no-explicit-any -- what it is, is what tests say
async function get(path: string, key = gateway.key): Promise<{ status: number; body: any }> {
  const response = await clientsOf(gateway.baseURL, key).fetch(path);
  return { status: response.status, body: await response.json() };
}

describe('GET /key', () => {
  it.each(['/key', '/auth/key'])('has what clients of OpenRouter read: %s', async (path) => {
    const charged = await charge();
    expect((await get(path)).body).toEqual({
      data: {
        label: 'test',
        limit: null,
        limit_remaining: null,
        limit_reset: null,
        usage: charged,
        usage_daily: charged,
        usage_weekly: charged,
        usage_monthly: charged,
        byok_usage: 0,
        byok_usage_daily: 0,
        byok_usage_weekly: 0,
        byok_usage_monthly: 0,
        include_byok_in_limit: false,
        is_free_tier: false,
        is_management_key: false,
        is_provisioning_key: false,
        creator_user_id: null,
        organization_id: null,
        workspace_id: null,
        allowed_data_regions: [],
        budgets: [],
        effective_budget: null,
        free_model_daily_requests: { limit: 0, remaining: 0, used: 0 },
        expires_at: null,
        rate_limit: { requests: -1, interval: '1m', note: expect.any(String) },
      },
    });
  });

  it('has the budget of the key, and not what other keys spent', async () => {
    const expiresAt = new Date(Date.now() + 3_600_000);
    const { key } = await gateway.router.keys.create({
      account: 'acct',
      budget: { amount: '1.00', per: 'month' },
      requestsPerMinute: 60,
      expiresAt,
    });
    await charge();
    const charged = await charge(key);
    const { data } = (await get('/key', key)).body;
    expect(data).toMatchObject({ limit: 1, limit_reset: 'monthly', usage: charged, usage_daily: charged });
    expect(data.limit_remaining).toBeCloseTo(1 - charged, 9);
    expect(data).toMatchObject({ expires_at: expiresAt.toISOString(), rate_limit: { requests: 60 } });
  });

  it.each([
    ['last', ['1.00', '0.50']],
    ['first', ['0.40', '0.50']],
  ] as const)(
    'has all budgets of the key, and the one with the least money left, which is the %s',
    async (at, [month, all]) => {
      const { key } = await gateway.router.keys.create({
        account: 'acct',
        budget: [
          { amount: month, per: 'month' },
          { amount: all, per: 'lifetime' },
        ],
      });
      const charged = await charge(key);
      const { budgets, effective_budget: tightest } = (await get('/key', key)).body.data;
      expect(budgets).toMatchObject([
        {
          scope: 'key_limit',
          limit_usd: Number(month),
          reset_interval: 'monthly',
          resets_at: expect.stringMatching(/-01T00:00:00/),
        },
        { scope: 'key_limit', limit_usd: 0.5, spend_usd: charged, reset_interval: null, resets_at: null },
      ]);
      expect(tightest).toEqual(budgets.at(at === 'first' ? 0 : 1));
      expect(tightest.remaining_usd).toBeCloseTo((at === 'first' ? 0.4 : 0.5) - charged, 9);
    },
  );

  it('has the budget of a session, before and after its first request', async () => {
    const { session } = gateway.router.sessions.create({
      account: 'acct',
      maxSpend: '0.50',
      ttlMs: 60_000,
      origins: ['https://chat.example'],
    });
    expect((await get('/key', session)).body.data).toMatchObject({
      limit: 0.5,
      limit_remaining: 0.5,
      usage: 0,
    });
    const charged = await charge(session);
    const { data } = (await get('/key', session)).body;
    expect(data.limit_remaining).toBeCloseTo(0.5 - charged, 9);
    expect(data.usage).toBe(charged);
  });
});

describe('GET /usage', () => {
  it.each(['/usage', '/activity', '/report'])(
    'has the usage of the account by day and model: %s',
    async (path) => {
      const charged = await charge();
      const { body } = await get(path);
      expect(body.data).toMatchObject([
        {
          day: today,
          date: today,
          model: 'acme/fast',
          requests: 1,
          charged: String(charged),
          usage: charged,
        },
      ]);
      expect(body.results).toMatchObject([
        { day: today, model: 'acme/fast', request_count: 1, total_cost: charged },
      ]);
      expect(body.results[0].input_tokens).toBe(body.data[0].prompt_tokens);
    },
  );

  it('groups by key or end user, over days of the past', async () => {
    await charge(gateway.key, { user: 'pupil-7' });
    expect((await get('/usage?group_by=user')).body.data).toMatchObject([{ user: 'pupil-7', requests: 1 }]);
    expect((await get('/usage?group_by=key')).body.data).toHaveLength(1);
    expect((await get('/report?start_date=2026-01-01&end_date=2026-01-31')).body.results).toEqual([]);
    expect((await get(`/activity?date=${today}`)).body.data).toHaveLength(1);
  });

  it('shows a key with limits, a session and a key of the host’s nothing but their own', async () => {
    await charge();
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['acme/*'] });
    expect((await get('/usage', key)).body.data).toEqual([]);
    expect((await get('/usage?group_by=user', key)).body.error.param).toBe('group_by');
    await charge(key);
    expect((await get('/usage', key)).body.data).toMatchObject([{ requests: 1 }]);
    expect((await get('/usage')).body.data).toMatchObject([{ requests: 2 }]);
    const { session } = gateway.router.sessions.create({
      account: 'acct',
      maxSpend: '0.50',
      ttlMs: 60_000,
      origins: ['https://chat.example'],
    });
    expect((await get('/usage', session)).body.data).toEqual([]);
    const hosted = await startGateway({
      store: gateway.store,
      authenticate: () => ({ account: 'acct', key: 'label-1' }),
    });
    const own = await clientsOf(hosted.baseURL, 'anything').fetch('/usage');
    expect(await own.json()).toMatchObject({ data: [], results: [] });
    await hosted.close();
  });

  it.each([
    ['date=2026-02-31', 'date'],
    ['from=yesterday', 'from'],
    ['start_date=2020-01-01&end_date=2026-01-01', 'start_date'],
    ['start_date=2026-02-02&end_date=2026-02-01', 'start_date'],
    ['group_by=provider', 'group_by'],
    ['group_by=day,day', 'group_by'],
    ['group_by=user,model', 'group_by'],
    ['group_by=', 'group_by'],
  ])('refuses ?%s with a 400', async (query, param) => {
    const { status, body } = await get(`/usage?${query}`);
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code: 'invalid_value', param });
  });
});

describe('an account that reads its usage again and again', () => {
  it('has eight reads at a time, and holds up nobody else', async () => {
    const { store, router } = gateway;
    const other = await router.keys.create({ account: 'other' });
    const usage = store.usage.bind(store);
    let [waiting, release, reached] = [0, (): void => {}, (): void => {}];
    const held = new Promise<void>((resolve) => (release = resolve));
    const eight = new Promise<void>((resolve) => (reached = resolve));
    store.usage = async (...args) => {
      if (args[0] === 'acct') {
        if ((waiting += 1) === 8) reached();
        await held;
      }
      return await usage(...args);
    };
    const reads = Array.from({ length: 8 }, (_, n) => get(n % 2 === 0 ? '/key' : '/usage'));
    await eight;
    for (const path of ['/key', '/usage']) {
      const refused = await gateway.fetch(path);
      expect([refused.status, refused.headers.get('x-should-retry')]).toEqual([429, 'true']);
      expect(await refused.json()).toMatchObject({ error: { code: 'too_many_requests' } });
      expect((await get(path, other.key)).status).toBe(200);
    }
    release();
    expect((await Promise.all(reads)).map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect((await get('/key')).status).toBe(200);
  });
});
