import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { endpoints } from '../../src/account/endpoints.ts';
import { createChatCompletionsRouter } from '../../src/index.ts';
import { type AccountDoor, bearer, BY_COOKIE, startAccount } from '../helpers/account.ts';
import { clientsOf, QUESTION } from '../helpers/gateway.ts';

/**
 * What the attacker wants, with a key of its own account: what another account has asked, spent and holds, or its keys; and
 * with a limited key: what that key may not.
 */
let door: AccountDoor;
/** Of `mallory`. */
let headers: Record<string, string>;
/** Of `acct`: its key and a request. */
let victim: { readonly key: string; readonly request: string };

beforeEach(async () => {
  door = await startAccount({ whoIs: BY_COOKIE });
  const { router } = door.gateway;
  await router.credits.grant('mallory', '1.00', { id: 'm1' });
  headers = bearer((await router.keys.create({ account: 'mallory' })).key);
  const answer = await door.gateway.post(QUESTION);
  await answer.text();
  const [info] = await router.keys.list('acct');
  victim = { key: info?.id ?? '', request: answer.headers.get('x-request-id') ?? '' };
});

/** Each operation as the attacker sends it, aimed at what is the victim's. */
const attempts = endpoints.map(({ operation, method, path, change }) => ({
  operation,
  method,
  path,
  change,
}));

describe.each(attempts)('$operation', ({ method, path, change }) => {
  const ask = async (how: Record<string, string>, query = '') => {
    const aimed = path.replace('{id}', victim.key).replace('{request}', victim.request);
    return await door.ask(method, aimed.replace('{month}', MONTH) + query, change && {}, how);
  };

  it('shows and changes nothing of another account', async () => {
    const before = await door.gateway.router.keys.list('acct');
    const { status, body } = await ask(headers);
    if (/\{(id|request)\}/.test(path)) expect(status).toBe(404);
    expect(JSON.stringify(body)).not.toContain('acct');
    expect(JSON.stringify(body)).not.toContain(victim.key === '' ? 'none' : `"${victim.key}"`);
    expect(await door.gateway.router.keys.list('acct')).toEqual(before);
  });

  it.each(['?account=acct', '?account=acct&account=mallory'])('takes no account: %s', async (query) => {
    const { status, body } = await ask(headers, query);
    expect(status).toBe(400);
    expect(['unsupported_parameter', 'ambiguous_parameter']).toContain(body.error.code);
  });

  it.each([
    ['no credentials', {}],
    ['the id of a key', { authorization: 'Bearer KEY' }],
    ['a key in another header', { 'x-api-key': 'SECRET' }],
    ['an empty session', { cookie: 'session=' }],
  ])('answers %s with a 401', async (_what, given: Record<string, string>) => {
    const how = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [
        name,
        value.replace('KEY', victim.key).replace('SECRET', door.gateway.key),
      ]),
    );
    expect((await ask(how)).status).toBe(401);
  });

  it('takes no key from the URL', async () => {
    for (const name of ['key', 'api_key', 'access_token', 'authorization']) {
      const url = `?${name}=${encodeURIComponent(door.gateway.key)}`;
      expect((await ask({}, url)).status).toBe(401);
    }
  });

  if (!change) return;
  const origin = 'https://evil.example';
  it.each([
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['a form of plain text', { 'content-type': 'text/plain' }],
    ['a script', { 'content-type': 'application/json', 'sec-fetch-site': 'cross-site' }],
    ['a script of a sister site', { 'content-type': 'application/json', 'sec-fetch-site': 'same-site' }],
  ])('refuses %s of another page, with the cookie of the victim', async (_what, more) => {
    const { status } = await ask({ cookie: 'session=acct', origin, ...more });
    expect(status).toBe(403);
    expect(door.audits.at(-1)).toMatchObject({ outcome: 'refused' });
  });
});

const MONTH = new Date().toISOString().slice(0, 7);

describe('a path with an account in it', () => {
  it.each(['/accounts/acct', '/acct/credits', '/../admin/accounts', '/accounts/acct/keys'])(
    'is none of the account API: %s',
    async (path) => {
      const { body } = await door.ask('GET', path, undefined, headers);
      expect(JSON.stringify(body)).not.toContain('"acct"');
    },
  );
});

describe('a key with limits', () => {
  const LIMITS = [
    { budget: { amount: '1.00', per: 'day' } },
    { models: ['acme/*'] },
    { requestsPerMinute: 100 },
    { tokensPerMinute: 100_000 },
    { concurrentRequests: 3 },
    { expiresAt: new Date(Date.now() + 60_000) },
    { markup: { factor: '2' } },
    { endUsers: { requestsPerMinute: 5 } },
  ] as const;

  it.each(LIMITS)('makes no key without them, and sees itself alone: %j', async (limit) => {
    const { key, id } = await door.gateway.router.keys.create({ account: 'acct', ...limit });
    const how = bearer(key);
    const me = await door.ask('GET', '/me', undefined, how);
    expect(me.body).toMatchObject({ scope: 'key', may: ['read', 'playground'] });
    for (const { method, path, change } of attempts) {
      const target = path.replace('{id}', id).replace('{month}', MONTH).replace('{request}', victim.request);
      const { status, body } = await door.ask(method, target, change && {}, how);
      if (change) expect([409, 403]).toContain(status);
      expect(JSON.stringify(body)).not.toContain(victim.key);
      expect(JSON.stringify(body)).not.toContain(victim.request === '' ? '-' : `"id":"${victim.request}"`);
    }
    expect((await door.ask('GET', '/keys', undefined, how)).body.data).toMatchObject([{ id }]);
    for (const query of [`?key=${victim.key}`, '?group_by=user']) {
      const { status } = await door.ask('GET', `/usage${query}`, undefined, how);
      expect([400, 403]).toContain(status);
    }
    expect((await door.ask('GET', `/requests?key=${victim.key}`, undefined, how)).body.data).toEqual([]);
  });
});

describe('a token of a page', () => {
  it('does not sign in: it may ask models, and no more', async () => {
    const { session } = door.gateway.router.sessions.create({
      account: 'acct',
      maxSpend: '1.00',
      ttlMs: 60_000,
      origins: ['https://chat.example'],
    });
    for (const { method, path, change } of attempts) {
      const { status } = await door.ask(method, path, change && {}, bearer(session));
      expect([403, 404]).toContain(status);
    }
  });
});

describe('a leaked key that another process has taken back', () => {
  it.each(['revoke', 'pause', 'rotate'] as const)('makes no key from then on: %s', async (method) => {
    const { store } = door.gateway;
    const elsewhere = createChatCompletionsRouter({ store, providers: {}, models: {} });
    onTestFinished(() => elsewhere.close());
    // From now on this process remembers the key.
    expect((await door.ask('GET', '/me')).status).toBe(200);
    await elsewhere.keys[method]('acct', victim.key);
    const { accounts } = store;
    Object.assign(store, {
      accounts: () => {
        throw new Error('reads all accounts');
      },
    });
    const { status, body } = await door.ask('POST', '/keys', {});
    Object.assign(store, { accounts });
    expect([status, body.error.code]).toEqual([401, 'unauthorized']);
    expect(await elsewhere.keys.list('acct')).toHaveLength(1);
  });
});

describe('terms of the host for new keys', () => {
  it('are not changed by the body, by a change, or by the notes', async () => {
    const own = await startAccount({
      whoIs: BY_COOKIE,
      newKeys: { requestsPerMinute: 2, markup: { factor: '3' }, metadata: { plan: 'basic' } },
    });
    const cookie = { cookie: 'session=acct' };
    for (const body of [
      { requests_per_minute: 1000 },
      { markup: { factor: '1' } },
      { metadata: { managed_by: 'customer' } },
      { account: 'mallory' },
      { id: 'own-id' },
    ]) {
      expect((await own.ask('POST', '/keys', body, cookie)).status).toBe(400);
    }
    const { body } = await own.ask('POST', '/keys', { name: 'mine' }, cookie);
    expect((await own.ask('PATCH', `/keys/${body.id}`, { requests_per_minute: null }, cookie)).status).toBe(
      400,
    );
    expect(await own.gateway.router.keys.get('acct', body.id)).toMatchObject({
      requestsPerMinute: 2,
      markup: { factor: '3' },
      metadata: { plan: 'basic', managed_by: 'customer', made_by: 'acct' },
    });
    const { post } = clientsOf(own.gateway.baseURL, body.key);
    const statuses = [];
    for (let n = 0; n < 3; n++) statuses.push((await post(QUESTION)).status);
    expect(statuses).toEqual([200, 200, 429]);
  });
});

describe('an account that asks for too much', () => {
  it('has no more keys than maxKeys, nor ten times as many revoked ones', async () => {
    const own = await startAccount({ maxKeys: 2 });
    const make = () => own.ask('POST', '/keys', {});
    const { body } = await make();
    expect((await make()).body.error.code).toBe('too_many_keys');
    let last = body.id;
    for (let n = 2; n < 20; n++) {
      expect((await own.ask('DELETE', `/keys/${last}`)).status).toBe(200);
      last = (await make()).body.id;
    }
    await own.ask('DELETE', `/keys/${last}`);
    const refused = await make();
    expect(refused.body.error).toMatchObject({ code: 'too_many_keys' });
  });

  it('has no more than eight calls running, and others are served', async () => {
    const { store } = door.gateway;
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const usage = store.usage.bind(store);
    let waiting = 0;
    const eight = new Promise<void>((resolve) => {
      Object.assign(store, {
        usage: async (...args: Parameters<typeof usage>) => {
          if (args[0] === 'acct') {
            waiting += 1;
            if (waiting === 8) resolve();
            await held;
          }
          return await usage(...args);
        },
      });
    });
    const calls = Array.from({ length: 8 }, () => door.ask('GET', '/usage'));
    await eight;
    const refused = await door.ask('GET', '/usage');
    expect([refused.status, refused.body.error.code]).toEqual([429, 'too_many_requests']);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect((await door.ask('GET', '/usage', undefined, headers)).status).toBe(200);
    release();
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect((await door.ask('GET', '/usage')).status).toBe(200);
  });
});
