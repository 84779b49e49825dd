import { describe, expect, it } from 'vitest';

import { createCatalog } from '../../../src/catalog/catalog.ts';
import { type ModelList, WHOLE_LIST } from '../../../src/catalog/model-list.ts';
import type { ChatCompletionsRouterOptions, ModelOptions } from '../../../src/index.ts';
import { ModelPatterns } from '../../../src/options/model-patterns.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';

const FREE = { targets: ['loopback/x'], pricing: 'free' } as const;

function listOf(models: Readonly<Record<string, ModelOptions>>): ModelList {
  const options: ChatCompletionsRouterOptions = {
    store: 'memory:',
    providers: { loopback: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
    models,
  };
  return createCatalog(options, resolveSettings(options)).list();
}

describe('the list of models', () => {
  it('is serialised once for each policy and query', () => {
    const list = listOf({ a: FREE, b: FREE });
    const query = { ...WHOLE_LIST, text: 'a' };
    expect(list.page(WHOLE_LIST, undefined)).toBe(list.page({ ...WHOLE_LIST }, undefined));
    expect(list.page(query, new ModelPatterns(['a', 'b']))).toBe(
      list.page({ ...query }, new ModelPatterns(['b', 'a'])),
    );
  });

  it('keeps a bounded number of pages, and always the whole list', () => {
    const list = listOf({ a: FREE });
    const [all, page] = [
      list.page(WHOLE_LIST, undefined),
      list.page({ ...WHOLE_LIST, text: 'a' }, undefined),
    ];
    for (let i = 0; i < 500; i++) list.page({ ...WHOLE_LIST, text: String(i) }, undefined);
    expect(list.page(WHOLE_LIST, undefined)).toBe(all);
    expect(list.page({ ...WHOLE_LIST, text: 'a' }, undefined)).not.toBe(page);
    expect(list.page({ ...WHOLE_LIST, text: 'a' }, undefined)).toEqual(page);
  });

  it('keeps a bounded number of bytes: pages that exceed it alone are made again', () => {
    const description = 'x'.repeat(1_000_000);
    const models = Array.from({ length: 34 }, (_, i) => [`m${i}`, { ...FREE, description }] as const);
    const list = listOf(Object.fromEntries(models));
    const large = { ...WHOLE_LIST, text: 'm' };
    const [first, second] = [list.page(large, undefined), list.page(large, undefined)];
    // A matcher would compare 34 MB byte by byte.
    expect([first === second, first.etag === second.etag]).toEqual([false, true]);
  });
});

describe('what a record says', () => {
  it.each<[string, object]>([
    ['name must be a string, got 7', { name: 7 }],
    ['created must be Unix seconds, got "2025"', { created: '2025' }],
    ['outputModalities must be a list of names, got "text"', { outputModalities: 'text' }],
    ['tags must be a list of names', { tags: [1] }],
    [
      "knowledgeCutoff must be a date as '2024-10-01', '2024-10' or '2024', got \"2024-13\"",
      { knowledgeCutoff: '2024-13' },
    ],
    ['reasoning must be an object, got true', { reasoning: true }],
    ['reasoning.mandatory must be a boolean, got undefined', { reasoning: {} }],
    ['reasoning has an unknown key "efforts"', { reasoning: { mandatory: true, efforts: [] } }],
    [
      'reasoning.supportedEfforts must be a list of names',
      { reasoning: { mandatory: true, supportedEfforts: 'low' } },
    ],
    ['defaultParameters.temperature must be a number, got "1"', { defaultParameters: { temperature: '1' } }],
  ])('is refused where it can’t be right: %s', (message, given) => {
    expect(() => listOf({ a: { ...FREE, ...given } })).toThrow(`models["a"].${message}`);
  });

  it('does not change with the options that it was read from', () => {
    const tags = ['web-search'];
    const models = { a: { ...FREE, tags } };
    const list = listOf(models);
    tags.push('changed');
    expect(list.page(WHOLE_LIST, undefined).body.toString()).not.toContain('changed');
  });
});
