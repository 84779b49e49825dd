import { afterEach, describe, expect, it, onTestFinished } from 'vitest';

import { type ChatCompletionsRouterOptions, type DimensionOptions, MemoryStore } from '../../../src/index.ts';
import { MAX_DIMENSION_VALUES } from '../../../src/ledger/contract/usage.ts';
import { startAdmin } from '../../helpers/admin.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, startProvider } from '../../helpers/provider.ts';
import { requestId, USAGE } from '../../contracts/ledger-fixture.ts';

const MODEL = { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 1000 };
const DIMENSIONS: DimensionOptions = {
  user: true,
  tags: ['feature', { name: 'Team', header: 'X-Team' }],
};
const gateways: Gateway[] = [];

afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
});

type Started = Omit<Gateway, 'post' | 'fetch'> & { readonly post: Gateway['post'] };

async function start(options: Partial<ChatCompletionsRouterOptions> = {}): Promise<Started> {
  const gateway = await startGateway({ models: { 'acme/fast': MODEL }, dimensions: DIMENSIONS, ...options });
  gateways.push(gateway);
  return gateway;
}

/** Asks, and returns what its charge was told with. */
async function ask({ post, nextSettled }: Started, more: object = {}, headers: Record<string, string> = {}) {
  const settled = nextSettled();
  expect((await post({ ...QUESTION, ...more }, { headers })).status).toBe(200);
  return await settled;
}

async function errorOf(response: Response): Promise<Record<string, unknown>> {
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  return { status: response.status, ...error };
}

describe('the dimensions of a request', () => {
  it('come from authenticate, a header, and metadata, in this order', async () => {
    const store = new MemoryStore();
    const one = await start({ store });
    const metadata = { feature: 'search', Team: 'red', team: 'none', other: 'x' };
    expect((await ask(one, { metadata, user: 'ann' })).dimensions).toEqual({
      user: 'ann',
      'tag:feature': 'search',
      'tag:Team': 'red',
    });
    expect((await ask(one, { metadata }, { 'x-team': 'blue' })).dimensions).toEqual({
      'tag:feature': 'search',
      'tag:Team': 'blue',
    });
    const authenticate = () => ({ account: 'acct', tags: { feature: 'chat', other: 'x', Team: undefined } });
    const other = await start({ store, authenticate });
    expect((await ask(other, { metadata }, { 'x-team': 'blue' })).dimensions).toEqual({
      'tag:feature': 'chat',
      'tag:Team': 'blue',
    });
  });

  it.each([
    ['no metadata', {}],
    ['null', { metadata: null }],
    ['a text', { metadata: 'feature' }],
    ['no tag', { metadata: { other: 'x', Feature: 'x' } }],
    ['an empty tag', { metadata: { feature: '' } }],
    ['a tag that is null', { metadata: { feature: null } }],
    ['a tag within another', { metadata: { other: { feature: 'x' }, list: ['feature', { feature: 'x' }] } }],
    ['a tag within a list', { metadata: [{ feature: 'x' }] }],
    ['metadata of a message', { messages: [{ role: 'user', content: 'Hi', metadata: { feature: 'x' } }] }],
    ['metadata in extra_body', { extra_body: { metadata: { feature: 'x' } } }],
  ])('are none with %s', async (_what, more) => {
    const { dimensions } = await ask(await start(), more);
    expect(dimensions).toBeUndefined();
  });

  it('are read wherever metadata stands, with what is in it', async () => {
    const gateway = await start();
    const settled = gateway.nextSettled();
    const body = `{"metadata":{"other":{"a":[1,{"b":"c"}]},"f\\u0065ature":"s\\u0065arch \\ud83d\\ude00"},${JSON.stringify(QUESTION).slice(1)}`;
    expect((await gateway.post(undefined, { body })).status).toBe(200);
    expect((await settled).dimensions).toEqual({ 'tag:feature': 'search \u{1f600}' });
    const received = gateway.provider.received.at(-1)?.body.toString() ?? '';
    expect(received).toContain('"metadata":{"other":{"a":[1,{"b":"c"}]},"f\\u0065ature"');
  });

  it.each([7, ['a'], { a: 'b' }, 'x'.repeat(65), 'a\nb', '\ud800', ' ', true])(
    'are refused by name where they can be none: %j',
    async (feature) => {
      const { post, provider } = await start();
      const refused = await errorOf(await post({ ...QUESTION, metadata: { feature } }));
      expect(refused).toMatchObject({ status: 400, code: 'invalid_type', param: 'metadata.feature' });
      expect(refused['message']).toContain('a string of 1 to 64 visible characters or null');
      expect(provider.received).toHaveLength(0);
    },
  );

  it('are refused where they are there twice, or too long in a header', async () => {
    const { post } = await start();
    const twice = JSON.stringify({ ...QUESTION, metadata: { feature: 'a' } }).replace(
      '"feature":',
      '"feature":"b","feature":',
    );
    expect(await errorOf(await post(undefined, { body: twice }))).toMatchObject({
      status: 400,
      code: 'ambiguous_parameter',
      param: 'metadata.feature',
    });
    const headers = { 'x-team': 'x'.repeat(65) };
    expect(await errorOf(await post(QUESTION, { headers }))).toMatchObject({
      status: 400,
      param: 'x-team',
      message: 'The header "x-team" must have 1 to 64 visible characters, got 65.',
    });
  });

  it('are not read unless the option says so', async () => {
    const gateway = await start({ dimensions: { user: true } });
    const { dimensions } = await ask(gateway, { user: 'ann', metadata: { feature: 7 } });
    expect(dimensions).toEqual({ user: 'ann' });
    const plain = await startGateway();
    gateways.push(plain);
    expect(await ask(plain, { user: 'ann', metadata: { feature: 7 } })).not.toHaveProperty('dimensions');
    expect((await plain.store.snapshot('acct'))?.dimensionUsage).toEqual([]);
    const tagged = await start({ dimensions: { tags: ['feature'] } });
    const both = await ask(tagged, { user: 7, metadata: { feature: 'search' } });
    expect(both.dimensions).toEqual({ 'tag:feature': 'search' });
  });

  it('are refused from authenticate where they are none', async () => {
    const gateway = await start({ authenticate: () => ({ account: 'acct', tags: { feature: 'a\nb' } }) });
    expect((await gateway.post(QUESTION)).status).toBe(503);
    expect(String(gateway.errors[0]?.cause)).toContain(
      '"feature" in tags of authenticate must be 1 to 64 visible',
    );
  });

  it('are those of metered routes and of holds too', async () => {
    const { router, key, nextSettled } = await start({
      dimensions: { user: { header: 'x-user' }, tags: ['feature'] },
    });
    const { fetch: handle } = router.meter(() => Response.json({}), { model: 'embed/small', price: '0.02' });
    let settled = nextSettled();
    const headers = { authorization: `Bearer ${key}`, 'x-user': 'ann' };
    await handle(new Request('http://localhost/embed', { method: 'POST', body: '{}', headers }));
    expect(await settled).toMatchObject({ charged: '0.02', dimensions: { user: 'ann' } });

    settled = nextSettled();
    const flux = { account: 'acct', amount: '0.40', model: 'images/flux' };
    const hold = await router.holds.open({ ...flux, user: 'ann', tags: { feature: 'art', other: 'x' } });
    await hold.settle('0.30');
    expect(await settled).toMatchObject({ dimensions: { user: 'ann', 'tag:feature': 'art' } });
    const voided = await router.holds.open({ ...flux, user: 'ben' });
    await voided.void();
    expect(await router.usage.query({ account: 'acct', groupBy: ['user'] })).toMatchObject([
      { user: 'ann', requests: 2, charged: '0.32' },
      { user: 'ben', requests: 1, errors: 1, charged: '0.00' },
    ]);
    await expect(router.holds.open({ ...flux, user: '' })).rejects.toThrow('user must be a text of 1 to 128');
    await expect(router.holds.open({ ...flux, tags: { feature: '' } })).rejects.toThrow(
      '"feature" in tags must be',
    );
  });
});

describe('usage by dimension', () => {
  it('adds up to all usage, with what has no value', async () => {
    const gateway = await start();
    const { router } = gateway;
    const charged = Number((await ask(gateway, { user: 'ann', metadata: { feature: 'search' } })).charged);
    await ask(gateway, { user: 'ann' });
    await ask(gateway, { user: 'ben', metadata: { feature: 'search' } });
    await ask(gateway);
    const [all] = await router.usage.query({ groupBy: [] });
    const users = await router.usage.query({ groupBy: ['user'] });
    expect(users.map(({ user, requests }) => [user, requests])).toEqual([
      ['', 1],
      ['ann', 2],
      ['ben', 1],
    ]);
    expect(users.reduce((sum, row) => sum + Number(row.charged), 0)).toBeCloseTo(Number(all?.charged), 9);
    expect(Number(users[1]?.charged)).toBeCloseTo(2 * charged, 9);
    const tags = await router.usage.query({ account: 'acct', groupBy: ['account', 'tag:feature'] });
    expect(tags.map(({ account, tag, requests }) => [account, tag, requests])).toEqual([
      ['acct', '', 2],
      ['acct', 'search', 2],
    ]);
    expect(await router.usage.query({ groupBy: ['tag:Team'] })).toMatchObject([{ tag: '', requests: 4 }]);
  });

  it('is told by the name of what it can not be grouped by', async () => {
    const { router } = await start({ dimensions: { user: true, tags: ['feature'] } });
    const query = (more: object) => router.usage.query(more);
    await expect(query({ groupBy: ['tag:team'] })).rejects.toThrow(
      'groupBy must be a list of some of "day", "account", "key", "model", "user", "tag:feature", each once, got "tag:team"',
    );
    await expect(query({ groupBy: ['user', 'model'] })).rejects.toThrow(
      'groupBy must be "user" with "day" and "account" alone, got "user, model"',
    );
    await expect(query({ groupBy: ['user', 'tag:feature'] })).rejects.toThrow('"user" with "day" and');
    await expect(query({ groupBy: ['user'], key: 'k1' })).rejects.toThrow(
      'key must be undefined with groupBy "user", got "k1"',
    );
    await expect(query({ groupBy: ['user'], model: 'm' })).rejects.toThrow('model must be undefined with');
    const plain = await startGateway();
    gateways.push(plain);
    await expect(plain.router.usage.query({ groupBy: ['user'] })).rejects.toThrow(
      '"model", each once, got "user"',
    );
  });

  it('is in the journal and the statement, and a refund takes it back', async () => {
    const gateway = await start();
    const { router } = gateway;
    const { requestId: id, charged } = await ask(gateway, { user: 'ann', metadata: { feature: 'search' } });
    await ask(gateway);
    const dimensions = { user: 'ann', 'tag:feature': 'search' };
    const entries = await router.credits.journal('acct');
    expect(entries[1]).toMatchObject({ type: 'charge', id, dimensions });
    expect(entries[2]).not.toHaveProperty('dimensions');
    await router.credits.refund(id, { account: 'acct', reason: 'bad' });
    expect((await router.credits.journal('acct'))[3]).toMatchObject({ type: 'refund', dimensions });
    expect(await router.usage.query({ groupBy: ['tag:feature'] })).toMatchObject([
      { tag: '', requests: 1, charged },
      { tag: 'search', requests: 1, charged: '0.00' },
    ]);
    const month = new Date().toISOString().slice(0, 7);
    const statement = await router.credits.statement('acct', month);
    expect(statement?.endUsers).toEqual([
      { user: '', requests: 1, charged, refunded: '0.00' },
      { user: 'ann', requests: 1, charged, refunded: charged },
    ]);
    await router.accounts.delete('acct');
    expect(await router.usage.query({ groupBy: ['user'] })).toEqual([]);
  });

  it('is told to operators over HTTP', async () => {
    const gateway = await start();
    const { router } = gateway;
    const { charged } = await ask(gateway, { user: 'ann', metadata: { feature: 'search', Team: 'Red' } });
    const admin = await startAdmin({ router });
    const get = async (path: string) => (await admin.ask('GET', path)).body;
    const row = { requests: 1, charged };
    expect(await get('/usage?group_by=user,day')).toMatchObject({ data: [{ user: 'ann', ...row }] });
    expect(await get('/usage?group_by=tag:Team')).toMatchObject({ data: [{ tag: 'Red', ...row }] });
    const { error } = await get('/usage?group_by=tag:none');
    expect(error).toMatchObject({ code: 'invalid_value', param: 'group_by' });
    const { data } = await get('/accounts/acct/journal');
    expect(data[1].dimensions).toEqual({ user: 'ann', 'tag:feature': 'search', 'tag:Team': 'Red' });
    const month = new Date().toISOString().slice(0, 7);
    expect(await get(`/accounts/acct/statements/${month}`)).toMatchObject({
      end_users: [{ user: 'ann', requests: 1, charged, refunded: '0.00' }],
    });
    await admin.close();
  });

  it(`tells once that an account has more than ${MAX_DIMENSION_VALUES} values a day`, async () => {
    const store = new MemoryStore();
    const told: unknown[] = [];
    const gateway = await start({ store, hooks: [{ onLedgerEvent: (event) => told.push(event) }] });
    for (let n = 0; n < MAX_DIMENSION_VALUES; n++) {
      await store.settle({
        account: 'acct',
        requestId: requestId(n, Date.now()),
        amount: 0n,
        key: 'k1',
        model: 'm',
        usage: USAGE,
        dimensions: { user: `user ${n}` },
        force: true,
      });
    }
    await ask(gateway, { user: 'late' });
    await ask(gateway, { user: 'later' });
    expect(told).toEqual([{ type: 'dimension_full', account: 'acct', dimension: 'user' }]);
    const rows = await gateway.router.usage.query({ groupBy: ['user'] });
    expect(rows.find(({ user }) => user === '(other)')).toMatchObject({ requests: 2 });
    expect(rows).toHaveLength(MAX_DIMENSION_VALUES + 1);
  });
});

describe('the option dimensions', () => {
  it.each<[unknown, string]>([
    [{ tag: [] }, 'dimensions has an unknown key "tag"; did you mean "tags"?'],
    [{ tags: 'feature' }, 'dimensions.tags must be a list of at most 4 tags, got "feature"'],
    [{ tags: ['a', 'b', 'c', 'd', 'e'] }, 'dimensions.tags must be a list of at most 4 tags'],
    [{ tags: ['a', 'a'] }, 'dimensions.tags must be tags of different names, got "a"'],
    [
      { tags: ['a b'] },
      'dimensions.tags[0] must be 1 to 32 letters, digits, "_" and "-", a letter first, got "a b"',
    ],
    [{ tags: [7] }, 'dimensions.tags[0] must be an object, got 7'],
    [{ tags: ['a', { name: '', header: 'x' }] }, 'dimensions.tags[1].name must be 1 to 32 letters'],
    [
      { tags: [{ name: 'a', header: 'x y' }] },
      'dimensions.tags[0].header must be the name of a header, got "x y"',
    ],
    [{ tags: [{ name: 'a' }] }, 'dimensions.tags[0].header must be the name of a header'],
    [{ tags: [{ name: 'a', heder: 'x' }] }, 'dimensions.tags[0]'],
  ])('is refused by name: %j', async (dimensions, message) => {
    await expect(startGateway({ dimensions: dimensions as never })).rejects.toThrow(TypeError);
    await expect(startGateway({ dimensions: dimensions as never })).rejects.toThrow(message);
  });
});

describe('usage by provider', () => {
  const byProvider = async ({ router }: Started, ...more: ('day' | 'account')[]) =>
    (await router.usage.query({ groupBy: ['provider', ...more] })).map(
      ({ provider, requests, errors, charged, cost }) => ({ provider, requests, errors, charged, cost }),
    );

  it('has what each provider answered, failed and costs, and of routes of the host', async () => {
    const other = await startProvider();
    const gateway = await startGateway({
      providers: { main: { baseURL: other.baseURL }, spare: { baseURL: other.baseURL } },
      models: {
        'acme/fast': {
          ...MODEL,
          targets: [{ provider: 'main', model: 'm', cost: { input: '0.5', output: '1' } }],
        },
        'acme/spare': { ...MODEL, targets: ['spare/m'] },
      },
      dimensions: { provider: true },
      retries: false,
    });
    gateways.push(gateway);
    onTestFinished(() => other.close());
    await ask(gateway);
    await ask(gateway, { model: 'acme/spare' });
    other.script = answerJson('{"error":{"message":"broken"}}', 503);
    const settled = gateway.nextSettled();
    expect((await gateway.post({ ...QUESTION, model: 'acme/spare' })).status).toBe(503);
    expect((await settled).dimensions).toEqual({ provider: 'spare' });
    const hold = await gateway.router.holds.open({ account: 'acct', amount: '1', model: 'images' });
    await hold.settle('0.25');
    // 9 prompt and 12 completion tokens.
    expect(await byProvider(gateway)).toEqual([
      { provider: 'host', requests: 1, errors: 0, charged: '0.25', cost: '0.00' },
      { provider: 'main', requests: 1, errors: 0, charged: '0.000045', cost: '0.0000165' },
      { provider: 'spare', requests: 2, errors: 1, charged: '0.000045', cost: '0.00' },
    ]);
  });

  it('adds up with what came before the option, and refunds are of the provider', async () => {
    const store = new MemoryStore();
    const before = await start({ store, dimensions: {} });
    await ask(before);
    const gateway = await start({ store, dimensions: { provider: true, user: true } });
    const { requestId: id } = await ask(gateway, { user: 'ann' });
    expect(await byProvider(gateway, 'day')).toMatchObject([
      { provider: '', requests: 1, charged: '0.000045' },
      { provider: 'loopback', requests: 1, charged: '0.000045' },
    ]);
    await gateway.router.credits.refund(id, { account: 'acct', reason: 'broken' });
    expect(await byProvider(gateway, 'account')).toMatchObject([
      { provider: '', charged: '0.000045' },
      { provider: 'loopback', requests: 1, charged: '0.00' },
    ]);
  });

  it('is refused where it is not counted, or with the model', async () => {
    const { router } = await start();
    await expect(router.usage.query({ groupBy: ['provider'] })).rejects.toThrow(
      /^groupBy must be a list of some of/,
    );
    const counting = await start({ dimensions: { provider: true } });
    await expect(counting.router.usage.query({ groupBy: ['provider', 'model'] })).rejects.toThrow(
      'groupBy must be "provider" with "day" and "account" alone, got "provider, model"',
    );
  });
});
