import { hash } from 'node:crypto';

import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';

import { createAccountClient } from '../../../src/client.ts';
import { ACCOUNT_API } from '../../../src/account/account-router.ts';
import { endpoints } from '../../../src/account/endpoints.ts';
import { openApi } from '../../../src/json-api/openapi.ts';
import { bearer, BY_COOKIE, COOKIE, startAccount } from '../../helpers/account.ts';
import { clientsOf, PRICING, QUESTION } from '../../helpers/gateway.ts';

describe('the holder of an API key', () => {
  it('learns who it is and what it may do', async () => {
    const { ask, gateway } = await startAccount();
    const { body, headers } = await ask('GET', '/me');
    const [key] = await gateway.router.keys.list('acct');
    expect(body).toEqual({
      account: 'acct',
      name: `key ${key?.id}`,
      signed_in_by: 'key',
      key: key?.id,
      scope: 'account',
      may: ['read', 'statements', 'keys', 'playground'],
      api: '/v1',
      fixed_key_fields: [],
      end_users: false,
    });
    expect(headers.get('x-request-id')).toMatch(/^acc-/);
    expect(headers.get('cache-control')).toBe('no-store');
  });

  it('sees its credits, and what ends when', async () => {
    const { ask, gateway } = await startAccount();
    const { credits, accounts } = gateway.router;
    // After the month, whatever the day is.
    const expiresAt = new Date(Date.now() + 40 * 86_400_000);
    await credits.grant('acct', '2.00', { id: 'payment-17', expiresAt });
    await credits.allow('acct', { id: 'pro', amount: '3.00', per: 'month' });
    await accounts.update('acct', { name: 'their note', metadata: { plan: 'x' }, requestsPerMinute: 60 });
    const { body } = await ask('GET', '/credits');
    expect(body).toMatchObject({ account: 'acct', balance: '10.00', held: '0.00', granted: '10.00' });
    expect(body).toMatchObject({ policy: { requests_per_minute: 60 }, limits: { requests_left: 60 } });
    expect(body.grants).toEqual([
      { amount: '3.00', remaining: '3.00', expires_at: expect.any(String), allowance: 'pro' },
      { amount: '2.00', remaining: '2.00', expires_at: expiresAt.toISOString(), allowance: null },
      { amount: '5.00', remaining: '5.00', expires_at: null, allowance: null },
    ]);
    expect(body.allowances).toMatchObject([{ id: 'pro', amount: '3.00', per: 'month', remaining: '3.00' }]);
    expect(JSON.stringify(body)).not.toMatch(/payment-17|their note|metadata/);
  });

  it('sees usage and requests without what they cost the operator, and where they went', async () => {
    const { ask, gateway } = await startAccount(
      {},
      {
        models: {
          'acme/fast': {
            targets: [
              { provider: 'loopback', model: 'upstream-model', cost: { input: '0.1', output: '0.2' } },
            ],
            pricing: PRICING,
            contextWindow: 8192,
            maxOutputTokens: 1000,
          },
        },
        dimensions: { user: true },
      },
    );
    const settled = gateway.nextSettled();
    const answer = await gateway.post({ ...QUESTION, user: 'pupil-7' });
    await answer.text();
    const { charged, cost } = await settled;
    expect(cost).toBeDefined();
    const id = answer.headers.get('x-request-id');
    const usage = await ask('GET', '/usage?group_by=day,model,key');
    expect(usage.body.data).toMatchObject([{ model: 'acme/fast', requests: 1, charged }]);
    const byUser = await ask('GET', '/usage?group_by=user');
    expect(byUser.body.data).toMatchObject([{ user: 'pupil-7', requests: 1 }]);
    const csv = await ask('GET', '/usage?group_by=model&format=csv');
    expect(csv.body).toMatch(/^model,requests,errors,.*charged\r\nacme\/fast,1,0,/);
    const one = await ask('GET', `/requests/${id}`);
    expect(one.body).toMatchObject({ id, model: 'acme/fast', status: 200, charged, user: 'pupil-7' });
    const all = await ask('GET', '/requests?model=acme%2Ffast&status=2xx');
    expect(all.body).toEqual({ object: 'list', data: [one.body], next_cursor: null });
    const told = JSON.stringify([usage.body, csv.body, one.body, all.body]);
    expect(told).not.toMatch(/cost|provider|loopback|upstream|attempts|price/);
    expect((await ask('GET', '/requests?provider=loopback')).body.error.code).toBe('unsupported_parameter');
    expect((await ask('GET', '/requests?code=x')).body.error.code).toBe('unsupported_parameter');
  });

  it('gets its requests as CSV page by page, by a header', async () => {
    const { ask, gateway } = await startAccount();
    for (const _ of [1, 2]) {
      const settled = gateway.nextSettled();
      await (await gateway.post(QUESTION)).text();
      await settled;
    }
    const [newest, oldest] = (await ask('GET', '/requests')).body.data;
    const first = await ask('GET', '/requests?format=csv&limit=1');
    expect(first.body).toMatch(new RegExp(`^id,created_at,.*\r\n${newest.id},.*\r\n$`));
    expect(first.headers.get('x-ccr-next-cursor')).toBe(newest.id);
    const next = await ask('GET', `/requests?format=csv&cursor=${newest.id}`);
    expect(next.body).toContain(`\r\n${oldest.id},`);
    expect(next.headers.has('x-ccr-next-cursor')).toBe(false);
  });

  it('gets a statement without the ids and the reasons of the operator', async () => {
    const { ask, gateway } = await startAccount();
    await gateway.router.credits.adjust('acct', '-1.00', { id: 'adj-secret', reason: 'suspected fraud' });
    const settled = gateway.nextSettled();
    await (await gateway.post(QUESTION)).text();
    const { charged } = await settled;
    const month = new Date().toISOString().slice(0, 7);
    const { body } = await ask('GET', `/statements/${month}`);
    expect(body).toMatchObject({ month, granted: '5.00', adjusted: '-1.00', charged });
    expect(body.charges).toMatchObject([{ model: 'acme/fast', requests: 1, charged }]);
    const csv = await ask('GET', `/statements/${month}?format=csv`);
    expect(csv.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(csv.body).toContain('closing');
    expect(JSON.stringify([body, csv.body])).not.toMatch(/adj-secret|fraud|welcome/);
    expect((await ask('GET', '/statements/2020-01')).body).toMatchObject({ opening: '0.00', charges: [] });
  });

  it('sees the models at its own prices', async () => {
    const { ask, gateway } = await startAccount();
    const { key } = await gateway.router.keys.create({ account: 'acct', markup: { factor: '2' } });
    const plain = await ask('GET', '/models');
    const dearer = await ask('GET', '/models', undefined, bearer(key));
    expect(plain.body.data).toMatchObject([{ id: 'acme/fast', pricing: { prompt: '0.000001' } }]);
    expect(dearer.body.data).toMatchObject([{ id: 'acme/fast', pricing: { prompt: '0.000002' } }]);
  });

  it('makes, limits, rotates, pauses and revokes keys of its own, which work', async () => {
    const { ask, gateway, audits } = await startAccount();
    const made = await ask('POST', '/keys', { name: 'ci', budget: { amount: '1.00', per: 'day' } });
    expect(made.status).toBe(201);
    const { id, key } = made.body;
    expect(made.body).toMatchObject({ name: 'ci', managed: true, state: 'active', duplicate: false });
    expect(made.body).not.toHaveProperty('metadata');
    const { post } = clientsOf(gateway.baseURL, key);
    expect((await post(QUESTION)).status).toBe(200);
    const limited = await ask('PATCH', `/keys/${id}`, { models: ['other/*'], budget: null });
    expect(limited.body).toMatchObject({ models: ['other/*'] });
    expect(limited.body).not.toHaveProperty('budget');
    expect((await post(QUESTION)).status).toBe(403);
    expect((await ask('POST', `/keys/${id}/pause`, {})).body.state).toBe('paused');
    expect((await post(QUESTION)).status).toBe(401);
    expect((await ask('POST', `/keys/${id}/resume`, {})).body.state).toBe('active');
    const rotated = await ask('POST', `/keys/${id}/rotate`, { overlap_ms: 0 });
    expect(rotated.body.key).not.toBe(key);
    expect((await post(QUESTION)).status).toBe(401);
    expect((await ask('DELETE', `/keys/${id}`)).body.state).toBe('revoked');
    const [own] = (await gateway.router.keys.list('acct')).filter((each) => each.name === 'test');
    expect(
      audits.map(({ action, account, operator, target }) => [action, account, operator, target]),
    ).toEqual(
      ['create', 'update', 'pause', 'resume', 'rotate', 'revoke'].map((action) => [
        `keys.${action}`,
        'acct',
        `key ${own?.id}`,
        id,
      ]),
    );
    expect(JSON.stringify(audits)).not.toContain(key);
  });

  it('makes a key once with an Idempotency-Key', async () => {
    const { ask, gateway } = await startAccount();
    const headers = { ...bearer(gateway.key), 'idempotency-key': 'click-1' };
    const [first, second] = [
      await ask('POST', '/keys', { name: 'once' }, headers),
      await ask('POST', '/keys', { name: 'once' }, headers),
    ];
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.body).toMatchObject({ id: first.body.id, duplicate: true });
    expect(second.body).not.toHaveProperty('key');
    const other = await ask('POST', '/keys', { name: 'another' }, headers);
    expect(other.body.error.code).toBe('idempotency_key_reused');
  });

  it('rotates and revokes what the operator made, and does not change it', async () => {
    const { ask, gateway } = await startAccount();
    const { id } = await gateway.router.keys.create({ account: 'acct', requestsPerMinute: 1 });
    for (const [method, path, body] of [
      ['PATCH', `/keys/${id}`, { requests_per_minute: null }],
      ['POST', `/keys/${id}/pause`, {}],
      ['POST', `/keys/${id}/resume`, {}],
    ] as const) {
      expect((await ask(method, path, body)).body.error).toMatchObject({ code: 'key_not_managed' });
    }
    expect((await ask('GET', `/keys/${id}`)).body).toMatchObject({ requests_per_minute: 1, managed: false });
    expect((await ask('POST', `/keys/${id}/rotate`, {})).body.key).toMatch(/^sk-ccr-/);
    expect((await ask('DELETE', `/keys/${id}`)).body.state).toBe('revoked');
  });

  it('changes its own key still after the operator has changed the notes of it', async () => {
    const { ask, gateway } = await startAccount();
    const { id } = (await ask('POST', '/keys', {})).body;
    await gateway.router.keys.update('acct', id, { metadata: { plan: 'pro' } });
    expect((await ask('PATCH', `/keys/${id}`, { name: 'ci' })).status).toBe(200);
    await gateway.router.keys.update('acct', id, { metadata: { managed_by: 'operator' } });
    expect((await ask('PATCH', `/keys/${id}`, { name: 'x' })).body.error.code).toBe('key_not_managed');
  });

  it('reads only, where the host says so', async () => {
    const { ask } = await startAccount({ keyHolders: 'read' });
    expect((await ask('GET', '/me')).body.may).toEqual(['read', 'statements', 'playground']);
    expect((await ask('GET', '/keys')).status).toBe(200);
    expect((await ask('POST', '/keys', {})).body.error.code).toBe('not_permitted');
  });

  it('does not sign in where only sessions of the host do', async () => {
    const { ask } = await startAccount({ keyHolders: 'none', whoIs: BY_COOKIE });
    expect((await ask('GET', '/me')).body.error.code).toBe('unauthorized');
    expect((await ask('GET', '/me', undefined, COOKIE)).status).toBe(200);
  });
});

describe('a session of the host', () => {
  it('sees its account, and keys for the playground instead of an API key', async () => {
    const { ask, gateway, baseURL } = await startAccount({
      whoIs: BY_COOKIE,
      newKeys: { models: ['acme/*'], markup: { factor: '2' } },
      playground: { maxSpend: '0.50', ttlMs: 60_000 },
    });
    const me = await ask('GET', '/me', undefined, COOKIE);
    expect(me.body).toMatchObject({
      account: 'acct',
      name: 'acct',
      signed_in_by: 'host',
      fixed_key_fields: ['models'],
    });
    const { origin } = new URL(baseURL);
    const made = await ask('POST', '/playground', {}, { ...COOKIE, origin });
    expect(made.body).toMatchObject({ key: expect.stringMatching(/^ses-/), max_spend: '0.50' });
    const settled = gateway.nextSettled();
    const answer = await clientsOf(gateway.baseURL, made.body.key).post(QUESTION, { headers: { origin } });
    expect(answer.status).toBe(200);
    await answer.text();
    const plain = gateway.nextSettled();
    await (await gateway.post(QUESTION)).text();
    expect(Number((await settled).charged)).toBeCloseTo(Number((await plain).charged) * 2, 9);
    expect((await ask('GET', '/keys', undefined, COOKIE)).body.data).toHaveLength(1);
    const elsewhere = { origin: 'https://elsewhere.example' };
    const foreign = await clientsOf(gateway.baseURL, made.body.key).post(QUESTION, { headers: elsewhere });
    expect(foreign.status).toBe(403);
  });

  it('asks in the playground only targets that its keys may use', async () => {
    const { ask, gateway, baseURL } = await startAccount({
      whoIs: BY_COOKIE,
      newKeys: { require: { zdr: true } },
    });
    const { origin } = new URL(baseURL);
    const made = await ask('POST', '/playground', {}, { ...COOKIE, origin });
    const answer = await clientsOf(gateway.baseURL, made.body.key).post(QUESTION, { headers: { origin } });
    expect(await answer.json()).toMatchObject({
      error: { message: expect.stringContaining('zdr=true of the key') },
    });
  });

  it('needs the page’s origin for the playground, and sessions.secret', async () => {
    const { ask } = await startAccount({ whoIs: BY_COOKIE });
    expect((await ask('POST', '/playground', {}, COOKIE)).body.error.param).toBe('Origin');
    const without = await startAccount({ whoIs: BY_COOKIE }, {}, { sessions: false });
    expect((await without.ask('GET', '/me', undefined, COOKIE)).body.may).not.toContain('playground');
    const { origin } = new URL(without.baseURL);
    const refused = await without.ask('POST', '/playground', {}, { ...COOKIE, origin });
    expect(refused.body.error.code).toBe('playground_disabled');
  });

  it('may be allowed less', async () => {
    const { ask } = await startAccount({ whoIs: () => ({ account: 'acct', name: 'ann', may: ['read'] }) });
    expect((await ask('GET', '/me', undefined, {})).body).toMatchObject({ name: 'ann', may: ['read'] });
    for (const [method, path] of [
      ['POST', '/keys'],
      ['POST', '/playground'],
      ['GET', '/statements/2026-11'],
    ] as const) {
      const { body } = await ask(method, path, method === 'POST' ? {} : undefined, {});
      expect(body.error).toMatchObject({ code: 'not_permitted', message: expect.stringContaining('ann') });
    }
  });

  it('sees zeros before its account has had a grant', async () => {
    const { ask } = await startAccount({ whoIs: () => 'new-one' });
    expect((await ask('GET', '/credits', undefined, {})).body).toMatchObject({ balance: '0.00', grants: [] });
    expect((await ask('GET', '/keys', undefined, {})).body.data).toEqual([]);
    expect((await ask('POST', '/keys', {}, {})).status).toBe(201);
  });

  it.each([
    [42, 'got number'],
    [{ account: 7 }, 'its account is number'],
    [{ account: 'acct', may: ['everything'] }, '"everything"'],
    [{ account: 'acct', may: 'read' }, 'its may is string'],
  ])('is refused with a 500 where whoIs returns %j', async (answer, named) => {
    // @ts-expect-error -- what a host in JavaScript may return
    const { ask, errors } = await startAccount({ whoIs: () => answer });
    const { status, body } = await ask('GET', '/me', undefined, {});
    expect([status, body.error.code]).toEqual([500, 'internal_error']);
    expect(String(errors[0]?.cause)).toContain(named);
  });
});

describe('the account API', () => {
  it('has a page, which asks for a key', async () => {
    const { fetch } = await startAccount({ title: 'Acme <AI> "x"', theme: { accent: '#0a7d4f' } });
    const page = await fetch('/', { headers: { accept: 'text/html' } });
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const html = await page.text();
    expect(html).toContain('data-title="Acme &#60;AI&#62; &#34;x&#34;"');
    expect(html).toContain('data-session="none"');
    expect(html).toContain('--account-accent:#0a7d4f;');
    const hashOf = (element: string): string => {
      const [, text = ''] = new RegExp(`<${element}[^>]*>([^]*?)</${element}>`).exec(html) ?? [];
      return `'sha256-${hash('sha256', text, 'base64')}'`;
    };
    expect(page.headers.get('content-security-policy')).toBe(
      [
        "default-src 'none'",
        `script-src ${hashOf('script')}`,
        `style-src ${hashOf('style')}`,
        "connect-src 'self'",
        'img-src data:',
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ].join('; '),
    );
    expect((await fetch('/')).status).toBe(401);
  });

  it('is described, and each function of the client answers', async () => {
    const { ask, gateway, baseURL } = await startAccount();
    const { body } = await ask('GET', '/openapi.json');
    expect(body).toEqual(JSON.parse(openApi(endpoints, ACCOUNT_API).toString()));
    expect(Object.keys(body.components.schemas)).not.toContain('Grant');
    const client = createAccountClient({ baseURL, apiKey: gateway.key });
    expect(await client.getMe()).toMatchObject({ account: 'acct' });
    expect(await client.getCredits()).toMatchObject({ balance: '5.00' });
    const { id, key } = await client.createKey({ name: 'typed' }, { idempotencyKey: 'typed-1' });
    expect(await new OpenAI({ baseURL: gateway.baseURL, apiKey: key }).models.list()).toBeDefined();
    expect(await client.updateKey({ id, requests_per_minute: 3 })).toMatchObject({ requests_per_minute: 3 });
    expect(await client.queryUsageCsv({ group_by: ['day', 'model'] })).toMatch(/^day,model,/);
  });

  it('answers 503 and loses nothing while the store is unavailable', async () => {
    const { ask, gateway } = await startAccount();
    const keys = gateway.store.keys.bind(gateway.store);
    Object.assign(gateway.store, {
      keys: async () => {
        throw Object.assign(new Error('away'), { name: 'StoreUnavailableError' });
      },
    });
    expect((await ask('GET', '/keys')).body.error.code).toBe('credit_store_unavailable');
    Object.assign(gateway.store, { keys });
    expect((await ask('GET', '/keys')).status).toBe(200);
  });
});
