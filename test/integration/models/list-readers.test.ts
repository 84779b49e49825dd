import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import { type Gateway, startGateway } from '../../helpers/gateway.ts';

/** What editors and agents that aren't importable from npm read of a list of models: the members that their source names. */
const READERS = {
  // crates/open_router/src/open_router.rs of zed-industries/zed: `ListModelsResponse`. One wrong member and it shows no model.
  Zed: z.object({
    id: z.string(),
    name: z.string(),
    created: z.int().nonnegative(),
    description: z.string(),
    context_length: z.int().nonnegative().nullish(),
    supported_parameters: z.array(z.string()).default([]),
    architecture: z.object({ input_modalities: z.array(z.string()).default([]) }).nullish(),
  }),
  // src/api/providers/fetchers/openrouter.ts of RooCodeInc/Roo-Code, whose base URL can be set; Kilo Code has the same.
  'Roo Code': z.object({
    id: z.string(),
    name: z.string(),
    description: z.string().optional(),
    context_length: z.number(),
    max_completion_tokens: z.number().nullish(),
    architecture: z
      .object({
        input_modalities: z.array(z.string()).nullish(),
        output_modalities: z.array(z.string()).nullish(),
        tokenizer: z.string().nullish(),
      })
      .optional(),
    pricing: z
      .object({
        prompt: z.string().nullish(),
        completion: z.string().nullish(),
        input_cache_write: z.string().nullish(),
        input_cache_read: z.string().nullish(),
      })
      .optional(),
    top_provider: z.object({ max_completion_tokens: z.number().nullish() }).optional(),
    supported_parameters: z.array(z.string()).optional(),
  }),
  // src/core/controller/models/refreshVercelAiGatewayModels.ts of cline/cline.
  Cline: z.object({
    id: z.string(),
    type: z.literal('language'),
    max_tokens: z.number(),
    context_window: z.number(),
    description: z.string(),
    tags: z.array(z.string()),
    pricing: z.object({ input: z.string(), output: z.string(), input_cache_read: z.string() }),
  }),
} as const;

describe('a record has what is read by', () => {
  let gateway: Gateway;
  let records: readonly unknown[];

  beforeAll(async () => {
    gateway = await startGateway({
      models: {
        'acme/rich': {
          targets: ['loopback/rich'],
          pricing: { input: '1', output: '2' },
          contextWindow: 8192,
          maxOutputTokens: 1000,
          inputModalities: ['text', 'image'],
          supportedParameters: ['tools', 'reasoning'],
        },
        'acme/plain': { targets: ['loopback/plain'], pricing: 'free' },
      },
    });
    const { data } = (await (await gateway.fetch('/models')).json()) as { readonly data: readonly unknown[] };
    records = data;
  });

  afterAll(() => gateway.close());

  it('Zed, also of a model of which nothing is known', () => {
    const [rich, plain] = z.array(READERS.Zed).parse(records);
    expect(rich?.supported_parameters).toContain('tools');
    expect(rich?.architecture?.input_modalities).toContain('image');
    expect(plain?.description).toBe('');
  });

  it('Roo Code, of a model whose context window is known', () => {
    const rich = READERS['Roo Code'].parse(records[0]);
    expect(rich.supported_parameters).toContain('reasoning');
    expect(rich.top_provider?.max_completion_tokens).toBe(1000);
  });

  it('Cline, in Vercel’s words', () => {
    expect(READERS.Cline.parse(records[0]).tags).toEqual(['reasoning', 'tool-use', 'vision']);
  });
});
