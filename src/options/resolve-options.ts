import { getHeapStatistics } from 'node:v8';

import type { Hooks } from '../observability/hooks.ts';
import { type MarkupTerms, NO_MARKUP, parseMarkup } from '../metering/markup.ts';
import type { AnswerOptions } from './answer-options.ts';
import type { OutboundProxyOption } from './connection-options.ts';
import type { ModelCatalog, PriceCatalog } from './model-options.ts';
import { type ModelPatterns, parseModelPatterns } from './model-patterns.ts';
import type { TimeoutOptions } from './provider-options.ts';
import type {
  ChatCompletionsRouterOptions,
  CorsOptions,
  RetryOptions,
  HealthCheckOptions,
  ClientRoutingOptions,
  HoldMode,
} from './router-options.ts';
import {
  assertObject,
  integerIn,
  milliseconds,
  oneOfError,
  optionError,
  positiveInteger,
} from './option-checks.ts';
import { type DimensionSettings, resolveDimensions } from './resolve-dimensions.ts';
import { resolveSticky, type StickySettings } from './resolve-sticky.ts';
import {
  type GuardSettings,
  resolveGuard,
  resolveRoute,
  type RouteSettings,
} from './resolve-request-hooks.ts';

export { assertObject, milliseconds, oneOfError, optionError, positiveInteger } from './option-checks.ts';

/** All four timeouts, in ms. */
export type Timeouts = Required<TimeoutOptions>;

/** Request fields by which clients may choose among models and providers. */
export type ClientRoutingFields = ReadonlySet<string>;

export type Retries = Required<RetryOptions>;
export type HealthChecks = Required<HealthCheckOptions>;

/** Which pages of other origins may call the router from a browser. */
export interface Cors {
  /** As browsers send them: scheme, host and port. */
  readonly origins: ReadonlySet<string> | 'any';
  readonly maxAgeSeconds: number;
}

/** The scalar options with their defaults filled in. */
export interface Settings {
  readonly basePath: string;
  readonly maxBodyBytes: number;
  readonly maxBufferedBytes: number;
  readonly bodyTimeoutMs: number;
  readonly holdMode: HoldMode;
  readonly emptyAnswerIsFree: boolean;
  readonly heartbeatMs: number | undefined;
  readonly answer: AnswerTerms;
  readonly timeouts: Timeouts;
  /** The URL of the outbound proxy, which may contain a password; `'environment'`; or undefined for none. */
  readonly proxy: string | undefined;
  readonly markup: MarkupTerms;
  readonly prices: PriceCatalog | undefined;
  readonly modelInfo: ModelCatalog | undefined;
  /** The models that are listed without a key. */
  readonly publicModels: ModelPatterns | undefined;
  readonly retries: Retries | undefined;
  readonly health: HealthChecks | undefined;
  readonly keyCacheMs: number;
  readonly closeTimeoutMs: number;
  readonly outboxDir: string | undefined;
  readonly journalRetentionDays: number;
  readonly usageRetentionDays: number;
  readonly requestLogDays: number;
  readonly requestLogMax: number;
  readonly cors: Cors | undefined;
  readonly clientRouting: ClientRoutingFields;
  readonly dimensions: DimensionSettings | undefined;
  readonly route: RouteSettings | undefined;
  readonly guard: GuardSettings | undefined;
  readonly sticky: StickySettings | undefined;
  readonly waitUntil: ((work: Promise<void>) => unknown) | undefined;
}

const DEFAULT_TIMEOUTS: Timeouts = {
  connectMs: 10_000,
  firstByteMs: 600_000,
  idleMs: 120_000,
  totalMs: 3_600_000,
};

const DEFAULT_RETRIES: Retries = { perTarget: 1, maxWaitMs: 5000, firstEventWaitMs: 1000 };
const DEFAULT_HEALTH: HealthChecks = { failures: 5, coolDownMs: 5000, maxCoolDownMs: 300_000 };

const KNOWN_OPTIONS: Record<keyof ChatCompletionsRouterOptions, true> = {
  providers: true,
  models: true,
  markup: true,
  resolveMarkup: true,
  prices: true,
  modelInfo: true,
  publicModels: true,
  store: true,
  authenticate: true,
  cacheKey: true,
  keyCacheMs: true,
  basePath: true,
  maxBodyBytes: true,
  maxBufferedBytes: true,
  bodyTimeoutMs: true,
  holdMode: true,
  emptyAnswerIsFree: true,
  heartbeatMs: true,
  answer: true,
  timeouts: true,
  proxy: true,
  retries: true,
  health: true,
  transport: true,
  closeTimeoutMs: true,
  outboxDir: true,
  journalRetentionDays: true,
  usageRetentionDays: true,
  requestLogDays: true,
  requestLogMax: true,
  hooks: true,
  waitUntil: true,
  cors: true,
  clientRouting: true,
  dimensions: true,
  route: true,
  guard: true,
  thresholds: true,
  sessions: true,
  sticky: true,
};

/**
 * Validates the scalar options and fills in their defaults.
 *
 * Uses no network, file or environment variable, because `next build` runs it, too.
 *
 * @throws {TypeError} with the option, the valid values and the given value
 */
export function resolveSettings(options: ChatCompletionsRouterOptions): Settings {
  assertObject(options, 'options', KNOWN_OPTIONS);
  checkHooks(options.hooks);
  for (const name of ['authenticate', 'cacheKey', 'resolveMarkup', 'waitUntil'] as const) {
    if (options[name] !== undefined && typeof options[name] !== 'function') {
      throw optionError(name, 'a function', options[name]);
    }
  }
  const { basePath = '', heartbeatMs, outboxDir, transport } = options;
  if (transport !== undefined && typeof transport.create !== 'function') {
    throw optionError('transport', 'what undiciTransport() returns', transport);
  }
  if (typeof basePath !== 'string' || (basePath !== '' && !basePath.startsWith('/'))) {
    throw optionError('basePath', 'a path with a leading slash', basePath);
  }
  if (outboxDir !== undefined && (typeof outboxDir !== 'string' || outboxDir === '')) {
    throw optionError('outboxDir', 'the path of a folder', outboxDir);
  }
  return {
    basePath: basePath.replace(/(?<!\/)\/+$/, ''),
    ...resolveBodyBytes(options),
    bodyTimeoutMs: milliseconds(options.bodyTimeoutMs ?? 60_000, 'bodyTimeoutMs'),
    ...resolveBilling(options),
    answer: resolveAnswer(options.answer, 'answer'),
    heartbeatMs: heartbeatMs === undefined ? undefined : milliseconds(heartbeatMs, 'heartbeatMs'),
    timeouts: resolveTimeouts(options.timeouts, DEFAULT_TIMEOUTS, 'timeouts'),
    proxy: resolveProxy(options.proxy, 'proxy'),
    prices: resolvePrices(options.prices),
    modelInfo: resolveModelCatalog(options.modelInfo),
    publicModels: resolvePublicModels(options.publicModels),
    markup: options.markup === undefined ? NO_MARKUP : parseMarkup(options.markup, 'markup'),
    retries: resolveRetries(options.retries),
    health: resolveHealth(options.health),
    keyCacheMs: milliseconds(options.keyCacheMs ?? 30_000, 'keyCacheMs'),
    closeTimeoutMs: milliseconds(options.closeTimeoutMs ?? 30_000, 'closeTimeoutMs'),
    outboxDir,
    journalRetentionDays: resolveJournalRetention(options.journalRetentionDays ?? 90),
    usageRetentionDays: resolveUsageRetention(options.usageRetentionDays ?? 400),
    requestLogDays: integerIn(0, 365, options.requestLogDays ?? 7, 'requestLogDays'),
    requestLogMax: integerIn(1, 10_000_000, options.requestLogMax ?? 100_000, 'requestLogMax'),
    cors: resolveCors(options.cors),
    clientRouting: resolveClientRouting(options.clientRouting),
    dimensions: resolveDimensions(options.dimensions),
    route: resolveRoute(options.route),
    guard: resolveGuard(options.guard),
    sticky: resolveSticky(options.sticky),
    waitUntil: options.waitUntil,
  };
}

/** The buffer always has room for one body of the maximum size. */
function resolveBodyBytes({
  maxBodyBytes: maxBytes = 33_554_432,
  maxBufferedBytes,
}: ChatCompletionsRouterOptions): Pick<Settings, 'maxBodyBytes' | 'maxBufferedBytes'> {
  const maxBodyBytes = positiveInteger(maxBytes, 'maxBodyBytes');
  if (maxBufferedBytes === undefined) {
    const usual = Math.min(268_435_456, Math.floor(getHeapStatistics().heap_size_limit / 4));
    return { maxBodyBytes, maxBufferedBytes: Math.max(usual, maxBodyBytes) };
  }
  if (positiveInteger(maxBufferedBytes, 'maxBufferedBytes') < maxBodyBytes)
    throw optionError('maxBufferedBytes', `maxBodyBytes (${maxBodyBytes}) or more`, maxBufferedBytes);
  return { maxBodyBytes, maxBufferedBytes };
}

const HOOKS: Record<keyof Hooks, true> = {
  onRequest: true,
  onResponse: true,
  onContent: true,
  maxContentBytes: true,
  onSettled: true,
  onError: true,
  onLedgerEvent: true,
  onThreshold: true,
  onHealthChange: true,
  onRouter: true,
  upstreamHeaders: true,
  keepsDefaultLog: true,
};

function checkHooks(given: Hooks | readonly Hooks[] = []): void {
  const several = Array.isArray(given);
  const all: readonly Hooks[] = several ? given : [given];
  for (const [index, hooks] of all.entries()) {
    const option = several ? `hooks[${index}]` : 'hooks';
    assertObject(hooks, option, HOOKS);
    const { maxContentBytes, ...functions } = hooks;
    if (maxContentBytes !== undefined) checkContentBytes(maxContentBytes, `${option}.maxContentBytes`);
    for (const [name, hook] of Object.entries(functions)) {
      const wanted = name === 'keepsDefaultLog' ? 'boolean' : 'function';
      if (hook !== undefined && typeof hook !== wanted)
        throw optionError(`${option}.${name}`, `a ${wanted}`, hook);
    }
  }
}

function checkContentBytes(given: number, option: string): void {
  if (Number.isSafeInteger(given) && given >= 1 && given <= 1_048_576) return;
  throw optionError(option, 'an integer from 1 to 1,048,576', given);
}

function resolvePrices(given: PriceCatalog | undefined): PriceCatalog | undefined {
  if (given !== undefined && typeof given?.find !== 'function') {
    throw optionError(
      'prices',
      "a price catalog, such as catalogPrices() of 'chat-completions-router/prices'",
      given,
    );
  }
  return given;
}

function resolveModelCatalog(given: ModelCatalog | undefined): ModelCatalog | undefined {
  if (given !== undefined && typeof given?.find !== 'function') {
    throw optionError('modelInfo', 'a model catalog, such as modelsDev(data)', given);
  }
  return given;
}

function resolvePublicModels(given: boolean | readonly string[] = false): ModelPatterns | undefined {
  if (given === false) return undefined;
  return parseModelPatterns(given === true ? ['*'] : given, 'publicModels');
}

function resolveClientRouting(given: boolean | ClientRoutingOptions = false): ClientRoutingFields {
  if (given === true) return new Set(['models', 'provider', 'providerOptions']);
  if (given === false) return new Set();
  assertObject(given, 'clientRouting', { models: true, provider: true });
  for (const name of ['models', 'provider'] as const) {
    if (!['boolean', 'undefined'].includes(typeof given[name]))
      throw optionError(`clientRouting.${name}`, 'a boolean', given[name]);
  }
  return new Set([
    ...(given.models ? ['models'] : []),
    ...(given.provider ? ['provider', 'providerOptions'] : []),
  ]);
}

function resolveCors(cors: boolean | CorsOptions = false): Cors | undefined {
  if (cors === false) return undefined;
  if (cors === true) return { origins: 'any', maxAgeSeconds: 600 };
  if (typeof cors !== 'object')
    throw optionError(
      'cors',
      "true, false or an object such as { origins: ['https://chat.example.com'] }",
      cors,
    );
  assertObject(cors, 'cors', { origins: true, maxAgeSeconds: true });
  const { origins, maxAgeSeconds = 600 } = cors;
  for (const origin of origins ?? []) {
    const isOrigin = typeof origin === 'string' && URL.canParse(origin) && new URL(origin).origin === origin;
    if (!isOrigin) throw optionError('cors.origins', "origins such as 'https://chat.example.com'", origin);
  }
  return {
    origins: origins ? new Set(origins) : 'any',
    maxAgeSeconds: positiveInteger(maxAgeSeconds, 'cors.maxAgeSeconds'),
  };
}

/** The options of billing and holds. */
function resolveBilling(
  options: ChatCompletionsRouterOptions,
): Pick<Settings, 'holdMode' | 'emptyAnswerIsFree'> {
  const { holdMode = 'clamp', emptyAnswerIsFree = false } = options;
  if (!['clamp', 'strict', 'adaptive'].includes(holdMode)) {
    throw optionError('holdMode', "'clamp', 'strict' or 'adaptive'", holdMode);
  }
  if (typeof emptyAnswerIsFree !== 'boolean')
    throw optionError('emptyAnswerIsFree', 'a boolean', emptyAnswerIsFree);
  return { holdMode, emptyAnswerIsFree };
}

/** Undefined members depend on the provider. */
export type AnswerTerms = { readonly [name in keyof AnswerOptions]-?: AnswerOptions[name] | undefined };

const ANSWER_VALUES = {
  model: ['ours', 'theirs'],
  provider: ['hide', 'show'],
  cost: ['ours', 'hide', 'theirs'],
};

/** @param defaults - for members that aren't given */
export function resolveAnswer(
  given: AnswerOptions = {},
  option: string,
  defaults?: AnswerTerms,
): AnswerTerms {
  assertObject(given, option, ANSWER_VALUES);
  for (const name of ['model', 'provider', 'cost'] as const) {
    const values: readonly string[] = ANSWER_VALUES[name];
    const value = given[name];
    if (value !== undefined && !values.includes(value)) {
      throw oneOfError(`${option}.${name}`, values, value);
    }
  }
  return {
    model: given.model ?? defaults?.model,
    provider: given.provider ?? defaults?.provider,
    cost: given.cost ?? defaults?.cost,
  };
}

function resolveJournalRetention(days: number): number {
  return days === Infinity ? Infinity : positiveInteger(days, 'journalRetentionDays');
}

/** A request may be corrected for a day after it ended, and its usage row must still exist then. */
function resolveUsageRetention(days: number): number {
  if (days === Infinity || (Number.isSafeInteger(days) && days >= 2)) return days;
  throw optionError('usageRetentionDays', 'an integer of 2 or more, or Infinity', days);
}

/** The given timeouts, with defaults for the others. */
export function resolveTimeouts(
  given: TimeoutOptions | undefined,
  defaults: Timeouts,
  option: string,
): Timeouts {
  if (given === undefined) return defaults;
  assertObject(given, option, defaults);
  const timeout = (name: keyof Timeouts): number =>
    given[name] === undefined ? defaults[name] : milliseconds(given[name], `${option}.${name}`);
  return {
    connectMs: timeout('connectMs'),
    firstByteMs: timeout('firstByteMs'),
    idleMs: timeout('idleMs'),
    totalMs: timeout('totalMs'),
  };
}

/** @throws {TypeError} without the given value, which may contain a password */
export function resolveProxy(given: OutboundProxyOption | undefined, option: string): string | undefined {
  if (given === undefined || given === false) return undefined;
  if (given === 'environment' || (typeof given === 'string' && isProxyURL(given))) return given;
  throw new TypeError(`${option} must be 'environment', false, or a URL as http://user:password@host:port`);
}

function isProxyURL(given: string): boolean {
  const url = URL.parse(given);
  if (!url || !['http:', 'https:'].includes(url.protocol)) return false;
  return url.pathname === '/' && url.search === '' && url.hash === '';
}

function resolveRetries(given: RetryOptions | false | undefined): Retries | undefined {
  if (given === false) return undefined;
  if (given !== undefined) assertObject(given, 'retries', DEFAULT_RETRIES);
  const { perTarget, maxWaitMs, firstEventWaitMs } = { ...DEFAULT_RETRIES, ...given };
  if (perTarget !== 0) positiveInteger(perTarget, 'retries.perTarget');
  return {
    perTarget,
    maxWaitMs: milliseconds(maxWaitMs, 'retries.maxWaitMs'),
    firstEventWaitMs: milliseconds(firstEventWaitMs, 'retries.firstEventWaitMs'),
  };
}

function resolveHealth(given: HealthCheckOptions | false | undefined): HealthChecks | undefined {
  if (given === false) return undefined;
  if (given !== undefined) assertObject(given, 'health', DEFAULT_HEALTH);
  const { failures, coolDownMs, maxCoolDownMs } = { ...DEFAULT_HEALTH, ...given };
  if (given?.maxCoolDownMs !== undefined && given.coolDownMs !== undefined && coolDownMs > maxCoolDownMs) {
    throw optionError('health.maxCoolDownMs', `health.coolDownMs (${coolDownMs}) or more`, maxCoolDownMs);
  }
  return {
    failures: positiveInteger(failures, 'health.failures'),
    coolDownMs: milliseconds(coolDownMs, 'health.coolDownMs'),
    maxCoolDownMs: milliseconds(maxCoolDownMs, 'health.maxCoolDownMs'),
  };
}
