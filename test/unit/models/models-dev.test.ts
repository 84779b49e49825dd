import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { loadConfig } from '../../../src/cli/config/config-file.ts';
import { createChatCompletionsRouter, type ModelOptions, modelsDev } from '../../../src/index.ts';

/** An entry as https://models.dev/api.json has it. */
const GPT = {
  id: 'gpt-5-nano',
  name: 'GPT-5 Nano',
  attachment: true,
  reasoning: true,
  temperature: false,
  tool_call: true,
  structured_output: true,
  knowledge: '2024-05-30',
  release_date: '2025-08-07',
  last_updated: '2025-08-07',
  modalities: { input: ['text', 'image', 'pdf'], output: ['text'] },
  open_weights: false,
  cost: { input: 0.05, output: 0.4, cache_read: 0.01 },
  limit: { context: 400_000, output: 128_000 },
};
const DATA = {
  openai: { id: 'openai', name: 'OpenAI', models: { 'gpt-5-nano': GPT } },
  togetherai: { id: 'togetherai', models: { 'meta/llama': { id: 'meta/llama', name: 'Llama' } } },
  google: { id: 'google', models: { 'gemini-x': { name: 'Gemini X', release_date: '2025-03' } } },
  moon: { id: 'moon', api: 'https://api.moon.test/v1/', models: { one: { name: 'One' } } },
};
const catalog = modelsDev(DATA);
const NOWHERE = 'http://127.0.0.1:1/v1/chat/completions';

async function recordOf(given: Partial<ModelOptions> = {}): Promise<unknown> {
  const router = createChatCompletionsRouter({
    store: 'memory:',
    providers: { openai: { apiKey: 'sk' } },
    models: { nano: { targets: ['openai/gpt-5-nano'], pricing: 'free', ...given } },
    modelInfo: catalog,
  });
  onTestFinished(() => router.close());
  return (await router.models())[0];
}

describe('modelsDev', () => {
  it('has what models.dev says, in the words of the options, and no price', () => {
    expect(catalog.find({ provider: 'openai', url: NOWHERE, model: 'gpt-5-nano' })).toEqual({
      name: 'GPT-5 Nano',
      created: 1_754_524_800,
      inputModalities: ['text', 'image', 'file'],
      outputModalities: ['text'],
      supportedParameters: ['tools', 'tool_choice', 'structured_outputs', 'response_format'],
      tags: ['reasoning'],
      knowledgeCutoff: '2024-05-30',
      contextWindow: 400_000,
      maxOutputTokens: 128_000,
    });
  });

  it.each([
    ['a preset of another name there', 'together', NOWHERE, 'meta/llama', 'Llama'],
    ['a model with a folder before its name', 'gemini', NOWHERE, 'models/gemini-x', 'Gemini X'],
    ['a base URL', 'mine', 'https://api.moon.test/v1/chat/completions', 'one', 'One'],
    ['no other provider', 'mine', NOWHERE, 'one', undefined],
    ['no member of the prototype', 'openai', NOWHERE, 'constructor', undefined],
  ])('finds %s', (_, provider, url, model, name) => {
    expect(catalog.find({ provider, url, model })?.name).toBe(name);
  });

  it.each([
    [[], 'modelsDev: the data must be an object, got an array'],
    [undefined, 'modelsDev: the data must be an object, got undefined'],
    [{ openai: {} }, 'modelsDev: the provider "openai" has no models'],
  ])('refuses %j', (data, message) => {
    expect(() => modelsDev(data)).toThrow(new TypeError(message));
  });

  it('leaves out what it can’t read', () => {
    const broken = {
      name: 7,
      modalities: 'text',
      limit: { context: -1 },
      knowledge: 'May',
      tool_call: 'yes',
    };
    const readable = modelsDev({ x: { models: { broken, text: 'no model' } } });
    expect(readable.find({ provider: 'x', url: NOWHERE, model: 'broken' })).toEqual({});
    expect(readable.find({ provider: 'x', url: NOWHERE, model: 'text' })).toBeUndefined();
  });
});

describe('the option modelInfo', () => {
  it('fills the record, with limits that the options leave open', async () => {
    expect(await recordOf()).toMatchObject({
      name: 'GPT-5 Nano',
      created: 1_754_524_800,
      owned_by: 'system',
      context_length: 400_000,
      max_completion_tokens: 128_000,
      top_provider: { context_length: 400_000, max_completion_tokens: 128_000 },
      architecture: { modality: 'text+image+file->text' },
      tags: ['reasoning', 'tool-use', 'vision', 'file-input'],
      knowledge_cutoff: '2024-05-30',
    });
  });

  it('gives way to the model’s own options', async () => {
    const own = { name: 'Nano', inputModalities: ['text'], contextWindow: 1000, maxOutputTokens: 10 };
    expect(await recordOf(own)).toMatchObject({
      name: 'Nano',
      context_length: 1000,
      max_tokens: 10,
      architecture: { modality: 'text->text' },
      tags: ['reasoning', 'tool-use'],
    });
  });

  it('is refused if it can find nothing', () => {
    const modelInfo = DATA as never;
    expect(() => createChatCompletionsRouter({ providers: {}, models: {}, modelInfo })).toThrow(
      /^modelInfo must be a model catalog, such as modelsDev\(data\), got /,
    );
  });

  it('is a file beside a JSON config', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'models-dev-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'config.json');
    writeFileSync(path, '{"providers":{},"models":{},"modelInfo":"models.dev.json"}');
    await expect(loadConfig(path)).rejects.toThrow(/modelInfo: ENOENT/);
    writeFileSync(join(folder, 'models.dev.json'), JSON.stringify(DATA));
    const { modelInfo } = await loadConfig(path);
    expect(modelInfo?.find({ provider: 'openai', url: NOWHERE, model: 'gpt-5-nano' })?.name).toBe(
      'GPT-5 Nano',
    );
  });
});
