import { describe, expect, it, vi } from 'vitest';

import {
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  MemoryStore,
} from '../../../src/index.ts';
import { ModelPatterns } from '../../../src/options/model-patterns.ts';
import { createCatalog } from '../../../src/catalog/catalog.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { didYouMean } from '../../../src/platform/did-you-mean.ts';

const openai = { apiKey: 'sk-test' };
const free = { targets: ['openai/x'], pricing: 'free' };

const create = (options: object): unknown =>
  createChatCompletionsRouter({
    store: 'memory:',
    providers: { openai },
    models: {},
    ...options,
  });

describe('a mistyped option', () => {
  it.each([
    [{ timeout: {} }, 'did you mean "timeouts"? It takes providers'],
    [{ timeouts: { idelMs: 1 } }, 'did you mean "idleMs"?'],
    [{ markup: { facto: '1' } }, 'did you mean "factor"?'],
    [{ providers: { opnai: openai } }, 'did you mean "openai"?'],
    [{ providers: { x: { ...openai, preset: 'opnai' } } }, 'did you mean "openai"?'],
    [{ providers: { openai: { ...openai, baseUrl: 'x' } } }, 'did you mean "baseURL"?'],
    [{ models: { m: { ...free, strategy: 'cheepest' } } }, 'did you mean "cheapest"?'],
    [{ models: { m: { ...free, targets: ['opnai/x'] } } }, 'did you mean "openai"?'],
    [{ models: { m: { ...free, pricing: { inptu: '1', output: '1' } } } }, 'did you mean "input"?'],
    [{ models: { m: { ...free, aliases: ['n'] }, n: free } }, `has "n", which is already a model's ID`],
  ])('of %j is answered with what was meant', (options, message) => {
    expect(() => create(options)).toThrow(message);
  });
});

describe('a mistyped model', () => {
  const options = { providers: { openai }, models: { 'demo/parrot': free, 'secret/parrot': free } };
  const given = options as ChatCompletionsRouterOptions;
  const catalog = createCatalog(given, resolveSettings(given));

  it('is answered with a similar one, or the one that it lacks the prefix of', () => {
    expect(catalog.near('demo/parot')).toBe('demo/parrot');
    expect(catalog.near('parrot')).toBe('demo/parrot');
    expect(catalog.near('gpt-4o')).toBeUndefined();
  });

  it('is not answered with one that the caller may not see', () => {
    const allowed = new ModelPatterns(['demo/*']);
    expect(catalog.near('secret/parot', allowed)).toBeUndefined();
    expect(catalog.near('demo/parot', allowed)).toBe('demo/parrot');
  });

  it('is compared with a bounded number of others', () => {
    const ids = Array.from({ length: 10_000 }, (_, n) => `provider/model-${String(n).padStart(20, '0')}`);
    const typed = 'x'.repeat(ids[0]!.length - 1) + 'y';
    let compared = 0;
    const counted = function* (): Generator<string> {
      for (const id of ids) {
        compared += 1;
        yield id;
      }
    };
    expect(didYouMean(typed, counted())).toBeUndefined();
    expect(compared).toBeLessThan(500);
  });
});

describe('forgotten options', () => {
  const router = createChatCompletionsRouter({ store: new MemoryStore(), providers: {}, models: {} });

  it.each<[string, () => Promise<unknown>, string]>([
    ['a grant', () => router.credits.grant('a', '5', undefined as never), 'options must be { id }'],
    [
      'an adjustment',
      () => router.credits.adjust('a', '5', undefined as never),
      'options must be { id, reason }',
    ],
    ['a key', () => router.keys.create(undefined as never), 'options must be { account }'],
    ['a change', () => router.keys.update('a', 'k', undefined as never), 'options must be an object'],
    ['a query', () => router.usage.query(null as never), 'options must be an object'],
  ])('of %s are named', async (_what, call, message) => {
    await expect(call()).rejects.toThrow(message);
  });
});

describe('ready()', () => {
  it('names the store and the reason why it cannot be used', async () => {
    const router = createChatCompletionsRouter({
      store: 'sqlite:/nope/credits.db',
      providers: {},
      models: {},
    });
    await expect(router.ready()).rejects.toThrow(
      /^The store sqlite:\/nope\/credits\.db can't be used: .*ENOENT/,
    );
    await router.close();
  });

  it('names a function that returns no API key, and asks none again', async () => {
    const asked: string[] = [];
    const errors: string[] = [];
    const router = createChatCompletionsRouter({
      store: 'memory:',
      providers: {
        openai: { apiKey: () => (asked.push('openai'), 'sk-test') },
        groq: { apiKeys: ['sk-other', () => void asked.push('groq')] },
      },
      models: {},
      hooks: { onError: (error) => errors.push(error.message) },
    });
    await router.ready();
    expect(errors).toEqual([expect.stringContaining('providers["groq"].apiKeys[1] returned no API key')]);
    await router.ready();
    expect(errors).toHaveLength(1);
    expect(asked).toEqual(['openai', 'groq']);
    await router.close();
  });

  it('names it on one line where no hook gets errors', async () => {
    const logged = vi.spyOn(console, 'error').mockImplementation(() => {});
    const router = createChatCompletionsRouter({
      store: 'memory:',
      providers: {
        openai: {
          apiKey: () => {
            throw new Error('vault is sealed');
          },
        },
      },
      models: {},
    });
    await router.ready();
    expect(logged.mock.calls).toEqual([
      [
        'chat-completions-router:',
        '-',
        'upstream_refused_credentials: providers["openai"].apiKey returned no API key: vault is sealed',
      ],
    ]);
    logged.mockRestore();
    await router.close();
  });

  it('says what is wrong with a key that can not be sent, without showing it', async () => {
    const errors: string[] = [];
    const router = createChatCompletionsRouter({
      store: 'memory:',
      providers: { openai: { apiKey: () => 'sk-secret\n' } },
      models: {},
      hooks: { onError: (error) => errors.push(error.message) },
    });
    await router.ready();
    expect(errors).toEqual([
      'providers["openai"].apiKey returned no API key: it contains a blank, a line break or a non-ASCII character',
    ]);
    await router.close();
  });

  it('asks for all keys at once: a slow one keeps no other waiting', async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const errors: string[] = [];
    const router = createChatCompletionsRouter({
      store: 'memory:',
      providers: {
        openai: { apiKey: () => promise },
        groq: { apiKey: () => (resolve('sk-slow'), 'sk-fast') },
      },
      models: {},
      hooks: { onError: (error) => errors.push(error.message) },
    });
    await router.ready();
    expect(errors).toEqual([]);
    await router.close();
  });
});
