import { trimSlashes } from '../http/url.ts';
import { assertObject, optionError } from '../options/resolve-options.ts';

/** The endpoints of a provider. */
export interface Address {
  /** Scheme, host and port. */
  readonly origin: URL;
  /** Path and query of chat completions for a model; a base URL with `{model}` has the model in its path. */
  readonly chatPath: (model: string) => string;
  /** Path and query of the list of models; undefined if each model has its own path. */
  readonly modelsPath: string | undefined;
}

export interface AddressOptions {
  /** May contain `{names}` to be filled from `variables`. */
  readonly baseURL: string;
  readonly variables: Readonly<Record<string, string>> | undefined;
  readonly query: Readonly<Record<string, string>>;
}

/** Fills in the variables of a base URL, and appends path and query.
 *
 * @param option - path of the provider's option, for messages: `providers["azure"]`
 * @throws {TypeError} naming the missing or invalid option
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

/** The names of a base URL's variables. */
export function variablesOf(baseURL: string): ReadonlySet<string> {
  const names = [...baseURL.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  return new Set(names.filter((name) => name !== 'model'));
}

/** `{model}`, percent-encoded by the URL parser. */
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
    // A part of one host label or path segment: no separators.
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
    throw new TypeError(`${option}.baseURL must not contain credentials; use apiKey and auth`);
  }
  if (/\{model\}|%7Bmodel/i.test(url.host + url.search)) {
    throw new TypeError(`${option}.baseURL may contain {model} only in its path`);
  }
  return url;
}
