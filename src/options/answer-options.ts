/** What an answer tells its client of the one who gave it, and of what it costs. */
export interface AnswerOptions {
  /**
   * `model` of an answer: `theirs`, as the provider names it; `ours`, as the client asked for it (of several models, the ID
   * of the one that answered).
   *
   * @default 'theirs'
   */
  readonly model?: 'ours' | 'theirs';
  /**
   * Members that show which provider answered (`provider`, `x_groq`, `system_fingerprint` and so on), and the text of comments in
   * streams: left in, or taken out.
   *
   * @default 'hide' for those of a preset that names its own suppliers (OpenRouter, Vercel), else 'show'
   */
  readonly provider?: 'hide' | 'show';
  /**
   * What the provider says an answer costs you (`usage.cost`, `cost_details` and so on): left in, taken out, or with `ours`
   * also told what the client is charged, as `usage.cost`: a JSON number of USD.
   *
   * @default 'hide' for those of a preset that tells it (OpenRouter, Perplexity, Vercel, xAI), else 'theirs'
   */
  readonly cost?: 'ours' | 'hide' | 'theirs';
}
