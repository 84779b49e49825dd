/** What a conversation is known by: see `StickyOptions.by`. */
export type StickySource = `header:${string}` | 'prompt_cache_key' | 'user' | 'prefix';

/** Keeps a conversation at the target, and at the provider's key, that served its last turn. */
export interface StickyOptions {
  /**
   * What a conversation is known by: the first of these that a request has. `'header:x-session-id'`: a header.
   * `'prompt_cache_key'`: the body's field. `'user'`: the end user that `authenticate` or the session names, else the body's
   * `safety_identifier` or `user`. `'prefix'`: the messages, which begin as those of the turn before; the last source, as every
   * request has it.
   */
  readonly by: readonly StickySource[];
  /**
   * How long after a turn the next one goes to the same target, in ms: about as long as its provider keeps prompts cached.
   *
   * @default 600000 (10 minutes)
   */
  readonly ttlMs?: number;
}

/** What a model changes of the router's `sticky`. */
export interface ModelStickyOptions {
  /** As that of the router. */
  readonly ttlMs: number;
}
