import type { Markup } from '../metering/markup.ts';
import type { Pricing } from '../metering/pricing.ts';
import type { BodyRules } from './body-rules.ts';
import type { EnforceOutputLimit } from './model-options.ts';
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
   * Several keys instead of one, used in turn. One that the provider refuses (401, 402, 403, a 400 that says so,
   * or a 429 that tells of a spent quota) is set aside for a minute, for the account that met with it and,
   * once three did, for all, and the request goes out again with the next;
   * when all of them are, the one that failed longest ago is used. `hooks.onError` is told which it was, by its
   * place in the list.
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
   * With `option`, a request that is refused for the field, as the error's `param` or its whole message says, is sent once
   * more without it, and that is remembered for the model and account, for a minute; for all accounts once three met with it.
   *
   * @default 'option'
   */
  readonly streamUsage?: StreamUsage;
  /** How its usage counts, where the numbers alone don't show it. */
  readonly usage?: UsageDialect;
  /**
   * The output limit that it is sure to obey: a limit that we insert has this name. Of a server without a preset, a limit that the
   * client gives in the other field alone is not relied on: as much is held as without one.
   *
   * @default what the preset's server obeys, else 'max_tokens'
   */
  readonly outputLimitField?: OutputLimitField;
  /**
   * What becomes of an answer whose client has left: `abort` closes the connection to the provider, and what
   * was delivered is charged, by estimate; `drain` reads on to learn its usage, and that is charged, as if the
   * client had stayed. Of one key 32 answers are read on at a time, others wait for their turn.
   *
   * @default 'drain' for presets of providers that bill the whole answer all the same, for models that reason without
   * showing it, by their names or by what their answers have counted, and for those of which too little was seen; 'abort' for the
   * others, but for one answer of sixteen
   */
  readonly onDisconnect?: OnDisconnect;
  /**
   * Whether each of its streams says that it is over, by a `finish_reason` or `[DONE]`: then one that ends without
   * either was cut.
   *
   * @default true for presets; elsewhere for each target as soon as a stream of its own has said so to the same account, or to three
   */
  readonly marksEnd?: boolean;
  readonly timeouts?: TimeoutOptions;
  /** What becomes of fields of a request on its way there. A target's own rules for the same fields win. @default nothing */
  readonly body?: BodyRules;
  /**
   * `'discover'` serves the models that the provider itself lists in `GET /models`, beside those in `models`, whose entries win.
   * It is asked in the background from the first request or `ready()` on, never at construction.
   *
   * @default only what `models` names
   */
  readonly models?: 'discover' | DiscoveryOptions;
}

/** How the models of a provider's own list are served. */
export interface DiscoveryOptions {
  /** What stands before the provider's own IDs. @default its name in `providers`, and a slash */
  readonly prefix?: string;
  /** Which of its IDs; a star at the end stands for the rest: `['gpt-*']`. @default all */
  readonly only?: readonly string[];
  /**
   * `provider`: what the list says, in USD per token as OpenRouter and Vercel do; `catalog`: what the option `prices` says; or one
   * price for all. A model whose price can't be known isn't served.
   *
   * @default as the provider's list says, else as the catalog does, where there is one
   */
  readonly pricing?: Pricing | 'free' | 'catalog' | 'provider';
  /** Added to each price, beside the router's own `markup`. */
  readonly markup?: Markup;
  /** Where the list doesn't tell. */
  readonly contextWindow?: number;
  /** Where the list doesn't tell. @default the context window */
  readonly maxOutputTokens?: number;
  /** As of a model's own entry. @default 'lower' */
  readonly enforceOutputLimit?: EnforceOutputLimit;
  /**
   * How often the list is asked for, in ms; a tenth more or less, so that processes don't all ask at once.
   *
   * @default 3600000 (an hour)
   */
  readonly refreshMs?: number;
}

/** A function is asked on every request, so that keys can rotate, and a missing key fails a request and not a build. */
export type ApiKeySource = string | (() => string | undefined | Promise<string | undefined>);

export type StreamUsage = 'option' | 'native' | 'rejected' | 'none';
export type OutputLimitField = 'max_tokens' | 'max_completion_tokens';
export type OnDisconnect = 'abort' | 'drain';

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
