import { isModelId } from '../../../catalog/model-id.ts';
import { PRESETS } from '../../../catalog/presets.ts';
import type { CatalogEntry, PriceCatalog } from '../../../options/model-options.ts';
import { Call } from './config-source.ts';
import type { FoundTarget, Providers } from './providers.ts';
import {
  environmentName,
  IN_ENVIRONMENT,
  isRecord,
  nonEmptyText,
  nonNegative,
  type Notes,
  positive,
  records,
  type YamlRecord,
} from './values.ts';

/** Prices per token: LiteLLM's name → ours, per million tokens. */
const PRICES = {
  input_cost_per_token: 'input',
  output_cost_per_token: 'output',
  cache_read_input_token_cost: 'cachedInput',
  cache_creation_input_token_cost: 'cacheWriteInput',
  cache_creation_input_token_cost_above_1hr: 'cacheWriteHourInput',
  input_cost_per_audio_token: 'audioInput',
  input_cost_per_image_token: 'imageInput',
  output_cost_per_reasoning_token: 'reasoningOutput',
  output_cost_per_audio_token: 'audioOutput',
  output_cost_per_image_token: 'imageOutput',
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

/** The first that a deployment of a group has is the weight of them all, and is 0 where it is missing. */
const WEIGHTS = ['weight', 'rpm', 'tpm'];

/** For a weight of 0, which a target can't have. */
const MIN_WEIGHT = 0.000_001;

/** Parameters that are read besides prices, and need no note. */
const READ: ReadonlySet<string> = new Set([
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

/** Parameters whose value may be a reference to the environment. */
const FROM_ENVIRONMENT: ReadonlySet<string> = new Set([
  'api_base',
  'base_url',
  'api_key',
  'api_version',
  'organization',
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
  completions: /^gpt-3\.5-turbo-instruct/,
  moderations: /moderation/,
  rerank: /rerank/,
};

export const MODEL_ID_WANTED = 'a model ID has 1 to 256 characters, no spaces, and no slash at either end';

const DEFAULT_MAX_OUTPUT = 16_384;

interface Deployment extends FoundTarget {
  readonly where: string;
  readonly parameters: YamlRecord;
  readonly info: YamlRecord;
}

type ConvertedPricing = 'free' | 'catalog' | Readonly<Record<string, unknown>>;

interface PricedDeployment extends Deployment {
  readonly pricing: ConvertedPricing;
  /** What the catalog has of it. */
  readonly listed: CatalogEntry | undefined;
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
    if (id === undefined) {
      notes.add(where, 'left out: its model_name is no text');
      continue;
    }
    const found = deployment(entry, where, providers, notes);
    if (found) groups.set(id, [...(groups.get(id) ?? []), found]);
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
  const [parameters = {}, info = {}] = (['litellm_params', 'model_info'] as const).map((section) => {
    return givenIn(section, entry[section], notes);
  });
  const model = nonEmptyText(parameters['model']) ?? '';
  const mode = nonEmptyText(info['mode']);
  const name = model.slice(model.lastIndexOf('/') + 1);
  const kind = mode ?? Object.keys(NOT_CHAT).find((each) => NOT_CHAT[each]?.test(name)) ?? 'chat';
  if (kind !== 'chat') {
    notes.add(where, `left out (${kind}): only chat completions are served`);
    return undefined;
  }
  const id = nonEmptyText(entry['model_name']) ?? '';
  if (name === '' || /\*./.test(id)) {
    notes.add(where, 'left out: it names no model, or has a wildcard before the end of its name');
    return undefined;
  }
  if (!isModelId(id)) {
    notes.add(where, `left out: ${MODEL_ID_WANTED}`);
    return undefined;
  }
  const found = providers.find(parameters, where);
  if (!found) return undefined;
  for (const each of Object.keys(parameters)) {
    if (!READ.has(each) && !placeOf(each)) {
      notes.add(`litellm_params.${each}`, WHY_NOT[each] ?? 'no equivalent');
    }
  }
  for (const each of Object.keys(info)) {
    if (/cost|pricing/.test(each) && !placeOf(each)) {
      notes.add(
        `model_info.${each}`,
        'a price that is not converted: see docs/pricing.md for those there are',
      );
    }
    if (each === 'access_groups') {
      notes.add(`model_info.${each}`, 'keys are limited to models: set those of a key that names a group');
    }
  }
  return { ...found, where, parameters, info };
}

/** What is not null, and no reference to the environment where that is not read from there. */
function givenIn(section: string, values: unknown, notes: Notes): YamlRecord {
  const pairs = Object.entries(isRecord(values) ? values : {}).filter(([, value]) => value !== null);
  const read = pairs.filter(([name, value]) => {
    const isRead = FROM_ENVIRONMENT.has(name) || environmentName(value) === undefined;
    if (!isRead) notes.add(`${section}.${name}`, IN_ENVIRONMENT);
    return isRead;
  });
  return Object.fromEntries(read);
}

function modelOf(
  id: string,
  group: readonly Deployment[],
  strategy: string,
  catalog: PriceCatalog | undefined,
  notes: Notes,
): Record<string, unknown> | undefined {
  const isWildcard = id.endsWith('*');
  const deployments = group.flatMap((each) => priced(each, isWildcard, catalog, notes));
  const isOrdered = deployments.some(({ parameters }) => parameters['order'] !== undefined);
  const isShared = deployments.length > 1 && !isOrdered;
  const weightOf = strategy === 'weighted' ? weightsOf(deployments) : undefined;
  // Where there are no weights, or no strategy, the first is tried first.
  const ordered = deployments.toSorted(
    (a, b) =>
      orderOf(a.parameters) - orderOf(b.parameters) ||
      Number(weightOf?.(a) === 0) - Number(weightOf?.(b) === 0),
  );
  const [first] = ordered;
  if (!first) return undefined;
  for (const { where } of ordered.filter((each) => weightOf?.(each) === 0)) {
    notes.add(
      where,
      'its share of the requests is 0: it is tried where others fail. Remove it to send nothing',
    );
  }
  const hasOwnPrices = new Set(ordered.map(priceName)).size > 1;
  const pricing = hasOwnPrices ? shownPricing(first, ordered) : first.pricing;
  const isFree = ordered.every((each) => each.pricing === 'free');
  const maxOutput =
    positive(first.info['max_output_tokens']) ??
    positive(first.info['max_tokens']) ??
    first.listed?.maxOutputTokens;
  const contextWindow = positive(first.info['max_input_tokens']) ?? first.listed?.contextWindow;
  const limit = Math.min(maxOutput ?? DEFAULT_MAX_OUTPUT, contextWindow ?? Infinity);
  if (maxOutput === undefined && !isFree) {
    notes.add(
      id,
      `its output limit is not known: maxOutputTokens is ${limit}; check it, because holds depend on it`,
    );
  }
  if (ordered.some((each) => each.pricing === 'catalog')) {
    notes.add(id, 'its price is the list price of @pydantic/genai-prices: add your margin');
  }
  if (hasOwnPrices) {
    notes.add(id, 'each target has a price of its own, because those of its deployments differ');
  }
  const targets = ordered.map((each) => targetOf(each, isShared ? weightOf?.(each) : undefined));
  return {
    targets: hasOwnPrices ? targets.map((each, n) => withPrice(each, ordered[n]?.pricing)) : targets,
    ...(isShared && { strategy }),
    pricing,
    ...(contextWindow !== undefined && { contextWindow }),
    ...(!isFree && { maxOutputTokens: limit }),
  };
}

/** The deployment with its price; none, with a note, if that is not known. */
function priced(
  deployment: Deployment,
  isWildcard: boolean,
  catalog: PriceCatalog | undefined,
  notes: Notes,
): readonly PricedDeployment[] {
  const { where, parameters, info } = deployment;
  const listed = isWildcard ? undefined : inCatalog(deployment, catalog);
  const prices = { ...parameters, ...info };
  const given = pricesOf(prices);
  if (!given && Object.keys(prices).some(placeOf)) {
    notes.add(
      where,
      'its prices are not used: input_cost_per_token and output_cost_per_token are both needed',
    );
  }
  if (!given && catalog && !listed && !isWildcard) {
    notes.add(
      where,
      'left out: no price is known. Give model_info input_cost_per_token and output_cost_per_token, or add it by hand',
    );
    return [];
  }
  return [{ ...deployment, pricing: given ?? 'catalog', listed }];
}

/** Equal for equal prices. */
function priceName({ pricing, listed, preset, provider, model }: PricedDeployment): string {
  return JSON.stringify(
    pricing === 'catalog' ? ['catalog', listed?.pricing ?? [preset ?? provider, model]] : pricing,
  );
}

/** The price that `GET /models` shows of a model whose targets have their own: the first that is not free. */
function shownPricing(first: PricedDeployment, all: readonly PricedDeployment[]): unknown {
  const shown = all.find(({ pricing }) => pricing !== 'free') ?? first;
  // The model's 'catalog' is the price of its first target.
  return shown === first || shown.pricing !== 'catalog'
    ? shown.pricing
    : (shown.listed?.pricing ?? first.pricing);
}

/** The weight of each deployment of a group; undefined if none has one. */
function weightsOf(deployments: readonly Deployment[]): ((deployment: Deployment) => number) | undefined {
  const weight = (kind: string, { parameters }: Deployment): number => positive(parameters[kind]) ?? 0;
  const kind = WEIGHTS.find((each) => deployments.some((deployment) => weight(each, deployment) > 0));
  return kind === undefined ? undefined : (deployment) => weight(kind, deployment);
}

function targetOf(
  { provider, model, parameters }: Deployment,
  weight: number | undefined,
): string | Record<string, unknown> {
  const defaults = Object.fromEntries(
    DEFAULTS.filter((name) => parameters[name] !== undefined).map((name) => [name, parameters[name]]),
  );
  const limits = Object.entries(LIMITS).flatMap(([theirs, ours]) => {
    const value = positive(parameters[theirs]);
    return value === undefined ? [] : [[ours, Math.max(1, Math.floor(value))] as const];
  });
  const extra = {
    ...(limits.length > 0 && { limits: Object.fromEntries(limits) }),
    ...(weight !== undefined && { weight: Math.max(MIN_WEIGHT, weight) }),
    ...(Object.keys(defaults).length > 0 && { body: { default: defaults } }),
  };
  return Object.keys(extra).length === 0 ? `${provider}/${model}` : { provider, model, ...extra };
}

/** A target with a price, unless it has one of its own. */
export function withPrice(target: unknown, pricing: unknown): Record<string, unknown> {
  if (typeof target !== 'string') {
    const given = isRecord(target) ? target : {};
    return { ...given, pricing: given['pricing'] ?? pricing };
  }
  const slash = target.indexOf('/');
  return { provider: target.slice(0, slash), model: target.slice(slash + 1), pricing };
}

/** Undefined if a price is missing. */
function pricesOf(given: YamlRecord): 'free' | Readonly<Record<string, unknown>> | undefined {
  const byPrompt = new Map<number, Record<string, string>>();
  for (const [name, value] of Object.entries(given)) {
    const place = placeOf(name);
    const number = nonNegative(value);
    if (!place || number === undefined) continue;
    byPrompt.set(place.above, { ...byPrompt.get(place.above), [place.ours]: perMillion(number) });
  }
  let prices = byPrompt.get(0) ?? {};
  if (prices['input'] === undefined || prices['output'] === undefined) return undefined;
  const plain = inOrder(prices);
  // A price that LiteLLM's tier does not have stays that of shorter prompts.
  const tiers = [...byPrompt]
    .filter(([above]) => above > 0)
    .toSorted(([one], [other]) => one - other)
    .map(([above, tier]) => {
      prices = { ...prices, ...tier };
      return { above, ...inOrder(prices) };
    });
  const isFree = [...byPrompt.values()].every((each) =>
    Object.values(each).every((price) => Number(price) === 0),
  );
  return isFree ? 'free' : { ...plain, ...(tiers.length > 0 && { tiers }) };
}

/** The name of one of LiteLLM's prices here, and the prompt tokens above which it applies; undefined if it has none here. */
function placeOf(name: string): { readonly ours: string; readonly above: number } | undefined {
  for (const [theirs, ours] of Object.entries(PRICES)) {
    if (name === theirs) return { ours, above: 0 };
    const prefix = `${theirs}_above_`;
    const [, count, thousand] =
      /^(\d{1,9})(k?)_tokens$/.exec(name.startsWith(prefix) ? name.slice(prefix.length) : '') ?? [];
    if (Number(count) > 0) return { ours, above: Number(count) * (thousand === 'k' ? 1000 : 1) };
  }
  return undefined;
}

function inOrder(prices: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.values(PRICES).flatMap((ours) => {
      const price = prices[ours];
      return price === undefined ? [] : [[ours, price] as const];
    }),
  );
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
  return nonNegative(parameters['order']) ?? Number.MAX_SAFE_INTEGER;
}

/** Whether a model takes its price from the catalog, which must then be installed. */
export function needsCatalog(models: ModelEntries): boolean {
  return Object.values(models).some(
    ({ pricing, targets }) =>
      pricing === 'catalog' || records(targets).some((target) => target['pricing'] === 'catalog'),
  );
}

export const CATALOG: Call = new Call('catalogPrices()', 'catalog');
