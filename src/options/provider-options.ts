import type { UsageDialect } from '../metering/usage-dialects.ts';

/** An OpenAI-compatible API. */
export interface ProviderOptions {
  /** A preset to start from, where it isn't this entry's own name. */
  readonly preset?: string;
  /**
   * Up to and including the version segment, e.g. `https://api.openai.com/v1`. Presets know theirs. Names in
   * braces are filled from `variables`; `{model}` in its path is the model's name there.
   */
  readonly baseURL?: string;
  /** What the base URL leaves open, e.g. `{ resource: 'contoso' }` for the preset `azure`. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly apiKey?: ApiKeySource;
  /**
   * Several keys instead of one, used in turn. One that the provider refuses (401, 402, 403, or a 429 that tells
   * of a spent quota) is set aside for a minute, and the request goes out again with the next; when all of them
   * are, the one that failed longest ago is used. `hooks.onError` is told which it was, by its place in the list.
   */
  readonly apiKeys?: readonly ApiKeySource[];
  /**
   * How the key is sent.
   *
   * @default { header: 'authorization', scheme: 'Bearer' }
   */
  readonly auth?: { readonly header: string; readonly scheme?: string };
  /** Sent with every request, e.g. `{ 'http-referer': 'https://example.com' }`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Added to the URL, e.g. `{ 'api-version': '2024-10-21' }`. */
  readonly query?: Readonly<Record<string, string>>;
  /**
   * How usage comes in a stream: `option` asks for it with `stream_options.include_usage` (and drops
   * the extra event where the client did not ask), `native` sends it unasked, `rejected` refuses the
   * field, `none` never sends it (charged by estimate).
   *
   * With `option`, a request that is refused for the field is sent once more without it, and that is remembered
   * for the model, for an hour.
   *
   * @default 'option'
   */
  readonly streamUsage?: StreamUsage;
  /** How its usage counts, where the numbers alone don't show it. */
  readonly usage?: UsageDialect;
  /**
   * The field in which an output limit is inserted where the client gave none.
   *
   * @default 'max_tokens'
   */
  readonly outputLimitField?: OutputLimitField;
  /**
   * What becomes of an answer whose client has left: `abort` closes the connection to the provider, and what
   * was delivered is charged; `drain` reads on to learn its usage, for providers that bill the whole answer
   * all the same, and that is charged, at most the hold. 32 answers are drained at a time, for at most 120
   * seconds each; what would be more is aborted.
   *
   * @default 'abort', and for the presets of such providers 'drain'
   */
  readonly onClientGone?: OnClientGone;
  /**
   * Whether each of its streams says that it is over, by a `finish_reason` or `[DONE]`: then one that ends without
   * either was cut.
   *
   * @default true for presets; elsewhere for each target as soon as a stream of its own has said so
   */
  readonly marksEnd?: boolean;
  readonly timeouts?: TimeoutOptions;
}

/** A function is asked on every request, so that keys can rotate, and a missing key fails a request and not a build. */
export type ApiKeySource = string | (() => string | undefined | Promise<string | undefined>);

export type StreamUsage = 'option' | 'native' | 'rejected' | 'none';
export type OutputLimitField = 'max_tokens' | 'max_completion_tokens';
export type OnClientGone = 'abort' | 'drain';

/** Each clock has its own error code: a 504 before anything of the answer is out, then a stream's error event. */
export interface TimeoutOptions {
  /**
   * From the moment that a request is handed to the transport until its connection stands, in ms; time spent
   * queued for a socket counts.
   *
   * @default 10000
   */
  readonly connectMs?: number;
  /**
   * From the connection until the answer's head, in ms.
   *
   * @default 600000
   */
  readonly firstByteMs?: number;
  /**
   * Between two pieces of the answer, in ms; time in which the client doesn't read is not counted.
   *
   * @default 120000
   */
  readonly idleMs?: number;
  /**
   * For all of it, in ms.
   *
   * @default 3600000
   */
  readonly totalMs?: number;
}
