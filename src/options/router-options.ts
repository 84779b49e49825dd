import type { Hooks } from '../observability/hooks.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import type { Markup } from '../metering/markup.ts';
import type { AnswerOptions } from './answer-options.ts';
import type { Authenticate, AuthenticateRequest } from './authenticate-options.ts';
import type { ModelOptions, PriceCatalog } from './model-options.ts';
import type { ProviderOptions, TimeoutOptions } from './provider-options.ts';

/** What `createChatCompletionsRouter` takes. Everything is read once, at construction; `reload` reads anew. */
export interface ChatCompletionsRouterOptions {
  /** The OpenAI-compatible APIs that requests can be sent to, by a name of your own or a preset's. */
  readonly providers: Readonly<Record<string, ProviderOptions>>;
  /**
   * Model ID, as clients say it, to where it is served and what it costs. IDs may contain slashes.
   *
   * An ID that ends in a star stands for all that begin as it does and have no entry of their own; the longest one counts.
   * A star in the model of a target is what stands in its place: `'openai/*': { targets: ['openai/*'], … }`.
   */
  readonly models: Readonly<Record<string, ModelOptions>>;
  /**
   * Added to the price of every model that isn't free: `{ factor: '1.2', fee: '0.001' }` is a fifth more, and a tenth of
   * a cent a request. Of several markups factors multiply and fees add.
   *
   * @default none
   */
  readonly markup?: Markup;
  /** What is added for one caller, beside what its key or `authenticate` says. Asked on every request. */
  readonly resolveMarkup?: (caller: MarkupCaller) => Markup | undefined;
  /** Where models and targets get their prices that say `'catalog'`. */
  readonly prices?: PriceCatalog;
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
   * Called at most once in `keyCacheMs` for the same key; for each request where it takes the headers and there is no
   * `cacheKey`. Where it throws, or returns what can't be used, the client gets a 503 `authentication_unavailable`.
   */
  readonly authenticate?: Authenticate;
  /**
   * Tells apart requests that carry the same API key but must not share an answer of `authenticate`: all that it reads
   * of the headers must be in it.
   *
   * @default the API key alone; an answer that was made with headers is for its request alone
   */
  readonly cacheKey?: (request: AuthenticateRequest) => string;
  /**
   * How long a key that was looked up is trusted for `GET` endpoints, in ms; a revoked key stops completions at once.
   *
   * @default 30000
   */
  readonly keyCacheMs?: number;
  /** Stripped from the path where it is there; needed only if the mount itself contains `models`, `credits` or `generation`. */
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
   * What the bodies of requests that aren't admitted yet may hold altogether, in bytes, and those of one key a quarter of it (but
   * room for one whole body in any case); what goes beyond is a 503 `request_buffers_full`. At least `maxBodyBytes`.
   *
   * @default 268435456 (256 MiB), or a quarter of the heap's limit where that is less; never less than `maxBodyBytes`
   */
  readonly maxBufferedBytes?: number;
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
   * it is sent with the limit that fits beside the longest prompt of its size (and `x-ccr-max-tokens` says so).
   * `strict` holds the same, and answers 402 where the balance doesn't cover it. Neither costs more than was
   * held, while the provider keeps to the limit and to a token a byte. `adaptive` holds 1,024 output tokens
   * beside the prompt and more as the answer grows, so that many can share a small balance; a stream that the
   * balance doesn't cover any more ends with an error event, `credits_exhausted`. What isn't a stream is clamped
   * there too. It takes prompts for as long as they are likely to be: a dense one may cost more than the balance.
   *
   * @default 'clamp'
   */
  readonly holdMode?: HoldMode;
  /** What a client pays that leaves before its answer is complete. */
  readonly disconnect?: DisconnectOptions;
  /**
   * Whether an answer that is no use costs nothing, even where the provider bills it: one without output and
   * without a reason for its end; one that ends in an error; one that breaks off before its end, unless its
   * client left, stopped reading or ran out of credits. What the provider bills stands in the journal as `cost`.
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
  readonly onCrash?: OnCrash;
  /**
   * A folder on a disk of this machine where charges wait until the store has them, so that they survive
   * this process; the processes of a machine share it. While it can't be written, completions are answered 503.
   * Recommended with Redis.
   *
   * @default none: charges wait in memory
   */
  readonly outboxDir?: string;
  /**
   * Full days, UTC, of which the lines of journals are kept: older ones fold into sums, and
   * `hooks.onLedgerEvent` is told. Export them before, or keep all with Infinity.
   *
   * @default 90
   */
  readonly journalRetentionDays?: number;
  /**
   * Full days, UTC, of which usage is kept by day, key and model: 2 or more, or Infinity for all. What older days
   * charged stays in the account's total.
   *
   * @default 400
   */
  readonly usageRetentionDays?: number;
  /**
   * What answers tell clients of the provider and of costs; a model can say otherwise.
   *
   * @default the provider's own bytes, without what shows your cost where a preset is known to show it
   */
  readonly answer?: AnswerOptions;
  /**
   * What ends an event stream that broke: `error`, an event that official clients throw on, and no `[DONE]`;
   * `reset`, the end of its connection, as where the provider had broken it. What broke inside an event, or in
   * JSON, is always reset.
   *
   * @default 'error'
   */
  readonly onStreamError?: OnStreamError;
  /**
   * After so long without a byte, an event stream gets a comment, which clients skip, so that nothing on its way
   * closes it as idle; in ms. It stands between two events, never in one.
   *
   * @default none: nothing is put between a provider's events
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
  readonly clientRouting?: boolean | ClientRoutingOptions;
  /** Who is told what happens; each of several is told, whatever the others do. */
  readonly hooks?: Hooks | readonly Hooks[];
  /**
   * Given what is still to be done of each request when its response is out, as a promise that never rejects: its charge.
   * For hosts that stop a process as soon as nobody waits, e.g. `waitUntil` of `@vercel/functions`.
   *
   * @default none; `toNextHandlers` gives it to `after` of Next.js
   */
  readonly waitUntil?: (work: Promise<void>) => unknown;
}

/** Who asks, for `resolveMarkup`. */
export interface MarkupCaller {
  readonly account: string;
  /** The key's id, or the host's label for it. */
  readonly key: string;
}

/** Pages that may call the router from a browser. */
export interface CorsOptions {
  /** As browsers send them, e.g. `https://chat.example.com`. @default all */
  readonly origins?: readonly string[];
  /** How long a browser may remember the answer to its question, in seconds. @default 600 */
  readonly maxAgeSeconds?: number;
}

/** What clients may choose for themselves. */
export interface ClientRoutingOptions {
  /** Other models to fall back to: `models: ['acme/fast', 'acme/smart']`. */
  readonly models?: boolean;
  /** Among the providers of a model: `provider: { order, only, ignore, allow_fallbacks }`. */
  readonly provider?: boolean;
}

export type OnStreamError = 'error' | 'reset';
export type HoldMode = 'clamp' | 'strict' | 'adaptive';
export type OnCrash = 'checkpoint' | 'release' | 'capture';

/** Once output was delivered, it is paid for, with its prompt. */
export interface DisconnectOptions {
  /**
   * What is charged to a client that leaves after its request went out and before any output came:
   * `input`, the prompt and what answers of its target hide on average, or `free`, nothing, which lets clients have work done for nothing.
   *
   * @default 'input'
   */
  readonly beforeOutput?: 'input' | 'free';
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

/**
 * When a target that keeps failing is set aside, to be asked after all others: for an account that met with it, where failures of
 * others count as half of `failures` at most of each, and for all once three accounts met with it.
 */
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
   * For how long at most, in ms; not less than `coolDownMs`.
   *
   * @default 300000
   */
  readonly maxCoolDownMs?: number;
}
