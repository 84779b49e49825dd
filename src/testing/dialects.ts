/** What a completion used, as its provider knows it. */
export interface TokenCounts {
  readonly prompt: number;
  /** All output, with what is spent on reasoning. */
  readonly completion: number;
  /** How many of the prompt's came from a cache. */
  readonly cached?: number;
  /** How many of the completion's were spent on reasoning. */
  readonly reasoning?: number;
}

/** A provider whose way of telling what was used is known; those that do as OpenAI does aren't named. */
export type DialectName =
  | 'openai'
  | 'deepseek'
  | 'gemini'
  | 'groq'
  | 'mistral'
  | 'moonshot'
  | 'openrouter'
  | 'perplexity'
  | 'together'
  | 'xai';

/** How a provider tells what was used: under which names, and on which chunk of a stream. */
export interface UsageDialect {
  readonly usage: (tokens: Required<TokenCounts>) => object;
  /**
   * `asked`: a chunk of its own, if `stream_options.include_usage` is true; `always`: without being
   * asked; `finish`: on the chunk with the finish reason; `every`: on all chunks, growing; `choice`: on
   * the choice of the finish chunk, and on a chunk of its own if asked.
   */
  readonly on: 'asked' | 'always' | 'finish' | 'every' | 'choice';
  /** Where else the finish chunk has it. */
  readonly alsoIn?: string;
  /** A comment before the first chunk. */
  readonly comment?: string;
  readonly lineEnd?: '\r\n';
  /** The stream ends without `[DONE]`. */
  readonly noDone?: true;
}

function openai({ prompt, completion, cached, reasoning }: Required<TokenCounts>): object {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

/** Reasoning is in the total and not in the completion. */
function reasoningBeside(tokens: Required<TokenCounts>): object {
  return { ...openai(tokens), completion_tokens: tokens.completion - tokens.reasoning };
}

function sums({ prompt, completion }: Required<TokenCounts>): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

const DIALECTS: Readonly<Record<DialectName, UsageDialect>> = {
  openai: { on: 'asked', usage: openai },
  deepseek: {
    on: 'finish',
    usage: (tokens) => ({
      ...sums(tokens),
      prompt_cache_hit_tokens: tokens.cached,
      prompt_cache_miss_tokens: tokens.prompt - tokens.cached,
      completion_tokens_details: { reasoning_tokens: tokens.reasoning },
    }),
  },
  gemini: {
    on: 'every',
    usage: ({ prompt, completion, reasoning }) => ({
      prompt_tokens: prompt,
      completion_tokens: completion - reasoning,
      total_tokens: prompt + completion,
    }),
  },
  groq: { on: 'finish', alsoIn: 'x_groq', usage: (tokens) => ({ queue_time: 0.026, ...openai(tokens) }) },
  mistral: { on: 'finish', usage: (tokens) => ({ ...sums(tokens), num_cached_tokens: tokens.cached }) },
  moonshot: { on: 'choice', usage: (tokens) => ({ ...sums(tokens), cached_tokens: tokens.cached }) },
  openrouter: {
    on: 'always',
    comment: ': OPENROUTER PROCESSING',
    usage: (tokens) => ({ ...openai(tokens), cost: 0.000_045 }),
  },
  perplexity: {
    on: 'every',
    lineEnd: '\r\n',
    noDone: true,
    usage: (tokens) => ({
      ...sums({ ...tokens, completion: tokens.completion - tokens.reasoning }),
      reasoning_tokens: tokens.reasoning,
    }),
  },
  together: { on: 'finish', usage: (tokens) => ({ ...sums(tokens), cached_tokens: tokens.cached }) },
  xai: { on: 'always', usage: reasoningBeside },
};

export function dialectOf(name: DialectName): UsageDialect {
  return DIALECTS[name];
}
