/** What an answer shows its client of the provider and of costs. */
export interface AnswerOptions {
  /**
   * `model` of an answer: `theirs`, the provider's name; `ours`, the ID that the client requested (if it named several
   * models, the ID of the one that answered).
   *
   * @default 'theirs'
   */
  readonly model?: 'ours' | 'theirs';
  /**
   * Members that show which provider answered (`provider`, `x_groq`, `system_fingerprint` and so on), and the text of
   * comments in streams: kept or removed.
   *
   * @default 'hide' for presets whose answers name their suppliers (OpenRouter, Vercel), else 'show'
   */
  readonly provider?: 'hide' | 'show';
  /**
   * Your cost as the provider reports it (`usage.cost`, `cost_details` and so on): kept (`theirs`), removed (`hide`), or
   * replaced (`ours`) by the client's charge, as `usage.cost`: a JSON number of USD.
   *
   * @default 'hide' for presets that report it (OpenRouter, Perplexity, Vercel, xAI), else 'theirs'
   */
  readonly cost?: 'ours' | 'hide' | 'theirs';
}
