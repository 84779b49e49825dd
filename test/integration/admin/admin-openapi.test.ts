import { describe, expect, it } from 'vitest';

import { endpoints } from '../../../src/admin/endpoints.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { clientsOf, FAST_MODEL, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { nodes, type OpenApiDocument, problems, resolve } from '../../helpers/openapi.ts';

async function readDocument(door: AdminDoor): Promise<OpenApiDocument> {
  const { status, body } = await door.ask('GET', '/openapi.json');
  expect(status).toBe(200);
  return body;
}

async function openDocument(): Promise<OpenApiDocument> {
  const door = await startAdmin();
  const document = await readDocument(door);
  await door.close();
  return document;
}

interface Described {
  readonly properties: Readonly<Record<string, { readonly description?: string }>>;
}

describe('the description of the admin API', () => {
  it('is OpenAPI 3.1, in which every reference leads to something', async () => {
    const document = await openDocument();
    expect(document.openapi).toBe('3.1.0');
    expect(document.info.title).toContain('chat-completions-router');
    const references = [...nodes(document)].filter(([, { $ref }]) => $ref !== undefined);
    expect(references.length).toBeGreaterThan(30);
    for (const [place, { $ref }] of references) expect(resolve(document, String($ref)), place).toBeDefined();
    for (const [place, node] of nodes(document.components.schemas)) {
      for (const name of ['$id', '$schema', '$defs']) expect(node, place).not.toHaveProperty(name);
    }
  });

  it('has what the router serves, and nothing else', async () => {
    const { paths } = await openDocument();
    const described = Object.entries(paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const served = endpoints.map(({ method, path }) => `${method} ${path}`);
    expect(described.toSorted()).toEqual([...served, 'GET /openapi.json', 'GET /'].toSorted());
    expect(new Set(served).size).toBe(served.length);
  });

  it('has a name, path parameters and a body for each operation that takes them', async () => {
    const { paths } = await openDocument();
    const names: string[] = [];
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        names.push(operation.operationId);
        const inPath = (operation.parameters ?? []).filter((each) => each.in === 'path' && each.required);
        const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
        expect(
          inPath.map(({ name }) => name),
          path,
        ).toEqual(named);
        expect(operation.requestBody !== undefined, `${method} ${path}`).toBe(/post|patch/.test(method));
        expect(operation.responses).toHaveProperty('default');
      }
    }
    expect(new Set(names).size).toBe(names.length);
  });

  it('says of each change what its repetition answers', async () => {
    const { paths } = await openDocument();
    for (const operations of Object.values(paths)) {
      for (const [method, { operationId, parameters = [] }] of Object.entries(operations)) {
        const key = parameters.find(({ name }) => name === 'Idempotency-Key');
        expect(key?.description ?? '', operationId).toMatch(
          method === 'get' ? /^$/ : /^Identifies the request.*\. A repeated request gets .+\.$/,
        );
      }
    }
  });

  it('describes what is answered, to the last member', async () => {
    const gateway = await startGateway({ models: { 'acme/fast': { ...FAST_MODEL, strategy: 'weighted' } } });
    const door = await startAdmin({ router: gateway.router });
    const document = await readDocument(door);
    const seen = new Set<string>();
    async function check(method: string, path: string, url: string, body?: unknown): Promise<unknown> {
      const asked = await door.ask(method, url, body);
      const response = document.paths[path]?.[method.toLowerCase()]?.responses[asked.status];
      const described = response?.$ref ? (resolve(document, response.$ref) as typeof response) : response;
      const schema = described?.content?.['application/json']?.schema;
      expect(schema, `${method} ${path} ${asked.status}`).toBeDefined();
      expect(
        problems(document, schema!, asked.body),
        `${method} ${url}: ${JSON.stringify(asked.body)}`,
      ).toEqual([]);
      seen.add(`${method} ${path}`);
      return asked.body;
    }

    const settled = gateway.nextSettled();
    await (await gateway.post(QUESTION)).text();
    await settled;
    const account = '/accounts/{account}';
    await check('GET', `${account}/grants`, '/accounts/acct/grants');
    await check('POST', `${account}/grants`, '/accounts/acct/grants', {
      id: 'g',
      amount: '1.00',
      priority: 3,
    });
    await check('POST', `${account}/grants`, '/accounts/acct/grants', {
      id: 'g',
      amount: '1.00',
      priority: 3,
    });
    await check('POST', `${account}/grants`, '/accounts/acct/grants', { id: 'g', amount: '2.00' });
    await check('POST', `${account}/grants`, '/accounts/acct/grants', {});
    const adjustment = { id: 'a', delta: '-1.00', reason: 'goodwill' };
    await check('POST', `${account}/adjustments`, '/accounts/acct/adjustments', adjustment);
    const policy = {
      name: 'prod',
      metadata: { plan: 'pro' },
      expires_at: '2099-01-01T00:00:00Z',
      models: ['acme/*'],
      budget: { amount: '5', per: 'month' },
      requests_per_minute: 60,
      tokens_per_minute: 1000,
      concurrent_requests: 2,
      markup: { factor: '1.2', fee: '0.001' },
    };
    const made = (await check('POST', `${account}/keys`, '/accounts/acct/keys', policy)) as { id: string };
    const { id } = made;
    await check('POST', `${account}/keys`, '/accounts/acct/keys', { ...policy, id });
    await check('GET', `${account}/keys`, '/accounts/acct/keys');
    await check('GET', `${account}/keys/{id}`, `/accounts/acct/keys/${id}`);
    await check('PATCH', `${account}/keys/{id}`, `/accounts/acct/keys/${id}`, { markup: null });
    await check('POST', `${account}/keys/{id}/rotate`, `/accounts/acct/keys/${id}/rotate`, {
      overlap_ms: 1000,
    });
    await check('POST', `${account}/keys/{id}/pause`, `/accounts/acct/keys/${id}/pause`, {});
    await check('POST', `${account}/keys/{id}/resume`, `/accounts/acct/keys/${id}/resume`, {});
    await check('POST', '/keys/find', '/keys/find', { key: id });
    await check('POST', '/keys/find', '/keys/find', { key: '' });
    await check('POST', '/keys/revoke', '/keys/revoke', { key: gateway.key });
    await check('POST', '/keys/revoke', '/keys/revoke', { key: 'none' });
    await check('DELETE', `${account}/keys/{id}`, `/accounts/acct/keys/${id}`);
    const page = { max_spend: '0.50', ttl_ms: 60_000, origins: ['https://chat.example.com'] };
    await check('POST', `${account}/sessions`, '/accounts/acct/sessions', page);
    await check('POST', `${account}/sessions`, '/accounts/nobody/sessions', page);
    await check('POST', '/sessions/revoke', '/sessions/revoke', { session: 'ses-of.another' });
    await check('PATCH', account, '/accounts/acct', { frozen: false });
    const budget = [
      { amount: '1', per: 'hour' },
      { amount: '5.00', per: 'month' },
    ];
    const limits = { budget, requests_per_minute: 60, end_users: { budget: budget[0], max: 5 } };
    await check('PATCH', account, '/accounts/acct', { policy: { ...limits, metadata: { plan: 'pro' } } });
    await check('PATCH', account, '/accounts/acct', { policy: { budget: null } });
    await check('PATCH', account, '/accounts/acct', {});
    await check('GET', account, '/accounts/acct');
    await check('GET', account, '/accounts/nobody');
    const endUser = `${account}/end-users/{end_user}`;
    await check('GET', endUser, '/accounts/acct/end-users/ann');
    await check('GET', endUser, '/accounts/nobody/end-users/ann');
    await check('GET', '/accounts', '/accounts?limit=1');
    await check('GET', `${account}/journal`, '/accounts/acct/journal');
    await check('GET', '/usage', '/usage?group_by=day,account,key,model');
    const plan = `${account}/allowances`;
    const terms = { amount: '2.00', per: 'month', rollover: 'once', until: '2099-01-01T00:00:00Z' };
    await check('POST', `${plan}/{allowance}`, '/accounts/acct/allowances/pro', terms);
    await check('POST', `${plan}/{allowance}`, '/accounts/acct/allowances/pro', { ...terms, per: 'day' });
    await check('GET', plan, '/accounts/acct/allowances');
    await check('DELETE', `${plan}/{allowance}`, '/accounts/acct/allowances/pro?at=now');
    const charge = (await gateway.store.journal('acct', 0n, 100)).find(({ type }) => type === 's');
    const refund = `${account}/requests/{request}/refund`;
    const refundUrl = `/accounts/acct/requests/${charge?.id}/refund`;
    await check('POST', refund, refundUrl, { reason: 'broken' });
    await check('POST', refund, refundUrl, { reason: 'broken', amount: '0.000001' });
    await check('POST', refund, '/accounts/acct/requests/0000000000000000000/refund', { reason: 'broken' });
    const month = new Date().toISOString().slice(0, 7);
    await check('GET', `${account}/statements/{month}`, `/accounts/acct/statements/${month}`);
    const csv = await door.fetch(`/accounts/acct/statements/${month}?format=csv`, {
      headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
    });
    expect(csv.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(await csv.text()).toMatch(/^type,at,id,model,key,requests,amount,reason\r\nopening,/);
    await gateway.router.credits.grant('gone', '1', { id: 'g' });
    await check('DELETE', account, '/accounts/gone');
    await check('DELETE', account, '/accounts/gone');
    await check('GET', '/health', '/health');
    await check('GET', '/requests', '/requests?status=2xx&limit=5');
    await check('GET', '/requests', '/requests?status=999');
    await check('GET', '/requests/{request}', `/requests/${charge?.id}`);
    await check('GET', '/requests/{request}', '/requests/0000000000000000000');
    const eject = { target: 'upstream-model', reason: 'wrong answers', for_ms: 60_000 };
    await check('POST', '/providers/{name}/eject', '/providers/loopback/eject', eject);
    await check('POST', '/providers/{name}/eject', '/providers/nobody/eject', {});
    await check('GET', '/providers', '/providers');
    const weight = { model: 'acme/fast', weight: 0.5 };
    await check('POST', '/providers/{name}/weight', '/providers/loopback/weight', weight);
    await check('POST', '/providers/{name}/weight', '/providers/nobody/weight', weight);
    await check('GET', '/models', '/models');
    await check('POST', '/providers/{name}/readmit', '/providers/loopback/readmit', {});
    await check('POST', '/providers/{name}/readmit', '/providers/loopback/readmit', { target: 'x' });
    gateway.provider.script = () => {};
    const arrived = gateway.provider.next();
    const controller = new AbortController();
    const { key } = await gateway.router.keys.create({ account: 'acct' });
    const { post } = clientsOf(gateway.baseURL, key);
    void post(QUESTION, { signal: controller.signal }).catch(() => {});
    await arrived;
    await check('GET', '/running', '/running');
    await check('GET', '/me', '/me');
    await check('GET', '/models', '/models');
    await check('GET', '/status', '/status');
    await check('GET', '/verification', '/verification?limit=1');
    controller.abort();

    expect(seen).toEqual(new Set(endpoints.map(({ method, path }) => `${method} ${path}`)));
    await door.close();
    await gateway.close();
  });

  it('says of a member what it is, however others describe the same type', async () => {
    const { components } = await openDocument();
    const { Account: account, UsageRow: row } = components.schemas as Record<string, Described>;
    expect(account?.properties['balance']?.description).toBe('USD, as a decimal string');
    expect(row?.properties['charged']?.description).toBe('what accounts paid, in USD');
    expect(row?.properties['cost']?.description).toBe('what providers bill, in USD, where known');
  });

  it('describes what a key may do by the same schemas, whether that is asked for or told', async () => {
    const { schemas } = (await openDocument()).components as { schemas: Record<string, Described> };
    const policy = Object.keys(schemas['ApiKeyChange']?.properties ?? {});
    expect(policy).toEqual([
      'name',
      'budget',
      'models',
      'require',
      'requests_per_minute',
      'tokens_per_minute',
      'concurrent_requests',
      'end_users',
      'markup',
      'expires_at',
      'metadata',
    ]);
    for (const name of policy.slice(1)) {
      const asked = schemas['NewApiKey']?.properties[name];
      expect(asked).toBeDefined();
      for (const answer of ['ApiKey', 'ApiKeyDetails', 'CreatedApiKey']) {
        expect(schemas[answer]?.properties[name], `${answer}.${name}`).toEqual(asked);
      }
    }
  });

  it('would not describe an answer that has another member, or a number for a string', async () => {
    const document = await openDocument();
    const { Account: account = {} } = document.components.schemas;
    const usd = '1.00';
    const right = {
      id: 'acme',
      balance: usd,
      credit_limit: usd,
      held: usd,
      spent: usd,
      granted: usd,
      expired: usd,
      written_off: usd,
      frozen: false,
    };
    expect(problems(document, account, right)).toEqual([]);
    expect(problems(document, account, { ...right, balance: 1 })).toHaveLength(1);
    expect(problems(document, account, { ...right, secret: 'x' })).toHaveLength(1);
  });

  it('takes by its schemas what the API takes, and refuses what it refuses', async () => {
    const document = await openDocument();
    const { NewGrant: grant = {} } = document.components.schemas;
    expect(problems(document, grant, { amount: '25.00', expires_at: '2027-01-31T00:00:00Z' })).toEqual([]);
    for (const wrong of [
      {},
      { amount: 25 },
      { amount: '-1' },
      { amount: '1', priority: 101 },
      { amount: '1', x: 1 },
    ]) {
      expect(problems(document, grant, wrong), JSON.stringify(wrong)).not.toEqual([]);
    }
  });
});
