import type { IncomingHttpHeaders } from 'node:http';

import type { Hooks } from './hooks.ts';
import type { LedgerStore } from './ledger/ledger.ts';
import type { TokenBudgets } from './metering/estimate.ts';
import type { Pricing } from './metering/price.ts';
import type { UsageDialect } from './metering/usage-dialects.ts';

/** What `createChatCompletionsRouter` takes. Everything is read once, at construction. */
export interface ChatCompletionsRouterOptions {
  /** The OpenAI-compatible APIs that requests can be sent to, by a name of your own or a preset's. */
  readonly providers: Readonly<Record<string, ProviderOptions>>;
  /** Model ID, as clients say it, to where it is served and what it costs. IDs may contain slashes. */
  readonly models: Readonly<Record<string, ModelOptions>>;
  /**
   * Where credits and API keys live: `'memory:'` (gone with the process), `'sqlite:FILE'` (a file that
   * the processes of one machine share, e.g. `sqlite:./credits.db`), a URL of Redis (for any number of
   * machines), or a store object.
   *
   * `redis://USER:PASSWORD@HOST:PORT/DB`, `redis+cluster://HOST:PORT,HOST:PORT` and
   * `redis+sentinel://HOST,HOST/PRIMARY/DB`; `rediss` instead of `redis` for TLS; `?prefix=app:` before
   * every key.
   *
   * @default 'sqlite:./credits.db'
   */
  readonly store?: string | LedgerStore;
  /**
   * Your own API keys or sessions instead of the router's: the account that pays, or undefined for a 401.
   *
   * Called at most once in `keyCacheMs` for the same key.
   */
  readonly authenticate?: Authenticate;
  /**
   * Tells apart requests that carry the same API key but must not share an answer of `authenticate`.
   *
   * @default the API key alone
   */
  readonly cacheKey?: (request: AuthenticateRequest) => string;
  /**
   * How long a key that was looked up is trusted for `GET` endpoints, in ms; a revoked key stops completions at once.
   *
   * @default 30000
   */
  readonly keyCacheMs?: number;
  /** Stripped from the path where it is there; needed only if the mount itself contains `models` or `credits`. */
  readonly basePath?: string;
  /**
   * Lets pages of other origins call the router from a browser: `true` for all origins, which keys make safe, or those that are named.
   *
   * @default none: browsers keep such pages out, unless a middleware of the host's lets them in
   */
  readonly cors?: boolean | CorsOptions;
  /**
   * Largest request body accepted, in bytes; one byte more is a 413.
   *
   * @default 33554432 (32 MiB)
   */
  readonly maxBodyBytes?: number;
  /**
   * Longest time a request body may take to arrive, in ms.
   *
   * @default 60000
   */
  readonly bodyTimeoutMs?: number;
  /**
   * How much is held for a request, and what happens when the balance doesn't cover it.
   *
   * `clamp` holds all that the request can cost; where the balance covers it only with fewer output tokens,
   * it is sent with the limit that fits (and `x-ccr-max-tokens` says so). `strict` holds the same, and
   * answers 402 where the balance doesn't cover it. `adaptive` holds 1,024 output tokens beside the prompt
   * and more as the answer grows, so that many can share a small balance; a stream that the balance doesn't
   * cover any more ends with an error event, `credits_exhausted`. What isn't a stream is clamped there too.
   *
   * @default 'clamp'
   */
  readonly holdMode?: HoldMode;
  /** What a client pays that leaves before its answer is complete. */
  readonly disconnect?: DisconnectOptions;
  /**
   * Whether an answer that is no use costs nothing, even where the provider bills it: one without output and
   * without a reason for its end; one that ends in an error; one that breaks off before its end, unless its
   * client left or ran out of credits. What the provider bills stands in the journal as `cost`.
   *
   * @default false: what was used or delivered is charged
   */
  readonly emptyAnswerIsFree?: boolean;
  /**
   * What is charged for a request whose process died: `checkpoint`, what it had consumed when its lease was
   * renewed last (soon after its answer began, then every 30 seconds); `release`, nothing; `capture`, all that
   * it held, once its answer had begun.
   *
   * @default 'checkpoint'
   */
  readonly onOrphan?: OrphanPolicy;
  /**
   * A folder on a disk of this machine where charges wait until the store has them, so that they survive
   * this process; the processes of a machine share it. Recommended with Redis.
   *
   * @default none: charges wait in memory
   */
  readonly outboxDir?: string;
  /**
   * What happens when `outboxDir` can't be written: `refuse` answers 503 until it can, `memory` goes on,
   * with charges that wait in memory alone.
   *
   * @default 'refuse'
   */
  readonly outboxOnError?: 'refuse' | 'memory';
  /**
   * Money that each process may spend on its own while the store is away.
   *
   * @default none: while the store is away, requests are refused
   */
  readonly offlineAllowance?: OfflineAllowanceOptions;
  /**
   * Full days, UTC, of which the lines of journals are kept: older ones fold into sums, and
   * `hooks.onLedgerEvent` is told. Export them before, or keep all with Infinity.
   *
   * @default 90
   */
  readonly journalDays?: number;
  /**
   * What ends an event stream that broke: `error`, an event that official clients throw on, and no `[DONE]`;
   * `reset`, the end of its connection, as where the provider had broken it. What broke inside an event, or in
   * JSON, is always reset.
   *
   * @default 'error'
   */
  readonly onBreak?: OnBreak;
  /**
   * After so long without a byte, an event stream gets a comment, which clients skip, so that nothing on its way
   * closes it as idle; in ms. It stands between two events, never in one.
   *
   * @default none: streams are the provider's own bytes
   */
  readonly heartbeatMs?: number;
  /** How long to wait for a provider; an entry of `providers` can say otherwise. */
  readonly timeouts?: TimeoutOptions;
  /** When a provider's failure is tried again, on another target or the same; `false`: never. */
  readonly retries?: RetryOptions | false;
  /** When a target that keeps failing is set aside; `false`: never. */
  readonly health?: HealthCheckOptions | false;
  /**
   * How long `close()` lets running requests finish before it aborts them, and then waits for the store, in ms.
   *
   * @default 30000
   */
  readonly closeTimeoutMs?: number;
  /**
   * Whether clients may choose among models and providers, the way of OpenRouter (`models`, `provider`) and of the
   * Vercel AI Gateway (`providerOptions.gateway`). These fields never go upstream.
   *
   * @default false: such fields are a 400
   */
  readonly requestControl?: boolean | RequestControlOptions;
  readonly hooks?: Hooks;
  /**
   * Given what is still to be done of each request when its response is out, as a promise that never rejects: its charge.
   * For hosts that stop a process as soon as nobody waits, e.g. `waitUntil` of `@vercel/functions`.
   *
   * @default none; `toNextHandlers` gives it to `after` of Next.js
   */
  readonly waitUntil?: (work: Promise<void>) => unknown;
}

/** Pages that may call the router from a browser. */
export interface CorsOptions {
  /** As browsers send them, e.g. `https://chat.example.com`. @default all */
  readonly origins?: readonly string[];
  /** How long a browser may remember the answer to its question, in seconds. @default 600 */
  readonly maxAgeSeconds?: number;
}

/** What clients may choose for themselves. */
export interface RequestControlOptions {
  /** Other models to fall back to: `models: ['acme/fast', 'acme/smart']`. */
  readonly models?: boolean;
  /** Among the providers of a model: `provider: { order, only, ignore, allow_fallbacks }`. */
  readonly provider?: boolean;
}

export type OnBreak = 'error' | 'reset';
export type HoldMode = 'clamp' | 'strict' | 'adaptive';
export type OrphanPolicy = 'checkpoint' | 'release' | 'capture';

/** Once output was delivered, it is paid for, with its prompt. */
export interface DisconnectOptions {
  /**
   * What is charged to a client that leaves after its request went out and before any output came:
   * `input`, the prompt, or `free`, nothing, which lets clients have work done for nothing.
   *
   * @default 'input'
   */
  readonly beforeOutput?: 'input' | 'free';
}

/**
 * What may be admitted while the store is away, for keys that it admitted when this process asked last.
 *
 * No balance is looked at then, no limit of a key, and no revocation is heard of: all processes together can
 * overspend by the number of processes times `perProcess`. An amount is free again once the store has the
 * charge that was made of it. USD, as decimal strings.
 */
export interface OfflineAllowanceOptions {
  readonly perKey: string;
  readonly perProcess: string;
  /**
   * How long the store may be away before nothing more is admitted, in ms.
   *
   * @default 300000 (5 minutes)
   */
  readonly forMs?: number;
}

/** What happens when a provider fails before anything of its answer has reached the client. */
export interface RetryOptions {
  /**
   * How often the last target left is asked again after it answered 408, 409, 429 or 5xx.
   *
   * @default 1
   */
  readonly perTarget?: number;
  /**
   * The longest wait before it is asked again, in ms; where a provider's `retry-after` is longer, its answer goes
   * to the client.
   *
   * @default 5000
   */
  readonly maxWaitMs?: number;
  /**
   * While other targets are left, how long an answer is kept back until its first event shows that it is none of
   * an error, in ms.
   *
   * @default 1000
   */
  readonly firstEventWaitMs?: number;
}

/** When a target that keeps failing is set aside, to be asked after all others. */
export interface HealthCheckOptions {
  /**
   * So many failures in a row set it aside.
   *
   * @default 5
   */
  readonly failures?: number;
  /**
   * For how long, in ms; doubled each time that it then fails again.
   *
   * @default 5000
   */
  readonly coolDownMs?: number;
  /**
   * For how long at most, in ms.
   *
   * @default 300000
   */
  readonly maxCoolDownMs?: number;
}

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

/** In which order a model's targets are tried. */
export type Choice = 'ordered' | 'weighted' | 'cheapest' | 'fastest';

export interface ModelOptions {
  /**
   * Where it is served: the first one that answers does. A string is `provider/upstream-model`: the first slash
   * ends the provider.
   */
  readonly targets: readonly (string | TargetOptions)[];
  /**
   * `ordered`: as they are listed. `weighted`: at random, by their weights. `cheapest`: by what the request could
   * cost there. `fastest`: of two taken at random, the one that answers sooner and has less to do. Those that were
   * set aside for failing come last.
   *
   * @default 'ordered'
   */
  readonly choice?: Choice;
  /** What the client pays, whichever target answers. A model without a price must say `'free'`. */
  readonly pricing: Pricing | 'free';
  /**
   * What the client pays where its own key for the provider is used (`upstreamKeys` of `authenticate`).
   *
   * @default as for every other request
   */
  readonly ownKeyPricing?: Pricing | 'free';
  /** Most tokens that prompt and completion can have together. */
  readonly contextWindow?: number;
  /** Most tokens that the model writes; required unless the model is free, because holds are made of it. */
  readonly maxOutputTokens?: number;
  /** Tokens that media in a prompt can cost, for holds and estimates. */
  readonly tokenBudgets?: Partial<TokenBudgets>;
  readonly name?: string;
  readonly description?: string;
  /**
   * When the model was made, in Unix seconds.
   *
   * @default 0
   */
  readonly created?: number;
  /**
   * `owned_by` of the model's record.
   *
   * @default what stands before the ID's first slash, else `system`
   */
  readonly ownedBy?: string;
}

/** One place where a model is served. */
export interface TargetOptions {
  readonly provider: string;
  /** The model's name there. */
  readonly model: string;
  /** What the client pays when this target answers, instead of the model's `pricing`. */
  readonly pricing?: Pricing | 'free';
  /** What it pays when its own key was used here, instead of the model's `ownKeyPricing`. */
  readonly ownKeyPricing?: Pricing | 'free';
  /** What the provider bills; told in the journal and in `onSettled`. */
  readonly cost?: Pricing | 'free';
  /**
   * Its share of the requests, where the model's `choice` is `weighted`.
   *
   * @default 1
   */
  readonly weight?: number;
}

export type Authenticate = (
  apiKey: string,
  request: AuthenticateRequest,
) => AuthenticatedCaller | undefined | Promise<AuthenticatedCaller | undefined>;

export interface AuthenticateRequest {
  readonly headers: IncomingHttpHeaders;
}

export interface AuthenticatedCaller {
  /** The account that pays: 1 to 64 of `A-Z a-z 0-9 _ -`. */
  readonly account: string;
  /**
   * A label for this key in journals and counters; the same characters.
   *
   * @default 'external'
   */
  readonly key?: string;
  /**
   * The caller's own keys for providers, by their names in `providers`: used instead of yours, and never with
   * yours in their place. The request is charged as any other, or by `ownKeyPricing`; its `cost` to you is 0. A
   * key that the provider refuses is the caller's matter: it is told so with the provider's status (401, 402 or
   * 403), no other target is asked, and none is set aside for it.
   *
   * Kept as long as this answer is (`keyCacheMs`), in memory only; never logged or shown.
   */
  readonly upstreamKeys?: Readonly<Record<string, string | undefined>>;
}

/** A target as its operator sees it. */
export interface TargetStatus {
  readonly provider: string;
  /** The model's name there. */
  readonly model: string;
  /** `probing`: its cool-down is over, and one request is trying it. */
  readonly state: 'healthy' | 'ejected' | 'probing';
  readonly failuresInARow: number;
  /** When an ejected target is tried again, in ms since the epoch. */
  readonly retryAt?: number;
  /** How long its answers lately took to begin, in ms; undefined before the first one. */
  readonly firstByteMs?: number;
  /** Requests that run there now. */
  readonly running: number;
}
