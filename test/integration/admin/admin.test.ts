import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createAdminRouter } from '../../../src/admin.ts';
import { createChatCompletionsRouter, MemoryStore, StoreUnavailableError } from '../../../src/index.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { QUESTION, startGateway } from '../../helpers/gateway.ts';

const GRANTS = '/accounts/acme/grants';

describe('createAdminRouter', () => {
  const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} });

  it.each<[string, unknown, string]>([
    ['no options', undefined, 'createAdminRouter needs authorize'],
    ['no authorize', {}, 'createAdminRouter needs authorize'],
    ['a token in place of authorize', { authorize: 'secret' }, 'createAdminRouter needs authorize'],
    ['a name in place of a hook', { authorize: () => 'ada', onAudit: 'log' }, 'onAudit must be a function'],
    ['a mount without its slash', { authorize: () => 'ada', basePath: 'admin' }, 'got "admin"'],
    ['an option that is none', { authorize: () => 'ada', audit: () => {} }, 'has no option "audit"'],
  ])('refuses %s', (_what, options, message) => {
    expect(() => createAdminRouter(router, options as never)).toThrow(TypeError);
    expect(() => createAdminRouter(router, options as never)).toThrow(message);
  });
});

describe('callers of the admin API', () => {
  it('is judged by the path that is served, whatever stands before it', async () => {
    const door = await startAdmin({
      authorize: ({ path }) => (/^(\/v\d)?\/usage/.test(path) ? 'viewer' : undefined),
    });
    expect((await door.ask('GET', '/v2/usage')).status).toBe(200);
    const grant = { id: 'g1', amount: '5.00' };
    expect((await door.ask('POST', '/usage-x/accounts/acme/grants', grant)).status).toBe(401);
  });

  it('is asked of the host with headers, method and path, before anything else', async () => {
    const asked: unknown[] = [];
    const door = await startAdmin({
      authorize: ({ headers, method, path }) => {
        asked.push({ method, path, cookie: headers.cookie });
        return undefined;
      },
    });
    for (const [method, path] of [
      ['GET', '/accounts?limit=x'],
      ['POST', '/nothing'],
      ['PUT', '/usage'],
      ['GET', '/'],
    ] as const) {
      const { status, body } = await door.ask(method, path, undefined, { cookie: 'a=1' });
      expect([status, body.error.code], path).toEqual([401, 'unauthorized']);
    }
    expect(asked).toEqual([
      { method: 'GET', path: '/accounts', cookie: 'a=1' },
      { method: 'POST', path: '/admin/nothing', cookie: 'a=1' },
      { method: 'PUT', path: '/usage', cookie: 'a=1' },
      { method: 'GET', path: '/', cookie: 'a=1' },
    ]);
    await door.close();
  });

  it.each<[string, () => unknown, number]>([
    ['undefined', () => undefined, 401],
    ['a promise of undefined', async () => undefined, 401],
    ['false', () => false, 401],
    ['an empty name', () => '', 401],
    ['true, which is no name', () => true, 500],
    ['an object', async () => ({ name: 'ada' }), 500],
    ['a name of 201 characters', () => 'a'.repeat(201), 500],
  ])('is nobody where authorize returns %s', async (_what, authorize, status) => {
    const door = await startAdmin({ authorize: authorize as () => string });
    expect((await door.ask('GET', '/accounts')).status).toBe(status);
    expect(door.errors).toHaveLength(status === 500 ? 1 : 0);
    await door.close();
  });

  it.each([
    new Error('connect ECONNREFUSED 10.0.0.7:5432'),
    // As the router's own arguments are refused, which clients read.
    new TypeError('secret must be a key, got "10.0.0.7:5432"'),
  ])('is nobody where authorize throws: the host is told why, and the client is not: %s', async (thrown) => {
    const door = await startAdmin({
      authorize: () => {
        throw thrown;
      },
    });
    const { status, body } = await door.ask('POST', GRANTS, { id: 'g', amount: '1.00' });
    expect(status).toBe(500);
    expect(body.error.code).toBe('internal_error');
    const navigated = await door.ask('GET', '/', undefined, { accept: 'text/html' });
    expect([navigated.status, navigated.body.error.code]).toEqual([500, 'internal_error']);
    expect(JSON.stringify(body)).not.toContain('10.0.0.7');
    expect(door.errors[0]?.cause).toBe(thrown);
    expect(await door.router.accounts.get('acme')).toBeUndefined();
    await door.close();
  });
});

describe('a page of another site', () => {
  let door: AdminDoor;
  const body = JSON.stringify({ id: 'g', amount: '1.00' });

  beforeEach(async () => {
    door = await startAdmin({ authorize: () => 'ada' });
  });

  afterEach(async () => {
    expect(await door.router.accounts.get('acme')).toBeUndefined();
    await door.close();
  });

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=a',
    'text/json',
  ])('can not change anything by a form of type %s', async (type) => {
    const { status, body: refused } = await door.ask('POST', GRANTS, body, { 'content-type': type });
    expect([status, refused.error.code]).toEqual([415, 'unsupported_content_type']);
  });

  it('can not change anything by a request without a content-type', async () => {
    const response = await door.fetch(GRANTS, { method: 'POST', body: new TextEncoder().encode(body) });
    expect(response.status).toBe(415);
  });

  it.each(['cross-site', 'same-site'])('can not change anything, which a browser calls %s', async (site) => {
    const { status, body: refused } = await door.ask('POST', GRANTS, body, { 'sec-fetch-site': site });
    expect([status, refused.error.code]).toEqual([403, 'cross_site_request']);
  });

  it('is not let in by headers of CORS, nor shown in a frame', async () => {
    const response = await door.fetch('/accounts', { headers: { origin: 'https://evil.example' } });
    expect(response.status).toBe(200);
    const { headers } = response;
    expect(headers.get('access-control-allow-origin')).toBeNull();
    expect(headers.get('cross-origin-resource-policy')).toBe('same-origin');
    expect(headers.get('content-security-policy')).toBe("default-src 'none'; frame-ancestors 'none'");
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('cache-control')).toBe('no-store');
  });
});

describe('the admin API, given what can only be a mistake,', () => {
  let door: AdminDoor;

  beforeEach(async () => {
    door = await startAdmin();
    await door.router.credits.grant('acme', '5.00', { id: 'first' });
  });

  afterEach(async () => {
    await door.close();
  });

  it.each<[string, unknown, string, string | null, string]>([
    [GRANTS, { id: 'g' }, 'missing_required_parameter', 'amount', 'amount is missing; it must be a decimal'],
    [GRANTS, { amount: '1.00' }, 'missing_required_parameter', 'id', 'or an Idempotency-Key'],
    [GRANTS, { id: 'g', amount: 5 }, 'invalid_value', 'amount', 'as "25.00", got 5.'],
    [
      GRANTS,
      { id: 'g', amount: '0' },
      'invalid_value',
      'amount',
      'more than 0 and at most 9007199.254740991',
    ],
    [GRANTS, { id: 'g', amount: '-1.00' }, 'invalid_value', 'amount', 'got "-1.00".'],
    [GRANTS, { id: 'g', amount: '1e3' }, 'invalid_value', 'amount', 'got "1e3".'],
    [
      GRANTS,
      { id: 'g', amount: '9007199.254740992' },
      'invalid_value',
      'amount',
      'at most 9007199.254740991',
    ],
    [GRANTS, { id: 'a b', amount: '1.00' }, 'invalid_value', 'id', '1 to 128 printable ASCII'],
    [
      GRANTS,
      { id: 'g', amount: '1.00', priority: 101 },
      'invalid_value',
      'priority',
      'an integer from 0 to 100, got 101.',
    ],
    [GRANTS, { id: 'g', amount: '1.00', expires_at: 'soon' }, 'invalid_value', 'expires_at', 'got "soon".'],
    [
      GRANTS,
      { id: 'g', amount: '1.00', expires_at: '2027-02-31T00:00:00Z' },
      'invalid_value',
      'expires_at',
      'must be a time',
    ],
    [
      GRANTS,
      { id: 'g', amount: '1.00', expiresAt: 1 },
      'unsupported_parameter',
      'expiresAt',
      'Known names: id, amount, expires_at, priority, recreate.',
    ],
    [GRANTS, [], 'invalid_type', null, 'The body must be a JSON object.'],
    ['/accounts/acme/keys', [], 'invalid_type', null, 'The body must be a JSON object.'],
    [GRANTS, { id: 'g', amount: '1.00', '': 1 }, 'unsupported_parameter', '', 'Known names: id, amount'],
    [GRANTS, '{"id":', 'invalid_json', null, 'not valid JSON in UTF-8'],
    [
      GRANTS,
      { id: 'g', amount: '1.00', ['a'.repeat(2000)]: 1, ['b'.repeat(2000)]: 2 },
      'unsupported_parameter',
      'a'.repeat(2000),
      'Known names: id, amount, expires_at, priority, recreate.',
    ],
    [GRANTS, '{"id":"g","amount":"1","amou\\u006et":"2"}', 'ambiguous_parameter', 'amount', 'given twice'],
    [
      GRANTS,
      { id: 'g', amount: '1.00', expires_at: '2020-01-01T00:00:00Z' },
      'invalid_value',
      'expires_at',
      'in the future, got 2020-01-01T00:00:00.000Z',
    ],
    ['/accounts/a%20b/grants', { id: 'g', amount: '1.00' }, 'invalid_value', 'account', 'got "a b".'],
    [
      '/accounts/acme/adjustments',
      { id: 'a', delta: '0.00', reason: 'x' },
      'invalid_value',
      'delta',
      'not 0',
    ],
    [
      '/accounts/acme/adjustments',
      { id: 'a', delta: '1.00' },
      'missing_required_parameter',
      'reason',
      'a string of 1 to 500',
    ],
    [
      '/accounts/acme/keys',
      { name: 'x'.repeat(201) },
      'invalid_value',
      'name',
      'a string of 0 to 200 characters',
    ],
  ])('refuses POST %s %j and changes nothing', async (path, body, code, param, message) => {
    const { status, body: refused } = await door.ask('POST', path, body);
    expect(status).toBe(400);
    expect(refused.error).toMatchObject({ type: 'invalid_request_error', code, param });
    expect(refused.error.message).toContain(message);
    expect(await door.router.accounts.get('acme')).toMatchObject({ granted: '5.00' });
    expect(await door.router.keys.list('acme')).toEqual([]);
    expect(door.audits).toMatchObject([{ outcome: 'refused', status: 400, code, operator: 'ada' }]);
  });

  it.each([
    ['not UTF-8', Buffer.from('{"id":"i1","reason":"a\xff","delta":"1.00","delta":"2.00"}', 'latin1')],
    ['cut', Buffer.from('{"id":"i1","reason":"a","delta":"1.00"')],
    ['followed by another', Buffer.from('{"id":"i1","reason":"a","delta":"1.00"}{"delta":"2.00"}')],
    ['behind a byte order mark', Buffer.from('\uFEFF{"id":"i1","reason":"a","delta":"1.00"}')],
    ['nested too deep', Buffer.from(`{"id":${'['.repeat(1001)}${']'.repeat(1001)}}`)],
  ])('refuses JSON that is %s', async (_how, body) => {
    const response = await door.fetch('/accounts/acme/adjustments', {
      method: 'POST',
      body,
      headers: { authorization: `Bearer ${OPERATOR_TOKEN}`, 'content-type': 'application/json' },
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_json' } });
    expect(await door.router.accounts.get('acme')).toMatchObject({ granted: '5.00' });
  });

  it.each([
    ['/accounts?limit=0', 'invalid_value', 'limit'],
    ['/accounts?limit=1001', 'invalid_value', 'limit'],
    ['/accounts?limit=ten', 'invalid_value', 'limit'],
    ['/accounts?limit=', 'invalid_value', 'limit'],
    ['/accounts?limit=1&limit=2', 'ambiguous_parameter', 'limit'],
    ['/accounts?page=2', 'unsupported_parameter', 'page'],
    ['/accounts?cursor=%20', 'invalid_value', 'cursor'],
    ['/accounts/acme/journal?after=-1', 'invalid_value', 'after'],
    ['/accounts/a%20b', 'invalid_value', 'account'],
    ['/health?x=1', 'unsupported_parameter', 'x'],
    ['/usage?from=yesterday', 'invalid_value', 'from'],
    ['/usage?from=2026-02-30', 'invalid_value', 'from'],
    ['/usage?from=2026-11-02&to=2026-11-01', 'invalid_value', 'from'],
    ['/usage?group_by=day,day', 'invalid_value', 'group_by'],
    ['/usage?group_by=hour', 'invalid_value', 'group_by'],
    ['/usage?group_by=tag:', 'invalid_value', 'group_by'],
    ['/usage?group_by=tag:a,tag:a', 'invalid_value', 'group_by'],
    ['/usage?group_by=user', 'invalid_value', 'group_by'],
    ['/usage?model=a%20b', 'invalid_value', 'model'],
  ])('refuses GET %s', async (path, code, param) => {
    const { status, body } = await door.ask('GET', path);
    expect([status, body.error.code, body.error.param]).toEqual([400, code, param]);
  });

  it.each([
    ['GET', '/accounts/nobody', 'account_not_found'],
    ['PATCH', '/accounts/nobody', 'account_not_found'],
    ['GET', '/accounts/nobody/keys', 'account_not_found'],
    ['GET', '/accounts/nobody/journal', 'account_not_found'],
    ['DELETE', '/accounts/acme/keys/none', 'key_not_found'],
    ['GET', '/accounts/acme/bogus/health', 'unknown_endpoint'],
    ['GET', '/nothing', 'unknown_endpoint'],
  ])('says of %s %s that there is none', async (method, path, code) => {
    const asked = await door.ask(method, path, method === 'PATCH' ? { frozen: true } : undefined);
    expect([asked.status, asked.body.error.code]).toEqual([404, code]);
  });

  it('refuses a body that is far too long, without reading it all', async () => {
    const { status, body } = await door.ask('POST', GRANTS, ' '.repeat(65_537));
    expect([status, body.error.code]).toEqual([413, 'request_too_large']);
  });
});

describe('what an account refuses', () => {
  it('is a 409 that says why', async () => {
    const door = await startAdmin();
    await door.ask('POST', GRANTS, { id: 'pay_1', amount: '5.00' });
    const codeOf = async (path: string, body: unknown): Promise<unknown> => {
      const { status, body: refused } = await door.ask('POST', path, body);
      return [status, refused.error.code];
    };
    const adjustments = '/accounts/acme/adjustments';
    expect(await codeOf(GRANTS, { id: 'pay_1', amount: '6.00' })).toEqual([409, 'id_already_used']);
    expect(await codeOf(adjustments, { id: 'a', delta: '-5.01', reason: 'x' })).toEqual([
      409,
      'balance_too_low',
    ]);
    expect(await codeOf(GRANTS, { id: 'b', amount: '9007199.00' })).toEqual([409, 'balance_too_large']);
    expect(await codeOf('/accounts/nobody/adjustments', { id: 'a', delta: '1.00', reason: 'x' })).toEqual([
      404,
      'account_not_found',
    ]);
    expect(await door.router.accounts.get('acme')).toMatchObject({ granted: '5.00' });
    await door.close();
  });

  it('is a 409 where a policy is changed by others all the time', async () => {
    class BusyStore extends MemoryStore {
      override updateKey: MemoryStore['updateKey'] = async () => ({ code: 'changed', now: 0, seq: 1n });
    }
    const door = await startAdmin({ store: new BusyStore() });
    await door.router.credits.grant('acme', '5.00', { id: 'first' });
    const { status, body } = await door.ask('PATCH', '/accounts/acme', { policy: { name: 'Acme' } });
    expect([status, body.error.code, body.error.message]).toEqual([
      409,
      'key_changing',
      'The policy of account acme was modified concurrently; retry.',
    ]);
    expect(door.errors).toEqual([]);
    await door.close();
  });

  it('is a 503 that says whether it may have happened, while the store is unavailable', async () => {
    class AwayStore extends MemoryStore {
      applied: 'no' | 'unknown' = 'no';
      override grant(): never {
        throw new StoreUnavailableError(this.applied);
      }
      override balance(): never {
        throw new StoreUnavailableError(this.applied);
      }
    }
    const store = new AwayStore();
    const door = await startAdmin({ store });
    const before = await door.ask('POST', GRANTS, { id: 'g', amount: '1.00' });
    store.applied = 'unknown';
    const after = await door.ask('POST', GRANTS, { id: 'g', amount: '1.00' });
    const read = await door.ask('GET', '/accounts/acme');
    for (const { status, body, headers } of [before, after, read]) {
      expect([status, body.error.code, headers.get('retry-after')]).toEqual([
        503,
        'credit_store_unavailable',
        '1',
      ]);
    }
    expect(before.body.error.message).toContain('nothing was changed');
    expect(after.body.error.message).toContain('Send the same request again');
    expect(read.body.error.message).toContain('nothing was changed');
    expect(door.audits.map(({ outcome }) => outcome)).toEqual(['failed', 'failed']);
    await door.close();
  });
});

describe('an Idempotency-Key', () => {
  const KEY = { 'idempotency-key': 'order-7' };
  const folder = mkdtempSync(join(tmpdir(), 'ccr-admin-'));

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('makes a grant once, in whatever process it comes, and after a restart', async () => {
    const store = `sqlite:${join(folder, 'credits.db')}`;
    const [one, other] = [await startAdmin({ store }), await startAdmin({ store })];
    const first = await one.ask('POST', GRANTS, { amount: '5.00' }, KEY);
    const second = await other.ask('POST', GRANTS, { amount: '5.00' }, KEY);
    for (const door of [one, other]) await door.close();
    const restarted = await startAdmin({ store });
    const third = await restarted.ask('POST', GRANTS, { amount: '5.00' }, KEY);
    expect(first).toMatchObject({ status: 201, body: { available: '5.00', duplicate: false } });
    for (const again of [second, third]) {
      expect(again).toMatchObject({
        status: 200,
        body: { id: first.body.id, account: 'acme', available: '5.00', duplicate: true },
      });
    }
    const reused = await restarted.ask('POST', GRANTS, { amount: '6.00' }, KEY);
    expect([reused.status, reused.body.error.code]).toEqual([409, 'idempotency_key_reused']);
    expect(await restarted.router.accounts.get('acme')).toMatchObject({ granted: '5.00' });
    await restarted.close();
  });

  it('makes an adjustment once, and is not to be used for a grant as well', async () => {
    const door = await startAdmin();
    await door.ask('POST', GRANTS, { id: 'first', amount: '5.00' });
    const adjust = (delta: string): ReturnType<AdminDoor['ask']> =>
      door.ask('POST', '/accounts/acme/adjustments', { delta, reason: 'refund' }, KEY);
    const answers = await Promise.all([adjust('-1.00'), adjust('-1.00'), adjust('-1.00')]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 201]);
    expect((await adjust('-2.00')).status).toBe(409);
    expect((await door.ask('POST', GRANTS, { amount: '1.00' }, KEY)).status).toBe(409);
    expect(await door.router.accounts.get('acme')).toMatchObject({ balance: '4.00' });
    expect(door.audits.map(({ outcome }) => outcome).sort()).toEqual([
      'done',
      'done',
      'refused',
      'refused',
      'repeated',
      'repeated',
    ]);
    await door.close();
  });

  it('is each account’s own', async () => {
    const door = await startAdmin();
    for (const account of ['acme', 'zeta']) {
      const { status } = await door.ask('POST', `/accounts/${account}/grants`, { amount: '5.00' }, KEY);
      expect(status).toBe(201);
    }
    await door.close();
  });

  it('is refused beside another id, and where it is no name', async () => {
    const door = await startAdmin();
    const both = await door.ask('POST', GRANTS, { id: 'pay_1', amount: '5.00' }, KEY);
    expect([both.status, both.body.error.code]).toEqual([400, 'ambiguous_parameter']);
    const odd = await door.ask('POST', GRANTS, { amount: '5.00' }, { 'idempotency-key': 'a b' });
    expect([odd.status, odd.body.error.code]).toEqual([400, 'invalid_idempotency_key']);
    const same = await door.ask('POST', GRANTS, { id: 'order-7', amount: '5.00' }, KEY);
    expect([same.status, same.body.id]).toEqual([201, 'order-7']);
    await door.close();
  });

  it('leaves what is idempotent by nature as it is', async () => {
    const door = await startAdmin();
    await door.ask('POST', GRANTS, { id: 'g', amount: '1.00' });
    const freeze = (): ReturnType<AdminDoor['ask']> =>
      door.ask('PATCH', '/accounts/acme', { frozen: true }, KEY);
    expect((await freeze()).body).toEqual((await freeze()).body);
    expect(door.audits.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'repeated']);
    await door.close();
  });
});

describe('the audit', () => {
  it('has who did what to whom, from where, and what it was before', async () => {
    const door = await startAdmin();
    const granted = await door.ask('POST', GRANTS, { id: 'pay_1', amount: '5.00' });
    await door.ask('PATCH', '/accounts/acme', { frozen: true });
    expect(door.audits).toEqual([
      {
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        operator: 'ada',
        action: 'grants.create',
        account: 'acme',
        target: 'pay_1',
        requestId: granted.headers.get('x-request-id'),
        ip: '127.0.0.1',
        outcome: 'done',
        status: 201,
        body: { id: 'pay_1', amount: '5.00' },
      },
      expect.objectContaining({
        action: 'accounts.update',
        account: 'acme',
        before: { frozen: false, policy: {}, credit_limit: '0.00' },
        after: { frozen: true, policy: {}, credit_limit: '0.00' },
      }),
    ]);
    await door.close();
  });

  it('names the whole account, also where the path does not', async () => {
    const door = await startAdmin();
    const account = `${'x'.repeat(120)}@a.eu`;
    await door.ask('POST', `/accounts/${encodeURIComponent(account)}/grants`, { amount: '5.00' });
    const { key, id } = await door.router.keys.create({ account });
    expect((await door.ask('POST', '/keys/revoke', { key })).body).toMatchObject({
      account,
      state: 'revoked',
    });
    expect(door.audits).toMatchObject([
      { action: 'grants.create', account },
      { action: 'keys.revoke', account, target: id, outcome: 'done', body: { key: id } },
    ]);
    await door.close();
  });

  it('has what unauthenticated clients tried to change, and nothing of what was read', async () => {
    const door = await startAdmin();
    await door.fetch(GRANTS, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    });
    await door.ask('GET', '/accounts');
    await door.fetch('/accounts');
    expect(door.audits).toMatchObject([
      { action: 'grants.create', account: 'acme', outcome: 'refused', status: 401, code: 'unauthorized' },
    ]);
    expect(door.audits[0]).not.toHaveProperty('operator');
    await door.close();
  });

  it('never holds a key: neither one that was made, nor one that was put where a name belongs', async () => {
    const door = await startAdmin();
    const { body } = await door.ask('POST', '/accounts/acme/keys', { name: 'prod' });
    await door.ask('POST', '/accounts/acme/keys', { name: `copy of ${body.key}` });
    await door.ask('POST', GRANTS, { id: 'g', amount: body.key });
    const reason = 'leaked sk-proj-abcdefghijklmnop';
    await door.ask('POST', '/accounts/acme/adjustments', { id: 'a', delta: '1.00', reason });
    expect(door.audits).toHaveLength(4);
    const lines = JSON.stringify(door.audits);
    expect(lines).not.toMatch(/sk-(ccr|proj)-\w/);
    expect(lines).toContain('copy of sk-***');
    await door.close();
  });

  it.each(['/keys/find', '/keys/revoke', '/sessions/revoke'])(
    'has of what %s was asked for the ID alone, and nothing of a secret that lacks its first letter',
    async (path) => {
      const door = await startAdmin();
      const { id, key } = await door.router.keys.create({ account: 'acme' });
      const page = { maxSpend: '0.50', ttlMs: 900_000, origins: ['https://chat.example.com'] };
      const session = door.router.sessions.create({ account: 'acme', ...page });
      const [name, secret, found] = path.startsWith('/keys')
        ? ['key', key, id]
        : ['session', session.session, session.id];
      const cut = secret.slice(1);
      await door.ask('POST', path, { [name]: cut });
      await door.ask('POST', path, { [name]: secret });
      expect(door.audits).toMatchObject([
        { body: { [name]: '***' } },
        { outcome: 'done', target: found, body: { [name]: found } },
      ]);
      expect(JSON.stringify(door.audits)).not.toContain(cut.slice(-20));
      await door.close();
    },
  );

  it('is a line of JSON on stderr where the host has no onAudit', async () => {
    const logged: string[] = [];
    const log = vi.spyOn(console, 'error').mockImplementation((line: string) => void logged.push(line));
    const door = await startAdmin({ onAudit: undefined as never });
    await door.ask('POST', GRANTS, { id: 'g', amount: '1.00' });
    log.mockRestore();
    await door.close();
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([
      { source: 'chat-completions-router', event: 'audit', operator: 'ada', action: 'grants.create' },
    ]);
  });

  it.each<[string, () => unknown]>([
    [
      'throws',
      (): never => {
        throw new RangeError('Invalid array length');
      },
    ],
    ['rejects', () => Promise.reject(new RangeError('Invalid array length'))],
  ])('that %s changes nothing of the answer, and the host is told', async (_how, onAudit) => {
    const door = await startAdmin({ onAudit });
    expect((await door.ask('POST', GRANTS, { id: 'g', amount: '1.00' })).status).toBe(201);
    await expect.poll(() => door.errors.map(({ message }) => message)).toEqual(['Invalid array length']);
    await door.close();
  });
});

describe('what the admin API shows', () => {
  it('is the journal, page by page', async () => {
    const door = await startAdmin();
    for (const id of ['a', 'b', 'c']) await door.router.credits.grant('acme', '1.00', { id });
    const first = await door.ask('GET', '/accounts/acme/journal?limit=2');
    expect(first.body).toMatchObject({ data: [{ id: 'a', type: 'grant' }, { id: 'b' }], next_after: 2 });
    const second = await door.ask('GET', '/accounts/acme/journal?limit=2&after=2');
    expect(second.body).toMatchObject({ data: [{ id: 'c', position: 3 }], next_after: null });
    await door.close();
  });

  it('is what each charge was for, to the provider that answered', async () => {
    const gateway = await startGateway();
    const door = await startAdmin({ router: gateway.router });
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    await response.text();
    await settled;
    const { body } = await door.ask('GET', '/accounts/acct/journal?after=1');
    expect(body.data).toEqual([
      {
        position: 2,
        type: 'charge',
        at: expect.stringMatching(/Z$/),
        id: response.headers.get('x-request-id'),
        request_id: response.headers.get('x-request-id'),
        amount: '0.000045',
        balance: '4.999955',
        held: expect.any(String),
        key: expect.any(String),
        model: 'acme/fast',
        usage: {
          prompt_tokens: 9,
          cached_tokens: 0,
          completion_tokens: 12,
          reasoning_tokens: 0,
          source: 'upstream',
          price: expect.any(String),
          ending: 'finished',
          provider: 'loopback',
          upstream_model: 'upstream-model',
          first_byte_ms: expect.any(Number),
          duration_ms: expect.any(Number),
          finish_reason: 'stop',
          streamed: false,
          cache_write_tokens: 0,
          web_searches: 0,
          byok: false,
        },
      },
    ]);
    await door.close();
    await gateway.close();
  });

  it('is what was used, by what it is asked for', async () => {
    const gateway = await startGateway();
    const door = await startAdmin({ router: gateway.router });
    for (let i = 0; i < 2; i++) {
      const settled = gateway.nextSettled();
      await (await gateway.post(QUESTION)).text();
      await settled;
    }
    const today = new Date().toISOString().slice(0, 10);
    const query = `from=${today}&account=acct&model=acme/fast&group_by=model,day`;
    expect((await door.ask('GET', `/usage?${query}`)).body).toEqual({
      object: 'list',
      data: [
        {
          day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
          model: 'acme/fast',
          requests: 2,
          errors: 0,
          aborted: 0,
          prompt_tokens: 18,
          cached_tokens: 0,
          completion_tokens: 24,
          reasoning_tokens: 0,
          charged: '0.00009',
          cost: '0.00',
        },
      ],
    });
    expect((await door.ask('GET', '/usage?account=nobody')).body).toEqual({ object: 'list', data: [] });
    await door.close();
    await gateway.close();
  });

  it('is what runs, and how the targets do', async () => {
    const gateway = await startGateway();
    const door = await startAdmin({ router: gateway.router });
    gateway.provider.script = () => {};
    const arrived = gateway.provider.next();
    const controller = new AbortController();
    void gateway.post(QUESTION, { signal: controller.signal }).catch(() => {});
    await arrived;
    expect((await door.ask('GET', '/running')).body).toMatchObject({
      object: 'list',
      data: [{ account: 'acct', model: 'acme/fast', provider: 'loopback', streaming: false }],
    });
    expect((await door.ask('GET', '/health')).body).toMatchObject({
      data: [{ provider: 'loopback', model: 'upstream-model', state: 'healthy', running: 1 }],
    });
    const settled = gateway.nextSettled();
    controller.abort();
    await settled;
    const { body } = await door.ask('GET', '/accounts/acct/journal');
    expect(body.data.at(-1)).toMatchObject({ type: 'charge', usage: { prompt_tokens: expect.any(Number) } });
    await door.close();
    await gateway.close();
  });
});
