/** The usage of a completion, in tokens. Each count is a safe integer of 0 or more. */
export interface Usage {
  /** The whole prompt, including the following prompt counts. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  /** Cache writes kept for an hour, included in `cacheWriteTokens`; undefined if not reported. */
  readonly cacheWriteHourTokens?: number;
  readonly audioPromptTokens: number;
  readonly imagePromptTokens: number;
  /** The whole output, including the next three. */
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly audioCompletionTokens: number;
  readonly imageCompletionTokens: number;
  /** What the provider bills as web searches: xAI counts the sources that it read, Vercel the calls of its tools. */
  readonly webSearches: number;
  /** Calls of all tools that the provider ran, its searches too; undefined if not reported. */
  readonly toolCalls?: number;
}

/** A usage of text only. */
export function textUsage(promptTokens: number, completionTokens: number): Usage {
  return {
    promptTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    audioPromptTokens: 0,
    imagePromptTokens: 0,
    completionTokens,
    reasoningTokens: 0,
    audioCompletionTokens: 0,
    imageCompletionTokens: 0,
    webSearches: 0,
  };
}

/** The usage with these counts reduced to their limits; the parts of a reduced count are reduced to fit into it. */
export function usageAtMost(
  usage: Usage,
  limits: Pick<Usage, 'promptTokens' | 'completionTokens' | 'webSearches'>,
): Usage {
  const { promptTokens, completionTokens, webSearches } = usage;
  if (
    promptTokens <= limits.promptTokens &&
    completionTokens <= limits.completionTokens &&
    webSearches <= limits.webSearches
  ) {
    return usage;
  }
  const reduced = {
    promptTokens: Math.min(promptTokens, limits.promptTokens),
    completionTokens: Math.min(completionTokens, limits.completionTokens),
  };
  let prompt = reduced.promptTokens;
  let output = reduced.completionTokens;
  const ofPrompt = (part: number): number => {
    const fits = Math.min(part, prompt);
    prompt -= fits;
    return fits;
  };
  const ofOutput = (part: number): number => {
    const fits = Math.min(part, output);
    output -= fits;
    return fits;
  };
  const cacheWriteTokens = ofPrompt(usage.cacheWriteTokens);
  const hour = usage.cacheWriteHourTokens;
  return {
    ...reduced,
    cacheWriteTokens,
    ...(hour !== undefined && { cacheWriteHourTokens: Math.min(hour, cacheWriteTokens) }),
    audioPromptTokens: ofPrompt(usage.audioPromptTokens),
    imagePromptTokens: ofPrompt(usage.imagePromptTokens),
    cachedTokens: ofPrompt(usage.cachedTokens),
    reasoningTokens: Math.min(usage.reasoningTokens, reduced.completionTokens),
    audioCompletionTokens: ofOutput(usage.audioCompletionTokens),
    imageCompletionTokens: ofOutput(usage.imageCompletionTokens),
    webSearches: Math.min(webSearches, limits.webSearches),
    ...(usage.toolCalls !== undefined && { toolCalls: usage.toolCalls }),
  };
}

/** How a provider counts, if its numbers alone don't show it. */
export interface UsageDialect {
  /**
   * Whether tokens read from or written to a cache are counted `inside` the prompt or `outside`; `either`: outside if they
   * exceed the prompt. A total that shows them outside takes precedence.
   *
   * @default 'inside'
   */
  readonly cached?: 'inside' | 'outside' | 'either';
  /**
   * Whether reasoning is counted `inside` the completion or `outside`. A total that exceeds its parts takes precedence: what
   * it has beside them is output. By default it is inside, unless there is more of it than completion, or Perplexity's own
   * counts are beside it.
   */
  readonly reasoning?: 'inside' | 'outside';
}

/** A count, for which providers have many names. */
export type Count =
  | 'prompt'
  | 'completion'
  | 'total'
  | 'cached'
  | 'cacheWrite'
  | 'cacheWriteHour'
  | 'audioPrompt'
  | 'audioPromptSeconds'
  | 'imagePrompt'
  | 'videoPrompt'
  | 'citations'
  | 'reasoning'
  | 'reasoningOfAnswer'
  | 'audioCompletion'
  | 'imageCompletion'
  | 'webSearches'
  | 'toolCalls'
  | 'searchQueries'
  // Anthropic's names, which other servers also send beside `prompt_tokens`.
  | 'input'
  | 'output'
  | 'cacheRead'
  | 'cacheCreated';

/** Members of `usage` that are counts. */
export const USAGE_COUNTS: Readonly<Record<string, Count>> = {
  prompt_tokens: 'prompt',
  completion_tokens: 'completion',
  total_tokens: 'total',
  prompt_cache_hit_tokens: 'cached', // DeepSeek; its cache misses are the rest of the prompt
  cached_tokens: 'cached', // Moonshot, Together
  num_cached_tokens: 'cached', // Mistral
  prompt_audio_seconds: 'audioPromptSeconds', // Mistral
  reasoning_tokens: 'reasoningOfAnswer', // Perplexity: beside the completion; SGLang: inside
  citation_tokens: 'citations', // Perplexity: sources, billed as input beside the prompt
  num_search_queries: 'searchQueries', // Perplexity
  num_sources_used: 'webSearches', // xAI
  input_tokens: 'input',
  output_tokens: 'output',
  cache_read_input_tokens: 'cacheRead',
  cache_creation_input_tokens: 'cacheCreated',
};

/** Members of llama.cpp's `timings`, which it sends even without a request for usage. */
export const TIMING_COUNTS: Readonly<Record<string, Count>> = {
  prompt_n: 'input',
  cache_n: 'cacheRead',
  predicted_n: 'output',
};

/** Members of `usage.prompt_tokens_details`, in all its spellings. */
export const PROMPT_COUNTS: Readonly<Record<string, Count>> = {
  cached_tokens: 'cached',
  cache_write_tokens: 'cacheWrite', // OpenAI, OpenRouter
  cache_creation_input_tokens: 'cacheWrite', // Qwen
  audio_tokens: 'audioPrompt',
  image_tokens: 'imagePrompt', // OpenAI, xAI
  video_tokens: 'videoPrompt', // Qwen: billed as images are
};

/** Members of Anthropic's `usage.cache_creation`, and of LiteLLM's version of it. */
export const CACHE_WRITE_COUNTS: Readonly<Record<string, Count>> = {
  ephemeral_1h_input_tokens: 'cacheWriteHour',
};

/** Members of `usage.completion_tokens_details`. */
export const COMPLETION_COUNTS: Readonly<Record<string, Count>> = {
  reasoning_tokens: 'reasoning',
  audio_tokens: 'audioCompletion',
  image_tokens: 'imageCompletion',
};

/** Members of `usage.server_tool_use`, and of OpenRouter's `server_tool_use_details`. */
export const SERVER_TOOL_COUNTS: Readonly<Record<string, Count>> = {
  web_search_requests: 'webSearches',
  tool_calls_executed: 'toolCalls', // OpenRouter
};

/** Members of Qwen's `usage.plugins.search`. */
export const PLUGIN_COUNTS: Readonly<Record<string, Count>> = {
  count: 'webSearches',
};

/** The counts of one usage object as reported; undefined, not zero, if absent or null. */
export type Counts = { -readonly [name in Count]?: number };

/**
 * Combines all usage that an answer reported into one Usage.
 *
 * The last usage wins, count by count; chunks are never added up. Completions are only summed if each of several choices
 * reported its own usage.
 */
export class UsageAccumulator {
  readonly #dialect: UsageDialect;
  /** Everything reported for the whole answer, or for one choice. */
  #reported: Counts | undefined;
  /** The choice whose chunk reported it; undefined if the chunk had no requested choice, or several: then it is for the whole answer. */
  #reportedOn: number | undefined;
  /** Reported on a chunk of one choice of several: for that choice only, or for all so far. */
  #onChoice: Map<number, { readonly counts: Counts; readonly times: number }> | undefined;
  /** Choices were observed to count separately: vLLM, with `continuous_usage_stats`. */
  #countsApart = false;
  /** Reported inside a choice, or beside it in timings. */
  #inChoice: Map<number, Counts> | undefined;
  readonly #choices: number;
  /** Cached result; undefined after more was reported. */
  #read: { readonly usage: Usage | undefined } | undefined;

  /** @param choices - number of choices requested: usage of others is ignored */
  constructor(choices: number, dialect: UsageDialect = {}) {
    this.#choices = choices;
    this.#dialect = dialect;
  }

  /**
   * @param onlyChoice - the one choice of the chunk that reported it; undefined if it had none, or several
   * @param hasText - whether the chunk has output, which would have increased a count of the whole answer
   */
  add(counts: Counts, onlyChoice: number | undefined, hasText: boolean): void {
    const choice = onlyChoice !== undefined && this.#isAsked(onlyChoice) ? onlyChoice : undefined;
    const before = this.#reported?.completion ?? 0;
    const { completion = 0 } = counts;
    const alternates = choice !== undefined && this.#reportedOn !== undefined && choice !== this.#reportedOn;
    if (alternates && hasText && completion > 0 && completion <= before) this.#countsApart = true;
    this.#reported = this.#reported ? { ...this.#reported, ...counts } : counts;
    this.#reportedOn = choice;
    this.#read = undefined;
    if (choice === undefined || this.#choices === 1) return;
    this.#onChoice ??= new Map();
    const times = this.#onChoice.get(choice)?.times ?? 0;
    this.#onChoice.set(choice, { counts, times: times + 1 });
  }

  addOfChoice(counts: Counts, choice: number): void {
    if (!this.#isAsked(choice)) return;
    this.#read = undefined;
    this.#inChoice ??= new Map();
    this.#inChoice.set(choice, { ...this.#inChoice.get(choice), ...counts });
  }

  read(): Usage | undefined {
    this.#read ??= {
      usage: this.#ofWhole() ?? sumOfChoices([...(this.#inChoice?.values() ?? [])], this.#dialect),
    };
    return this.#read.usage;
  }

  #isAsked(choice: number): boolean {
    return Number.isInteger(choice) && choice >= 0 && choice < this.#choices;
  }

  #ofWhole(): Usage | undefined {
    if (!this.#reported) return undefined;
    const choices = this.#onChoice ? [...this.#onChoice.values()] : [];
    const isApart = this.#countsApart || choices.every(({ times }) => times === 1);
    return this.#reportedOn === undefined || choices.length < 2 || !isApart
      ? normalise(this.#reported, this.#dialect)
      : sumOfChoices(
          choices.map(({ counts }) => counts),
          this.#dialect,
        );
  }
}

/** One prompt, which each choice may repeat, and the sum of all completions. */
function sumOfChoices(choices: readonly Counts[], dialect: UsageDialect): Usage | undefined {
  const prompt = choices.findLast((counts) => counts.prompt !== undefined)?.prompt;
  const usages = choices
    .map((counts) => normalise(prompt === undefined ? counts : { prompt, ...counts }, dialect))
    .filter((usage) => usage !== undefined);
  return usages.reduce<Usage | undefined>(
    (before, usage) => ({
      ...usage,
      completionTokens: usage.completionTokens + (before?.completionTokens ?? 0),
      reasoningTokens: usage.reasoningTokens + (before?.reasoningTokens ?? 0),
      audioCompletionTokens: usage.audioCompletionTokens + (before?.audioCompletionTokens ?? 0),
      imageCompletionTokens: usage.imageCompletionTokens + (before?.imageCompletionTokens ?? 0),
      webSearches: Math.max(usage.webSearches, before?.webSearches ?? 0),
    }),
    undefined,
  );
}

/**
 * Converts a provider's counts to a Usage: tokens counted outside the prompt or the completion are added to it, and parts
 * never exceed the whole.
 *
 * @returns undefined unless prompt and completion were both reported, or one of them and the total
 */
function normalise(counts: Counts, dialect: UsageDialect): Usage | undefined {
  const { total, imagePrompt = 0, videoPrompt = 0, citations = 0 } = counts;
  const { cacheRead, cacheCreated } = counts;
  const reportedOutput = counts.completion ?? counts.output;
  let prompt = counts.prompt ?? counts.input ?? totalWithout(total, reportedOutput);
  let completion = reportedOutput ?? totalWithout(total, prompt);
  if (prompt === undefined || completion === undefined) return undefined;

  const cached = counts.cached ?? cacheRead ?? 0;
  const cacheWrite = counts.cacheWrite ?? cacheCreated ?? counts.cacheWriteHour ?? 0;
  const reasoning = counts.reasoning ?? counts.reasoningOfAnswer ?? 0;
  /** Tokens of the total that are in neither. */
  let beside = total === undefined ? 0 : Math.max(0, total - prompt - completion);
  const isAnthropic = counts.prompt === undefined && (cacheRead ?? cacheCreated) !== undefined;
  if (isAnthropic || isCacheOutside(prompt, cached + cacheWrite, beside, reasoning, counts, dialect)) {
    prompt += cached + cacheWrite;
    beside = Math.max(0, beside - cached - cacheWrite);
  }
  prompt += citations;
  beside = Math.max(0, beside - citations);

  const audioBeside = audioBesidePrompt(counts, prompt, beside);
  const audioPrompt = audioBeside > 0 ? audioBeside : (counts.audioPrompt ?? 0);
  prompt += audioBeside;
  beside -= audioBeside;

  if (beside > 0) completion += beside;
  else if (isReasoningOutside(completion, reasoning, counts, dialect)) completion += reasoning;

  const cachedTokens = Math.min(cached, prompt);
  const cacheWriteTokens = Math.min(cacheWrite, prompt - cachedTokens);
  const audioPromptTokens = Math.min(audioPrompt, prompt - cachedTokens - cacheWriteTokens);
  const fresh = prompt - cachedTokens - cacheWriteTokens - audioPromptTokens;
  const audioCompletionTokens = Math.min(counts.audioCompletion ?? 0, completion);
  const usage: Writable<Usage> = {
    promptTokens: prompt,
    cachedTokens,
    cacheWriteTokens,
    audioPromptTokens,
    imagePromptTokens: Math.min(imagePrompt + videoPrompt, fresh),
    completionTokens: completion,
    reasoningTokens: Math.min(reasoning, completion),
    audioCompletionTokens,
    imageCompletionTokens: Math.min(counts.imageCompletion ?? 0, completion - audioCompletionTokens),
    webSearches: counts.webSearches ?? counts.searchQueries ?? 0,
  };
  const { cacheWriteHour, toolCalls } = counts;
  if (cacheWriteHour !== undefined) usage.cacheWriteHourTokens = Math.min(cacheWriteHour, cacheWriteTokens);
  if (toolCalls !== undefined) usage.toolCalls = toolCalls;
  return usage;
}

type Writable<Members> = { -readonly [Name in keyof Members]: Members[Name] };

/** Audio that only the total has beside the prompt, as Mistral counts it; 0 if none. */
function audioBesidePrompt(
  { audioPrompt, audioPromptSeconds = 0 }: Counts,
  prompt: number,
  beside: number,
): number {
  const isMistral = audioPromptSeconds > 0;
  if (audioPrompt === undefined || audioPrompt === 0) return isMistral ? beside : 0;
  return (isMistral || audioPrompt > prompt) && audioPrompt <= beside ? audioPrompt : 0;
}

/** Whether reasoning that the total doesn't show is counted outside the completion. */
function isReasoningOutside(
  completion: number,
  reasoning: number,
  counts: Counts,
  dialect: UsageDialect,
): boolean {
  if (dialect.reasoning !== undefined) return dialect.reasoning === 'outside';
  const isPerplexity = (counts.citations ?? counts.searchQueries) !== undefined;
  return reasoning > completion || (isPerplexity && counts.reasoning === undefined);
}

/** Whether cache reads and writes are counted outside `prompt_tokens`. */
function isCacheOutside(
  prompt: number,
  cache: number,
  beside: number,
  reasoning: number,
  { cacheRead, cacheCreated }: Counts,
  dialect: UsageDialect,
): boolean {
  if (cache === 0) return false;
  if (dialect.cached === 'outside') return true;
  const isMore = cache > prompt;
  // With Anthropic's names, a cache count that exceeds the prompt is never part of it.
  if (isMore && (dialect.cached === 'either' || (cacheRead ?? cacheCreated) !== undefined)) return true;
  return beside !== reasoning && (beside === cache || beside === cache + reasoning);
}

function totalWithout(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined ? undefined : Math.max(0, total - part);
}
