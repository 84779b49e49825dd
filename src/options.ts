import type { IncomingHttpHeaders } from 'node:http';

import type { LedgerEvent } from './ledger/events.ts';
import type { Ending, LedgerStore } from './ledger/ledger.ts';
import type { TokenBudgets } from './metering/estimate.ts';
import type { Pricing } from './metering/price.ts';
import type { Usage } from './metering/usage-dialects.ts';

/** What `createChatCompletionsRouter` takes. Everything is read once, at construction. */
export interface ChatCompletionsRouterOptions {
  /** The OpenAI-compatible APIs that requests can be sent to, by a name of your own or a preset's. */
  readonly providers: Readonly<Record<string, ProviderOptions>>;
  /** Model ID, as clients say it, to where it is served and what it costs. IDs may contain slashes. */
  readonly models: Readonly<Record<string, ModelOptions>>;
  /**
   * Where credits and API keys live: `'memory:'` (gone with the process), `'sqlite:FILE'` (a file that
   * the processes of one machine share, e.g. `sqlite:./credits.db`), or a store object.
   */
  readonly store: 'memory:' | `sqlite:${string}` | LedgerStore;
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
   * What happens when the balance covers a request only with fewer output tokens than it may use:
   * `clamp` sends it with the limit that fits (and says so in `x-ccr-max-tokens`), `strict` answers 402.
   *
   * @default 'clamp'
   */
  readonly holdMode?: 'clamp' | 'strict';
  /** How long to wait for a provider; an entry of `providers` can say otherwise. */
  readonly timeouts?: TimeoutOptions;
  /**
   * How long `close()` lets running requests finish before it aborts them, and then waits for the store, in ms.
   *
   * @default 30000
   */
  readonly closeTimeoutMs?: number;
  readonly hooks?: Hooks;
}

/** Each clock has its own error code, and starts when the request is handed to the transport. */
export interface TimeoutOptions {
  /**
   * Until the connection stands, in ms; time spent queued for a socket counts.
   *
   * @default 10000
   */
  readonly connectMs?: number;
  /**
   * Until the answer's head, in ms.
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
  /** Up to and including the version segment, e.g. `https://api.openai.com/v1`. Presets know theirs. */
  readonly baseURL?: string;
  /** A function is asked on every request, so that keys can rotate, and a missing key fails a request and not a build. */
  readonly apiKey?: string | (() => string | undefined | Promise<string | undefined>);
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
   * @default 'option'
   */
  readonly streamUsage?: StreamUsage;
  /**
   * The field in which an output limit is inserted where the client gave none.
   *
   * @default 'max_tokens'
   */
  readonly outputLimitField?: OutputLimitField;
  readonly timeouts?: TimeoutOptions;
}

export type StreamUsage = 'option' | 'native' | 'rejected' | 'none';
export type OutputLimitField = 'max_tokens' | 'max_completion_tokens';

export interface ModelOptions {
  /** Ordered; the first one is used. A string is `provider/upstream-model`: the first slash ends the provider. */
  readonly targets: readonly (string | TargetOptions)[];
  /** What the client pays, whichever target answers. A model without a price must say `'free'`. */
  readonly pricing: Pricing | 'free';
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
  /** What the provider bills; told in the journal and in `onSettled`. */
  readonly cost?: Pricing | 'free';
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
}

/** Told what happens; may be async, can't break a request. */
export interface Hooks {
  /** A request's charge was posted, or its hold was given back (`charged` is `'0.00'`, `voided` true). */
  readonly onSettled?: (settled: Settled) => unknown;
  /** Something went wrong that the host should know of: our own bugs, providers' faults, a store that is away. */
  readonly onError?: (error: Error, context: { readonly requestId?: string }) => unknown;
  /** Something happened to the ledger that its operator should know of. */
  readonly onLedgerEvent?: (event: LedgerEvent) => unknown;
}

export interface Settled {
  readonly requestId: string;
  readonly account: string;
  readonly key: string;
  readonly model: string;
  readonly provider: string;
  readonly upstreamModel: string;
  /** USD, as a decimal string. */
  readonly charged: string;
  /** What the charge lacked because the balance ended; USD, as a decimal string. */
  readonly writtenOff: string;
  /** What the provider bills; USD, as a decimal string; undefined where no `cost` is configured. */
  readonly cost?: string;
  readonly voided: boolean;
  readonly usage?: Usage;
  readonly usageSource: 'upstream' | 'estimated' | 'none';
  readonly ending: Ending;
}

/** All four clocks, in ms. */
export type Timeouts = Required<TimeoutOptions>;

/** The scalar options with their defaults filled in. */
export interface Settings {
  readonly basePath: string;
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  readonly holdMode: 'clamp' | 'strict';
  readonly timeouts: Timeouts;
  readonly keyCacheMs: number;
  readonly closeTimeoutMs: number;
}

const DEFAULT_TIMEOUTS: Timeouts = {
  connectMs: 10_000,
  firstByteMs: 600_000,
  idleMs: 120_000,
  totalMs: 3_600_000,
};

const KNOWN_OPTIONS: Record<keyof ChatCompletionsRouterOptions, true> = {
  providers: true,
  models: true,
  store: true,
  authenticate: true,
  cacheKey: true,
  keyCacheMs: true,
  basePath: true,
  maxBodyBytes: true,
  bodyTimeoutMs: true,
  holdMode: true,
  timeouts: true,
  closeTimeoutMs: true,
  hooks: true,
};

/**
 * Fills in defaults and refuses what can only be a mistake.
 *
 * Touches no network, file or environment variable: `next build` runs it too.
 *
 * @throws {TypeError} naming the option, what it wants and what it got
 */
export function resolveSettings(options: ChatCompletionsRouterOptions): Settings {
  checkRecord(options, 'options', KNOWN_OPTIONS);
  checkRecord(options.providers, 'providers');
  checkRecord(options.models, 'models');
  if (options.hooks !== undefined) {
    checkRecord(options.hooks, 'hooks', { onSettled: true, onError: true, onLedgerEvent: true });
  }
  for (const name of ['authenticate', 'cacheKey'] as const) {
    if (options[name] !== undefined && typeof options[name] !== 'function') {
      throw wrong(name, 'a function', options[name]);
    }
  }
  const { basePath = '', holdMode = 'clamp' } = options;
  if (typeof basePath !== 'string' || (basePath !== '' && !basePath.startsWith('/'))) {
    throw wrong('basePath', 'a path that begins with a slash', basePath);
  }
  if (holdMode !== 'clamp' && holdMode !== 'strict') throw wrong('holdMode', "'clamp' or 'strict'", holdMode);
  return {
    basePath: basePath.replace(/\/+$/, ''),
    maxBodyBytes: positiveInteger(options.maxBodyBytes ?? 33_554_432, 'maxBodyBytes'),
    bodyTimeoutMs: milliseconds(options.bodyTimeoutMs ?? 60_000, 'bodyTimeoutMs'),
    holdMode,
    timeouts: resolveTimeouts(options.timeouts, DEFAULT_TIMEOUTS, 'timeouts'),
    keyCacheMs: milliseconds(options.keyCacheMs ?? 30_000, 'keyCacheMs'),
    closeTimeoutMs: milliseconds(options.closeTimeoutMs ?? 30_000, 'closeTimeoutMs'),
  };
}

/** The given clocks over the defaults. */
export function resolveTimeouts(
  given: TimeoutOptions | undefined,
  defaults: Timeouts,
  option: string,
): Timeouts {
  if (given === undefined) return defaults;
  checkRecord(given, option, defaults);
  const clock = (name: keyof Timeouts): number =>
    given[name] === undefined ? defaults[name] : milliseconds(given[name], `${option}.${name}`);
  return {
    connectMs: clock('connectMs'),
    firstByteMs: clock('firstByteMs'),
    idleMs: clock('idleMs'),
    totalMs: clock('totalMs'),
  };
}

/** @throws {TypeError} unless it is an object, with no keys but the known ones where those are given */
export function checkRecord(value: unknown, option: string, known?: Readonly<Record<string, unknown>>): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrong(option, 'an object', value);
  if (!known) return;
  for (const key of Object.keys(value)) {
    if (!Object.hasOwn(known, key)) {
      throw new TypeError(
        `${option} has an unknown key ${JSON.stringify(key)}; it takes ${Object.keys(known).join(', ')}`,
      );
    }
  }
}

export function positiveInteger(value: unknown, option: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw wrong(option, 'a positive integer', value);
}

/** The TypeError of an option: its name, what it wants, what it got. */
export function wrong(option: string, wanted: string, got: unknown): TypeError {
  return new TypeError(`${option} must be ${wanted}, got ${show(got)}`);
}

const MAX_TIMER_MS = 2 ** 31 - 1;

function milliseconds(value: unknown, option: string): number {
  if (typeof value !== 'number' || !(value > 0 && value <= MAX_TIMER_MS)) {
    throw wrong(option, `a number of milliseconds from 1 to ${MAX_TIMER_MS}`, value);
  }
  return value;
}

function show(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  return JSON.stringify(value) ?? String(value);
}
