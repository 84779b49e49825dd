import { PRESETS } from '../../../catalog/presets.ts';
import type { PriceCatalog } from '../../../options/model-options.ts';
import { Call } from './config-source.ts';
import type { FoundTarget, Providers } from './providers.ts';
import { isRecord, type Notes, positive, records, nonEmptyText, type YamlRecord } from './values.ts';

/** Prices per token: LiteLLM's name → ours, per million tokens. */
const PRICES = {
  input_cost_per_token: 'input',
  output_cost_per_token: 'output',
  cache_read_input_token_cost: 'cachedInput',
  cache_creation_input_token_cost: 'cacheWriteInput',
} as const;

/** Parameters that become defaults of the request. */
const DEFAULTS = [
  'temperature',
  'top_p',
  'seed',
  'stop',
  'presence_penalty',
  'frequency_penalty',
  'reasoning_effort',
  'user',
];

/** LiteLLM's limits of a deployment → ours of a target. */
const LIMITS = {
  rpm: 'requestsPerMinute',
  tpm: 'tokensPerMinute',
  max_parallel_requests: 'concurrentRequests',
} as const;

/** Parameters that are read, and need no note. */
const READ: ReadonlySet<string> = new Set([
  ...Object.keys(PRICES),
  ...DEFAULTS,
  'model',
  'api_base',
  'base_url',
  'api_key',
  'api_version',
  'custom_llm_provider',
  'organization',
  'extra_headers',
  'weight',
  'order',
  'aws_region_name',
  'vertex_project',
  'vertex_location',
]);

const ENFORCED =
  'a limit of the target, which is enforced: full targets are skipped; where all are, clients get a 429';

const WHY_NOT: Readonly<Record<string, string>> = {
  rpm: ENFORCED,
  tpm: ENFORCED,
  max_parallel_requests: ENFORCED,
  timeout: 'timeouts are set per provider: timeouts.totalMs',
  stream_timeout: 'timeouts are set per provider: timeouts.firstByteMs and idleMs',
  max_tokens: 'a default limit of the output is maxOutputTokens with enforceOutputLimit: insert',
  max_retries: 'set once for all models: retries.perTarget',
  num_retries: 'set once for all models: retries.perTarget',
  aws_access_key_id: 'Bedrock is called with its API keys, not with signatures: AWS_BEARER_TOKEN_BEDROCK',
  aws_secret_access_key: 'Bedrock is called with its API keys, not with signatures: AWS_BEARER_TOKEN_BEDROCK',
  vertex_credentials:
    'Vertex takes access tokens, which expire: make apiKey an async function that returns one',
};

const NOT_CHAT: Readonly<Record<string, RegExp>> = {
  embeddings: /^text-embedding|embed/,
  images: /^(dall-e|gpt-image|imagen)|stable-diffusion|flux/,
  audio: /^(whisper|tts-)/,
  completions: /instruct$/,
  moderations: /moderation/,
  rerank: /rerank/,
};

const DEFAULT_MAX_OUTPUT = 16_384;

interface Deployment extends FoundTarget {
  readonly where: string;
  readonly parameters: YamlRecord;
  readonly info: YamlRecord;
}

/** The options of a model, by its ID. */
export type ModelEntries = Record<string, Record<string, unknown>>;

/** Converts `model_list`: deployments with one name become targets of one model. */
export function convertModels(
  list: unknown,
  strategy: string,
  providers: Providers,
  catalog: PriceCatalog | undefined,
  notes: Notes,
): ModelEntries {
  const groups = new Map<string, Deployment[]>();
  for (const [n, entry] of records(list).entries()) {
    const id = nonEmptyText(entry['model_name']);
    const where = `model_list[${n}] (${id ?? 'unnamed'})`;
    const found = id === undefined ? undefined : deployment(entry, where, providers, notes);
    if (id !== undefined && found) groups.set(id, [...(groups.get(id) ?? []), found]);
  }
  const models: ModelEntries = {};
  for (const [id, deployments] of groups) {
    const model = modelOf(id, deployments, strategy, catalog, notes);
    if (model) models[id] = model;
  }
  return models;
}

function deployment(
  entry: YamlRecord,
  where: string,
  providers: Providers,
  notes: Notes,
): Deployment | undefined {
  const parameters = isRecord(entry['litellm_params']) ? entry['litellm_params'] : {};
  const info = isRecord(entry['model_info']) ? entry['model_info'] : {};
  const model = nonEmptyText(parameters['model']) ?? '';
  const mode = nonEmptyText(info['mode']) ?? 'chat';
  const name = model.slice(model.lastIndexOf('/') + 1);
  const kind = mode === 'chat' ? Object.keys(NOT_CHAT).find((each) => NOT_CHAT[each]?.test(name)) : mode;
  if (kind !== undefined) {
    notes.add(where, `left out (${kind}): only chat completions are served`);
    return undefined;
  }
  if (name === '' || /\*./.test(nonEmptyText(entry['model_name']) ?? '')) {
    notes.add(where, 'left out: it names no model, or has a wildcard before the end of its name');
    return undefined;
  }
  const found = providers.find(parameters, where);
  if (!found) return undefined;
  for (const each of Object.keys(parameters)) {
    if (!READ.has(each)) notes.add(`litellm_params.${each}`, WHY_NOT[each] ?? 'no equivalent');
  }
  return { ...found, where, parameters, info };
}

function modelOf(
  id: string,
  deployments: readonly Deployment[],
  strategy: string,
  catalog: PriceCatalog | undefined,
  notes: Notes,
): Record<string, unknown> | undefined {
  const [first] = deployments;
  if (!first) return undefined;
  const isWildcard = id.endsWith('*');
  const listed = isWildcard ? undefined : inCatalog(first, catalog);
  const given = pricesOf({ ...first.parameters, ...first.info });
  if (!given && catalog && !listed && !isWildcard) {
    notes.add(
      first.where,
      'left out: no price is known. Give model_info input_cost_per_token and output_cost_per_token, or add it by hand',
    );
    return undefined;
  }
  const maxOutput =
    positive(first.info['max_output_tokens']) ??
    positive(first.info['max_tokens']) ??
    listed?.maxOutputTokens;
  const contextWindow = positive(first.info['max_input_tokens']) ?? listed?.contextWindow;
  const limit = Math.min(maxOutput ?? DEFAULT_MAX_OUTPUT, contextWindow ?? Infinity);
  if (maxOutput === undefined && given !== 'free') {
    notes.add(
      id,
      `its output limit is not known: maxOutputTokens is ${limit}; check it, because holds depend on it`,
    );
  }
  if (!given) notes.add(id, 'its price is the list price of @pydantic/genai-prices: add your margin');
  const isOrdered = deployments.some(({ parameters }) => parameters['order'] !== undefined);
  const ordered = isOrdered
    ? deployments.toSorted((a, b) => orderOf(a.parameters) - orderOf(b.parameters))
    : deployments;
  const isShared = deployments.length > 1 && !isOrdered;
  return {
    targets: ordered.map((each) => targetOf(each, isShared && strategy === 'weighted')),
    ...(isShared && { strategy }),
    pricing: given ?? 'catalog',
    ...(contextWindow !== undefined && { contextWindow }),
    ...(given !== 'free' && { maxOutputTokens: limit }),
  };
}

function targetOf(
  { provider, model, parameters }: Deployment,
  hasWeight: boolean,
): string | Record<string, unknown> {
  const defaults = Object.fromEntries(
    DEFAULTS.filter((name) => parameters[name] !== undefined).map((name) => [name, parameters[name]]),
  );
  const given = ['weight', 'rpm', 'tpm'].map((name) => positive(parameters[name])).find(Boolean);
  const limits = Object.entries(LIMITS).flatMap(([theirs, ours]) => {
    const value = positive(parameters[theirs]);
    return value === undefined ? [] : [[ours, Math.max(1, Math.floor(value))] as const];
  });
  const extra = {
    ...(limits.length > 0 && { limits: Object.fromEntries(limits) }),
    ...(hasWeight && given !== undefined && { weight: given }),
    ...(Object.keys(defaults).length > 0 && { body: { default: defaults } }),
  };
  return Object.keys(extra).length === 0 ? `${provider}/${model}` : { provider, model, ...extra };
}

/** Undefined if a price is missing. */
function pricesOf(given: YamlRecord): 'free' | Record<string, string> | undefined {
  const prices = Object.entries(PRICES).flatMap(([theirs, ours]) => {
    const value = given[theirs];
    const number = typeof value === 'string' ? Number(value) : value;
    return typeof number === 'number' && number >= 0 ? [[ours, perMillion(number)] as const] : [];
  });
  const found = Object.fromEntries(prices);
  if (found['input'] === undefined || found['output'] === undefined) return undefined;
  return prices.every(([, price]) => Number(price) === 0) ? 'free' : found;
}

/** A price per token as one per million tokens, exact to the pico-dollar per token. */
function perMillion(price: number): string {
  return (price * 1e6).toFixed(6).replace(/0{1,4}$/, '');
}

function inCatalog(
  { provider, preset, model }: Deployment,
  catalog: PriceCatalog | undefined,
): ReturnType<PriceCatalog['find']> {
  const url = preset === undefined ? '' : (PRESETS[preset]?.baseURL ?? '');
  return catalog?.find({ provider: preset ?? provider, url, model });
}

function orderOf(parameters: YamlRecord): number {
  return positive(parameters['order']) ?? Infinity;
}

/** Whether a model takes its price from the catalog, which must then be installed. */
export function needsCatalog(models: ModelEntries): boolean {
  return Object.values(models).some(({ pricing }) => pricing === 'catalog');
}

export const CATALOG: Call = new Call('catalogPrices()', 'catalog');
