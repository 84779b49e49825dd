import { inspect } from 'node:util';

import { afterEach, describe, expect, it, vi } from 'vitest';

import { ByokKeys } from '../../../src/keys/caller.ts';
import {
  type AuthenticatedCaller,
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  type Hooks,
  MemoryStore,
  type ModelOptions,
  type Settled,
} from '../../../src/index.ts';
import { type Mounted, mountOnNode, PRICING, PROVIDER_KEY, QUESTION } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';

const OWN_KEY = 'sk-customers-own-secret';

describe('a client with a key of its own', () => {
  let provider: Provider;
  let router: ChatCompletionsRouter;
  let mounted: Mounted;
  let store: MemoryStore;
  const settled: Settled[] = [];
  const errors: Error[] = [];
  const ejected = vi.fn<NonNullable<Hooks['onHealthChange']>>();

  /** Two providers at one address: `first`, whose key the client may have, and `second`. */
  async function start(
    caller: Partial<AuthenticatedCaller> = { upstreamKeys: { first: OWN_KEY } },
    model: Partial<ModelOptions> = {},
    credits = '5.00',
  ): Promise<void> {
    provider = await startProvider();
    store = new MemoryStore();
    settled.length = 0;
    errors.length = 0;
    ejected.mockReset();
    const { baseURL } = provider;
    router = createChatCompletionsRouter({
      store,
      providers: {
        first: { baseURL, apiKey: PROVIDER_KEY },
        second: { baseURL, apiKey: 'sk-second' },
      },
      models: {
        'acme/fast': {
          targets: [{ provider: 'first', model: 'm', cost: PRICING }, 'second/m'],
          pricing: PRICING,
          contextWindow: 8192,
          maxOutputTokens: 100,
          ...model,
        },
      },
      authenticate: (apiKey) =>
        apiKey === 'anonymous' ? { account: 'acct' } : { account: 'acct', ...caller },
      hooks: {
        onSettled: (event) => settled.push(event),
        onError: (error) => errors.push(error),
        onHealthChange: ejected,
      },
    });
    if (credits !== '0.00') await router.credits.grant('acct', credits, { id: 'welcome' });
    mounted = await mountOnNode(router);
  }

  afterEach(async () => {
    await mounted.close();
    await router.close();
    await provider.close();
  });

  function ask(apiKey = 'customer'): Promise<Response> {
    return fetch(`${mounted.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(QUESTION),
    });
  }

  const used = (): (string | undefined)[] =>
    provider.received.map(({ headers }) => headers.authorization?.replace('Bearer ', ''));

  it('has it used instead of the operator’s, and others don’t', async () => {
    await start();
    expect((await ask()).status).toBe(200);
    expect((await ask('anonymous')).status).toBe(200);
    expect(used()).toEqual([OWN_KEY, PROVIDER_KEY]);
  });

  it('is charged as others are, while the operator is billed nothing', async () => {
    await start();
    await ask();
    await ask('anonymous');
    await expect.poll(() => settled).toHaveLength(2);
    expect(settled).toMatchObject([
      { charged: '0.000045', cost: '0.00', provider: 'first' },
      { charged: '0.000045', cost: '0.000045', provider: 'first' },
    ]);
  });

  it.each([
    ['of its model', { byokPricing: { input: '0', output: '0', request: '0.000002' } }, '0.000002'],
    [
      'of its target',
      {
        byokPricing: { input: '7', output: '7' },
        targets: [{ provider: 'first', model: 'm', byokPricing: { input: '0.10', output: '0.30' } }],
      },
      '0.0000045',
    ],
  ])('is charged by the byokPricing %s', async (_where, model, charged) => {
    await start(undefined, model);
    await ask();
    await expect.poll(() => settled).toMatchObject([{ charged }]);
  });

  it('needs no credits where that is free', async () => {
    await start(undefined, { byokPricing: 'free', targets: ['first/m'] }, '0.000001');
    expect((await ask()).status).toBe(200);
    expect((await ask('anonymous')).status).toBe(402);
  });

  it.each([401, 402, 403])(
    'is told of a %i, without the provider’s words, and nobody pays in its place',
    async (status) => {
      await start();
      provider.script = answerJson(`{"error":{"message":"Incorrect key: ${OWN_KEY}"}}`, status);
      const response = await ask();
      expect(response.status).toBe(status);
      expect(response.headers.get('x-should-retry')).toBe('false');
      const body = await response.text();
      expect(JSON.parse(body)).toMatchObject({
        error: { code: 'byok_key_rejected', type: 'authentication_error', param: null },
      });
      expect(body).not.toContain(OWN_KEY);
      expect(used()).toEqual([OWN_KEY]);
      await expect.poll(() => settled).toMatchObject([{ charged: '0.00', voided: true }]);
    },
  );

  it('is reported for a 400 that is about the key as of a 401', async () => {
    await start();
    provider.script = answerJson('{"error":{"message":"No connected db.","type":"no_db_connection"}}', 400);
    const response = await ask();
    expect([response.status, await response.json()]).toMatchObject([
      401,
      { error: { code: 'byok_key_rejected' } },
    ]);
    expect(used()).toEqual([OWN_KEY]);
  });

  it('can’t set a target aside for others, by keys that are refused or spent', async () => {
    await start(undefined, { targets: ['first/m'] });
    for (const status of [401, 403, 429]) {
      provider.script = answerJson('{}', status, { 'retry-after': '60' });
      for (let i = 0; i < 6; i++) await ask();
    }
    expect(ejected).not.toHaveBeenCalled();
  });

  it('goes on to another target, with the operator’s key there, when the provider fails', async () => {
    await start();
    provider.script = (response, request) =>
      answerJson(completionBody(), request.headers.authorization === `Bearer ${OWN_KEY}` ? 503 : 200)(
        response,
        request,
      );
    expect((await ask()).status).toBe(200);
    expect(used()).toEqual([OWN_KEY, 'sk-second']);
    await expect.poll(() => settled).toMatchObject([{ provider: 'second', charged: '0.000045' }]);
  });

  it('never finds it in what is logged, told or kept', async () => {
    await start();
    const stderr = vi.spyOn(console, 'error');
    await ask();
    provider.script = answerJson('{}', 401);
    await ask();
    await expect.poll(() => settled).toHaveLength(2);
    const told = inspect([settled, errors, stderr.mock.calls, await store.snapshot('acct')], { depth: 20 });
    expect(told).not.toContain(OWN_KEY);
  });

  it.each([
    ['with a line break', 'sk-bad\r\nx-evil: 1'],
    ['that is empty', ''],
    ['that is no string', 12_345 as unknown as string],
  ])('is not served with a key %s, which nobody is shown', async (_fault, key) => {
    await start({ upstreamKeys: { first: key } });
    const response = await ask();
    expect(response.status).toBe(503);
    expect(provider.received).toHaveLength(0);
    const told = inspect(errors, { depth: 20 });
    expect(told).toContain(
      'upstreamKeys of authenticate must be visible ASCII characters; the one for "first"',
    );
    expect(told).not.toMatch(/sk-bad|12345/);
  });

  it('has the operator’s used where there is none of its own', async () => {
    await start({ upstreamKeys: { first: undefined, nobody: 'sk-x' } });
    expect((await ask()).status).toBe(200);
    expect(used()).toEqual([PROVIDER_KEY]);
  });
});

describe('a caller’s keys', () => {
  it('are in no log and no JSON', () => {
    const keys = new ByokKeys({ openai: OWN_KEY });
    expect(keys.of('openai')).toBe(OWN_KEY);
    expect(inspect(keys, { depth: 10, showHidden: true })).not.toContain(OWN_KEY);
    expect(JSON.stringify(keys)).toBe('{}');
  });
});
