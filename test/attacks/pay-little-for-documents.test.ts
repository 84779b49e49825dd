import { afterEach, describe, expect, it } from 'vitest';

import type { ModelOptions, ProviderOptions } from '../../src/index.ts';
import { findingsOf } from '../helpers/audit.ts';
import { type Gateway, startGateway } from '../helpers/gateway.ts';
import { answerJson, completionBody, type Script } from '../helpers/provider.ts';

/** USD 3 and 15 per million tokens, and a window of a million: a prompt that fills it costs 3.00. */
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: { input: '3', output: '15' },
  contextWindow: 1_000_000,
  accountFiles: true,
  maxOutputTokens: 1000,
};
const MANY = 8;

let gateway: Gateway;

afterEach(async () => {
  expect(await findingsOf(gateway.store)).toEqual([]);
  await gateway.close();
});

/** What eight requests at once cost the account, and what the provider bills for those that reached it. */
async function spend(
  part: object,
  promptTokens: number,
  options: {
    readonly credits?: string;
    readonly holdMode?: 'clamp' | 'strict' | 'adaptive';
    readonly model?: Partial<ModelOptions>;
    readonly provider?: Partial<ProviderOptions>;
  } = {},
): Promise<{ charged: number; billed: number; served: number }> {
  const { credits = '0.50', holdMode = 'clamp', model, provider = {} } = options;
  gateway = await startGateway(
    { models: { 'acme/fast': { ...MODEL, ...model } }, holdMode, provider },
    undefined,
    credits,
  );
  // None is answered before all are admitted or refused.
  const all = Promise.withResolvers<void>();
  let decided = 0;
  const decide = (): void => {
    decided += 1;
    if (decided === MANY) all.resolve();
  };
  const usage = { prompt_tokens: promptTokens, completion_tokens: 10 };
  const answer: Script = answerJson(completionBody({ usage }));
  gateway.provider.script = async (response, request) => {
    decide();
    await all.promise;
    await answer(response, request);
  };
  const body = { model: 'acme/fast', messages: [{ role: 'user', content: [part] }] };
  const ask = async (): Promise<void> => {
    const response = await gateway.post(body);
    if (response.status === 402) decide();
    await response.text();
  };
  await Promise.all(Array.from({ length: MANY }, ask));
  const served = gateway.provider.received.length;
  const { totalUsed } = await gateway.router.credits.balance('acct');
  return { charged: Number(totalUsed), billed: (served * (promptTokens * 3 + 10 * 15)) / 1e6, served };
}

const PDF = `data:application/pdf;base64,${'JVBERi0x'.repeat(12_500)}`;

describe('documents on a balance of half a dollar', () => {
  it.each([
    ['a URL', { type: 'file', file: { file_data: 'https://x.example/a.pdf' } }],
    ['an ID', { type: 'file', file: { file_id: 'file-1' } }],
    [
      'a URL in a part of another provider',
      { type: 'file_url', file_url: { url: 'https://x.example/a.pdf' } },
    ],
    ['a part that nobody knows', { type: 'doc', doc: { source: { url: 'https://x.example/a.pdf' } } }],
    [
      'a URL behind a little data',
      { type: 'file', file: { file_data: 'data:,x', url: 'https://x.example/a.pdf' } },
    ],
    ['an ID in the part itself', { type: 'file', file_id: 'file-1' }],
    ['an ID in a part that nobody knows', { type: 'doc', source: { type: 'file', file_id: 'file-1' } }],
    ['a URL after a blank', { type: 'doc', doc: { source: ' \n https://x.example/a.pdf' } }],
    ['a URL after many blanks', { type: 'doc', doc: `${' '.repeat(500)}https://x.example/a.pdf` }],
    ['a URL of a store', { type: 'doc', doc: 'oss://bucket/a.pdf' }],
    [
      'a URL of hours of speech',
      { type: 'input_audio', input_audio: { data: 'https://x.example/a.mp3', format: 'mp3' } },
    ],
    [
      'a URL of speech, by another name',
      { type: 'input_audio', input_audio: { url: 'https://x.example/a.mp3' } },
    ],
    ['a URL in place of speech', { type: 'input_audio', input_audio: 'https://x.example/a.mp3' }],
    ['an ID behind a little data', { type: 'file', file: { file_data: 'data:,x', file_id: 'file-1' } }],
  ])('are no more than that, however large what they link to is: %s', async (_, part) => {
    // Each fills the window: eight would be billed 24 dollars.
    expect(await spend(part, 1_000_000)).toEqual({ charged: 0, billed: 0, served: 0 });
  });

  it.each(['strict', 'adaptive'] as const)(
    'are no more than that in each hold mode: %s',
    async (holdMode) => {
      const part = { type: 'file', file: { file_id: 'file-1' } };
      expect(await spend(part, 1_000_000, { holdMode })).toEqual({ charged: 0, billed: 0, served: 0 });
    },
  );

  it('are served where the balance covers the window', async () => {
    const part = { type: 'file', file: { file_id: 'file-1' } };
    const { charged, billed, served } = await spend(part, 1_000_000, { credits: '7.00' });
    expect({ charged, billed, served }).toEqual({ charged: 6.0003, billed: 6.0003, served: 2 });
  });

  it.each([
    ['as a file', { type: 'file', file: { filename: 'a.pdf', file_data: PDF } }],
    ['as an image', { type: 'image_url', image_url: { url: PDF } }],
  ])('are held for by their size, where they are in the request: %s', async (_, part) => {
    // 100,000 characters: at most 120,000 tokens, which are 0.36.
    const { charged, billed, served } = await spend(part, 100_000);
    expect(served).toBe(1);
    expect(charged).toBe(billed);
  });

  it('are held for by what the operator says', async () => {
    const part = { type: 'file', file: { file_id: 'file-1' } };
    const model = { tokenBudgets: { file: 50_000 } };
    const { charged, billed, served } = await spend(part, 50_000, { model });
    expect(served).toBe(3);
    expect(charged).toBe(billed);
  });
});

describe('images on a balance that covers one of them', () => {
  const part = { type: 'image_url', image_url: { url: 'https://x.example/a.png' } };

  it.each([
    ['openai', 'gpt-4o-mini-2024-07-18', 48_169],
    ['openai', 'gpt-5', 10_000],
    ['anthropic', 'claude-opus-4-7', 4784],
    ['gemini', 'gemini-3-pro', 4128],
    ['xai', 'grok-4', 1792],
    ['vllm', 'Qwen/Qwen2.5-VL-72B', 16_384],
  ])('cost no more than is held, by the rule of %s for %s: %d tokens', async (preset, model, tokens) => {
    const one = { model: { targets: [`loopback/${model}`] }, provider: { preset } };
    const credits = ((tokens + 500) * 4.5e-6).toFixed(6);
    const { charged, billed, served } = await spend(part, tokens, { ...one, credits });
    expect({ charged, served }).toEqual({ charged: billed, served: 1 });
  });
});

describe('speech on a balance of five cents', () => {
  it('is held for as long as it can last: 8 kbit/s', async () => {
    // 120,000 bytes are two minutes at least, 50 tokens a second.
    const part = { type: 'input_audio', input_audio: { data: 'A'.repeat(160_000), format: 'mp3' } };
    const { charged, billed, served } = await spend(part, 6000, { credits: '0.05' });
    expect(served).toBeGreaterThan(0);
    expect(charged).toBe(billed);
  });
});
