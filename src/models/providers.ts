import {
  type OnClientGone,
  type OutputLimitField,
  type ProviderOptions,
  type StreamUsage,
} from '../options.ts';
import { checkRecord, resolveTimeouts, type Timeouts, wrong } from '../settings.ts';
import { PRESETS } from './presets.ts';

/** A provider with everything worked out that doesn't change from request to request. */
export interface Provider {
  readonly name: string;
  /** Scheme, host and port; requests name their path themselves. */
  readonly origin: URL;
  /** Path and query of its chat completions. */
  readonly chatPath: string;
  /** Sent with every request, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly authHeader: string;
  /** What stands before the key, with its blank: `'Bearer '`. */
  readonly authPrefix: string;
  /** The key to send; undefined when the provider takes none. Asked once an attempt. */
  readonly apiKey: (() => string | undefined | Promise<string | undefined>) | undefined;
  readonly streamUsage: StreamUsage;
  readonly outputLimitField: OutputLimitField;
  readonly onClientGone: OnClientGone;
  readonly timeouts: Timeouts;
}

const PROVIDER_OPTIONS: Record<keyof ProviderOptions, true> = {
  preset: true,
  baseURL: true,
  apiKey: true,
  auth: true,
  headers: true,
  query: true,
  streamUsage: true,
  outputLimitField: true,
  onClientGone: true,
  timeouts: true,
};

/** Framing and routing belong to the transport, whatever an operator writes into `headers`. */
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

/** @throws {TypeError} naming the option that can't be right */
export function resolveProvider(name: string, given: ProviderOptions, timeouts: Timeouts): Provider {
  const option = `providers[${JSON.stringify(name)}]`;
  checkRecord(given, option, PROVIDER_OPTIONS);
  const presetName = given.preset ?? name;
  const preset = Object.hasOwn(PRESETS, presetName) ? PRESETS[presetName] : undefined;
  if (given.preset !== undefined && !preset) {
    throw wrong(`${option}.preset`, `one of ${Object.keys(PRESETS).join(', ')}`, given.preset);
  }
  const {
    streamUsage = 'option',
    outputLimitField = 'max_tokens',
    onClientGone = 'abort',
  } = { ...preset, ...given };
  if (!['option', 'native', 'rejected', 'none'].includes(streamUsage)) {
    throw wrong(`${option}.streamUsage`, "'option', 'native', 'rejected' or 'none'", streamUsage);
  }
  if (outputLimitField !== 'max_tokens' && outputLimitField !== 'max_completion_tokens') {
    throw wrong(`${option}.outputLimitField`, "'max_tokens' or 'max_completion_tokens'", outputLimitField);
  }
  if (onClientGone !== 'abort' && onClientGone !== 'drain') {
    throw wrong(`${option}.onClientGone`, "'abort' or 'drain'", onClientGone);
  }
  const base = parseBaseURL(given.baseURL ?? preset?.baseURL, option);
  const auth = given.auth ?? { header: 'authorization', scheme: 'Bearer' };
  const authHeader = headerName(auth.header, `${option}.auth.header`);
  if (auth.scheme !== undefined && !/^[\w-]+$/.test(auth.scheme)) {
    throw wrong(`${option}.auth.scheme`, "a word, as 'Bearer'", auth.scheme);
  }
  return {
    name,
    origin: new URL(base.origin),
    chatPath: `${base.pathname.replace(/\/+$/, '')}/chat/completions${queryString(base, given.query)}`,
    headers: resolveHeaders(given.headers, authHeader, `${option}.headers`),
    authHeader,
    authPrefix: auth.scheme ? `${auth.scheme} ` : '',
    apiKey: resolveApiKey(given.apiKey, preset !== undefined && !preset.keyless, option),
    streamUsage,
    outputLimitField,
    onClientGone,
    timeouts: resolveTimeouts(given.timeouts, timeouts, `${option}.timeouts`),
  };
}

function parseBaseURL(baseURL: string | undefined, option: string): URL {
  if (baseURL === undefined) {
    throw new TypeError(
      `${option}.baseURL is missing, and no preset has this name (there are ${Object.keys(PRESETS).join(', ')})`,
    );
  }
  const url = URL.canParse(baseURL) ? new URL(baseURL) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw wrong(`${option}.baseURL`, 'an absolute http(s) URL', baseURL);
  if (url.username || url.password) {
    throw new TypeError(`${option}.baseURL must not hold credentials; use apiKey and auth`);
  }
  return url;
}

function queryString(base: URL, query: ProviderOptions['query']): string {
  if (!query) return base.search;
  const parameters = new URLSearchParams(base.search);
  for (const [name, value] of Object.entries(query)) parameters.set(name, value);
  return parameters.size > 0 ? `?${parameters.toString()}` : '';
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
      throw new TypeError(`${option} must not hold ${lowerCase}: it is set for each request`);
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
    throw wrong(option, 'a header name', name);
  return name.toLowerCase();
}

function resolveApiKey(
  given: ProviderOptions['apiKey'],
  needed: boolean,
  option: string,
): Provider['apiKey'] {
  if (typeof given === 'function') return given;
  if (typeof given === 'string' && given !== '') return () => given;
  // Never show what was given: it may be half a key.
  if (given !== undefined) throw new TypeError(`${option}.apiKey must be a non-empty string or a function`);
  if (needed) throw new TypeError(`${option}.apiKey is missing: give a string, or a function that reads it`);
  return undefined;
}
