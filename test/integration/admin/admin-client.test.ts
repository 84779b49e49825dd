import { createServer, type RequestListener } from 'node:http';

import { describe, expect, it, onTestFinished } from 'vitest';

import { type AdminClient, AdminApiError, createAdminClient } from '../../../src/client.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { FAST_MODEL, type Gateway, listen, QUESTION, startGateway } from '../../helpers/gateway.ts';

interface Setup {
  readonly gateway: Gateway;
  readonly door: AdminDoor;
  readonly client: AdminClient;
}

async function start(): Promise<Setup> {
  const gateway = await startGateway({
    sessions: { secret: 's'.repeat(32) },
    models: { 'acme/fast': { ...FAST_MODEL, strategy: 'weighted' } },
  });
  const door = await startAdmin({ router: gateway.router });
  onTestFinished(async () => {
    await door.close();
    await gateway.close();
  });
  return { gateway, door, client: createAdminClient({ baseURL: door.baseURL, token: OPERATOR_TOKEN }) };
}

/** A client of a server that is no admin API. */
async function clientOf(answer: RequestListener): Promise<AdminClient> {
  const server = await listen(createServer(answer), '/admin');
  onTestFinished(() => server.close());
  return createAdminClient({ baseURL: server.baseURL, token: OPERATOR_TOKEN });
}

/** The client, which notes the functions that answered. */
function noting(client: AdminClient, answered: Set<string>): AdminClient {
  return new Proxy(client, {
    get: (functions, name: keyof AdminClient) => async (input: never, options: never) => {
      const answer: unknown = await functions[name](input, options);
      answered.add(name);
      return answer;
    },
  });
}

async function errorOf(call: Promise<unknown>): Promise<AdminApiError> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof AdminApiError) return error;
  throw new Error('no AdminApiError was thrown', { cause: error });
}

describe('a client of the admin API', () => {
  it('has a function for each operation that the description names, and each answers', async () => {
    const { gateway, door, client } = await start();
    const answered = new Set<string>();
    const noted = noting(client, answered);
    const settled = gateway.nextSettled();
    await (await gateway.post(QUESTION)).text();
    const { requestId: request } = await settled;
    const account = 'ann+tests@example.com';
    const month = new Date().toISOString().slice(0, 7);

    const grant = await noted.createGrant({ account, id: 'g', amount: '25.00' });
    expect(grant).toMatchObject({ id: 'g', account, available: '25.00', duplicate: false });
    expect(await noted.createAdjustment({ account, id: 'a', delta: '-1.00', reason: 'typo' })).toMatchObject({
      available: '24.00',
    });
    const { id, key } = await noted.createKey({ account, name: 'prod', models: ['acme/*'] });
    expect(key).toMatch(/^sk-/);
    expect((await noted.listKeys({ account })).data).toMatchObject([{ id, name: 'prod' }]);
    expect(await noted.updateKey({ account, id, name: null, requests_per_minute: 60 })).toMatchObject({
      id,
      requests_per_minute: 60,
    });
    expect(await noted.pauseKey({ account, id })).toMatchObject({ state: 'paused' });
    expect(await noted.resumeKey({ account, id })).toMatchObject({ state: 'active' });
    expect((await noted.rotateKey({ account, id, overlap_ms: 1000 })).key).toMatch(/^sk-/);
    expect((await noted.findKey({ key: id })).data).toMatchObject([{ account, id }]);
    expect(await noted.revokeFoundKey({ key: id })).toMatchObject({ id, state: 'revoked' });
    expect(await noted.revokeKey({ account, id })).toMatchObject({ id, state: 'revoked' });
    expect(await noted.getKey({ account, id })).toMatchObject({ id, state: 'revoked' });
    const policy = { requests_per_minute: 5, end_users: { requests_per_minute: 2 } };
    expect(await noted.updateAccount({ account, policy })).toMatchObject({ id: account });
    const endUser = await noted.getEndUser({ account, end_user: 'ben/1' });
    expect(endUser).toMatchObject({ end_user: 'ben/1', shared: false, requests_left: 2 });
    expect(await noted.getAccount({ account })).toMatchObject({ id: account, balance: '24.00' });
    expect((await noted.listAccounts({ limit: 10 })).data.map(({ id: each }) => each)).toContain(account);
    const page = { max_spend: '1.00', ttl_ms: 60_000, origins: ['https://chat.example.com'] };
    const made = await noted.createSession({ account, ...page });
    expect(await noted.revokeSession({ session: made.session })).toEqual({ id: made.id, account });
    const { data: entries } = await noted.listJournal({ account, limit: 1 });
    expect(entries).toMatchObject([{ type: 'grant', id: 'g' }]);
    await noted.setAllowance({ account, allowance: 'pro', amount: '2.00', per: 'month' });
    expect((await noted.listAllowances({ account })).data).toMatchObject([{ id: 'pro' }]);
    expect((await noted.listGrants({ account })).data).toEqual(
      expect.arrayContaining([expect.objectContaining({ allowance: 'pro' })]),
    );
    await noted.endAllowance({ account, allowance: 'pro', at: 'now' });
    expect(await noted.refundRequest({ account: 'acct', request, reason: 'broken' })).toMatchObject({
      account: 'acct',
    });
    expect(await noted.getStatement({ account, month })).toMatchObject({ account, granted: '27.00' });
    expect(await noted.getStatementCsv({ account, month })).toMatch(/^type,at,id,model,key,requests,/);
    const usage = await noted.queryUsage({ account: 'acct', group_by: ['day', 'model'] });
    expect(usage.data).toMatchObject([{ model: 'acme/fast', requests: 1 }]);
    expect((await noted.listTargets()).data).toMatchObject([{ provider: 'loopback', state: 'healthy' }]);
    expect((await noted.listRunningRequests()).data).toEqual([]);
    expect(await noted.getStatus()).toMatchObject({ store: { state: 'available' } });
    expect((await noted.verifyAccounts({ account })).findings).toEqual([]);
    expect((await noted.listModels()).data[0]).toMatchObject({ targets: [{ provider: 'loopback' }] });
    expect(await noted.getMe()).toMatchObject({ name: 'ada' });
    expect((await noted.listRequests({ account: 'acct', status: '2xx' })).data).toMatchObject([
      { id: request },
    ]);
    expect(await noted.getRequest({ request })).toMatchObject({ model: 'acme/fast', status: 200 });
    expect((await noted.listProviders()).data).toMatchObject([{ name: 'loopback', state: 'healthy' }]);
    expect(await noted.ejectProvider({ name: 'loopback', for_ms: 1000 })).toMatchObject({ state: 'ejected' });
    expect(await noted.readmitProvider({ name: 'loopback' })).toMatchObject({ state: 'healthy' });
    const weight = { name: 'loopback', model: 'acme/fast', weight: 2 };
    expect((await noted.setWeight(weight)).targets).toMatchObject([{ weight: 2 }]);
    expect(await noted.deleteAccount({ account })).toBeDefined();
    const { paths } = await noted.getDescription();
    expect(await noted.getPage()).toMatch(/^<!doctype html>/i);

    const described = Object.values(Object(paths)).flatMap((methods) =>
      Object.values(Object(methods)).map((operation) =>
        String(Reflect.get(Object(operation), 'operationId')),
      ),
    );
    expect(answered).toEqual(new Set([...described, 'getStatementCsv']));
    expect(new Set(Object.keys(client))).toEqual(answered);
    expect(door.errors).toEqual([]);
  });

  it('makes a change once, however often it is sent with its Idempotency-Key', async () => {
    const { client } = await start();
    const send = () =>
      client.createGrant({ account: 'acme', amount: '5.00' }, { idempotencyKey: 'payment-17' });
    expect(await send()).toMatchObject({ duplicate: false, available: '5.00' });
    expect(await send()).toMatchObject({ duplicate: true, available: '5.00' });
    const other = client.createGrant({ account: 'acme', amount: '6.00' }, { idempotencyKey: 'payment-17' });
    expect(await errorOf(other)).toMatchObject({ status: 409, code: 'idempotency_key_reused' });
  });

  it('throws what the admin API refuses, with status, code, message, parameter and request ID', async () => {
    const { client, door } = await start();
    const error = await errorOf(client.createGrant({ account: 'acme', id: 'g', amount: '-1' }));
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({
      status: 400,
      code: 'invalid_value',
      param: 'amount',
      message: expect.stringMatching(/^amount must be .*, got "-1"\.$/),
      shouldRetry: false,
    });
    expect(door.audits).toMatchObject([{ requestId: error.requestId, outcome: 'refused' }]);
    // @ts-expect-error -- a name that it doesn't know reaches the server, which names it
    const unknown = await errorOf(client.queryUsage({ colour: 'red' }));
    expect(unknown).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'colour' });
    const stranger = createAdminClient({ baseURL: door.baseURL, token: 'wrong' });
    expect(await errorOf(stranger.listAccounts())).toMatchObject({ status: 401, code: 'unauthorized' });
  });

  it.each(['', '.', '..'])('sends no %j in a path: it would be the path of another operation', async (id) => {
    const { client, gateway } = await start();
    await expect(client.revokeKey({ account: 'acct', id })).rejects.toThrow(/^id must be a string/);
    await expect(client.deleteAccount({ account: id })).rejects.toThrow(/^account must be a string/);
    expect(await gateway.router.accounts.get('acct')).toBeDefined();
  });

  it('says that there was no answer, and why', async () => {
    const client = await clientOf((request) => request.socket.destroy());
    const error = await errorOf(client.listAccounts());
    expect(error).toMatchObject({ status: 0, code: 'no_answer', shouldRetry: true });
    expect(error.message).toMatch(/^The admin API did not answer: .+/);
  });

  it.each([
    ['a page', 200, '<html>'],
    ['the error of a proxy', 502, '<html>'],
    ['an error of another API', 404, '{"message":"no route"}'],
  ])('does not take %s for an answer', async (_what, status, body) => {
    const client = await clientOf((_request, response) => response.writeHead(status).end(body));
    expect(await errorOf(client.listAccounts())).toMatchObject({ status, code: 'invalid_answer' });
  });

  it('follows no redirect with its token', async () => {
    const asked: (string | undefined)[] = [];
    const client = await clientOf((request, response) => {
      asked.push(request.url);
      response.writeHead(307, { location: '/elsewhere' }).end();
    });
    expect(await errorOf(client.listAccounts())).toMatchObject({ status: 307, code: 'invalid_answer' });
    expect(asked).toEqual(['/admin/accounts']);
  });

  it('ends with its signal', async () => {
    const arrived = Promise.withResolvers<void>();
    const client = await clientOf(() => arrived.resolve());
    const controller = new AbortController();
    const call = client.listAccounts({}, { signal: controller.signal });
    await arrived.promise;
    controller.abort(new Error('too slow'));
    await expect(call).rejects.toThrow('too slow');
  });

  it('asks by the fetch that it is given', async () => {
    const urls: string[] = [];
    const client = createAdminClient({
      baseURL: 'https://api.example.com/admin/',
      token: 'secret',
      fetch: async (url) => {
        urls.push(url);
        return Response.json({ object: 'list', data: [] });
      },
    });
    await client.listKeys({ account: 'ann/b@example.com' });
    expect(urls).toEqual(['https://api.example.com/admin/accounts/ann%2Fb%40example.com/keys']);
  });
});

describe('createAdminClient', () => {
  const right = { baseURL: 'https://api.example.com/admin', token: 'secret' };

  it.each([
    [
      { ...right, baseURL: '/admin' },
      'baseURL must be an absolute http(s) URL without a query and without a password, got "/admin"',
    ],
    [{ ...right, baseURL: 'https://ops:secret@a.example/admin' }, /password, got "\*\*\*@a.example\/admin"$/],
    [{ ...right, baseURL: 'https://ops:se/cret@a.example' }, /password, got "\*\*\*@a.example"$/],
    [{ ...right, baseURL: 'https://a.example/?x' }, /^baseURL must be/],
    [
      { ...right, token: 'line\nbreak' },
      /^token must be a string of printable ASCII characters without spaces$/,
    ],
    [{ ...right, token: undefined }, /^token must be/],
    [{ ...right, fetch: 'fetch' }, 'fetch must be a function, got string'],
    [{ ...right, retries: 2 }, 'createAdminClient has no option "retries"'],
  ])('refuses %j by name', (options, message) => {
    // @ts-expect-error -- options as they should not be
    expect(() => createAdminClient(options)).toThrow(message);
  });
});
