import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { resolveAddress, variablesOf } from '../../../src/catalog/base-url.ts';
import { PRESETS } from '../../../src/catalog/presets.ts';
import { resolveProvider } from '../../../src/catalog/resolve-provider.ts';
import type { ProviderOptions } from '../../../src/options/provider-options.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';

const PROVIDERS = readFileSync(new URL('../../../docs/providers.md', import.meta.url), 'utf8');
const settings = resolveSettings({ store: 'memory:', providers: {}, models: {} });

function provider(name: string, options: ProviderOptions = {}): ReturnType<typeof resolveProvider> {
  return resolveProvider(name, { apiKey: 'sk', ...options }, settings);
}

function addressOf(baseURL: string, model = 'm', query: Record<string, string> = {}): string {
  const { origin, chatPath } = resolveAddress({ baseURL, variables: undefined, query }, 'it');
  return origin.origin + chatPath(model);
}

describe('the table of presets in docs', () => {
  it('says of each of them what its entry says, and of no other', () => {
    const rows = [
      ...PROVIDERS.matchAll(/^\| `([\w-]+)` +\| `(https?:[^`]+)` +\| (.*?) +\| `(\w+)` +\| `(\w+)` +\|$/gm),
    ];
    const told = rows.map(([, ...cells]) => cells);
    expect(told).toEqual(
      Object.entries(PRESETS).map(([name, preset]) => [
        name,
        preset.baseURL,
        preset.keyless ? 'none needed' : `\`${preset.auth?.header ?? 'Bearer'}\``,
        preset.streamUsage ?? 'option',
        preset.onDisconnect ?? 'learned',
      ]),
    );
  });
});

describe('presets', () => {
  it('are known for the providers of the day', () => {
    const known =
      'anthropic azure azure-deployments bedrock cerebras cloudflare cohere deepseek fireworks gemini groq ' +
      'huggingface llamacpp lmstudio mistral moonshot nvidia ollama openai openrouter perplexity qwen sambanova ' +
      'together vercel vertex vllm xai zhipu';
    expect(Object.keys(PRESETS)).toEqual(known.split(' '));
  });

  it('count what the option usage does not name', () => {
    expect(provider('perplexity', { usage: { cached: 'inside' } }).usage).toEqual({
      cached: 'inside',
      reasoning: 'outside',
    });
    expect(provider('xai', { usage: { reasoning: 'outside' } }).usage).toEqual({
      cached: 'either',
      reasoning: 'outside',
    });
    expect(provider('xai', { usage: { cached: 'inside' } }).usage).toEqual({ cached: 'inside' });
  });

  it.each(Object.entries(PRESETS))(
    '%s has an address, once what it leaves open is filled in',
    (name, preset) => {
      const names = [...variablesOf(preset.baseURL)];
      const variables = Object.fromEntries(names.map((variable) => [variable, 'x']));
      const { origin, chatPath } = provider(name, { variables });
      expect(origin.protocol).toBe(preset.keyless ? 'http:' : 'https:');
      expect(chatPath('m')).toMatch(/^\/[^{}%]*\/?chat\/completions(\?|$)/);
    },
  );

  it('say by its name what is missing', () => {
    expect(() => provider('azure')).toThrow(
      'providers["azure"].variables.resource is missing: the base URL is https://{resource}.openai.azure.com/openai/v1',
    );
    expect(() => provider('vertex', { variables: { location: 'us-central1' } })).toThrow(
      /^providers\["vertex"\]\.variables\.project is missing/,
    );
  });

  it('can be said to be otherwise, in each of their parts', () => {
    const own = provider('mine', {
      preset: 'azure-deployments',
      variables: { resource: 'contoso' },
      auth: { header: 'authorization', scheme: 'Bearer' },
      query: { 'api-version': '2025-01-01' },
      streamUsage: 'none',
      outputLimitField: 'max_tokens',
      usage: { reasoning: 'outside' },
    });
    expect(own).toMatchObject({
      authHeader: 'authorization',
      authPrefix: 'Bearer ',
      streamUsage: 'none',
      outputLimits: { obeyed: ['max_tokens', 'max_completion_tokens'], only: true, boundAll: true },
      usage: { reasoning: 'outside' },
    });
    expect(own.origin.href + own.chatPath('gpt-5').slice(1)).toBe(
      'https://contoso.openai.azure.com/openai/deployments/gpt-5/chat/completions?api-version=2025-01-01',
    );
  });

  it('keep what a query adds to their own', () => {
    const { chatPath } = provider('azure-deployments', { variables: { resource: 'r' }, query: { x: '1' } });
    expect(chatPath('d')).toBe('/openai/deployments/d/chat/completions?api-version=2024-10-21&x=1');
  });
});

describe('a base URL', () => {
  it.each([
    ['https://api.x.ai/v1', 'https://api.x.ai/v1/chat/completions'],
    ['https://api.x.ai/v1/', 'https://api.x.ai/v1/chat/completions'],
    ['https://api.perplexity.ai', 'https://api.perplexity.ai/chat/completions'],
    ['http://[::1]:8080/a/b/v1', 'http://[::1]:8080/a/b/v1/chat/completions'],
    [
      'https://x.example/v1?api-version=v1&a=%20',
      'https://x.example/v1/chat/completions?api-version=v1&a=%20',
    ],
    ['https://x.example/{model}/v1', 'https://x.example/m/v1/chat/completions'],
  ])('%s is asked at %s', (baseURL, address) => {
    expect(addressOf(baseURL)).toBe(address);
  });

  it.each([
    ['a/b', 'a%2Fb'],
    ['../../admin', '..%2F..%2Fadmin'],
    ['m?x=1#y', 'm%3Fx%3D1%23y'],
    ['mod él', 'mod%20%C3%A9l'],
    ["$&'$1", "%24%26'%241"],
    ['{model}', '%7Bmodel%7D'],
  ])('holds the model %j as one part of its path', (model, part) => {
    expect(addressOf('https://x.example/d/{model}', model)).toBe(
      `https://x.example/d/${part}/chat/completions`,
    );
  });

  it('keeps its own query beside the one that is added', () => {
    expect(addressOf('https://x.example/v1?a=1', 'm', { b: '2' })).toBe(
      'https://x.example/v1/chat/completions?a=1&b=2',
    );
  });

  it.each([
    [
      'a name that it doesn’t have',
      { baseURL: 'https://x.example', variables: { region: 'eu' } },
      /variables has an unknown key "region"/,
    ],
    [
      'a path for a name',
      { baseURL: 'https://{a}.example', variables: { a: 'x/y' } },
      /variables\.a must be a name/,
    ],
    [
      'another host',
      { baseURL: 'https://{a}.example', variables: { a: 'evil.com#' } },
      /variables\.a must be a name/,
    ],
    [
      'steps upward',
      { baseURL: 'https://x.example/{a}', variables: { a: '..' } },
      /variables\.a must be a name/,
    ],
    [
      'an empty name',
      { baseURL: 'https://x.example/{a}', variables: { a: '' } },
      /variables\.a must be a name/,
    ],
    ['the model in its host', { baseURL: 'https://{model}.example' }, /\{model\} only in its path/],
    ['the model in its query', { baseURL: 'https://x.example/?m={model}' }, /\{model\} only in its path/],
  ])('is refused with %s', (_fault, options, message) => {
    expect(() => provider('mine', options)).toThrow(TypeError);
    expect(() => provider('mine', options)).toThrow(message);
  });
});

describe('the options of a provider', () => {
  it.each([
    ['apiKey and apiKeys', { apiKey: 'a', apiKeys: ['b'] }, /has both apiKey and apiKeys/],
    [
      'no key in apiKeys',
      { apiKey: undefined, apiKeys: [] },
      /apiKeys must be a list of non-empty strings or functions$/,
    ],
    [
      'an empty key',
      { apiKey: undefined, apiKeys: ['sk-secret', ''] },
      /apiKeys must be a list of non-empty strings or functions$/,
    ],
    [
      'a usage of its own making',
      { usage: { cached: 'beside' } },
      /usage\.cached must be 'inside', 'outside' or 'either'/,
    ],
    [
      'reasoning that is either',
      { usage: { reasoning: 'either' } },
      /usage\.reasoning must be 'inside' or 'outside'/,
    ],
    ['an unknown usage', { usage: { prompt: 'inside' } }, /usage has an unknown key "prompt"/],
  ])('are refused with %s', (_fault, options, message) => {
    const given = { baseURL: 'https://x.example', ...options } as unknown as ProviderOptions;
    expect(() => provider('mine', given)).toThrow(message);
    expect(() => provider('mine', given)).not.toThrow(/sk-secret/);
  });
});
