import type { SessionOptions } from './session-options.ts';
import type { StickyOptions } from './sticky-options.ts';
import type { ThresholdOptions } from './threshold-options.ts';
import type { Hooks } from '../observability/hooks.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import type { Markup } from '../metering/markup.ts';
import type { AnswerOptions } from './answer-options.ts';
import type { Authenticate, AuthenticateRequest } from './authenticate-options.ts';
import type { ModelCatalog, ModelOptions, PriceCatalog } from './model-options.ts';
import type { AnyString } from './preset-names.ts';
import type { OutboundProxyOption } from './connection-options.ts';
import type { Providers, TimeoutOptions } from './provider-options.ts';
import type { Guard, GuardOptions, Route, RouteOptions } from './request-hooks.ts';

/** A store that the router opens; another string, as of an environment variable, is checked when the router is created. */
export type StoreURL =
  | 'memory:'
  | `sqlite:${string}`
  | `${'redis' | 'rediss'}${'' | '+cluster' | '+sentinel'}://${string}`;

/** Options of `createChatCompletionsRouter`. They are read once, at construction; `reload` replaces some. */
export interface ChatCompletionsRouterOptions {
  /** The OpenAI-compatible APIs to which requests are sent, by the name of a preset or one that you choose. */
  readonly providers: Providers;
  /**
   * Models by the ID that clients use, with their targets and prices. IDs may contain slashes.
   *
   * A wildcard, an ID that ends in `*`, serves all IDs with its prefix that have no entry; the longest match wins. A `*` in
   * the model of a target is replaced by the matched part: `'openai/*': { targets: ['openai/*'], … }`.
   */
  readonly models: Readonly<Record<string, ModelOptions>>;
  /**
   * A markup on the price of every model that isn't free: `{ factor: '1.2', fee: '0.001' }` adds 20 %, and a tenth of a cent
   * per request. With several markups, the factors multiply and the fees add.
   *
   * @default none
   */
  readonly markup?: Markup;
  /** A further markup for a caller, in addition to that of its key or of `authenticate`. Called for every request. */
  readonly resolveMarkup?: (caller: MarkupCaller) => Markup | undefined;
  /** The price catalog for models and targets with the price `'catalog'`. */
  readonly prices?: PriceCatalog;
  /**
   * The catalog of what `GET /models` says of models beside limits and prices: names, modalities, parameters, dates. Options of
   * a model and its provider's own list take precedence.
   *
   * @default none: `modelsDev(data)` reads the data of models.dev
   */
  readonly modelInfo?: ModelCatalog;
  /**
   * The models that `GET /models` and `GET /models/{id}` show to requests without a key, with their prices: `true` for all
   * but those of wildcards, or a list of IDs, in which `*` matches any characters. A request with a key gets what its key may
   * use, and a wrong key is a 401.
   *
   * @default false: such requests are a 401
   */
  readonly publicModels?: boolean | readonly string[];
  /**
   * The store of credits and API keys: `'memory:'` (lost when the process ends), `'sqlite:FILE'` (a file shared by the
   * processes of one machine, e.g. `sqlite:./credits.db`), a Redis URL (for any number of machines), or a store object.
   *
   * `redis://USER:PASSWORD@HOST:PORT/DB`, `redis+cluster://HOST:PORT,HOST:PORT` and
   * `redis+sentinel://HOST,HOST/PRIMARY/DB`; `rediss` instead of `redis` for TLS; `?prefix=app:` before
   * every key.
   *
   * @default 'sqlite:./credits.db'
   */
  readonly store?: StoreURL | AnyString | LedgerStore;
  /**
   * Authenticates your own API keys or sessions instead of the router's: returns the account that pays, or undefined for a
   * 401.
   *
   * Called at most once per `keyCacheMs` for the same key, or for each request if it reads the headers and there is no
   * `cacheKey`. If it throws, returns an invalid value or takes longer than 10 seconds, the client gets a 503
   * `authentication_unavailable`.
   */
  readonly authenticate?: Authenticate;
  /**
   * A cache key for results of `authenticate`, for requests with the same API key that must not share a result: it must
   * contain everything that `authenticate` reads from the headers.
   *
   * @default the API key only; a result for which headers were read isn't cached
   */
  readonly cacheKey?: (request: AuthenticateRequest) => string;
  /**
   * How long a key look-up is cached for `GET` endpoints, in ms; a revoked key is rejected for completions at once.
   *
   * @default 30000
   */
  readonly keyCacheMs?: number;
  /** A prefix to remove from the path; only needed if the mount path contains `models`, `credits` or `generation`. */
  readonly basePath?: string;
  /**
   * Allows pages of other origins to call the router from a browser (CORS): `true` for all origins, which is safe because
   * of the keys, or a list of origins.
   *
   * @default none: browsers block such pages, unless a middleware of your app allows them
   */
  readonly cors?: boolean | CorsOptions;
  /**
   * Largest request body, in bytes; a larger one is a 413.
   *
   * @default 33554432 (32 MiB)
   */
  readonly maxBodyBytes?: number;
  /**
   * Most bytes buffered for the bodies of requests that aren't admitted yet; for one key a quarter of it, but at least one
   * body of `maxBodyBytes`. Beyond that, requests get a 503 `request_buffers_full`. At least `maxBodyBytes`.
   *
   * @default 268435456 (256 MiB), or a quarter of the heap limit if that is less; never less than `maxBodyBytes`
   */
  readonly maxBufferedBytes?: number;
  /**
   * Timeout for the arrival of a request body, in ms.
   *
   * @default 60000
   */
  readonly bodyTimeoutMs?: number;
  /**
   * How much is held for a request, and what happens if the balance doesn't cover it.
   *
   * `clamp` holds the highest cost of the request. If the balance only covers fewer output tokens, the request is sent with
   * the output limit that fits beside the longest prompt of its size (shown in `x-ccr-max-tokens`). `strict` holds the same,
   * and answers 402 if the balance doesn't cover it. With both, no request costs more than its hold, as long as the provider
   * obeys the limit and has at most one token per byte. `adaptive` holds the prompt and 1,024 output tokens, and more as the
   * answer grows, so that many requests can share a small balance. A stream that the balance no longer covers ends with an
   * error event, `credits_exhausted`; requests without streaming are clamped. Prompts are held at their estimated size, so a
   * dense prompt may cost more than the balance.
   *
   * @default 'clamp'
   */
  readonly holdMode?: HoldMode;
  /**
   * Whether an unusable answer is free, even if the provider bills it: one without output and finish reason; one that ends
   * in an error; one that is interrupted, unless its client disconnected, stopped reading or ran out of credits. What the
   * provider bills is recorded as `cost` in the journal.
   *
   * @default false: the usage or the delivered part is charged
   */
  readonly emptyAnswerIsFree?: boolean;
  /**
   * A folder on a local disk in which charges are kept until they are posted to the store, so that they survive a crash; the
   * processes of a machine share it. While it can't be written, completions get a 503. Recommended with Redis.
   *
   * @default none: charges are kept in memory
   */
  readonly outboxDir?: string;
  /**
   * How many full days (UTC) journal lines are kept. Older lines are compacted into sums, and reported to
   * `hooks.onLedgerEvent`. Export them before that, or keep all with Infinity.
   *
   * @default 90
   */
  readonly journalRetentionDays?: number;
  /**
   * How many full days (UTC) usage is kept by day, key and model: 2 or more, or Infinity. The charges of older days stay in
   * the account's total.
   *
   * @default 400
   */
  readonly usageRetentionDays?: number;
  /**
   * How many days the log of requests keeps each request: 0 to 365; with 0 none is logged. It holds no prompt and no answer.
   *
   * @default 7
   */
  readonly requestLogDays?: number;
  /**
   * Most requests that the log keeps, of all processes that share the store: 1 to 10,000,000. In memory at most 10,000.
   *
   * @default 100000
   */
  readonly requestLogMax?: number;
  /**
   * What answers show of the provider and of costs; models can override it.
   *
   * @default the provider's bytes, without your cost if the preset is known to show it
   */
  readonly answer?: AnswerOptions;
  /**
   * After this time without a byte, in ms, an event stream gets a comment, which clients skip, so that no proxy closes the
   * connection as idle. It is only sent between two events.
   *
   * @default none: no comments are added
   */
  readonly heartbeatMs?: number;
  /**
   * What sends the requests to providers: `undiciTransport()` of `chat-completions-router/undici` costs less processor time
   * than the default, and uses HTTP/2 where a provider offers it.
   *
   * @default http-proxy-middleware
   */
  readonly transport?: TransportOption;
  /** Timeouts for providers; an entry of `providers` can override them. */
  readonly timeouts?: TimeoutOptions;
  /**
   * The outbound proxy for all providers that have no `proxy` of their own: a URL, or `'environment'` for what `HTTPS_PROXY`
   * and `NO_PROXY` say.
   *
   * @default false: none, and the environment isn't read
   */
  readonly proxy?: OutboundProxyOption;
  /** Retries after a provider's failure, on another target or the same; `false`: none. */
  readonly retries?: RetryOptions | false;
  /** The circuit breaker, which ejects targets that keep failing; `false`: none. */
  readonly health?: HealthCheckOptions | false;
  /**
   * Keeps a conversation at the target, and the provider's key, that served its last turn, so that the provider's prompt cache
   * is used. A model can turn it off.
   *
   * @default none: each request is routed on its own
   */
  readonly sticky?: StickyOptions;
  /**
   * How long `close()` waits for running requests before it aborts them, then for charges to be posted, then for the request
   * log to be written, in ms: at most this for each.
   *
   * @default 30000
   */
  readonly closeTimeoutMs?: number;
  /**
   * Whether clients may choose among models and providers, by the fields `models` and `provider` of OpenRouter, or
   * `providerOptions.gateway` of Vercel. These fields never go upstream. Those who may choose among providers can also sort
   * targets by a suffix of the model's ID, `:nitro` or `:floor`, and see the targets at `GET /models/{id}/endpoints`.
   *
   * @default false: such fields are a 400
   */
  readonly clientRouting?: boolean | ClientRoutingOptions;
  /**
   * What requests are counted by, beside their account, key and model: the end user, whom policies can limit too, tags, and the
   * provider.
   *
   * `user: true` takes the body's `safety_identifier`, else its `user`; `user: { header: 'x-user-id' }` takes that header,
   * else these fields. A tag `'feature'` takes the body's `metadata.feature`; `{ name: 'feature', header: 'x-feature' }`
   * takes that header, else this field. What `authenticate` returns as `user` and `tags` comes before all of them. An end
   * user has 1 to 128 characters, a tag 1 to 64 visible ones, else the request is a 400.
   *
   * @default none
   */
  readonly dimensions?: DimensionOptions;
  /**
   * Names the model of a request, by its caller, headers or size: it is served, allowed and priced as if the client had
   * asked for it. Undefined keeps the client's model.
   *
   * @default none
   */
  readonly route?: Route | RouteOptions;
  /**
   * Passes, refuses or changes a request before credits are held for it; with `parallel: true`, passes or refuses it while
   * the provider works on it.
   *
   * @default none
   */
  readonly guard?: Guard | GuardOptions;
  /** Sessions for browsers: short-lived keys that a page may hold. @default none */
  readonly sessions?: SessionOptions;
  /** Reports accounts whose credits run low, and tops them up. @default none */
  readonly thresholds?: ThresholdOptions;
  /** Receive events; each of several hooks is called, even if another throws. */
  readonly hooks?: Hooks | readonly Hooks[];
  /**
   * Called with a promise for the work that remains after each response, its charge; the promise never rejects. For
   * serverless platforms that stop a process after its last response, e.g. `waitUntil` of `@vercel/functions`.
   *
   * @default none; `toNextHandlers` uses `after` of Next.js
   */
  readonly waitUntil?: (work: Promise<void>) => unknown;
}

/** What sends requests to providers, as `undiciTransport()` returns it. A router creates its own from it. */
export interface TransportOption {
  readonly create: () => object;
}

/** The caller, for `resolveMarkup`. */
export interface MarkupCaller {
  readonly account: string;
  /** The key's ID, or your app's label for it. */
  readonly key: string;
}

/** Which pages may call the router from a browser. */
export interface CorsOptions {
  /** As browsers send them, e.g. `https://chat.example.com`. @default all */
  readonly origins?: readonly string[];
  /** How long a browser may cache the result of a preflight, in seconds. @default 600 */
  readonly maxAgeSeconds?: number;
}

/** What requests are counted by, beside their account, key and model. */
export interface DimensionOptions {
  /** @default false */
  readonly user?: boolean | EndUserSource;
  /** The provider that answered, or that was asked last. @default false */
  readonly provider?: boolean;
  /** At most 4, each with a name of 1 to 32 letters, digits, `_` and `-`, a letter first. @default none */
  readonly tags?: readonly (string | TagSource)[];
}

/** Where the end user of a request is read from. */
export interface EndUserSource {
  /** A header that comes before the body's fields: only your own servers may be able to send it. */
  readonly header: string;
}

/** Where a tag of a request is read from. */
export interface TagSource {
  readonly name: string;
  /** As that of the end user. */
  readonly header: string;
}

/** What clients may choose. */
export interface ClientRoutingOptions {
  /** Other models to fall back to: `models: ['acme/fast', 'acme/smart']`. */
  readonly models?: boolean;
  /**
   * Among the providers of a model: `provider: { order, only, ignore, allow_fallbacks, sort }`, and what targets
   * must have: `provider: { zdr, data_collection, quantizations, require, require_parameters, max_price }`.
   */
  readonly provider?: boolean;
}

export type HoldMode = 'clamp' | 'strict' | 'adaptive';

/** Retries after a failure, before any part of an answer has reached the client. */
export interface RetryOptions {
  /**
   * How often the last remaining target is retried after it answered 408, 409, 425, 429, 498 or 5xx.
   *
   * @default 1
   */
  readonly perTarget?: number;
  /**
   * The longest wait before a retry, in ms. If a provider's `retry-after` is longer, its answer goes to the client.
   *
   * @default 5000
   */
  readonly maxWaitMs?: number;
  /**
   * While other targets remain: how long an answer is held back until its first event shows that it isn't an error, in ms.
   *
   * @default 1000
   */
  readonly firstEventWaitMs?: number;
}

/**
 * When the circuit breaker ejects a target, which is then tried after all others. It is ejected for accounts that met
 * failures, to which each other account's failures add at most half of `failures`, and for all accounts after three met
 * them.
 */
export interface HealthCheckOptions {
  /**
   * Number of failures in a row after which a target is ejected.
   *
   * @default 5
   */
  readonly failures?: number;
  /**
   * How long it is ejected, in ms; doubled each time that it fails again afterwards.
   *
   * @default 5000
   */
  readonly coolDownMs?: number;
  /**
   * The longest ejection, in ms; at least `coolDownMs`.
   *
   * @default 300000
   */
  readonly maxCoolDownMs?: number;
}
