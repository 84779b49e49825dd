/** What a completion used, in tokens. Each count is a safe integer, 0 or more. */
export interface Usage {
  /** All of the prompt; the next three are parts of it. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly audioPromptTokens: number;
  /** All of the output; the next two are parts of it. */
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly audioCompletionTokens: number;
}

/** One count, of the many names that providers have for it. */
export type Count =
  | 'prompt'
  | 'completion'
  | 'total'
  | 'cached'
  | 'cacheWrite'
  | 'audioPrompt'
  | 'reasoning'
  | 'reasoningBeside'
  | 'audioCompletion';

/** Members of `usage` that are counts. */
export const USAGE_COUNTS: Readonly<Record<string, Count>> = {
  prompt_tokens: 'prompt',
  completion_tokens: 'completion',
  total_tokens: 'total',
  prompt_cache_hit_tokens: 'cached', // DeepSeek; its misses are the rest of the prompt
  cached_tokens: 'cached', // Moonshot, Together
  num_cached_tokens: 'cached', // Mistral
  reasoning_tokens: 'reasoningBeside', // Perplexity
};

/** Members of `usage.prompt_tokens_details`, by whatever spelling. */
export const PROMPT_COUNTS: Readonly<Record<string, Count>> = {
  cached_tokens: 'cached',
  cache_write_tokens: 'cacheWrite', // OpenAI, OpenRouter
  cache_creation_input_tokens: 'cacheWrite', // Qwen
  audio_tokens: 'audioPrompt',
};

/** Members of `usage.completion_tokens_details`. */
export const COMPLETION_COUNTS: Readonly<Record<string, Count>> = {
  reasoning_tokens: 'reasoning',
  audio_tokens: 'audioCompletion',
};

/** The counts of one usage object, as its provider wrote them; absent and null are undefined, and not zero. */
export type Counts = { -readonly [name in Count]?: number };

/**
 * Makes one Usage of all that an answer told.
 *
 * The last usage wins, count by count; chunks are never added up. Only where
 * each of several choices was told its own, once, are the completions summed.
 */
export class UsageTally {
  /** All that was told of the whole answer, or of one choice of it. */
  #told: Counts | undefined;
  /** The last was told on a chunk of no choice, or of several: it is of the whole answer. */
  #isWhole = false;
  /** Told on a chunk of just one choice: of that choice alone, or of all so far. */
  readonly #onChoice = new Map<number, { readonly counts: Counts; readonly times: number }>();
  /** Told inside a choice. */
  readonly #inChoice = new Map<number, Counts>();

  /** @param choice - the one choice of the chunk that told it; undefined when there are none, or several */
  add(counts: Counts, choice: number | undefined): void {
    this.#told = { ...this.#told, ...counts };
    this.#isWhole = choice === undefined;
    if (choice === undefined) return;
    const times = this.#onChoice.get(choice)?.times ?? 0;
    this.#onChoice.set(choice, { counts, times: times + 1 });
  }

  addOfChoice(counts: Counts, choice: number): void {
    this.#inChoice.set(choice, { ...this.#inChoice.get(choice), ...counts });
  }

  read(): Usage | undefined {
    return this.#ofWhole() ?? sum([...this.#inChoice.values()]);
  }

  #ofWhole(): Usage | undefined {
    if (!this.#told) return undefined;
    const choices = [...this.#onChoice.values()];
    if (this.#isWhole || choices.length < 2 || choices.some(({ times }) => times > 1))
      return normalise(this.#told);
    return sum(choices.map(({ counts }) => counts));
  }
}

/** One prompt, which each choice may repeat, and all completions. */
function sum(choices: readonly Counts[]): Usage | undefined {
  const prompt = choices.findLast((counts) => counts.prompt !== undefined)?.prompt;
  const usages = choices
    .map((counts) => normalise(prompt === undefined ? counts : { prompt, ...counts }))
    .filter((usage) => usage !== undefined);
  return usages.reduce<Usage | undefined>(
    (before, usage) => ({
      ...usage,
      completionTokens: usage.completionTokens + (before?.completionTokens ?? 0),
      reasoningTokens: usage.reasoningTokens + (before?.reasoningTokens ?? 0),
      audioCompletionTokens: usage.audioCompletionTokens + (before?.audioCompletionTokens ?? 0),
    }),
    undefined,
  );
}

/**
 * Sorts a provider's counts into ours: reasoning that was counted beside the completion is added to
 * it, parts are never more than the whole.
 *
 * @returns undefined unless prompt and completion are both told, or one of them and the total
 */
function normalise(counts: Counts): Usage | undefined {
  const { total, cached = 0, cacheWrite = 0, audioPrompt = 0, audioCompletion = 0 } = counts;
  const promptTokens = counts.prompt ?? rest(total, counts.completion);
  let completion = counts.completion ?? rest(total, counts.prompt);
  if (promptTokens === undefined || completion === undefined) return undefined;

  const reasoning = counts.reasoning ?? counts.reasoningBeside ?? 0;
  const isBeside = counts.reasoning === undefined && counts.reasoningBeside !== undefined;
  if (total !== undefined && total > promptTokens + completion) completion = total - promptTokens;
  else if (reasoning > completion || isBeside) completion += reasoning;

  const cachedTokens = Math.min(cached, promptTokens);
  const cacheWriteTokens = Math.min(cacheWrite, promptTokens - cachedTokens);
  return {
    promptTokens,
    cachedTokens,
    cacheWriteTokens,
    audioPromptTokens: Math.min(audioPrompt, promptTokens - cachedTokens - cacheWriteTokens),
    completionTokens: completion,
    reasoningTokens: Math.min(reasoning, completion),
    audioCompletionTokens: Math.min(audioCompletion, completion),
  };
}

function rest(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined ? undefined : Math.max(0, total - part);
}
