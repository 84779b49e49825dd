import { afterEach, describe, expect, it } from 'vitest';

import {
  createChatCompletionsRouter,
  type ModelOptions,
  type PriceCatalog,
  type Pricing,
} from '../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';
import { answerJson, completionBody } from '../helpers/provider.ts';

const TEXT: Pricing = { input: '1', output: '4' };
const AUDIO: Pricing = { ...TEXT, audioInput: '32', audioOutput: '64' };

/** A catalog that has these prices, and the price of text for all else. */
function catalog(entries: Readonly<Record<string, Pricing>> = {}, name?: string): PriceCatalog {
  return {
    find: ({ model }) => ({
      pricing: entries[model] ?? TEXT,
      contextWindow: 8192,
      maxOutputTokens: 1000,
      ...(name !== undefined && { name }),
    }),
  };
}

let gateway: Gateway;

afterEach(() => gateway.close());

async function start(prices: PriceCatalog, entry: Partial<ModelOptions> = {}): Promise<void> {
  const models = { 'any/*': { targets: ['loopback/*'], pricing: 'catalog' as const, ...entry } };
  gateway = await startGateway({ models, prices });
  const usage = {
    prompt_tokens: 100,
    completion_tokens: 500,
    completion_tokens_details: { audio_tokens: 500 },
  };
  gateway.provider.script = answerJson(completionBody({ usage }));
}

async function asked(model: string): Promise<number> {
  const response = await gateway.post({ ...QUESTION, model });
  await response.text();
  return response.status;
}

describe('a wildcard at the prices of a catalog', () => {
  it.each([
    'gpt-4o-audio-preview',
    'gpt-realtime',
    'gpt-real-time-2',
    'GPT-Audio',
    'gemini-2.5-flash-image',
    'gpt-4o-search-preview',
    'openai/gpt-5:online',
    'o4-mini-deep-research',
    'sonar-deepresearch',
  ])('does not serve %s at the price of text', async (model) => {
    await start(catalog());
    expect(await asked(`any/${model}`)).toBe(404);
    expect(gateway.provider.received).toEqual([]);
  });

  it('does not serve what only the catalog calls so', async () => {
    await start(catalog({}, 'gpt-4o-audio-preview'));
    expect(await asked('any/gpt-4o-latest')).toBe(404);
  });

  it('does not serve what has but some of its prices', async () => {
    await start(catalog({ 'gpt-audio': { ...TEXT, audioInput: '32' } }));
    expect(await asked('any/gpt-audio')).toBe(404);
  });

  it('serves it at all its prices: what the provider bills is charged', async () => {
    await start(catalog({ 'gpt-audio': AUDIO }));
    const settled = gateway.nextSettled();
    expect(await asked('any/gpt-audio')).toBe(200);
    // 100 tokens at a dollar and 500 at 64 dollars a million; at the price of text it would be 0.0021.
    expect(await settled).toMatchObject({ charged: '0.0321', writtenOff: '0.00' });
  });

  it.each(['gpt-5', 'research-1', 'visionary'])('serves what has no such name: %s', async (model) => {
    await start(catalog());
    expect(await asked(`any/${model}`)).toBe(200);
  });

  it('serves it at a price of its own', async () => {
    await start(catalog(), { pricing: AUDIO, maxOutputTokens: 1000 });
    expect(await asked('any/gpt-audio')).toBe(200);
  });

  it('does not serve what is excepted, nor does a shorter one', async () => {
    await start(catalog());
    gateway.router.reload({
      models: {
        '*': { targets: ['loopback/*'], pricing: 'catalog' },
        'any/*': { targets: ['loopback/*'], pricing: 'catalog', except: ['any/*-preview', 'any/ft:*'] },
      },
    });
    expect(await asked('any/gpt-5')).toBe(200);
    expect(await asked('any/gpt-5-preview')).toBe(404);
    expect(await asked('any/ft:gpt-5:acme')).toBe(404);
  });
});

describe('a wildcard at a price of its own', () => {
  const FLAT = { pricing: TEXT, maxOutputTokens: 1000 };
  const CEILING = { ...FLAT, pricing: { reported: true as const, ceiling: TEXT } };
  const SEARCHES = [
    'gpt-4o-search-preview',
    'openai/gpt-5:online',
    'o4-mini-deep-research',
    'perplexity/sonar-pro',
    'groq/compound-mini',
    'glm-4-alltools',
  ];
  const VARIANTS = ['openai/gpt-5:nitro', 'kimi-k2:exacto', 'qwen-plus:thinking', 'gpt-oss-120b:fastest'];

  /** At a provider that is known by its preset. */
  async function startAt(preset: string, entry: Partial<ModelOptions>): Promise<void> {
    const models = { 'any/*': { targets: ['loopback/*'], ...FLAT, ...entry } };
    gateway = await startGateway({ models, provider: { preset } });
  }

  it.each([...SEARCHES, ...VARIANTS])('does not serve %s, which costs more', async (model) => {
    await start(catalog(), FLAT);
    expect(await asked(`any/${model}`)).toBe(404);
    expect(gateway.provider.received).toEqual([]);
  });

  it.each(SEARCHES)('does not give %s away, nor serve it by a report without a fee', async (model) => {
    await start(catalog(), { ...FLAT, pricing: 'free' });
    expect(await asked(`any/${model}`)).toBe(404);
    gateway.router.reload({ models: { 'any/*': { targets: ['loopback/*'], ...CEILING } } });
    expect(await asked(`any/${model}`)).toBe(404);
  });

  it.each(SEARCHES)('serves %s with a fee for searches, or for each request', async (model) => {
    await start(catalog(), { ...FLAT, pricing: { ...TEXT, webSearch: '0.01' } });
    expect(await asked(`any/${model}`)).toBe(200);
    gateway.router.reload({
      models: { 'any/*': { targets: ['loopback/*'], ...FLAT, pricing: { ...TEXT, request: '0' } } },
    });
    expect(await asked(`any/${model}`)).toBe(200);
  });

  it.each(VARIANTS)('serves %s for nothing, or as its provider reports it', async (model) => {
    await start(catalog(), { ...FLAT, pricing: 'free' });
    expect(await asked(`any/${model}`)).toBe(200);
    gateway.router.reload({ models: { 'any/*': { targets: ['loopback/*'], ...CEILING } } });
    expect(await asked(`any/${model}`)).toBe(200);
  });

  it.each([
    ['openrouter', 'deepseek/r1:free', 200],
    ['openrouter', 'deepseek/r1:floor', 200],
    ['openrouter', 'deepseek/r1:new-variant', 404],
    ['huggingface', 'openai/gpt-oss-120b:groq', 404],
    ['huggingface', 'openai/gpt-oss-120b:cheapest', 200],
    ['openai', 'ft:gpt-5:acme::1', 200],
    ['ollama', 'research-search:thinking', 200],
  ])('knows the variants of a preset: %s, %s', async (preset, model, status) => {
    await startAt(preset, {});
    expect(await asked(`any/${model}`)).toBe(status);
  });
});

describe('except', () => {
  const create = (id: string, except: unknown): unknown => {
    const entry = { targets: ['p/*'], pricing: 'free', except };
    return createChatCompletionsRouter({
      store: 'memory:',
      providers: { p: { baseURL: 'http://127.0.0.1:1/v1' } },
      models: { [id]: entry as ModelOptions },
    });
  };

  it.each([[[]], ['any/*'], [[5]], [['a b']]])('is checked at construction: %j', async (except) => {
    await start(catalog());
    expect(() => create('any/*', except)).toThrow(/^models\["any\/\*"\]\.except must be 1 to 100 model IDs/);
  });

  it('is of wildcards only', async () => {
    await start(catalog());
    expect(() => create('any/one', ['x'])).toThrow(
      'models["any/one"].except needs a wildcard ID that ends in *',
    );
  });
});
