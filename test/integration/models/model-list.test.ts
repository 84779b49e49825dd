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
  readonly links: { readonly next: string | null };
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
      description: '',
      type: 'language',
      capabilities: { completion_chat: true },
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

  it('says what the options say of a model, and what follows from it', async () => {
    const told = {
      description: 'Small and quick.',
      created: 1_754_524_800,
      inputModalities: ['text', 'image'],
      outputModalities: ['text', 'image'],
      supportedParameters: ['tools', 'reasoning'],
      tags: ['web-search'],
      knowledgeCutoff: '2024-10',
      reasoning: { mandatory: false, supportedEfforts: ['low', 'high'], defaultEffort: 'low' },
      tokenizer: 'GPT',
      instructType: 'chatml',
      huggingFaceId: 'acme/tiny',
      defaultParameters: { temperature: 0.6, top_p: null },
    };
    gateway = await startGateway({
      models: { tiny: { targets: ['loopback/tiny'], pricing: 'free', ...told } },
    });
    expect(await get('/models/tiny')).toMatchObject({
      description: 'Small and quick.',
      created: 1_754_524_800,
      architecture: {
        modality: 'text+image->text+image',
        input_modalities: ['text', 'image'],
        output_modalities: ['text', 'image'],
        tokenizer: 'GPT',
        instruct_type: 'chatml',
      },
      supported_parameters: ['tools', 'reasoning'],
      modalities: { input: ['text', 'image'], output: ['text', 'image'] },
      tags: ['web-search', 'reasoning', 'tool-use', 'vision', 'image-generation'],
      capabilities: {
        completion_chat: true,
        function_calling: true,
        reasoning: true,
        vision: true,
        audio: false,
      },
      knowledge_cutoff: '2024-10',
      reasoning: { mandatory: false, supported_efforts: ['low', 'high'], default_effort: 'low' },
      hugging_face_id: 'acme/tiny',
      default_parameters: { temperature: 0.6, top_p: null },
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
    ['?offset=0&limit=1', ['acme/fast']],
    ['?limit=2', ['acme/fast', 'acme/old']],
    ['?limit=1000', ['acme/fast', 'acme/old', 'tiny']],
    ['?limit=&offset=', ['acme/fast', 'acme/old', 'tiny']],
    ['?unknown=1', ['acme/fast', 'acme/old', 'tiny']],
  ])('%s is a page of the list: clients that turn pages come to an end', async (query, ids) => {
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

describe('pages of GET /models', () => {
  it('links the next page until there is none, with its filters', async () => {
    gateway = await startGateway({ models: MODELS });
    const pages: string[][] = [];
    let next: string | null = 'models?q=acme&limit=1';
    while (next !== null) {
      const page = (await get(`/${next}`)) as List;
      pages.push(page.data.map(({ id }) => id));
      next = page.links.next;
    }
    expect(pages).toEqual([['acme/fast'], ['acme/old']]);
  });

  it.each([
    ['limit=0', 'The query parameter limit must be an integer from 1 to 999999999.'],
    ['limit=1e3', 'The query parameter limit must be an integer from 1 to 999999999.'],
    ['offset=-1', 'The query parameter offset must be an integer from 0 to 999999999.'],
    ['offset=x', 'The query parameter offset must be an integer from 0 to 999999999.'],
    [
      'supported_parameters=Tools',
      'The query parameter supported_parameters must be names in lower case, with commas between them.',
    ],
    [
      'input_modalities=text,,',
      'The query parameter input_modalities must be names in lower case, with commas between them.',
    ],
    [`q=${'a'.repeat(257)}`, 'The query parameter q must be at most 256 characters.'],
  ])('refuse %s with a 400', async (query, message) => {
    gateway = await startGateway({ models: MODELS });
    const response = await gateway.fetch(`/models?${query}`);
    const param = query.slice(0, query.indexOf('='));
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: { message, type: 'invalid_request_error', param, code: 'invalid_value' } },
    ]);
  });
});

describe('filters of GET /models', () => {
  const free = { targets: ['loopback/x'], pricing: 'free' } as const;
  const catalog: ChatCompletionsRouterOptions['models'] = {
    plain: free,
    tools: { ...free, supportedParameters: ['tools', 'seed'], name: 'Tool User' },
    eyes: { ...free, supportedParameters: ['tools', 'reasoning'], inputModalities: ['text', 'image'] },
    voice: { ...free, inputModalities: ['audio'], outputModalities: ['text', 'audio'], aliases: ['ears'] },
  };

  it.each([
    ['supported_parameters=tools', ['tools', 'eyes']],
    ['supported_parameters=reasoning,tools', ['eyes']],
    ['supported_parameters=none', []],
    ['input_modalities=image', ['eyes']],
    ['input_modalities=image,audio', ['eyes', 'voice']],
    ['input_modalities=text', ['plain', 'tools', 'eyes']],
    ['output_modalities=audio', ['voice']],
    ['output_modalities=all', ['plain', 'tools', 'eyes', 'voice']],
    ['q=TOOL+user', ['tools']],
    ['q=ears', ['voice']],
    ['q=e&supported_parameters=tools&input_modalities=text&limit=1&offset=1', ['eyes']],
  ])('%s', async (query, ids) => {
    gateway = await startGateway({ models: catalog });
    const { data } = (await get(`/models?${query}`)) as List;
    expect(data.map(({ id }) => id)).toEqual(ids);
  });

  it('counts what they leave', async () => {
    gateway = await startGateway({ models: catalog });
    expect(await get('/models?supported_parameters=tools&limit=1')).toMatchObject({ total_count: 2 });
  });
});

describe('the ETag of GET /models', () => {
  async function etagOf(path: string, key = gateway.key): Promise<string> {
    const response = await fetch(gateway.baseURL + path, { headers: { authorization: `Bearer ${key}` } });
    await response.arrayBuffer();
    return response.headers.get('etag') ?? '';
  }

  it.each(['/models', '/models/tiny', '/model/acme/fast'])('%s is a 304 to who has it', async (path) => {
    gateway = await startGateway({ models: MODELS });
    const etag = await etagOf(path);
    expect(etag).toMatch(/^"[\w-]{43}"$/);
    for (const tags of [etag, `"other", W/${etag}`, '*']) {
      const response = await gateway.fetch(path, { headers: { 'if-none-match': tags } });
      expect([response.status, await response.text()]).toEqual([304, '']);
      expect(Object.fromEntries(response.headers)).toMatchObject({
        etag,
        'cache-control': 'private, no-cache',
        vary: 'authorization',
      });
    }
    expect((await gateway.fetch(path, { headers: { 'if-none-match': '"other"' } })).status).toBe(200);
  });

  it('is of the bytes: the same in another process, another for another list', async () => {
    gateway = await startGateway({ models: MODELS });
    const second = await startGateway({ models: MODELS });
    expect(await etagOf('/models', gateway.key)).toBe((await second.fetch('/models')).headers.get('etag'));
    await second.close();
    const before = await etagOf('/models');
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['tiny'] });
    expect(await etagOf('/models', key)).not.toBe(before);
    gateway.router.reload({ models: { tiny: { targets: ['loopback/tiny'], pricing: 'free' } } });
    expect(await etagOf('/models')).not.toBe(before);
  });

  it('depends on the origin too, with cors', async () => {
    gateway = await startGateway({ models: MODELS, cors: { origins: ['https://a.test'] } });
    const response = await gateway.fetch('/models', { headers: { origin: 'https://a.test' } });
    expect(response.headers.get('vary')).toBe('origin, authorization');
  });

  it('is in the answer to HEAD, which has no body', async () => {
    gateway = await startGateway({ models: MODELS });
    const response = await gateway.fetch('/models', { method: 'HEAD' });
    expect([response.status, response.headers.get('etag')]).toEqual([200, await etagOf('/models')]);
    expect(await response.text()).toBe('');
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
