import { afterEach, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';

let gateway: Gateway;
afterEach(() => gateway.close());

const TEMPLATE = '{% for _ in range(1000000) %}word {% endfor %}';

it.each([
  ['a template that repeats itself', { chat_template: TEMPLATE }],
  ['pixels that an image does not have', { mm_processor_kwargs: { min_pixels: 1_000_000_000 } }],
  ['frames that a video does not have', { media_io_kwargs: { video: { num_frames: 100_000 } } }],
  ['a prompt as numbers', { _inputs: [1, 2, 3] }],
  ['documents of an index', { data_sources: [{ type: 'azure_search', parameters: {} }] }],
  ['documents of an index, as earlier versions have it', { dataSources: [{ type: 'AzureCognitiveSearch' }] }],
])('what holds cannot see of a prompt does not go out: %s', async (_what, more) => {
  gateway = await startGateway();
  for (const body of [more, { extra_body: more }]) {
    const response = await gateway.post({ ...QUESTION, ...body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: 'data_sources' in more ? 'unpriced_feature' : 'unsupported_parameter' },
    });
  }
  expect(gateway.provider.received).toEqual([]);
});
