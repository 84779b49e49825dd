/** The tokens of a completion. */
export interface TokenCounts {
  readonly prompt: number;
  /** All output tokens, including reasoning. */
  readonly completion: number;
  /** Prompt tokens that came from a cache. */
  readonly cached?: number;
  /** Completion tokens that were spent on reasoning. */
  readonly reasoning?: number;
}

/** A provider whose usage format is known and differs from OpenAI's, or `openai`. */
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

/** How a provider reports usage: the names of its members, and the chunks of a stream that have it. */
export interface UsageFormat {
  readonly usage: (tokens: Required<TokenCounts>) => object;
  /**
   * `requested`: in a separate chunk, if `stream_options.include_usage` is true; `always`: in a separate chunk of every
   * stream; `finish`: in the chunk with the finish reason; `every`: in all chunks, growing; `choice`: in the choice of
   * the finish chunk, and in a separate chunk if requested.
   */
  readonly on: 'requested' | 'always' | 'finish' | 'every' | 'choice';
  /** Another member of the finish chunk that has it. */
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

/** Reasoning counts in the total, but not in the completion. */
function reasoningBeside(tokens: Required<TokenCounts>): object {
  return { ...openai(tokens), completion_tokens: tokens.completion - tokens.reasoning };
}

function sums({ prompt, completion }: Required<TokenCounts>): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

const DIALECTS: Readonly<Record<DialectName, UsageFormat>> = {
  openai: { on: 'requested', usage: openai },
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
      citation_tokens: 0,
      reasoning_tokens: tokens.reasoning,
    }),
  },
  together: { on: 'finish', usage: (tokens) => ({ ...sums(tokens), cached_tokens: tokens.cached }) },
  xai: { on: 'always', usage: reasoningBeside },
};

export function dialectOf(name: DialectName): UsageFormat {
  return DIALECTS[name];
}
