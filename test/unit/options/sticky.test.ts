import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { resolveModelSticky, resolveSticky } from '../../../src/options/resolve-sticky.ts';

function create(options: object): unknown {
  return createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {}, ...options });
}

const MODEL = { targets: ['p/m'], pricing: 'free' };

describe('sticky', () => {
  it('has a time of ten minutes, and knows headers by their names in lower case', () => {
    expect(resolveSticky({ by: ['header:X-Session-Id', 'prefix'] })).toEqual({
      by: [
        { name: 'header:x-session-id', header: 'x-session-id' },
        { name: 'prefix', header: undefined },
      ],
      ttlMs: 600_000,
      readsBody: true,
      readsMessages: true,
    });
    expect(resolveSticky({ by: ['header:a'] })).toMatchObject({ readsBody: false, readsMessages: false });
    expect(resolveSticky({ by: ['user'] })).toMatchObject({ readsBody: true, readsMessages: false });
    expect(resolveSticky(undefined)).toBeUndefined();
  });

  it('of a model is that of the router, its own time, or off', () => {
    const router = resolveSticky({ by: ['user'] });
    expect(resolveModelSticky(undefined, router, 'sticky')).toBe(router);
    expect(resolveModelSticky(false, router, 'sticky')).toBeUndefined();
    expect(resolveModelSticky({ ttlMs: 5 }, router, 'sticky')).toEqual({ ...router, ttlMs: 5 });
    expect(resolveModelSticky(false, undefined, 'sticky')).toBeUndefined();
  });

  it.each([
    [{ sticky: true }, 'sticky must be an object, got true'],
    [{ sticky: {} }, 'sticky.by must be a list of 1 to 8 sources, got undefined'],
    [{ sticky: { by: [] } }, 'sticky.by must be a list of 1 to 8 sources, got []'],
    [{ sticky: { by: 'user' } }, 'sticky.by must be a list of 1 to 8 sources, got "user"'],
    [
      { sticky: { by: ['session'] } },
      'sticky.by[0] must be one of header:NAME, prompt_cache_key, user, prefix, got "session"',
    ],
    [
      { sticky: { by: ['user', 'header:a b'] } },
      'sticky.by[1] must be one of header:NAME, prompt_cache_key, user, prefix, got "header:a b"',
    ],
    [
      { sticky: { by: ['header:A', 'header:a'] } },
      'sticky.by[1] must be another source than those before, got "header:a"',
    ],
    [
      { sticky: { by: ['prefix', 'user'] } },
      'sticky.by[0] must be the last source, as every request has messages, got "prefix"',
    ],
    [
      { sticky: { by: ['user'], ttlMs: 0 } },
      'sticky.ttlMs must be a number of milliseconds from 1 to 2147483647, got 0',
    ],
    [{ sticky: { by: ['user'], ttl: 5 } }, 'sticky has an unknown key "ttl"'],
    [
      { sticky: { by: ['user'] }, models: { m: { ...MODEL, sticky: true } } },
      'models["m"].sticky must be an object, got true',
    ],
    [
      { sticky: { by: ['user'] }, models: { m: { ...MODEL, sticky: { by: ['user'] } } } },
      'models["m"].sticky has an unknown key "by"',
    ],
    [
      { models: { m: { ...MODEL, sticky: { ttlMs: 1000 } } } },
      'models["m"].sticky needs the router\'s sticky, which says what a conversation is known by',
    ],
  ])('names what is wrong: %j', (options, message) => {
    const providers = { p: { baseURL: 'http://127.0.0.1:1/v1' } };
    expect(() => create({ providers, ...options })).toThrow(TypeError);
    expect(() => create({ providers, ...options })).toThrow(message);
  });
});
