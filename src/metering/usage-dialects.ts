/** What a completion used, in tokens. Each count is a safe integer, 0 or more. */
export interface Usage {
  /** All of the prompt; the next four are parts of it. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  /** Of those, what was written for an hour; undefined where the provider doesn't tell. */
  readonly cacheWriteHourTokens?: number;
  readonly audioPromptTokens: number;
  readonly imagePromptTokens: number;
  /** All of the output; the next three are parts of it. */
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly audioCompletionTokens: number;
  readonly imageCompletionTokens: number;
  /** What the provider bills as searches of the Web: xAI counts the sources that it read, Vercel calls of its tools. */
  readonly webSearches: number;
}

/** A usage of text alone. */
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

/** The same usage with none of these counts above its bound; parts of a count that is cut are as large as fits into it. */
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
  let prompt = Math.min(promptTokens, limits.promptTokens);
  let output = Math.min(completionTokens, limits.completionTokens);
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
    promptTokens: prompt,
    cacheWriteTokens,
    ...(hour !== undefined && { cacheWriteHourTokens: Math.min(hour, cacheWriteTokens) }),
    audioPromptTokens: ofPrompt(usage.audioPromptTokens),
    imagePromptTokens: ofPrompt(usage.imagePromptTokens),
    cachedTokens: ofPrompt(usage.cachedTokens),
    completionTokens: output,
    reasoningTokens: Math.min(usage.reasoningTokens, output),
    audioCompletionTokens: ofOutput(usage.audioCompletionTokens),
    imageCompletionTokens: ofOutput(usage.imageCompletionTokens),
    webSearches: Math.min(webSearches, limits.webSearches),
  };
}

/** How a provider counts, where its numbers alone can't show it. */
export interface UsageDialect {
  /**
   * Whether tokens read from a cache or written to one are counted `inside` the prompt or `outside`; `either`:
   * outside where they are more than the prompt. A total that shows them outside is believed in any case.
   *
   * @default 'inside'
   */
  readonly cached?: 'inside' | 'outside' | 'either';
  /**
   * Whether reasoning is counted `inside` the completion or `outside`. Numbers that show it outside are
   * believed in any case: a total that is more than its parts, more reasoning than completion.
   *
   * @default 'inside'
   */
  readonly reasoning?: 'inside' | 'outside';
}

/** One count, of the many names that providers have for it. */
export type Count =
  | 'prompt'
  | 'completion'
  | 'total'
  | 'cached'
  | 'cacheWrite'
  | 'cacheWriteHour'
  | 'audioPrompt'
  | 'imagePrompt'
  | 'citations'
  | 'reasoning'
  | 'reasoningBeside'
  | 'audioCompletion'
  | 'imageCompletion'
  | 'webSearches'
  // Anthropic's own, which other servers send beside `prompt_tokens`, too.
  | 'input'
  | 'output'
  | 'cacheRead'
  | 'cacheCreated';

/** Members of `usage` that are counts. */
export const USAGE_COUNTS: Readonly<Record<string, Count>> = {
  prompt_tokens: 'prompt',
  completion_tokens: 'completion',
  total_tokens: 'total',
  prompt_cache_hit_tokens: 'cached', // DeepSeek; its misses are the rest of the prompt
  cached_tokens: 'cached', // Moonshot, Together
  num_cached_tokens: 'cached', // Mistral
  reasoning_tokens: 'reasoningBeside', // Perplexity
  citation_tokens: 'citations', // Perplexity: what it read, billed as input beside the prompt
  num_search_queries: 'webSearches', // Perplexity
  num_sources_used: 'webSearches', // xAI
  input_tokens: 'input',
  output_tokens: 'output',
  cache_read_input_tokens: 'cacheRead',
  cache_creation_input_tokens: 'cacheCreated',
};

/** Members of llama.cpp's `timings`, which come where no usage was asked for. */
export const TIMING_COUNTS: Readonly<Record<string, Count>> = {
  prompt_n: 'input',
  cache_n: 'cacheRead',
  predicted_n: 'output',
};

/** Members of `usage.prompt_tokens_details`, by whatever spelling. */
export const PROMPT_COUNTS: Readonly<Record<string, Count>> = {
  cached_tokens: 'cached',
  cache_write_tokens: 'cacheWrite', // OpenAI, OpenRouter
  cache_creation_input_tokens: 'cacheWrite', // Qwen
  audio_tokens: 'audioPrompt',
  image_tokens: 'imagePrompt', // OpenAI, xAI
};

/** Members of Anthropic's `usage.cache_creation`, and of what LiteLLM makes of it. */
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
};

/** Members of Qwen's `usage.plugins.search`. */
export const PLUGIN_COUNTS: Readonly<Record<string, Count>> = {
  count: 'webSearches',
};

/** The counts of one usage object, as its provider wrote them; absent and null are undefined, and not zero. */
export type Counts = { -readonly [name in Count]?: number };

/**
 * Makes one Usage of all that an answer told.
 *
 * The last usage wins, count by count; chunks are never added up. Only where
 * each of several choices was told its own are the completions summed.
 */
export class UsageAccumulator {
  readonly #dialect: UsageDialect;
  /** All that was told of the whole answer, or of one choice of it. */
  #reported: Counts | undefined;
  /** The choice that it was told on; undefined for a chunk of none that was asked for, or of several: then it is of the whole answer. */
  #reportedOn: number | undefined;
  /** Told on a chunk of just one choice: of that choice alone, or of all so far. */
  readonly #onChoice = new Map<number, { readonly counts: Counts; readonly times: number }>();
  /** Choices were seen to count for themselves: vLLM, with `continuous_usage_stats`. */
  #countsApart = false;
  /** Told inside a choice, or beside it in timings. */
  readonly #inChoice = new Map<number, Counts>();
  readonly #choices: number;
  /** What it all comes to; undefined once more was told. */
  #read: { readonly usage: Usage | undefined } | undefined;

  /** @param choices - how many answers were asked for: there are no others to count for */
  constructor(choices: number, dialect: UsageDialect = {}) {
    this.#choices = choices;
    this.#dialect = dialect;
  }

  /**
   * @param onlyChoice - the one choice of the chunk that told it; undefined when there are none, or several
   * @param hasText - whether the chunk has output, which a count of the whole answer would have grown by
   */
  add(counts: Counts, onlyChoice: number | undefined, hasText: boolean): void {
    const choice = onlyChoice !== undefined && this.#isAsked(onlyChoice) ? onlyChoice : undefined;
    const before = this.#reported?.completion ?? 0;
    const { completion = 0 } = counts;
    const alternates = choice !== undefined && this.#reportedOn !== undefined && choice !== this.#reportedOn;
    if (alternates && hasText && completion > 0 && completion <= before) this.#countsApart = true;
    this.#reported = { ...this.#reported, ...counts };
    this.#reportedOn = choice;
    this.#read = undefined;
    if (choice === undefined) return;
    const times = this.#onChoice.get(choice)?.times ?? 0;
    this.#onChoice.set(choice, { counts, times: times + 1 });
  }

  addOfChoice(counts: Counts, choice: number): void {
    if (!this.#isAsked(choice)) return;
    this.#read = undefined;
    this.#inChoice.set(choice, { ...this.#inChoice.get(choice), ...counts });
  }

  read(): Usage | undefined {
    this.#read ??= { usage: this.#ofWhole() ?? sumOfChoices([...this.#inChoice.values()], this.#dialect) };
    return this.#read.usage;
  }

  #isAsked(choice: number): boolean {
    return Number.isInteger(choice) && choice >= 0 && choice < this.#choices;
  }

  #ofWhole(): Usage | undefined {
    if (!this.#reported) return undefined;
    const choices = [...this.#onChoice.values()];
    const isApart = this.#countsApart || choices.every(({ times }) => times === 1);
    return this.#reportedOn === undefined || choices.length < 2 || !isApart
      ? normalise(this.#reported, this.#dialect)
      : sumOfChoices(
          choices.map(({ counts }) => counts),
          this.#dialect,
        );
  }
}

/** One prompt, which each choice may repeat, and all completions. */
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
 * Sorts a provider's counts into ours: what was counted beside the prompt or the completion is added to
 * it, parts are never more than the whole.
 *
 * @returns undefined unless prompt and completion are both told, or one of them and the total
 */
function normalise(counts: Counts, dialect: UsageDialect): Usage | undefined {
  const { total, audioPrompt = 0, imagePrompt = 0, citations = 0 } = counts;
  const { cacheRead, cacheCreated } = counts;
  const reportedOutput = counts.completion ?? counts.output;
  let prompt = counts.prompt ?? counts.input ?? totalWithout(total, reportedOutput);
  let completion = reportedOutput ?? totalWithout(total, prompt);
  if (prompt === undefined || completion === undefined) return undefined;

  const cached = counts.cached ?? cacheRead ?? 0;
  const cacheWrite = counts.cacheWrite ?? cacheCreated ?? counts.cacheWriteHour ?? 0;
  const reasoning = counts.reasoning ?? counts.reasoningBeside ?? 0;
  /** What the total has and neither of the two. */
  let beside = total === undefined ? 0 : Math.max(0, total - prompt - completion);
  const isAnthropic = counts.prompt === undefined && (cacheRead ?? cacheCreated) !== undefined;
  if (isAnthropic || isCacheOutside(prompt, cached + cacheWrite, beside, reasoning, counts, dialect)) {
    prompt += cached + cacheWrite;
    beside = Math.max(0, beside - cached - cacheWrite);
  }
  prompt += citations;
  beside = Math.max(0, beside - citations);

  const isBeside = counts.reasoning === undefined && counts.reasoningBeside !== undefined;
  if (beside > 0) completion += beside;
  else if (reasoning > completion || isBeside || dialect.reasoning === 'outside') completion += reasoning;

  const cachedTokens = Math.min(cached, prompt);
  const cacheWriteTokens = Math.min(cacheWrite, prompt - cachedTokens);
  const audioPromptTokens = Math.min(audioPrompt, prompt - cachedTokens - cacheWriteTokens);
  const fresh = prompt - cachedTokens - cacheWriteTokens - audioPromptTokens;
  const audioCompletionTokens = Math.min(counts.audioCompletion ?? 0, completion);
  return {
    promptTokens: prompt,
    cachedTokens,
    cacheWriteTokens,
    ...(counts.cacheWriteHour !== undefined && {
      cacheWriteHourTokens: Math.min(counts.cacheWriteHour, cacheWriteTokens),
    }),
    audioPromptTokens,
    imagePromptTokens: Math.min(imagePrompt, fresh),
    completionTokens: completion,
    reasoningTokens: Math.min(reasoning, completion),
    audioCompletionTokens,
    imageCompletionTokens: Math.min(counts.imageCompletion ?? 0, completion - audioCompletionTokens),
    webSearches: counts.webSearches ?? 0,
  };
}

/** Whether what was read from a cache or written to one is not part of `prompt_tokens`. */
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
  // By Anthropic's names nobody counts a part of the prompt that is more than all of it.
  if (isMore && (dialect.cached === 'either' || (cacheRead ?? cacheCreated) !== undefined)) return true;
  return beside !== reasoning && (beside === cache || beside === cache + reasoning);
}

function totalWithout(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined ? undefined : Math.max(0, total - part);
}
