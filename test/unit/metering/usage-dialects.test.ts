import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { formatUsd } from '../../../src/ledger/contract/money.ts';
import { charge } from '../../../src/metering/price.ts';
import { parsePricing, type Pricing } from '../../../src/metering/pricing.ts';
import type { Usage } from '../../../src/metering/usage-dialects.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';

const COUNTS = { prompt_tokens: 9, completion_tokens: 12 };

/** What providers publish or send, with what it costs by the list price of a model of theirs. */
const BLOCKS: readonly [provider: string, usage: unknown, pricing: Pricing, cost: string][] = [
  [
    'OpenAI, with a cached prompt', // 86 × 2,500 + 1,920 × 1,250 + 300 × 10,000 nano-dollars
    {
      prompt_tokens: 2006,
      completion_tokens: 300,
      total_tokens: 2306,
      prompt_tokens_details: { cached_tokens: 1920 },
      completion_tokens_details: { reasoning_tokens: 0, accepted_prediction_tokens: 0 },
    },
    { input: '2.50', cachedInput: '1.25', output: '10' },
    '0.005615',
  ],
  [
    'DeepSeek, with hits and misses', // 2,000 × 280 + 8,000 × 28 + 250 × 420
    {
      prompt_tokens: 10_000,
      prompt_cache_hit_tokens: 8000,
      prompt_cache_miss_tokens: 2000,
      completion_tokens: 250,
    },
    { input: '0.28', cachedInput: '0.028', output: '0.42' },
    '0.000889',
  ],
  [
    'xAI, to the digit what its own cost_in_usd_ticks says', // 36 × 200 + 163 × 50 + 500
    {
      prompt_tokens: 199,
      completion_tokens: 1,
      total_tokens: 200,
      prompt_tokens_details: { text_tokens: 199, audio_tokens: 0, image_tokens: 0, cached_tokens: 163 },
      completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
      num_sources_used: 0,
      cost_in_usd_ticks: 158_500,
    },
    { input: '0.20', cachedInput: '0.05', output: '0.50' },
    '0.00001585',
  ],
  [
    'xAI, with reasoning beside the completion', // 26 × 300 + 6 × 75 + (9 + 94) × 500
    {
      prompt_tokens: 32,
      completion_tokens: 9,
      total_tokens: 135,
      prompt_tokens_details: { cached_tokens: 6 },
      completion_tokens_details: { reasoning_tokens: 94 },
    },
    { input: '0.30', cachedInput: '0.075', output: '0.50' },
    '0.00005975',
  ],
  [
    'Groq, with times beside counts', // 41 × 590 + 27 × 790
    { queue_time: 0.26, prompt_tokens: 41, prompt_time: 0.01, completion_tokens: 27, total_tokens: 68 },
    { input: '0.59', output: '0.79' },
    '0.00004552',
  ],
  [
    'Moonshot, with a prompt that was all cached', // 90 × 100 + 34 × 3,000
    {
      prompt_tokens: 90,
      completion_tokens: 34,
      total_tokens: 124,
      cached_tokens: 90,
      completion_tokens_details: { reasoning_tokens: 17 },
    },
    { input: '0.60', cachedInput: '0.10', output: '3' },
    '0.000111',
  ],
  [
    'Qwen, with reasoning inside the completion', // 24 × 1,200 + 1,668 × 6,000
    {
      prompt_tokens: 24,
      completion_tokens: 1668,
      total_tokens: 1692,
      completion_tokens_details: { reasoning_tokens: 1353 },
      prompt_tokens_details: { cached_tokens: 0 },
    },
    { input: '1.20', output: '6' },
    '0.0100368',
  ],
  [
    'Perplexity, with citations and reasoning in no total', // (1,188 + 8,014) × 2,000 + (4,240 + 92,431) × 8,000
    {
      prompt_tokens: 1188,
      completion_tokens: 4240,
      total_tokens: 5428,
      citation_tokens: 8014,
      num_search_queries: 54,
      reasoning_tokens: 92_431,
    },
    { input: '2', output: '8' },
    '0.791772',
  ],
  [
    // (1,188 + 8,014) × 2,000 + 92,431 × 3,000 + 4,240 × 8,000, and 54 searches at 5 USD a thousand
    'Perplexity, by the prices of its Deep Research',
    {
      prompt_tokens: 1188,
      completion_tokens: 4240,
      total_tokens: 5428,
      citation_tokens: 8014,
      num_search_queries: 54,
      reasoning_tokens: 92_431,
    },
    { input: '2', output: '8', reasoningOutput: '3', webSearch: '0.005' },
    '0.599617',
  ],
  [
    // 200,001 × 2,500 + 1,000 × 15,000
    'Gemini 2.5 Pro, above 200,000 tokens of prompt',
    { prompt_tokens: 200_001, completion_tokens: 1000, total_tokens: 201_001 },
    { input: '1.25', output: '10', tiers: [{ above: 200_000, input: '2.50', output: '15' }] },
    '0.5150025',
  ],
  [
    // 1,000 × 2,500 + 19 × 40,000 + 40 × 10,000 + 200 × 80,000
    'OpenAI’s gpt-4o-audio-preview, with speech on both sides',
    {
      prompt_tokens: 1019,
      completion_tokens: 240,
      prompt_tokens_details: { audio_tokens: 19, text_tokens: 1000, image_tokens: 0 },
      completion_tokens_details: { audio_tokens: 200, text_tokens: 40 },
    },
    { input: '2.50', audioInput: '40', output: '10', audioOutput: '80' },
    '0.01966',
  ],
  [
    // 100 × 300 + 20 × 2,500 + 1,290 × 30,000: an image of Gemini 2.5 Flash Image costs 0.0387 USD
    'a model that draws',
    {
      prompt_tokens: 100,
      completion_tokens: 1310,
      completion_tokens_details: { image_tokens: 1290 },
    },
    { input: '0.30', output: '2.50', imageOutput: '30' },
    '0.03878',
  ],
  [
    // 100 × 3,000 + 100 × 15,000, and 3 searches
    'OpenRouter, with searches of its own',
    {
      prompt_tokens: 100,
      completion_tokens: 100,
      server_tool_use_details: { web_search_requests: 3, tool_calls_requested: 3 },
    },
    { input: '3', output: '15', webSearch: '0.01' },
    '0.0318',
  ],
  [
    'Gemini, with thoughts in the total alone', // 8 × 300 + (10 + 990) × 2,500
    { prompt_tokens: 8, completion_tokens: 10, total_tokens: 1008 },
    { input: '0.30', output: '2.50' },
    '0.0025024',
  ],
  [
    'DeepInfra, with reasoning that no completion holds', // 20 × 100 + (30 + 70) × 400
    {
      prompt_tokens: 20,
      completion_tokens: 30,
      total_tokens: 50,
      completion_tokens_details: { reasoning_tokens: 70 },
    },
    { input: '0.10', output: '0.40' },
    '0.000042',
  ],
  [
    'Mistral, with cached tokens under three names', // 36 × 400 + 64 × 40 + 10 × 2,000
    {
      prompt_tokens: 100,
      completion_tokens: 10,
      total_tokens: 110,
      num_cached_tokens: 64,
      prompt_token_details: { cached_tokens: 64 },
      prompt_tokens_details: { cached_tokens: 64 },
    },
    { input: '0.40', cachedInput: '0.04', output: '2' },
    '0.00003696',
  ],
  [
    'Qwen, with a cache that was written', // 100 × 400 + 1,500 × 40 + 400 × 500 + 50 × 1,200
    {
      prompt_tokens: 2000,
      completion_tokens: 50,
      total_tokens: 2050,
      prompt_tokens_details: {
        cached_tokens: 1500,
        cache_creation_input_tokens: 400,
        cache_creation: { ephemeral_5m_input_tokens: 400 },
        cache_type: 'ephemeral',
      },
    },
    { input: '0.40', cachedInput: '0.04', cacheWriteInput: '0.50', output: '1.20' },
    '0.00036',
  ],
  [
    'OpenRouter, with its own costs', // 194 × 2,500 + 2 × 10,000
    {
      prompt_tokens: 194,
      completion_tokens: 2,
      total_tokens: 196,
      cost: 0.95,
      cost_details: { upstream_inference_cost: 19 },
      is_byok: false,
      completion_tokens_details: { reasoning_tokens: 0 },
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0, audio_tokens: 0 },
    },
    { input: '2.50', output: '10' },
    '0.000505',
  ],
  [
    'SGLang, with reasoning that is a part of the completion', // 77,438 × 1,000 + 34,428 × 2,000
    {
      prompt_tokens: 77_438,
      total_tokens: 111_866,
      completion_tokens: 34_428,
      prompt_tokens_details: null,
      reasoning_tokens: 29_219,
    },
    { input: '1', output: '2' },
    '0.146294',
  ],
  [
    'Mistral’s Voxtral, with audio in the total alone', // 3 × 1,000 + 375 × 10,000 + 41 × 2,000
    {
      prompt_audio_seconds: 12,
      prompt_tokens: 3,
      completion_tokens: 41,
      total_tokens: 419,
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 375 },
    },
    { input: '1', audioInput: '10', output: '2' },
    '0.003835',
  ],
  [
    'Mistral’s Voxtral, with more text than audio', // 500 × 1,000 + 375 × 10,000 + 41 × 2,000
    {
      prompt_audio_seconds: 12,
      prompt_tokens: 500,
      completion_tokens: 41,
      total_tokens: 916,
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 375 },
    },
    { input: '1', audioInput: '10', output: '2' },
    '0.004332',
  ],
  [
    'Mistral’s Voxtral, with audio that it counts in seconds', // as above
    { prompt_audio_seconds: 12, prompt_tokens: 3, completion_tokens: 41, total_tokens: 419 },
    { input: '1', audioInput: '10', output: '2' },
    '0.003835',
  ],
  [
    'Qwen, with a video and an image', // 100 × 1,000 + (700 + 200) × 5,000 + 10 × 2,000
    {
      prompt_tokens: 1000,
      completion_tokens: 10,
      total_tokens: 1010,
      prompt_tokens_details: { text_tokens: 100, video_tokens: 700, image_tokens: 200 },
    },
    { input: '1', imageInput: '5', output: '2' },
    '0.00462',
  ],
  [
    'llama.cpp, with its keys in another order', // 10 × 1,000 + 20 × 2,000
    { completion_tokens: 20, prompt_tokens: 10, total_tokens: 30 },
    { input: '1', output: '2' },
    '0.00005',
  ],
];

describe('a published usage block', () => {
  it.each(BLOCKS)('of %s costs what it should', (_provider, usage, pricing, cost) => {
    expect(formatUsd(charge(usageOf(usage)!, parsePricing(pricing, 'pricing')))).toBe(cost);
  });
});

describe('usage', () => {
  it('may have parts of the prompt and of the output', () => {
    const usage = usageOf({
      prompt_tokens: 100,
      completion_tokens: 50,
      prompt_tokens_details: {
        cached_tokens: 10,
        cache_write_tokens: 20,
        audio_tokens: 30,
        image_tokens: 35,
      },
      completion_tokens_details: { reasoning_tokens: 5, audio_tokens: 40, image_tokens: 4 },
      server_tool_use: { web_search_requests: 2 },
    });
    expect(usage).toEqual({
      promptTokens: 100,
      cachedTokens: 10,
      cacheWriteTokens: 20,
      audioPromptTokens: 30,
      imagePromptTokens: 35,
      completionTokens: 50,
      reasoningTokens: 5,
      audioCompletionTokens: 40,
      imageCompletionTokens: 4,
      webSearches: 2,
    });
  });

  it('has no more images than what is neither cached nor heard, nor than what isn’t spoken', () => {
    const usage = usageOf({
      prompt_tokens: 100,
      completion_tokens: 50,
      prompt_tokens_details: { cached_tokens: 90, audio_tokens: 4, image_tokens: 80 },
      completion_tokens_details: { audio_tokens: 40, image_tokens: 40 },
    });
    expect(usage).toMatchObject({ imagePromptTokens: 6, imageCompletionTokens: 10 });
  });

  it.each([
    ['num_search_queries', { num_search_queries: 4 }],
    ['num_sources_used', { num_sources_used: 4 }],
    ['server_tool_use', { server_tool_use: { web_search_requests: 4 } }],
    ['server_tool_use_details', { server_tool_use_details: { web_search_requests: 4 } }],
  ])('counts searches of the Web by %s', (_name, fields) => {
    expect(usageOf({ ...COUNTS, ...fields })?.webSearches).toBe(4);
  });

  it('is not spoilt by a count of searches that can’t be one', () => {
    expect(usageOf({ ...COUNTS, server_tool_use: { web_search_requests: -1 } })).toMatchObject({
      promptTokens: 9,
      webSearches: 0,
    });
  });

  it.each([
    ['prompt_tokens_details', { prompt_tokens_details: { cached_tokens: 7 } }],
    ['prompt_token_details', { prompt_token_details: { cached_tokens: 7 } }],
    ['num_cached_tokens', { num_cached_tokens: 7 }],
    ['cached_tokens', { cached_tokens: 7 }],
    ['prompt_cache_hit_tokens', { prompt_cache_hit_tokens: 7 }],
  ])('names cached tokens in %s', (_name, cached) => {
    expect(usageOf({ ...COUNTS, ...cached })).toMatchObject({ promptTokens: 9, cachedTokens: 7 });
  });

  it('keeps Qwen’s cache writes inside the prompt', () => {
    const details = { cached_tokens: 2, cache_creation_input_tokens: 5, cache_type: 'ephemeral' };
    const usage = usageOf({ ...COUNTS, prompt_tokens_details: details });
    expect(usage).toMatchObject({ promptTokens: 9, cachedTokens: 2, cacheWriteTokens: 5 });
  });

  it('has no part that is more than the whole', () => {
    const usage = usageOf({
      ...COUNTS,
      prompt_tokens_details: { cached_tokens: 50, cache_write_tokens: 50, audio_tokens: 50 },
      completion_tokens_details: { audio_tokens: 50 },
    });
    expect(usage).toMatchObject({ promptTokens: 9, cachedTokens: 9, cacheWriteTokens: 0 });
    expect(usage).toMatchObject({ audioPromptTokens: 0, completionTokens: 12, audioCompletionTokens: 12 });
  });

  it('counts what only the total knows as output: Gemini’s thoughts', () => {
    const usage = usageOf({ prompt_tokens: 8, completion_tokens: 10, total_tokens: 1008 });
    expect(usage).toMatchObject({ promptTokens: 8, completionTokens: 1000 });
  });

  it('adds reasoning that can’t be inside the completion: DeepInfra', () => {
    const details = { completion_tokens_details: { reasoning_tokens: 100 } };
    expect(usageOf({ ...COUNTS, ...details })).toMatchObject({ completionTokens: 112, reasoningTokens: 100 });
  });

  it('has the audio beside the prompt that only its seconds show', () => {
    const details = { prompt_audio_seconds: 12, prompt_tokens_details: { audio_tokens: 0 } };
    const usage = usageOf({ ...COUNTS, total_tokens: 396, ...details });
    expect(usage).toMatchObject({ promptTokens: 384, audioPromptTokens: 375, completionTokens: 12 });
  });

  it('has no audio beside the prompt that the total does not show', () => {
    const usage = usageOf({ ...COUNTS, total_tokens: 25, prompt_tokens_details: { audio_tokens: 50 } });
    expect(usage).toMatchObject({ promptTokens: 9, audioPromptTokens: 9, completionTokens: 16 });
    const seconds = usageOf({ ...COUNTS, total_tokens: 21, prompt_audio_seconds: 12 });
    expect(seconds).toMatchObject({ promptTokens: 9, audioPromptTokens: 0, completionTokens: 12 });
    const inside = { total_tokens: 21, prompt_audio_seconds: 12, prompt_tokens_details: { audio_tokens: 5 } };
    expect(usageOf({ ...COUNTS, ...inside })).toMatchObject({ promptTokens: 9, audioPromptTokens: 5 });
  });

  it('never adds reasoning twice, told in both places', () => {
    const usage = { ...COUNTS, reasoning_tokens: 5, completion_tokens_details: { reasoning_tokens: 5 } };
    expect(usageOf(usage)).toMatchObject({ completionTokens: 12, reasoningTokens: 5 });
  });

  it('has cached tokens and reasoning beside its counts, which its total shows', () => {
    const usage = usageOf({
      prompt_tokens: 100,
      completion_tokens: 50,
      total_tokens: 580,
      prompt_tokens_details: { cached_tokens: 300, cache_write_tokens: 100 },
      completion_tokens_details: { reasoning_tokens: 30 },
    });
    expect(usage).toMatchObject({ promptTokens: 500, cachedTokens: 300, cacheWriteTokens: 100 });
    expect(usage).toMatchObject({ completionTokens: 80, reasoningTokens: 30 });
  });

  it('of zero is zero', () => {
    expect(usageOf({ prompt_tokens: 0, completion_tokens: 0 })).toMatchObject({
      promptTokens: 0,
      completionTokens: 0,
    });
  });

  it('with one count and the total tells the other', () => {
    expect(usageOf({ prompt_tokens: 9, total_tokens: 21 })).toMatchObject({ completionTokens: 12 });
    expect(usageOf({ completion_tokens: 12, total_tokens: 21 })).toMatchObject({ promptTokens: 9 });
  });

  it.each([
    ['null', null],
    ['empty', {}],
    ['no object', 21],
    ['a list', [COUNTS]],
    ['of the prompt alone', { prompt_tokens: 9 }],
    ['of the output alone', { completion_tokens: 12 }],
    ['null in its counts', { prompt_tokens: 9, completion_tokens: null }],
    ['negative', { prompt_tokens: -9, completion_tokens: 12 }],
    ['fractional', { prompt_tokens: 9, completion_tokens: 1.5 }],
    ['text', { prompt_tokens: '9', completion_tokens: 12 }],
    ['true', { prompt_tokens: true, completion_tokens: 12 }],
    ['beyond integers', { prompt_tokens: 1e300, completion_tokens: 12 }],
  ])('is missing when it is %s', (_case, usage) => {
    expect(usageOf(usage)).toBeUndefined();
  });

  it('is missing when a count is no number of JSON’s', () => {
    const meter = new UsageMeter();
    meter.write(Buffer.from('{"usage":{"prompt_tokens":NaN,"completion_tokens":12}}'));
    meter.end();
    expect(meter.usage).toBeUndefined();
  });

  it('has only counts that add up, whatever a provider says', () => {
    const count = fc.option(fc.oneof(fc.nat(1000), fc.maxSafeInteger(), fc.double(), fc.string()), {
      nil: undefined,
    });
    const details = fc.record({ cached_tokens: count, cache_write_tokens: count, audio_tokens: count });
    const block = fc.record({
      prompt_tokens: count,
      completion_tokens: count,
      total_tokens: count,
      cached_tokens: count,
      reasoning_tokens: count,
      prompt_tokens_details: fc.option(details),
      completion_tokens_details: fc.option(fc.record({ reasoning_tokens: count, audio_tokens: count })),
    });
    fc.assert(
      fc.property(block, (given) => {
        const usage = usageOf(given);
        if (!usage) return;
        for (const value of Object.values(usage)) expect(value).toBeGreaterThanOrEqual(0);
        const { cachedTokens, cacheWriteTokens, audioPromptTokens } = usage;
        expect(cachedTokens + cacheWriteTokens + audioPromptTokens).toBeLessThanOrEqual(usage.promptTokens);
        expect(usage.audioCompletionTokens).toBeLessThanOrEqual(usage.completionTokens);
        expect(usage.reasoningTokens).toBeLessThanOrEqual(usage.completionTokens);
      }),
    );
  });
});

describe('usage that is reported more than once', () => {
  it('is the last that was reported, never a sum: Perplexity, Gemini', () => {
    expect(counts(chunk({ ...COUNTS, completion_tokens: 4 }), chunk(COUNTS))).toEqual([9, 12]);
  });

  it('is reported count by count: absent and null are not zero', () => {
    const first = chunk({ prompt_tokens: 9, completion_tokens: 1 });
    expect(counts(first, chunk({ prompt_tokens: null, completion_tokens: 12 }))).toEqual([9, 12]);
  });

  it('survives a later usage that can’t be', () => {
    expect(counts(chunk(COUNTS), chunk({ prompt_tokens: -1, completion_tokens: 5 }))).toEqual([9, 12]);
  });

  it('is not hidden by zeros and nulls before it', () => {
    expect(counts(chunk(null), chunk({ prompt_tokens: 0, completion_tokens: 0 }), chunk(COUNTS))).toEqual([
      9, 12,
    ]);
  });

  it('may stand in x_groq, and there beside itself', () => {
    expect(counts({ choices: [choice(0)], x_groq: { usage: COUNTS } })).toEqual([9, 12]);
    expect(counts({ choices: [choice(0)], x_groq: { usage: COUNTS }, usage: COUNTS })).toEqual([9, 12]);
  });

  it('may stand in the choices: prompt once, completions summed: Moonshot', () => {
    const own = (index: number, completion: number): unknown => ({
      choices: [{ index, usage: { prompt_tokens: 9, completion_tokens: completion } }],
    });
    expect(counts(own(0, 12), own(1, 20))).toEqual([9, 32]);
    expect(counts({ choices: [{ usage: COUNTS, index: 1 }] }, own(0, 20))).toEqual([9, 32]);
  });

  it('in the choices may tell the prompt once', () => {
    expect(counts(chunk(COUNTS, 0), chunk({ completion_tokens: 20 }, 1))).toEqual([9, 32]);
  });

  it('in the choices keeps the reasoning that only their totals know', () => {
    const own = (index: number): unknown => ({
      choices: [{ index, usage: { ...COUNTS, total_tokens: 26 } }],
    });
    expect(counts(own(0), own(1))).toEqual([9, 34]);
    expect(
      counts(chunk({ ...COUNTS, total_tokens: 26 }, 0), chunk({ ...COUNTS, total_tokens: 26 }, 1)),
    ).toEqual([9, 34]);
  });

  it('in the choices counts only where none is reported for the whole', () => {
    const own = { choices: [{ index: 0, usage: COUNTS }] };
    expect(counts(own, { choices: [], usage: { prompt_tokens: 9, completion_tokens: 40 } })).toEqual([9, 40]);
    expect(counts(own, { choices: [], usage: {} })).toEqual([9, 12]);
  });

  it('once on a chunk of each choice is of that choice alone', () => {
    expect(counts(chunk(COUNTS, 0), chunk({ ...COUNTS, completion_tokens: 20 }, 1))).toEqual([9, 32]);
  });

  it('again and again on chunks of several choices is of all so far', () => {
    const running = [1, 2, 3, 4].map((completion, i) =>
      chunk({ ...COUNTS, completion_tokens: completion }, i % 2),
    );
    expect(counts(...running)).toEqual([9, 4]);
  });

  it('is of the whole on a chunk without choices, whatever came before: vLLM', () => {
    const whole = { choices: [], usage: { prompt_tokens: 9, completion_tokens: 32 } };
    expect(counts(chunk(COUNTS, 0), chunk(COUNTS, 1), whole)).toEqual([9, 32]);
  });
});

function choice(index: number): unknown {
  return { index, delta: { content: 'Hi' } };
}

function chunk(usage: unknown, index = 0): unknown {
  return { choices: [choice(index)], usage };
}

function usageOf(usage: unknown): Usage | undefined {
  const meter = new UsageMeter();
  meter.write(Buffer.from(JSON.stringify({ choices: [], usage })));
  meter.end();
  return meter.usage;
}

/** Prompt and completion tokens of a stream of these chunks. */
function counts(...chunks: readonly unknown[]): readonly (number | undefined)[] {
  const meter = new UsageMeter();
  for (const each of chunks) meter.write(Buffer.from(`data: ${JSON.stringify(each)}\n\n`));
  meter.end();
  return [meter.usage?.promptTokens, meter.usage?.completionTokens];
}
