import { afterEach, describe, expect, it } from 'vitest';

import { type ChatCompletionsRouterOptions } from '../../../src/index.ts';
import { type Gateway, PRICING, startGateway } from '../../helpers/gateway.ts';

const MODELS: ChatCompletionsRouterOptions['models'] = {
  'acme/fast': {
    targets: ['loopback/upstream-model'],
    pricing: PRICING,
    contextWindow: 8192,
    maxOutputTokens: 1000,
  },
  'acme/old': { targets: ['loopback/old'], pricing: 'free', shutdownDate: '2099-03-01', aliases: ['old'] },
  tiny: { targets: ['loopback/tiny'], pricing: 'free', name: 'Tiny' },
};

let gateway: Gateway;

afterEach(() => gateway.close());

async function get(path: string, key = gateway.key): Promise<unknown> {
  const response = await fetch(gateway.baseURL + path, { headers: { authorization: `Bearer ${key}` } });
  expect(response.status).toBe(200);
  return response.json();
}

interface List {
  readonly data: readonly { readonly id: string }[];
  readonly total_count: number;
}

describe('GET /models', () => {
  it('has a record with all that OpenRouter, Vercel and vLLM call a model’s limits and prices', async () => {
    gateway = await startGateway({ models: MODELS });
    const { data, ...rest } = (await get('/models')) as List;
    expect(rest).toEqual({ object: 'list', links: { next: null }, total_count: 3 });
    expect(data[0]).toEqual({
      id: 'acme/fast',
      object: 'model',
      created: 0,
      owned_by: 'acme',
      name: 'acme/fast',
      type: 'language',
      context_length: 8192,
      context_window: 8192,
      max_model_len: 8192,
      max_tokens: 1000,
      max_completion_tokens: 1000,
      pricing: {
        input: '0.000001',
        output: '0.000003',
        input_cache_read: '0.0000001',
        prompt: '0.000001',
        completion: '0.000003',
      },
      canonical_slug: 'acme/fast',
      architecture: { modality: null, input_modalities: ['text'], output_modalities: ['text'] },
      top_provider: { context_length: 8192, max_completion_tokens: 1000, is_moderated: false },
      links: { details: 'models/acme%2Ffast' },
      supported_parameters: [],
      default_parameters: null,
      per_request_limits: null,
      supported_voices: null,
    });
  });

  it('says null of limits that are not set, and the day on which a model ends', async () => {
    gateway = await startGateway({ models: MODELS });
    const { data } = (await get('/models')) as List;
    expect(data[1]).toMatchObject({ shutdown_date: '2099-03-01', expiration_date: '2099-03-01' });
    expect(data[2]).toMatchObject({
      id: 'tiny',
      name: 'Tiny',
      context_length: null,
      top_provider: { context_length: null, max_completion_tokens: null },
    });
    expect(data[2]).not.toHaveProperty('context_window');
    expect(data[2]).not.toHaveProperty('expiration_date');
  });

  it('says what a model takes and obeys, as far as its host does', async () => {
    const told = { inputModalities: ['text', 'image'], supportedParameters: ['tools', 'reasoning'] };
    gateway = await startGateway({
      models: { tiny: { targets: ['loopback/tiny'], pricing: 'free', ...told } },
    });
    expect(await get('/models/tiny')).toMatchObject({
      architecture: { modality: null, input_modalities: ['text', 'image'], output_modalities: ['text'] },
      supported_parameters: ['tools', 'reasoning'],
    });
  });

  it('never names the providers, nor what a model is called there', async () => {
    gateway = await startGateway({ models: MODELS });
    expect(JSON.stringify(await get('/models'))).not.toMatch(/loopback|upstream-model/);
  });

  it.each([
    ['?offset=1', ['acme/old', 'tiny']],
    ['?limit=1&offset=2', ['tiny']],
    ['?offset=3', []],
    ['?offset=500', []],
    ['?offset=0&limit=1', ['acme/fast', 'acme/old', 'tiny']],
    ['?limit=1', ['acme/fast', 'acme/old', 'tiny']],
    ['?offset=-1', ['acme/fast', 'acme/old', 'tiny']],
    ['?offset=x', ['acme/fast', 'acme/old', 'tiny']],
  ])('%s has all that is left from there on: clients that turn pages come to an end', async (query, ids) => {
    gateway = await startGateway({ models: MODELS });
    const list = (await get(`/models${query}`)) as List;
    expect(list.data.map(({ id }) => id)).toEqual(ids);
    expect(list.total_count).toBe(3);
  });

  it('counts, and turns pages of, the models alone that the key may use', async () => {
    gateway = await startGateway({ models: MODELS });
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['old', 'tiny'] });
    expect(await get('/models', key)).toMatchObject({
      data: [{ id: 'acme/old' }, { id: 'tiny' }],
      total_count: 2,
    });
    expect(await get('/models?offset=1', key)).toMatchObject({ data: [{ id: 'tiny' }], total_count: 2 });
  });

  it('can be discovered by another router, with all that it says', async () => {
    gateway = await startGateway({ models: MODELS });
    const second = await startGateway({
      providers: { first: { baseURL: gateway.baseURL, apiKey: gateway.key, models: 'discover' } },
      models: {},
    });
    const records = ((await (await second.fetch('/models')).json()) as List).data;
    const own = ((await get('/models')) as List).data;
    // A model without any limit can't be held for, unless it is free.
    expect(records[0]).toEqual({
      ...own[0],
      id: 'first/acme/fast',
      canonical_slug: 'first/acme/fast',
      links: { details: 'models/first%2Facme%2Ffast' },
    });
    await second.close();
  });
});

describe('GET /model/{author}/{slug}', () => {
  it('has the record of GET /models/{id} in `data`, as OpenRouter’s clients ask for it', async () => {
    gateway = await startGateway({ models: MODELS });
    expect(await get('/model/acme/fast')).toEqual({ data: await get('/models/acme/fast') });
  });

  it('is a 404 where there is no such model, or none for this key', async () => {
    gateway = await startGateway({ models: MODELS });
    const none = await gateway.fetch('/model/acme/none');
    expect([none.status, await none.json()]).toMatchObject([404, { error: { code: 'model_not_found' } }]);
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['tiny'] });
    const headers = { authorization: `Bearer ${key}` };
    expect((await gateway.fetch('/model/acme/fast', { headers })).status).toBe(404);
  });
});
