import { trimSlashes } from '../http/url.ts';
import { assertObject, optionError } from '../options/resolve-options.ts';

/** Where a provider is asked. */
export interface Address {
  /** Scheme, host and port. */
  readonly origin: URL;
  /** Path and query of its chat completions for a model; the model's name stands in them where the base URL says so. */
  readonly chatPath: (model: string) => string;
  /** Path and query of its list of models; undefined where each model has a path of its own. */
  readonly modelsPath: string | undefined;
}

/** What an address is made of. */
export interface AddressOptions {
  /** With `{names}` to be filled in. */
  readonly baseURL: string;
  readonly variables: Readonly<Record<string, string>> | undefined;
  readonly query: Readonly<Record<string, string>>;
}

/**
 * Fills in a base URL, and joins path and query to it.
 *
 * @param option - of the provider, for the message: `providers["azure"]`
 * @throws {TypeError} naming the option that is missing or can't be right
 */
export function resolveAddress({ baseURL, variables, query }: AddressOptions, option: string): Address {
  const url = parse(fill(baseURL, variables, option), option);
  const parameters = new URLSearchParams(url.search);
  for (const [name, value] of Object.entries(query)) parameters.set(name, value);
  const search = Object.keys(query).length === 0 ? url.search : `?${parameters.toString()}`;
  const base = trimSlashes(url.pathname);
  const path = `${base}/chat/completions${search}`;
  const [before = '', ...others] = path.split(MODEL_IN_PATH);
  return {
    origin: new URL(url.origin),
    modelsPath: others.length === 0 ? `${base}/models${search}` : undefined,
    chatPath: (model) => (others.length === 0 ? path : [before, ...others].join(encodeURIComponent(model))),
  };
}

/** The names that a base URL leaves to `variables`. */
export function variablesOf(baseURL: string): ReadonlySet<string> {
  const names = [...baseURL.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  return new Set(names.filter((name) => name !== 'model'));
}

/** `{model}`, as it stands in a path that was parsed. */
const MODEL_IN_PATH = '%7Bmodel%7D';

function fill(baseURL: string, variables: AddressOptions['variables'], option: string): string {
  const names = variablesOf(baseURL);
  assertObject(
    variables ?? {},
    `${option}.variables`,
    Object.fromEntries([...names].map((name) => [name, true])),
  );
  let filled = baseURL;
  for (const name of names) {
    const value = variables?.[name];
    if (value === undefined) {
      throw new TypeError(`${option}.variables.${name} is missing: the base URL is ${baseURL}`);
    }
    // Part of a host name or of a path, never more than the one part.
    if (typeof value !== 'string' || !/^\w[\w.-]*$/.test(value)) {
      throw optionError(`${option}.variables.${name}`, 'a name of A-Z a-z 0-9 _ . -', value);
    }
    filled = filled.replaceAll(`{${name}}`, () => value);
  }
  return filled;
}

function parse(baseURL: string, option: string): URL {
  const url = URL.canParse(baseURL) ? new URL(baseURL) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw optionError(`${option}.baseURL`, 'an absolute http(s) URL', baseURL);
  }
  if (url.username || url.password) {
    throw new TypeError(`${option}.baseURL must not hold credentials; use apiKey and auth`);
  }
  if (/\{model\}|%7Bmodel/i.test(url.host + url.search)) {
    throw new TypeError(`${option}.baseURL can hold {model} in its path only`);
  }
  return url;
}
