import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import {
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  type DiscoveryOptions,
  MemoryStore,
  type ProviderOptions,
} from '../../../src/index.ts';
import { catalogPrices } from '../../../src/prices.ts';
import { readListedModels } from '../../../src/catalog/provider-model-list.ts';
import { type FakeProvider, respond, type Script, startFakeProvider } from '../../../src/testing.ts';
import {
  clientsOf,
  type Gateway,
  type Mounted,
  mountOnNode,
  PRICING,
  QUESTION,
} from '../../helpers/gateway.ts';
import { completionBody } from '../../helpers/provider.ts';

/** As OpenRouter writes it: 1 and 3 USD per million. */
const FAST = {
  id: 'acme/fast',
  name: 'Acme: Fast',
  created: 1_700_000_000,
  description: 'A model.',
  context_length: 8192,
  architecture: { output_modalities: ['text'] },
  pricing: { prompt: '0.000001', completion: '0.000003', web_search: '0.01', request: '0' },
  top_provider: { context_length: 8192, max_completion_tokens: 1000 },
};
/** As Vercel writes it. */
const SMART = {
  id: 'acme/smart',
  type: 'language',
  owned_by: 'acme',
  context_window: 4096,
  max_tokens: 500,
  pricing: { input: '0.000002', output: '0.000004', input_cache_read: '0.0000002' },
};
const JSON_TYPE = { 'content-type': 'application/json' };

describe('models that a provider lists', () => {
  let provider: FakeProvider;
  let list: Script;
  let router: ReturnType<typeof createChatCompletionsRouter>;
  let mounted: Mounted;
  let gateway: Pick<Gateway, 'fetch' | 'post'>;
  const errors: Error[] = [];
  const told: ((error: Error) => void)[] = [];

  beforeEach(async () => {
    provider = await startFakeProvider();
    list = listing(FAST, SMART);
    errors.length = 0;
    provider.answer((response, request) =>
      (request.method === 'GET' ? list : respond(200, completionBody(), JSON_TYPE))(response, request),
    );
  });

  afterEach(async () => {
    vi.restoreAllMocks();
    vi.useRealTimers();
    await mounted.close();
    await router.close();
    await provider.close();
  });

  function listing(...data: readonly unknown[]): Script {
    return respond(200, JSON.stringify({ object: 'list', data }), JSON_TYPE);
  }

  const asked = (): typeof provider.requests => provider.requests.filter(({ url }) => url === '/v1/models');

  async function start(
    models: ProviderOptions['models'] = 'discover',
    options: Partial<ChatCompletionsRouterOptions> = {},
  ): Promise<void> {
    router = createChatCompletionsRouter({
      store: new MemoryStore(),
      providers: { up: { baseURL: provider.baseURL, apiKey: 'sk-secret', models } },
      models: {},
      hooks: {
        onError: (error) => {
          errors.push(error);
          told.shift()?.(error);
        },
      },
      ...options,
    });
    const { key } = await router.keys.create({ account: 'acct' });
    await router.credits.grant('acct', '5.00', { id: 'welcome' });
    mounted = await mountOnNode(router);
    gateway = clientsOf(mounted.baseURL, key);
  }

  async function ids(): Promise<string[]> {
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  }

  const ask = (model: string): Promise<Response> => gateway.post({ ...QUESTION, model });
  const nextError = (): Promise<Error> => new Promise((resolve) => told.push(resolve));

  it('are asked for at the first use, with its key, and not before', async () => {
    await start();
    expect(provider.requests).toEqual([]);
    expect(await ids()).toEqual(['up/acme/fast', 'up/acme/smart']);
    expect(asked()).toHaveLength(1);
    expect(asked()[0]?.headers.authorization).toBe('Bearer sk-secret');
  });

  it('are there when the router is ready, and asked for once', async () => {
    await start();
    await router.ready();
    expect(asked()).toHaveLength(1);
    await Promise.all([ids(), ids(), ask('up/acme/fast')]);
    expect(asked()).toHaveLength(1);
  });

  it('are waited for for seconds: then a provider that hangs delays neither ready() nor a request', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    await start();
    const { promise: hangs, resolve } = Promise.withResolvers<void>();
    list = () => {
      resolve();
    };
    const ready = router.ready();
    await hangs;
    await vi.advanceTimersByTimeAsync(5100);
    await ready;
    vi.useRealTimers();
    expect((await ask('up/acme/fast')).status).toBe(404);
    expect(await ids()).toEqual([]);
  });

  it('are served and charged from the first request on, by the price of the list', async () => {
    await start();
    const response = await ask('up/acme/fast');
    expect(response.status).toBe(200);
    await router.close();
    const [charge] = (await router.credits.journal('acct')).filter(({ type }) => type === 'charge');
    expect(charge).toMatchObject({ model: 'up/acme/fast' });
    expect(await router.credits.balance('acct')).toMatchObject({ totalUsed: '0.000045' });
    expect(provider.requests.at(-1)?.body.toString()).toContain('"model":"acme/fast"');
  });

  it('need no credits for searches, though their list has a fee for them', async () => {
    await start();
    await router.credits.adjust('acct', '-4.995', { id: 'most', reason: 'a small balance' });
    const response = await ask('up/acme/fast');
    expect(response.status).toBe(200);
    expect(response.headers.has('x-ccr-max-tokens')).toBe(false);
  });

  it('have their limits and prices in the list, with every markup', async () => {
    await start({ markup: { factor: '2' } }, { markup: { factor: '1.5' } });
    await router.ready();
    expect(await (await gateway.fetch('/models/up/acme/fast')).json()).toMatchObject({
      name: 'Acme: Fast',
      created: 1_700_000_000,
      context_window: 8192,
      max_tokens: 1000,
      pricing: { input: '0.000003', output: '0.000009', web_search: '0.03' },
    });
    expect(await (await gateway.fetch('/models/up/acme/smart')).json()).toMatchObject({
      owned_by: 'acme',
      max_tokens: 500,
      pricing: { input_cache_read: '0.0000006' },
    });
  });

  it('take and obey what the list says, where it does', async () => {
    list = listing(
      {
        ...FAST,
        architecture: { input_modalities: ['text', 'image', 7, 'x'.repeat(65)], output_modalities: ['text'] },
        supported_parameters: ['tools', 'reasoning'],
      },
      { ...SMART, architecture: { input_modalities: 'text' }, supported_parameters: [] },
    );
    await start();
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: object[] };
    expect(data).toMatchObject([
      {
        architecture: { input_modalities: ['text', 'image'], output_modalities: ['text'] },
        supported_parameters: ['tools', 'reasoning'],
      },
      {
        architecture: { input_modalities: ['text'], output_modalities: ['text'] },
        supported_parameters: [],
      },
    ]);
  });

  it('come after entries of one’s own, and before wildcards', async () => {
    const own = { targets: ['up/own'], pricing: PRICING, maxOutputTokens: 10 };
    await start('discover', { models: { 'up/acme/fast': own, 'up/*': { ...own, targets: ['up/wild'] } } });
    await router.ready();
    for (const model of ['up/acme/fast', 'up/acme/smart', 'up/other']) await ask(model);
    const sent = provider.requests
      .filter(({ method }) => method === 'POST')
      .map(({ body }) => body.toString());
    expect(sent.map((body) => /"model":"([^"]*)"/.exec(body)?.[1])).toEqual(['own', 'acme/smart', 'wild']);
    expect(await ids()).toEqual(['up/acme/fast', 'up/acme/smart']);
  });

  it('can have another prefix, and be some of them', async () => {
    await start({ prefix: '', only: ['acme/s*'] });
    expect(await ids()).toEqual(['acme/smart']);
  });

  it.each<[string, object]>([
    ['says none', {}],
    ['says it in numbers, which mean something else everywhere', { pricing: { input: 0.2, output: 0.4 } }],
    ['says what is none', { pricing: { prompt: '-1', completion: '-1' } }],
    ['has a fee that is none', { pricing: { prompt: '1e-6', completion: '1e-6', request: '-1' } }],
    ['has a fee in another unit', { pricing: { prompt: '1e-6', completion: '1e-6', web_search: 10 } }],
    [
      'has it change with the hour',
      { pricing: { prompt: '1e-6', completion: '1e-6', overrides: [{ utc_start: '1:00' }] } },
    ],
  ])('aren’t served where the list %s', async (_how, fields) => {
    const { pricing: _, ...bare } = SMART;
    list = listing({ ...bare, ...fields }, FAST);
    await start();
    expect(await ids()).toEqual(['up/acme/fast']);
    expect((await ask('up/acme/smart')).status).toBe(404);
  });

  it('are priced by the catalog where the list has no price, or where that is wanted', async () => {
    const { pricing: _, ...bare } = SMART;
    list = listing({ ...bare, id: 'gpt-4o-mini' }, { ...bare, id: 'unheard-of' }, FAST);
    const openai = { preset: 'openai', baseURL: provider.baseURL, apiKey: 'sk', models: 'discover' as const };
    await start('discover', { providers: { up: openai }, prices: catalogPrices() });
    expect(await ids()).toEqual(['up/gpt-4o-mini', 'up/acme/fast']);
    expect(await (await gateway.fetch('/models/up/gpt-4o-mini')).json()).toMatchObject({
      pricing: { input: '0.00000015', output: '0.0000006' },
    });
    router.reload({ providers: { up: { ...openai, models: { pricing: 'catalog' } } } });
    expect(await ids()).toEqual(['up/gpt-4o-mini']);
  });

  it('may all be free, or cost the same', async () => {
    list = listing({ id: 'tiny' });
    await start({ pricing: 'free' });
    expect(await ids()).toEqual(['up/tiny']);
    const one: DiscoveryOptions = { pricing: PRICING, maxOutputTokens: 100 };
    router.reload({ providers: { up: { baseURL: provider.baseURL, apiKey: 'sk', models: one } } });
    expect(await (await gateway.fetch('/models/up/tiny')).json()).toMatchObject({
      max_tokens: 100,
      pricing: { input: '0.000001' },
    });
  });

  it('have the tiers of the list: Vercel’s and OpenRouter’s', async () => {
    const tiers = {
      input_tiers: [
        { cost: '0.000001', min: 0, max: 1001 },
        { cost: '0.000002', min: 1001 },
      ],
      output_tiers: [{ cost: '0.000004', min: 0 }],
    };
    const overrides = [{ min_prompt_tokens: 1001, prompt: '0.000002' }];
    list = listing(
      { ...SMART, pricing: { input: '0.000001', output: '0.000004', ...tiers } },
      { ...FAST, pricing: { prompt: '0.000001', completion: '0.000004', overrides } },
    );
    await start();
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: { pricing: object }[] };
    for (const { pricing } of data) {
      expect(pricing).toMatchObject({
        input_tiers: [
          { cost: '0.000001', min: 0, max: 1001 },
          { cost: '0.000002', min: 1001 },
        ],
        output_tiers: [{ cost: '0.000004' }, { cost: '0.000004' }],
      });
    }
  });

  it('are only those that write text, with IDs that can be', async () => {
    list = listing(
      { ...SMART, id: 'pictures', type: 'image' },
      { ...FAST, id: 'speech', architecture: { output_modalities: ['audio'] } },
      { ...SMART, id: 'a b' },
      { ...SMART, id: '' },
      { ...SMART, id: 7 },
      'nonsense',
      null,
      SMART,
    );
    await start();
    expect(await ids()).toEqual(['up/acme/smart']);
  });

  it('are asked for again, and what changed counts', async () => {
    await start({ refreshMs: 20 });
    expect(await ids()).toEqual(['up/acme/fast', 'up/acme/smart']);
    list = listing(SMART);
    await expect.poll(ids).toEqual(['up/acme/smart']);
    list = listing();
    await expect.poll(ids).toEqual([]);
  });

  it('stay while the provider fails, which is reported without its key', async () => {
    await start({ refreshMs: 20 });
    await router.ready();
    const error = nextError();
    list = respond(500, 'sk-secret is broken');
    expect((await error).message).toBe(
      `Can't list the models of provider "up" at ${provider.baseURL}/models: it answered with status 500`,
    );
    expect(await ids()).toEqual(['up/acme/fast', 'up/acme/smart']);
    expect((await ask('up/acme/fast')).status).toBe(200);
  });

  it.each<[string, Script]>([
    ['it answered with status 404', respond(404, '{}')],
    ['its answer is not JSON', respond(200, '<html>')],
    ['its answer is not a list of models', respond(200, '{"data":{}}')],
    ['its answer is longer than 16777216 bytes', respond(200, ' '.repeat(17_000_000))],
  ])('are none where there is no good list, and others are served: %s', async (message, script) => {
    list = script;
    const own = { targets: ['up/own'], pricing: PRICING, maxOutputTokens: 10 };
    await start('discover', { models: { own } });
    await router.ready();
    expect(errors.map((error) => error.message)).toEqual([
      `Can't list the models of provider "up" at ${provider.baseURL}/models: ${message}`,
    ]);
    expect(await ids()).toEqual(['own']);
    expect((await ask('own')).status).toBe(200);
  });

  it('aren’t looked for where a redirect leads, nor is the key taken there', async () => {
    list = (response, request) =>
      (request.url === '/v1/models' ? respond(302, '', { location: '/v1/elsewhere' }) : listing(FAST))(
        response,
        request,
      );
    await start();
    expect(await ids()).toEqual([]);
    expect(provider.requests.map(({ url }) => url)).toEqual(['/v1/models']);
    expect(errors.map((error) => error.message)).toEqual([
      `Can't list the models of provider "up" at ${provider.baseURL}/models: it answered with status 302`,
    ]);
  });

  it.each([
    [401, '{}'],
    [400, '{"error":{"message":"No connected db.","type":"no_db_connection","param":null,"code":"400"}}'],
  ])('are asked for with the next key where one is refused: %i', async (status, body) => {
    const keys = { baseURL: provider.baseURL, apiKeys: ['sk-dead', 'sk-good'], models: 'discover' as const };
    list = (response, request) =>
      (request.headers.authorization === 'Bearer sk-good' ? listing(SMART) : respond(status, body))(
        response,
        request,
      );
    await start('discover', { providers: { up: keys } });
    expect(await ids()).toEqual(['up/acme/smart']);
    expect(errors).toEqual([]);
  });

  it('survive a reload that leaves their provider as it is, and go with it', async () => {
    await start();
    await router.ready();
    router.reload({ models: { own: { targets: ['up/own'], pricing: 'free' } } });
    expect(await ids()).toEqual(['own', 'up/acme/fast', 'up/acme/smart']);
    expect(asked()).toHaveLength(1);
    router.reload({ providers: {}, models: {} });
    expect(await ids()).toEqual([]);
  });

  it('survive a reload with another key while their provider is unavailable, and keep no request waiting', async () => {
    await start();
    await router.ready();
    const reloaded = (path: string): void => {
      const up = { baseURL: provider.baseURL.replace('/v1', path), apiKey: () => 'sk-other' };
      router.reload({ providers: { up: { ...up, models: 'discover' } } });
    };
    list = () => {};
    reloaded('/v1');
    await router.ready();
    expect(await ids()).toEqual(['up/acme/fast', 'up/acme/smart']);
    expect((await ask('up/acme/fast')).status).toBe(200);

    list = respond(503, '{}', JSON_TYPE);
    const failed = nextError();
    reloaded('/v1');
    await failed;
    expect(await ids()).toEqual(['up/acme/fast', 'up/acme/smart']);

    list = listing(FAST);
    reloaded('/v1');
    await expect.poll(ids).toEqual(['up/acme/fast']);

    // At another address it is another list.
    list = respond(503, '{}', JSON_TYPE);
    reloaded('/v2');
    expect(await ids()).toEqual([]);
  });

  it('aren’t asked for any more once the router is closed', async () => {
    await start({ refreshMs: 20 });
    await router.ready();
    await router.close();
    const { length } = asked();
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(asked()).toHaveLength(length);
  });
});

describe('what a list says of a model', () => {
  const infoOf = (entry: object) => readListedModels({ data: [{ id: 'm', ...entry }] })[0]?.info;

  it('is read in OpenRouter’s words', () => {
    const info = infoOf({
      created: 1_759_161_676,
      knowledge_cutoff: '2025-01-31',
      hugging_face_id: '',
      architecture: {
        modality: 'text+image->text',
        input_modalities: ['text', 'image'],
        output_modalities: ['text'],
        tokenizer: 'Claude',
        instruct_type: null,
      },
      supported_parameters: ['tools', 'reasoning'],
      default_parameters: { temperature: 1, top_p: null, seed: 'no number' },
      reasoning: { mandatory: false, supported_efforts: ['low', 'high'], default_effort: null },
    });
    expect(info).toEqual({
      created: 1_759_161_676,
      knowledgeCutoff: '2025-01-31',
      inputModalities: ['text', 'image'],
      outputModalities: ['text'],
      tokenizer: 'Claude',
      supportedParameters: ['tools', 'reasoning'],
      defaultParameters: { temperature: 1, top_p: null },
      reasoning: { mandatory: false, supportedEfforts: ['low', 'high'] },
    });
  });

  it('is read in Vercel’s words', () => {
    expect(infoOf({ tags: ['reasoning', 'tool-use', 'vision', 'file-input', 'implicit-caching'] })).toEqual({
      inputModalities: ['text', 'image', 'file'],
      supportedParameters: ['tools'],
      tags: ['reasoning', 'tool-use', 'vision', 'file-input', 'implicit-caching'],
    });
  });

  it('is read in Vercel’s words: modalities', () => {
    expect(infoOf({ tags: ['vision'], modalities: { input: ['text', 'pdf'], output: ['text'] } })).toEqual({
      inputModalities: ['text', 'file'],
      outputModalities: ['text'],
      tags: ['vision'],
    });
  });

  it('is read in Mistral’s words', () => {
    const capabilities = { completion_chat: true, function_calling: true, vision: true, reasoning: true };
    expect(infoOf({ capabilities })).toEqual({
      inputModalities: ['text', 'image'],
      supportedParameters: ['tools'],
      tags: ['reasoning'],
    });
    expect(readListedModels([{ id: 'm', max_context_length: 4096 }])[0]?.contextWindow).toBe(4096);
  });

  it('is unknown where the list knows nothing', () => {
    const architecture = { modality: null, input_modalities: ['text'], output_modalities: ['text'] };
    const unknown = { created: 0, description: '', tags: [], knowledge_cutoff: 'soon', reasoning: {} };
    expect(infoOf({ architecture, ...unknown, default_parameters: { temperature: null } })).toEqual({});
  });
});

describe('a list of models', () => {
  it('is read to its 5,000th model', () => {
    const many = Array.from({ length: 5001 }, (_, i) => ({ id: `m${i}` }));
    expect(readListedModels(many)).toHaveLength(5000);
  });
});

describe('the options of discovery', () => {
  it.each<[string, unknown]>([
    ['models must be an object', 'all'],
    ['models has an unknown key "refresh"', { refresh: 1 }],
    ['models.prefix must be a prefix for IDs', { prefix: 'a b/' }],
    ['models.prefix must be a prefix for IDs', { prefix: '*/' }],
    ["models.only must be a list of the provider's model IDs", { only: 'gpt-*' }],
    ['models.pricing must be { input, output, … }', { pricing: 'cheap' }],
    ['models.markup.factor must be', { markup: { factor: 2 } }],
    ['models.maxOutputTokens must be a positive integer', { maxOutputTokens: 0 }],
    ["models.enforceOutputLimit must be 'lower' or 'insert'", { enforceOutputLimit: 'no' }],
    ['models.refreshMs must be a number of milliseconds', { refreshMs: 0 }],
  ])('are refused when they can’t be right: %s', (message, models) => {
    const providers = { up: { baseURL: 'http://127.0.0.1:1/v1', models } as ProviderOptions };
    const create = (): unknown => createChatCompletionsRouter({ store: 'memory:', providers, models: {} });
    expect(create).toThrow(`providers["up"].${message}`);
  });

  it('are refused where the base URL has a model in it', () => {
    const azure: ProviderOptions = { apiKey: 'k', variables: { resource: 'x' }, models: 'discover' };
    const create = (): unknown =>
      createChatCompletionsRouter({
        store: 'memory:',
        providers: { 'azure-deployments': azure },
        models: {},
      });
    expect(create).toThrow('providers["azure-deployments"].models: a base URL with {model}');
  });
});
