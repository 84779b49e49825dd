import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { findProvider } from '@pydantic/genai-prices';
import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { loadConfig } from '../../../src/cli/config/config-file.ts';
import {
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  type ModelOptions,
} from '../../../src/index.ts';
import { createCatalog } from '../../../src/catalog/catalog.ts';
import type { Model } from '../../../src/catalog/model.ts';
import { charge } from '../../../src/metering/price.ts';
import { parsePricing } from '../../../src/metering/pricing.ts';
import { textUsage } from '../../../src/metering/usage-dialects.ts';
import { catalogPrices } from '../../../src/prices.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';

const NOWHERE = 'http://127.0.0.1:1/v1/chat/completions';
const prices = catalogPrices();

describe('the catalog of prices', () => {
  it('gives the package’s numbers as decimal strings, digit by digit', () => {
    expect(prices.find({ provider: 'openai', url: NOWHERE, model: 'gpt-4o-mini' })).toEqual({
      name: 'gpt-4o-mini',
      pricing: { input: '0.15', output: '0.6', cachedInput: '0.075' },
      contextWindow: 128_000,
    });
  });

  it('has tiers: Gemini 2.5 Pro above 200,000 tokens', () => {
    const { pricing } = prices.find({ provider: 'gemini', url: NOWHERE, model: 'gemini-2.5-pro' })!;
    expect(pricing).toMatchObject({
      input: '1.25',
      output: '10',
      tiers: [{ above: 200_000, input: '2.5', output: '15' }],
    });
    const price = parsePricing(pricing, 'pricing');
    expect(charge(textUsage(200_001, 1000), price)).toBe(515_002_500n);
  });

  it('has fees by the call: Perplexity', () => {
    const { pricing } = prices.find({ provider: 'perplexity', url: NOWHERE, model: 'sonar-deep-research' })!;
    expect(pricing).toMatchObject({ reasoningOutput: '3', webSearch: '0.005' });
  });

  it('has no fee for searches that no usage tells of: OpenAI', () => {
    const { pricing } = prices.find({ provider: 'openai', url: NOWHERE, model: 'gpt-5' })!;
    expect(pricing).not.toHaveProperty('webSearch');
  });

  it.each(['02:00', '05:00', '12:00', '20:00'])('gives the dearest price of the day, also at %s', (time) => {
    vi.useFakeTimers({ now: new Date(`2026-11-21T${time}:00Z`), toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    // Half of it but from 1 to 4 and from 6 to 10
    const { pricing } = prices.find({ provider: 'deepseek', url: NOWHERE, model: 'deepseek-v4-pro' })!;
    expect(pricing).toMatchObject({ input: '1.32', output: '3.96' });
  });

  it('knows a provider by its address, whatever its name', () => {
    const url = 'https://api.openai.com/v1/chat/completions';
    expect(prices.find({ provider: 'europe', url, model: 'gpt-4o-mini' })?.pricing.input).toBe('0.15');
  });

  it.each([
    ['openai', 'gpt-unheard-of'],
    ['nobody', 'gpt-4o-mini'],
    ['openai', 'text-embedding-3-small'],
    ['openai', ''],
  ])('knows nothing of %s/%s', (provider, model) => {
    expect(prices.find({ provider, url: NOWHERE, model })).toBeUndefined();
  });

  it('gives prices that we can read, of every model of the large providers', () => {
    let known = 0;
    for (const provider of [
      'openai',
      'anthropic',
      'google',
      'groq',
      'mistral',
      'deepseek',
      'openrouter',
      'x-ai',
    ]) {
      for (const { id } of findProvider({ providerId: provider })?.models ?? []) {
        const entry = prices.find({ provider, url: NOWHERE, model: id });
        if (!entry) continue;
        expect(() => parsePricing(entry.pricing, `${provider}/${id}`)).not.toThrow();
        known += 1;
      }
    }
    expect(known).toBeGreaterThan(500);
  });
});

describe("pricing: 'catalog'", () => {
  const providers: ChatCompletionsRouterOptions['providers'] = {
    openai: { apiKey: 'sk' },
    gemini: { apiKey: 'sk' },
    local: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' },
  };

  function model(given: ModelOptions, options: Partial<ChatCompletionsRouterOptions> = { prices }): Model {
    const all: ChatCompletionsRouterOptions = {
      store: 'memory:',
      providers,
      models: { x: given },
      ...options,
    };
    return createCatalog(all, resolveSettings(all)).get('x')!;
  }

  it('is the price of the first target, with its context window, which bounds the output too', () => {
    expect(model({ targets: ['openai/gpt-4o-mini', 'local/small'], pricing: 'catalog' })).toMatchObject({
      price: { input: 150_000n, output: 600_000n, cachedInput: 75_000n },
      contextWindow: 128_000,
      maxOutputTokens: 128_000,
    });
  });

  it('leaves what is given as it is', () => {
    const given = {
      targets: ['openai/gpt-4o-mini'],
      pricing: 'catalog' as const,
      maxOutputTokens: 16_384,
      contextWindow: 20_000,
    };
    expect(model(given)).toMatchObject({ contextWindow: 20_000, maxOutputTokens: 16_384 });
  });

  it('has the markup of the model and the router', () => {
    const given = { targets: ['openai/gpt-4o-mini'], pricing: 'catalog' as const, markup: { factor: '1.5' } };
    const { price } = model(given, { prices, markup: { factor: '2' } });
    expect(charge(textUsage(1_000_000, 0), price)).toBe(450_000_000n);
  });

  it('may be the price or the cost of a target', () => {
    const target = {
      provider: 'openai',
      model: 'gpt-4o-mini',
      pricing: 'catalog' as const,
      cost: 'catalog' as const,
    };
    const { targets } = model({
      targets: [target],
      pricing: { input: '9', output: '9' },
      maxOutputTokens: 100,
      markup: { factor: '2' },
    });
    expect(charge(textUsage(1_000_000, 0), targets[0].price)).toBe(300_000_000n);
    expect(charge(textUsage(1_000_000, 0), targets[0].cost!)).toBe(150_000_000n);
  });

  it('is refused for a model that the catalog doesn’t know: never free', () => {
    expect(() => model({ targets: ['openai/gpt-unheard-of'], pricing: 'catalog' })).toThrow(
      `models["x"].pricing is 'catalog', which has no price for "gpt-unheard-of" at "openai"`,
    );
    const cost = { provider: 'local', model: 'm', cost: 'catalog' as const };
    expect(() => model({ targets: [cost], pricing: 'free' })).toThrow(
      `models["x"].targets[0].cost is 'catalog', which has no price for "m" at "local"`,
    );
  });

  it('is refused without a catalog, saying what to import', () => {
    expect(() => model({ targets: ['openai/gpt-4o-mini'], pricing: 'catalog' }, {})).toThrow(
      `models["x"].pricing is 'catalog': set the option prices, e.g. to catalogPrices() of chat-completions-router/prices`,
    );
  });

  it('is refused where the catalog has no context window and no output limit is given', () => {
    expect(() => model({ targets: ['gemini/gemini-2.5-pro'], pricing: 'catalog' })).toThrow(
      'models["x"].maxOutputTokens is missing',
    );
  });

  it('of a wildcard is that of each model, and of no unknown one', () => {
    const all: ChatCompletionsRouterOptions = {
      store: 'memory:',
      providers,
      prices,
      models: { 'openai/*': { targets: ['openai/*'], pricing: 'catalog' } },
    };
    const catalog = createCatalog(all, resolveSettings(all));
    expect(catalog.get('openai/gpt-4o-mini')).toMatchObject({ price: { input: 150_000n } });
    expect(catalog.get('openai/gpt-unheard-of')).toBeUndefined();
  });

  it.each([{}, 'catalog', { find: 1 }, null])('refuses an option prices that is none: %j', (given) => {
    const options = { store: 'memory:', providers: {}, models: {}, prices: given } as unknown;
    expect(() => createChatCompletionsRouter(options as ChatCompletionsRouterOptions)).toThrow(
      /^prices must be a price catalog/,
    );
  });

  it('is there in a config of JSON, which can’t import it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-prices-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'config.json');
    const models = { x: { targets: ['openai/gpt-4o-mini'], pricing: 'catalog' } };
    writeFileSync(
      path,
      JSON.stringify({ prices: 'catalog', providers: { openai: { apiKey: 'sk' } }, models }),
    );
    const config = await loadConfig(path);
    expect(createCatalog(config, resolveSettings(config)).get('x')?.price.input).toBe(150_000n);
  });
});
