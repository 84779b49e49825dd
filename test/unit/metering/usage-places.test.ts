import { describe, expect, it } from 'vitest';

import type { Usage, UsageDialect } from '../../../src/metering/usage-dialects.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';

const COUNTS = { prompt_tokens: 9, completion_tokens: 12 };

describe('usage may stand', () => {
  it.each<[place: string, chunks: readonly unknown[], told: readonly number[]]>([
    ['on a chunk without choices: OpenAI', [text('Hi'), { choices: [], usage: COUNTS }], [9, 12]],
    [
      'on a chunk that has no choices at all: Cloudflare',
      [text('Hi'), { response: '', usage: COUNTS }],
      [9, 12],
    ],
    ['on the chunk that gives the reason: Groq, Mistral', [{ ...text('Hi'), usage: COUNTS }], [9, 12]],
    [
      'before a chunk of moderation',
      [
        { choices: [], usage: COUNTS },
        { choices: [], moderation: {} },
      ],
      [9, 12],
    ],
    [
      'before chunks whose usage is null',
      [
        { ...text('Hi'), usage: COUNTS },
        { choices: [], usage: null },
      ],
      [9, 12],
    ],
    [
      'in two chunks, the prompt in the first: bridges to Anthropic',
      [{ usage: { prompt_tokens: 9 } }, text('Hi'), { usage: { completion_tokens: 12 } }],
      [9, 12],
    ],
    [
      'in x_groq alone, as Groq once had it',
      [{ ...text('Hi'), x_groq: { id: 'req_1', usage: COUNTS } }],
      [9, 12],
    ],
    [
      'in the timings of llama.cpp, whose prompt is what it read and what it had cached',
      [{ ...text('Hi'), timings: { cache_n: 4, prompt_n: 5, prompt_ms: 1.5, predicted_n: 12 } }],
      [9, 12],
    ],
    [
      'in timings again and again, of all so far',
      [1, 12].map((n) => ({ ...text('Hi'), timings: { cache_n: 4, prompt_n: 5, predicted_n: n } })),
      [9, 12],
    ],
    [
      'beside timings, which it outranks',
      [{ choices: [], usage: COUNTS, timings: { cache_n: 1, prompt_n: 1, predicted_n: 1 } }],
      [9, 12],
    ],
    [
      'on every chunk of its choice, counting up for itself, and be told whole: vLLM',
      [
        { ...text('Hi', 0), usage: { prompt_tokens: 9, completion_tokens: 1 } },
        { ...text('Hi', 1), usage: { prompt_tokens: 9, completion_tokens: 1 } },
        { choices: [], usage: { prompt_tokens: 9, completion_tokens: 2 } },
      ],
      [9, 2],
    ],
    [
      'on every chunk of its choice and be cut before the whole: vLLM',
      [
        { ...text('Hi', 0), usage: { prompt_tokens: 9, completion_tokens: 1 } },
        { ...text('Hi', 1), usage: { prompt_tokens: 9, completion_tokens: 1 } },
        { ...text('Hi', 0), usage: { prompt_tokens: 9, completion_tokens: 2 } },
      ],
      [9, 3],
    ],
  ])('%s', (_place, chunks, told) => {
    const usage = usageOf(chunks);
    expect([usage?.promptTokens, usage?.completionTokens]).toEqual(told);
  });

  it('is missing in timings that don’t tell how long the prompt was', () => {
    expect(usageOf([{ ...text('Hi'), timings: { prompt_n: 5, predicted_n: 12 } }])).toBeUndefined();
  });

  it.each<[decoy: string, chunk: unknown]>([
    ['content', text(JSON.stringify({ usage: COUNTS }))],
    [
      'tool arguments',
      delta({ tool_calls: [{ function: { arguments: JSON.stringify({ usage: COUNTS }) } }] }),
    ],
    ['an object of the delta', delta({ usage: COUNTS })],
    ['metadata', { ...text('Hi'), metadata: { usage: COUNTS } }],
    ['a field of another case', { ...text('Hi'), Usage: COUNTS }],
    ['a list', [{ usage: COUNTS }]],
    ['an object deeper down', { data: { usage: COUNTS } }],
  ])('but not in %s', (_decoy, chunk) => {
    expect(usageOf([chunk])).toBeUndefined();
  });
});

describe('tokens of a cache', () => {
  const cached = { prompt_tokens_details: { cached_tokens: 4 } };

  it.each<[where: string, dialect: UsageDialect, usage: unknown, prompt: number]>([
    ['inside the prompt, unless something says otherwise', {}, { ...COUNTS, ...cached }, 9],
    ['outside, where the provider is said to count so', { cached: 'outside' }, { ...COUNTS, ...cached }, 13],
    ['outside, where the total shows it', {}, { ...COUNTS, total_tokens: 25, ...cached }, 13],
    [
      'inside, clamped, where they are more than the prompt',
      {},
      { ...COUNTS, prompt_tokens_details: { cached_tokens: 40 } },
      9,
    ],
    [
      'outside, where they are more than the prompt and either may be: xAI',
      { cached: 'either' },
      { ...COUNTS, prompt_tokens_details: { cached_tokens: 40 } },
      49,
    ],
    ['inside, where either may be and they are less', { cached: 'either' }, { ...COUNTS, ...cached }, 9],
    [
      'beside input_tokens, read and written: Anthropic’s own names',
      {},
      { input_tokens: 9, output_tokens: 12, cache_read_input_tokens: 40, cache_creation_input_tokens: 100 },
      149,
    ],
    [
      'outside prompt_tokens, where Anthropic’s names tell of more than the prompt',
      {},
      { ...COUNTS, cache_read_input_tokens: 40 },
      49,
    ],
  ])('are counted %s', (_where, dialect, usage, prompt) => {
    expect(usageOf([{ choices: [], usage }], dialect)).toMatchObject({
      promptTokens: prompt,
      completionTokens: 12,
    });
  });

  it('are read and written apart', () => {
    const usage = {
      input_tokens: 9,
      output_tokens: 12,
      cache_read_input_tokens: 40,
      cache_creation_input_tokens: 100,
    };
    expect(usageOf([{ usage }])).toMatchObject({ cachedTokens: 40, cacheWriteTokens: 100 });
  });
});

describe('reasoning', () => {
  const reasoning = { completion_tokens_details: { reasoning_tokens: 5 } };

  it.each<[where: string, dialect: UsageDialect, usage: unknown, completion: number]>([
    ['inside the completion, unless something says otherwise', {}, { ...COUNTS, ...reasoning }, 12],
    ['inside, where the total says so', {}, { ...COUNTS, total_tokens: 21, ...reasoning }, 12],
    ['outside, where the total shows it: xAI', {}, { ...COUNTS, total_tokens: 26, ...reasoning }, 17],
    [
      'outside, where the provider is said to count so',
      { reasoning: 'outside' },
      { ...COUNTS, ...reasoning },
      17,
    ],
    [
      'once, where both the provider and its total say so',
      { reasoning: 'outside' },
      { ...COUNTS, total_tokens: 26, ...reasoning },
      17,
    ],
    [
      'outside, as a member of usage beside citations: Perplexity',
      {},
      { ...COUNTS, citation_tokens: 0, reasoning_tokens: 5 },
      17,
    ],
    [
      'outside, as a member of usage beside searches: Perplexity',
      {},
      { ...COUNTS, num_search_queries: 1, reasoning_tokens: 5 },
      17,
    ],
    [
      'inside, beside citations, where the provider is said to count so',
      { reasoning: 'inside' },
      { ...COUNTS, citation_tokens: 0, reasoning_tokens: 5 },
      12,
    ],
    [
      'inside, as a member of usage whose total says so: SGLang',
      {},
      { ...COUNTS, total_tokens: 21, prompt_tokens_details: null, reasoning_tokens: 5 },
      12,
    ],
    [
      'outside, as a member of usage whose total shows it',
      {},
      { ...COUNTS, total_tokens: 26, reasoning_tokens: 5 },
      17,
    ],
    [
      'outside, as a member of usage, where the provider is said to count so',
      { reasoning: 'outside' },
      { ...COUNTS, reasoning_tokens: 5 },
      17,
    ],
  ])('is counted %s', (_where, dialect, usage, completion) => {
    expect(usageOf([{ choices: [], usage }], dialect)).toMatchObject({
      promptTokens: 9,
      completionTokens: completion,
      reasoningTokens: 5,
    });
  });
});

describe('an answer says that it is an error', () => {
  it.each<[shape: string, answer: string]>([
    ['as most do', '{"error":{"message":"x","code":500}}'],
    ['with a text: Together, Fireworks', '{"error":"x"}'],
    ['with a code beside: xAI', '{"code":"Some requested entity was not found","error":"x"}'],
    ['in a list: Gemini', '[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}]'],
    ['in base_resp: MiniMax', '{"choices":null,"base_resp":{"status_code":1008,"status_msg":"x"}}'],
    ['as an object of that name: Mistral, old vLLM', '{"object":"error","message":"x"}'],
    ['in the reason of a choice: OpenRouter', '{"choices":[{"finish_reason":"error","delta":{}}]}'],
    ['in the reason of a choice: Zhipu', '{"choices":[{"finish_reason":"network_error"}]}'],
    ['in the reason of a choice: DeepSeek', '{"choices":[{"finish_reason":"insufficient_system_resource"}]}'],
  ])('%s', (_shape, answer) => {
    expect(failed(answer)).toBe(true);
    expect(failed(`data: ${answer}\n\n`)).toBe(true);
    expect(failed(` \n${answer}`, true)).toBe(true);
  });

  it.each([
    ['an event of that name: Groq', 'event: error\ndata: {"message":"x"}\n\n'],
    ['a field of that name: llama.cpp in 2025', 'error: {"code":500,"message":"x"}\n\n'],
    ['an event before [DONE]: vLLM', 'data: {"error":{"message":"x"}}\n\ndata: [DONE]\n\n'],
  ])('by %s', (_shape, stream) => {
    expect(failed(stream)).toBe(true);
    expect(failed(stream, true)).toBe(true);
  });

  it.each([
    ['an error that is null', '{"error":null,"choices":[]}'],
    ['an error that is empty', '{"error":"","choices":[]}'],
    ['a base_resp of 0', '{"base_resp":{"status_code":0,"status_msg":""}}'],
    ['an error in its text', JSON.stringify(text('{"error":{"message":"x"}}'))],
    ['an error of a tool', JSON.stringify(delta({ error: { message: 'x' } }))],
    ['a list without errors', '[{"error":null},{}]'],
  ])('but not by %s', (_shape, answer) => {
    expect(failed(answer)).toBe(false);
    expect(failed(`data: ${answer}\n\n`)).toBe(false);
  });
});

function delta(fields: unknown, index = 0): Record<string, unknown> {
  return { choices: [{ index, delta: fields }] };
}

function text(content: string, index = 0): Record<string, unknown> {
  return delta({ content }, index);
}

function usageOf(chunks: readonly unknown[], dialect?: UsageDialect): Usage | undefined {
  const meter = new UsageMeter(dialect);
  for (const each of chunks) meter.write(Buffer.from(`data: ${JSON.stringify(each)}\n\n`));
  meter.end();
  return meter.usage;
}

function failed(answer: string, byteByByte = false): boolean {
  const meter = new UsageMeter();
  const bytes = Buffer.from(answer);
  if (byteByByte) for (let i = 0; i < bytes.length; i++) meter.write(bytes.subarray(i, i + 1));
  else meter.write(bytes);
  meter.end();
  return meter.failed;
}
