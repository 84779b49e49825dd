import { describe, expect, it } from 'vitest';

import { createCatalog } from '../../../src/catalog/catalog.ts';
import type { ModelList } from '../../../src/catalog/model-list.ts';
import { parseModelQuery } from '../../../src/catalog/model-query.ts';
import type { ChatCompletionsRouterOptions, ModelCatalog, ModelOptions } from '../../../src/index.ts';
import { ModelPatterns } from '../../../src/options/model-patterns.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';

const WHOLE_LIST = parseModelQuery(new URLSearchParams());
const FREE = { targets: ['loopback/x'], pricing: 'free' } as const;

function listOf(models: Readonly<Record<string, ModelOptions>>, modelInfo?: ModelCatalog): ModelList {
  const options: ChatCompletionsRouterOptions = {
    store: 'memory:',
    providers: { loopback: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
    models,
    ...(modelInfo && { modelInfo }),
  };
  return createCatalog(options, resolveSettings(options)).list();
}

describe('the list of models', () => {
  it('is made once for each policy', async () => {
    const list = listOf({ a: FREE, b: FREE });
    expect(await list.page(WHOLE_LIST, undefined)).toBe(await list.page({ ...WHOLE_LIST }, undefined));
    expect(await list.page(WHOLE_LIST, new ModelPatterns(['a', 'b']))).toBe(
      await list.page(WHOLE_LIST, new ModelPatterns(['b', 'a'])),
    );
  });

  it('has the length of its pieces, and the same ETag each time', async () => {
    const description = 'é'.repeat(100_000);
    const models = Array.from({ length: 4 }, (_, i) => [`m${i}`, { ...FREE, description }] as const);
    const list = listOf(Object.fromEntries(models));
    const [first, second] = [
      await list.page({ ...WHOLE_LIST, text: 'm' }, undefined),
      listOf(Object.fromEntries(models)),
    ];
    const pieces = [...first.pieces()];
    expect(pieces).toHaveLength(5);
    const body = Buffer.concat(pieces);
    expect(body).toHaveLength(first.length);
    expect(JSON.parse(body.toString())).toMatchObject({ data: [{ id: 'm0' }, {}, {}, { id: 'm3' }] });
    expect((await second.page({ ...WHOLE_LIST, text: 'm' }, undefined)).etag).toBe(first.etag);
    expect((await second.page({ ...WHOLE_LIST, text: 'm0' }, undefined)).etag).not.toBe(first.etag);
  });

  it('has no piece of a page without models but its frame', async () => {
    const list = listOf({ a: FREE });
    const { pieces, length } = await list.page({ ...WHOLE_LIST, text: 'x' }, undefined);
    const body = '{"object":"list","data":[],"links":{"next":null},"total_count":0}';
    expect([[...pieces()].map(String), length]).toEqual([[body], body.length]);
  });
});

describe('what a record says', () => {
  it('is the default where a catalog leaves a member undefined', async () => {
    const found: object = { name: undefined, created: undefined, ownedBy: undefined, description: 'Known.' };
    const list = listOf({ 'acme/a': FREE }, { find: () => found });
    expect(await list.records(undefined)).toMatchObject([
      { name: 'acme/a', created: 0, owned_by: 'acme', description: 'Known.' },
    ]);
  });

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

  it('does not change with the options that it was read from', async () => {
    const tags = ['web-search'];
    const models = { a: { ...FREE, tags } };
    const list = listOf(models);
    tags.push('changed');
    expect((await list.records(undefined))[0]?.tags).toEqual(['web-search']);
  });
});
