import { KNOWN_PROVIDERS } from '../known-providers.ts';
import { Variable } from './config-source.ts';
import { environmentName, isRecord, type Notes, nonEmptyText, type YamlRecord } from './values.ts';

/** LiteLLM's name of a provider → our preset, where they differ. */
const PRESET_OF: Readonly<Record<string, string>> = {
  azure: 'azure-deployments',
  cohere_chat: 'cohere',
  dashscope: 'qwen',
  fireworks_ai: 'fireworks',
  hosted_vllm: 'vllm',
  lm_studio: 'lmstudio',
  nvidia_nim: 'nvidia',
  ollama_chat: 'ollama',
  together_ai: 'together',
  vercel_ai_gateway: 'vercel',
  vertex_ai: 'vertex',
  zai: 'zhipu',
};

/** Providers whose address LiteLLM takes without the version that ours needs. */
const PATH_OF: Readonly<Record<string, string>> = { ollama: '/v1', lmstudio: '', vllm: '' };

const SELF_HOSTED: ReadonlySet<string> = new Set(['ollama', 'lmstudio', 'vllm', 'llamacpp']);

/** Models without a provider's name are of OpenAI or Anthropic. */
function splitModel(model: string, given: string | undefined): readonly [provider: string, model: string] {
  const slash = model.indexOf('/');
  if (given !== undefined) {
    return [given, model.startsWith(`${given}/`) ? model.slice(given.length + 1) : model];
  }
  if (slash > 0) return [model.slice(0, slash), model.slice(slash + 1)];
  return [model.startsWith('claude') ? 'anthropic' : 'openai', model];
}

export interface FoundTarget {
  /** Name in `providers`. */
  readonly provider: string;
  readonly preset: string | undefined;
  readonly model: string;
}

/** Collects the entries of `providers`: one for each combination of preset, address and key. */
export class Providers {
  /** Name → options. */
  readonly entries: Record<string, Record<string, unknown>> = {};
  readonly #names = new Map<string, string>();
  /** Key in the file → the variable for it. */
  readonly #variables = new Map<string, string>();
  readonly #notes: Notes;

  constructor(notes: Notes) {
    this.#notes = notes;
  }

  /** The target of a deployment; undefined, with a note, if its provider can't be called. */
  find(parameters: YamlRecord, where: string): FoundTarget | undefined {
    const [theirs, model] = splitModel(
      nonEmptyText(parameters['model']) ?? '',
      nonEmptyText(parameters['custom_llm_provider']),
    );
    const base = parameters['api_base'] ?? parameters['base_url'];
    const name = hostName(theirs, base) ?? PRESET_OF[theirs] ?? theirs;
    const known = KNOWN_PROVIDERS.find((each) => each.name === name);
    if (!known && base === undefined) {
      this.#notes.add(where, `left out: ${theirs} has no preset here, and the model has no api_base`);
      return undefined;
    }
    const options: Record<string, unknown> = {
      ...this.#address(name, base, parameters),
      ...headersOf(parameters),
    };
    const missing = Object.keys(known?.variables ?? {}).filter((variable) => {
      const variables = options['variables'];
      return options['baseURL'] === undefined && !(isRecord(variables) && variable in variables);
    });
    if (missing.length > 0) {
      this.#notes.add(where, `left out: ${name} needs ${missing.join(', ')}, which the file does not name`);
      return undefined;
    }
    if (name === 'bedrock' && !model.startsWith('openai.')) {
      this.#notes.add(where, "Bedrock's OpenAI-compatible API serves only some models: check this one");
    }
    const key = this.#key(name, known?.variable, parameters['api_key'], where);
    if (key) options['apiKey'] = key;
    return { provider: this.#register(name, known !== undefined, options), preset: known?.name, model };
  }

  #address(name: string, base: unknown, parameters: YamlRecord): Record<string, unknown> {
    const version = nonEmptyText(parameters['api_version']);
    const query =
      version !== undefined && name === 'azure-deployments'
        ? { query: { 'api-version': variableOr(version) } }
        : {};
    const variable = environmentName(base);
    const path = name === 'azure-deployments' ? '/openai/deployments/{model}' : (PATH_OF[name] ?? '');
    if (variable !== undefined) {
      if (path !== '') this.#notes.add(variable, `a path is added to it: set it without a slash at its end`);
      return { baseURL: new Variable(variable, { suffix: path }), ...query };
    }
    const resource = /^https:\/\/([\w-]+)\.openai\.azure\.com\/?$/.exec(nonEmptyText(base) ?? '')?.[1];
    if (resource !== undefined) return { variables: { resource }, ...query };
    const region = nonEmptyText(parameters['aws_region_name']);
    if (name === 'bedrock' && region !== undefined) return { variables: { region: variableOr(region) } };
    const [project, location] = [parameters['vertex_project'], parameters['vertex_location']].map(
      nonEmptyText,
    );
    if (name === 'vertex' && project !== undefined && location !== undefined) {
      return { variables: { project: variableOr(project), location: variableOr(location) } };
    }
    const given = nonEmptyText(base);
    const address = given?.endsWith('/') ? given.slice(0, -1) : given;
    if (address === undefined) return query;
    return { baseURL: path !== '' && !address.endsWith(path) ? address + path : address, ...query };
  }

  #key(name: string, usual: string | undefined, given: unknown, where: string): Variable | undefined {
    const named = environmentName(given);
    if (named !== undefined) return new Variable(named, { isSecret: true });
    const literal = nonEmptyText(given);
    if (literal === undefined) {
      // A server on this machine needs none; LiteLLM sends the provider's usual one otherwise.
      const variable = usual ?? (SELF_HOSTED.has(name) ? undefined : variableOf(name));
      return variable === undefined ? undefined : new Variable(variable, { isSecret: true });
    }
    // A variable of its own: the usual one may hold another key, which must not be sent to this address.
    let variable = this.#variables.get(literal);
    for (let n = 1; variable === undefined; n++) {
      const free = variableOf(n === 1 ? name : `${name}-${n}`);
      if (![...this.#variables.values(), usual].includes(free)) variable = free;
    }
    this.#variables.set(literal, variable);
    this.#notes.add(
      `${where} api_key`,
      `the key itself is in the file: put it into ${variable} of the environment`,
    );
    return new Variable(variable, { isSecret: true });
  }

  /** The name of the entry with these options, which is made if there is none. */
  #register(name: string, isPreset: boolean, options: Record<string, unknown>): string {
    const id = JSON.stringify([name, options]);
    const found = this.#names.get(id);
    if (found !== undefined) return found;
    let free = name;
    for (let n = 2; Object.hasOwn(this.entries, free); n++) free = `${name}-${n}`;
    this.#names.set(id, free);
    this.entries[free] = { ...(isPreset && free !== name && { preset: name }), ...options };
    return free;
  }
}

/** The name of a server that only speaks as OpenAI does: its host. */
function hostName(theirs: string, base: unknown): string | undefined {
  const address = nonEmptyText(base);
  if (!['openai', 'litellm_proxy', 'text-completion-openai'].includes(theirs) || address === undefined)
    return undefined;
  if (!URL.canParse(address)) return `${theirs}-compatible`;
  const { host } = new URL(address);
  return host === 'api.openai.com' ? undefined : host.replaceAll(/[^a-z0-9]+/gi, '-');
}

function variableOf(name: string): string {
  return `${name
    .toUpperCase()
    .replaceAll(/\W/g, '_')
    .replace(/^(?=\d)/, 'KEY_')}_API_KEY`;
}

function headersOf(parameters: YamlRecord): Record<string, unknown> {
  const extra = parameters['extra_headers'];
  const organization = nonEmptyText(parameters['organization']);
  const headers = {
    ...(isRecord(extra) &&
      Object.fromEntries(Object.entries(extra).map(([name, value]) => [name, variableOr(String(value))]))),
    ...(organization !== undefined && {
      'openai-organization': variableOr(organization),
    }),
  };
  return Object.keys(headers).length > 0 ? { headers } : {};
}

/** The text; the variable, where it is a reference to the environment. */
function variableOr(value: string): string | Variable {
  const name = environmentName(value);
  return name === undefined ? value : new Variable(name);
}
