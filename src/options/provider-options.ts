import type { WindowPeriod } from '../ledger/contract/key-records.ts';
import type { Markup } from '../metering/markup.ts';
import type { Pricing } from '../metering/pricing.ts';
import type { BodyRules } from './body-rules.ts';
import type { ConnectionOptions } from './connection-options.ts';
import type { EnforceOutputLimit } from './model-options.ts';
import type { UsageDialect } from '../metering/usage-dialects.ts';
import type { UpstreamLimits } from './upstream-limits.ts';
import type { AnyString, PresetName } from './preset-names.ts';

/** Providers by the name of a preset, or by one that you choose. */
export type Providers = { readonly [name in PresetName]?: ProviderOptions } & Readonly<
  Record<string, ProviderOptions>
>;

/** An OpenAI-compatible API. */
export interface ProviderOptions extends ConnectionOptions {
  /** The preset to use, if the entry's name isn't that of a preset. */
  readonly preset?: PresetName | AnyString;
  /**
   * Base URL, including the version segment, e.g. `https://api.openai.com/v1`. Presets have one. Names in braces are
   * replaced from `variables`; `{model}` in the path is the provider's name for the model.
   */
  readonly baseURL?: string;
  /** Values for the names in braces of the base URL, e.g. `{ resource: 'contoso' }` for the preset `azure`. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly apiKey?: ApiKeySource;
  /**
   * Several keys instead of one, used round-robin. A key that the provider rejects (401, 402, 403, a 400 about the key, or
   * a 429 about a spent quota) isn't used for a minute, for the account that met the error, or for all accounts after three
   * met it; the request is sent again with the next key. If all keys are rejected, the one that failed longest ago is used.
   * `hooks.onError` gets the key's position in the list.
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
  /** Query parameters added to the URL, e.g. `{ 'api-version': '2024-10-21' }`. */
  readonly query?: Readonly<Record<string, string>>;
  /**
   * How the provider reports usage in a stream. `option`: on request, with `stream_options.include_usage`; the router adds
   * it, and removes the usage event if the client did not request it. `native`: always. `rejected`: the provider rejects
   * the field. `none`: never; charges are estimated.
   *
   * With `option`, a request that is rejected because of the field (by the error's `param` or its whole message) is sent
   * again without it. This is remembered for a minute for the model and account, or for all accounts after three met it.
   *
   * @default 'option'
   */
  readonly streamUsage?: StreamUsage;
  /** How the provider counts usage, if the numbers alone don't show it. */
  readonly usage?: UsageDialect;
  /**
   * The output limit that the provider is known to obey: limits that the router inserts use this field. Without a preset, a
   * client's limit in only the other field is not relied on: the hold is as large as without a limit.
   *
   * @default the field that the preset's server obeys, else 'max_tokens'
   */
  readonly outputLimitField?: OutputLimitField;
  /**
   * What happens to an answer when its client disconnects. `abort`: the connection to the provider is closed, and the
   * delivered part is charged by estimate. `drain`: the answer is read to its end to learn its usage, which is charged as if
   * the client had stayed; at most 32 answers per key are read at the same time, others wait.
   *
   * @default 'drain' for presets of providers that bill the whole answer anyway, for models with hidden reasoning (by their
   * names, or by the usage of their answers), and for models with too few answers so far; 'abort' for all others, except
   * for one answer in sixteen
   */
  readonly onDisconnect?: OnDisconnect;
  /**
   * Whether each of its streams ends with a `finish_reason` or `[DONE]`: then a stream without either was truncated.
   *
   * @default true for presets; otherwise for each target once one of its streams has ended so, for the same account or for
   * three accounts
   */
  readonly marksEnd?: boolean;
  readonly timeouts?: TimeoutOptions;
  /** Edits of request fields. A target's rules for the same fields win. @default none */
  readonly body?: BodyRules;
  /**
   * Limits of each of its API keys, for all its models together: a key at its limit isn't used, and where no target has room,
   * requests are refused with a 429 `upstream_at_capacity` before credits are held.
   *
   * @default none; a key is avoided once the provider says that nothing is left
   */
  readonly limits?: UpstreamLimits;
  /**
   * `'discover'` serves the models that the provider lists in `GET /models`, in addition to those in `models`, whose entries
   * win. The list is fetched in the background from the first request or `ready()` on, never at construction.
   *
   * @default only the entries of `models`
   */
  readonly models?: 'discover' | DiscoveryOptions;
  /**
   * What the provider may cost in a period, by the `cost` of its targets, of all processes that share the store: then it is ejected until
   * the period ends. Running requests go on. Where the cost of a request is unknown, what was charged for it counts; with the client's own key,
   * nothing.
   *
   * @default no bound
   */
  readonly stopAt?: ProviderStopOptions;
}

/** What a provider may cost: `{ amount: '100.00', per: 'day' }`. */
export interface ProviderStopOptions {
  /** USD, as a decimal string, more than 0. */
  readonly amount: string;
  /** In UTC; weeks begin on Monday. */
  readonly per: WindowPeriod;
}

/** How the models that a provider lists are served. */
export interface DiscoveryOptions {
  /** Prefix for the provider's model IDs. @default its name in `providers`, and a slash */
  readonly prefix?: string;
  /** Restricts the IDs; `*` at the end matches any rest: `['gpt-*']`. @default all */
  readonly only?: readonly string[];
  /**
   * `provider`: the price in the list, in USD per token, as at OpenRouter and Vercel. `catalog`: from the option `prices`. Or
   * one price for all. A model without a known price isn't served.
   *
   * @default the price in the provider's list, else the catalog's, if there is a catalog
   */
  readonly pricing?: Pricing | 'free' | 'catalog' | 'provider';
  /** A markup on each price, in addition to the router's `markup`. */
  readonly markup?: Markup;
  /** For models whose context window isn't in the list. */
  readonly contextWindow?: number;
  /** For models whose output limit isn't in the list. @default the context window */
  readonly maxOutputTokens?: number;
  /** As in an entry of `models`. @default 'lower' */
  readonly enforceOutputLimit?: EnforceOutputLimit;
  /**
   * How often the list is fetched, in ms, with 10 % of jitter.
   *
   * @default 3600000 (an hour)
   */
  readonly refreshMs?: number;
}

/** A function is called for every request, so that keys can rotate, and a missing key fails a request instead of a build. */
export type ApiKeySource = string | (() => string | undefined | Promise<string | undefined>);

export type StreamUsage = 'option' | 'native' | 'rejected' | 'none';
export type OutputLimitField = 'max_tokens' | 'max_completion_tokens';
export type OnDisconnect = 'abort' | 'drain';

/** Each timeout has its own error code: a 504 before the answer has begun, then an error event in the stream. */
export interface TimeoutOptions {
  /**
   * From handing the request to the transport until its connection is established, in ms, including the wait for a free
   * socket.
   *
   * @default 10000
   */
  readonly connectMs?: number;
  /**
   * From the connection until the answer's headers, in ms.
   *
   * @default 600000
   */
  readonly firstByteMs?: number;
  /**
   * Between two chunks of the answer, in ms; time in which the client doesn't read isn't counted.
   *
   * @default 120000
   */
  readonly idleMs?: number;
  /**
   * For the whole request to a target, in ms, including resends with another key.
   *
   * @default 3600000
   */
  readonly totalMs?: number;
}
