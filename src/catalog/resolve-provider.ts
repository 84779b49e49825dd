import { isDeepStrictEqual } from 'node:util';

import { WINDOW_PERIODS } from '../ledger/contract/key-records.ts';
import { parseUsd } from '../ledger/contract/money.ts';
import type { UsageDialect } from '../metering/usage-dialects.ts';
import { KEY_FAULT, SENDABLE_KEY } from '../options/option-checks.ts';
import type { ApiKeySource, OutputLimitField, ProviderOptions } from '../options/provider-options.ts';
import {
  assertObject,
  oneOfError,
  resolveTimeouts,
  type Settings,
  optionError,
} from '../options/resolve-options.ts';
import { resolveUpstreamLimits } from '../options/upstream-limits.ts';
import { suggestion } from '../platform/did-you-mean.ts';
import { resolveAddress } from './base-url.ts';
import { resolveConnection } from './connection.ts';
import { resolveBodyRules } from './resolve-body-rules.ts';
import { resolveDiscovery } from './discovery-options.ts';
import { PRESET_FIELDS, type PresetFields } from './preset-fields.ts';
import { type Preset, PRESETS } from './presets.ts';
import type { OutputLimits, Provider } from './provider.ts';

const PROVIDER_OPTIONS: Record<keyof ProviderOptions, true> = {
  preset: true,
  baseURL: true,
  variables: true,
  apiKey: true,
  apiKeys: true,
  auth: true,
  headers: true,
  query: true,
  streamUsage: true,
  usage: true,
  outputLimitField: true,
  onDisconnect: true,
  marksEnd: true,
  timeouts: true,
  body: true,
  models: true,
  proxy: true,
  tls: true,
  localAddress: true,
  lookup: true,
  maxConnections: true,
  keepWarm: true,
  limits: true,
  stopAt: true,
};

/** Headers for framing and routing, which the option `headers` can't set. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Longest name that stores keep costs of. */
const MAX_STOPPED_NAME = 256;

/** The router's own options, for those that a provider doesn't set. */
export type ProviderDefaults = Pick<Settings, 'timeouts' | 'proxy'>;

/** @throws {TypeError} naming the invalid option */
export function resolveProvider(name: string, given: ProviderOptions, defaults: ProviderDefaults): Provider {
  const option = `providers[${JSON.stringify(name)}]`;
  assertObject(given, option, PROVIDER_OPTIONS);
  const presetName = given.preset ?? name;
  const preset = Object.hasOwn(PRESETS, presetName) ? PRESETS[presetName] : undefined;
  if (given.preset !== undefined && !preset) {
    throw oneOfError(`${option}.preset`, Object.keys(PRESETS), given.preset);
  }
  const fields = preset && PRESET_FIELDS[presetName];
  const baseURL = given.baseURL ?? preset?.baseURL;
  if (baseURL === undefined) {
    const presets = Object.keys(PRESETS);
    const missing = `${option}.baseURL is missing, and no preset has this name`;
    throw new TypeError(`${missing}${suggestion(name, presets)} (presets: ${presets.join(', ')})`);
  }
  if (given.models !== undefined && /\{model\}|%7Bmodel%7D/i.test(baseURL)) {
    throw new TypeError(`${option}.models: a base URL with {model} has no list of models`);
  }
  const query = { ...preset?.query, ...given.query };
  const auth = given.auth ?? preset?.auth ?? { header: 'authorization', scheme: 'Bearer' };
  const authHeader = headerName(auth.header, `${option}.auth.header`);
  if (auth.scheme !== undefined && !/^[\w-]+$/.test(auth.scheme)) {
    throw optionError(`${option}.auth.scheme`, "a word, as 'Bearer'", auth.scheme);
  }
  const address = resolveAddress({ baseURL, variables: given.variables, query }, option);
  const timeouts = resolveTimeouts(given.timeouts, defaults.timeouts, `${option}.timeouts`);
  const { connectMs } = timeouts;
  const outputLimits = resolveOutputLimits(given.outputLimitField, fields, `${option}.outputLimitField`);
  return {
    name,
    preset: preset && presetName,
    ...address,
    headers: resolveHeaders(given.headers, authHeader, `${option}.headers`),
    authHeader,
    authPrefix: auth.scheme ? `${auth.scheme} ` : '',
    apiKeys: resolveApiKeys(given, preset !== undefined && !preset.keyless, option),
    ...resolveBehavior({ ...preset, ...given }, preset?.usage, option),
    outputLimits,
    imageTokens: fields?.imageTokens,
    serviceTiers: fields?.serviceTiers,
    // OpenRouter's name, which others have adopted.
    reportedCost: fields ? fields.reportedCost : 'cost',
    reportsAllCost: fields?.reportsAllCost === true,
    marksEnd: resolveMarksEnd(given.marksEnd, preset !== undefined, option),
    timeouts,
    connection: resolveConnection(address.origin, given, { proxy: defaults.proxy, connectMs }, option),
    limits: resolveUpstreamLimits(given.limits, `${option}.limits`),
    bodyRules: resolveBodyRules(given.body, outputLimits, `${option}.body`),
    discovery: resolveDiscovery(given.models, name, `${option}.models`),
    stopAt: resolveStop(name, given.stopAt, `${option}.stopAt`),
  };
}

/** Whether two providers have the same configuration and keys; functions are compared by identity. */
export function isSameProvider(one: Provider, other: Provider): boolean {
  return isDeepStrictEqual(comparable(one), comparable(other));
}

function comparable({ chatPath, ...rest }: Provider): unknown {
  return { ...rest, path: chatPath('{model}') };
}

function resolveStop(name: string, given: ProviderOptions['stopAt'], option: string): Provider['stopAt'] {
  if (given === undefined) return undefined;
  assertObject(given, option, { amount: true, per: true });
  if (name.length > MAX_STOPPED_NAME) {
    throw new TypeError(`${option} needs a provider's name of at most ${MAX_STOPPED_NAME} characters`);
  }
  const amount = parseUsd(given.amount, `${option}.amount`);
  if (amount <= 0n) throw optionError(`${option}.amount`, 'more than 0', given.amount);
  const per = WINDOW_PERIODS.find((each) => each === given.per);
  if (!per) throw oneOfError(`${option}.per`, WINDOW_PERIODS, given.per);
  return { amount, per };
}

/** All providers with a preset send a `finish_reason`, even those without `[DONE]`. */
function resolveMarksEnd(given: unknown, hasPreset: boolean, option: string): boolean | undefined {
  if (given === undefined) return hasPreset || undefined;
  if (typeof given !== 'boolean') throw optionError(`${option}.marksEnd`, 'a boolean', given);
  return given;
}

/** The options about how a provider answers.
 *
 * @param presetUsage - how the preset counts what `usage` doesn't name
 */
function resolveBehavior(
  given: ProviderOptions | Preset,
  presetUsage: UsageDialect | undefined,
  option: string,
): Pick<Provider, 'streamUsage' | 'usage' | 'onDisconnect'> {
  const { streamUsage = 'option', usage = {}, onDisconnect } = given;
  if (!['option', 'native', 'rejected', 'none'].includes(streamUsage)) {
    throw optionError(`${option}.streamUsage`, "'option', 'native', 'rejected' or 'none'", streamUsage);
  }
  assertObject(usage, `${option}.usage`, { cached: true, reasoning: true });
  if (!['inside', 'outside', 'either'].includes(usage.cached ?? 'inside')) {
    throw optionError(`${option}.usage.cached`, "'inside', 'outside' or 'either'", usage.cached);
  }
  if (!['inside', 'outside'].includes(usage.reasoning ?? 'inside')) {
    throw optionError(`${option}.usage.reasoning`, "'inside' or 'outside'", usage.reasoning);
  }
  if (onDisconnect !== undefined && onDisconnect !== 'abort' && onDisconnect !== 'drain') {
    throw optionError(`${option}.onDisconnect`, "'abort' or 'drain'", onDisconnect);
  }
  return { streamUsage, usage: { ...presetUsage, ...usage }, onDisconnect };
}

/** An unknown server obeys the configured field, and perhaps the other one. */
function resolveOutputLimits(
  given: OutputLimitField | undefined,
  fields: PresetFields | undefined,
  option: string,
): OutputLimits {
  if (given !== undefined && given !== 'max_tokens' && given !== 'max_completion_tokens') {
    throw optionError(option, "'max_tokens' or 'max_completion_tokens'", given);
  }
  const [first, ...rest] = fields?.limits ?? ['max_tokens'];
  const obeyed = given ?? first;
  const others = [first, ...rest].filter((field) => fields && field !== obeyed);
  return {
    obeyed: [obeyed, ...others],
    only: fields !== undefined,
    boundAll: fields?.limitsAnswerOnly !== true,
  };
}

function resolveHeaders(
  given: ProviderOptions['headers'],
  authHeader: string,
  option: string,
): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given ?? {})) {
    const lowerCase = headerName(name, `${option}[${JSON.stringify(name)}]`);
    if (RESERVED_HEADERS.has(lowerCase) || lowerCase === authHeader) {
      throw new TypeError(`${option} must not contain ${lowerCase}: it is set for each request`);
    }
    if (typeof value !== 'string' || /[^\t\u0020-\u007e]/.test(value)) {
      throw new TypeError(`${option}.${lowerCase} must be a string of printable ASCII`);
    }
    headers[lowerCase] = value;
  }
  return headers;
}

function headerName(name: unknown, option: string): string {
  if (typeof name !== 'string' || !/^[!#$%&'*+.^_`|~\w-]+$/.test(name))
    throw optionError(option, 'a header name', name);
  return name.toLowerCase();
}

function resolveApiKeys(
  { apiKey, apiKeys }: ProviderOptions,
  needed: boolean,
  option: string,
): readonly ApiKeySource[] {
  if (apiKey !== undefined && apiKeys !== undefined) {
    throw new TypeError(`${option} has both apiKey and apiKeys: use one of them`);
  }
  // Never show the value: it may be part of a key.
  if (apiKey !== undefined) {
    if (!isSource(apiKey)) throw new TypeError(`${option}.apiKey must be a non-empty string or a function`);
    assertSendable(apiKey, `${option}.apiKey`);
    return [apiKey];
  }
  if (apiKeys !== undefined) {
    if (!Array.isArray(apiKeys) || apiKeys.length === 0 || !apiKeys.every(isSource))
      throw new TypeError(`${option}.apiKeys must be a list of non-empty strings or functions`);
    for (const [n, each] of apiKeys.entries()) assertSendable(each, `${option}.apiKeys[${n}]`);
    return [...apiKeys];
  }
  if (needed) throw new TypeError(`${option}.apiKey is missing: use a string, or a function that returns it`);
  return [];
}

function assertSendable(key: ApiKeySource, option: string): void {
  if (typeof key === 'string' && !SENDABLE_KEY.test(key)) throw new TypeError(`${option} ${KEY_FAULT}`);
}

function isSource(given: unknown): boolean {
  return typeof given === 'function' || (typeof given === 'string' && given !== '');
}
