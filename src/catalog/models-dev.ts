import type { ModelCatalog, ModelCatalogEntry, PriceQuery } from '../options/model-options.ts';
import { assertObject } from '../options/resolve-options.ts';
import { defined } from './defined.ts';
import { isRecord, type Json, nonEmptyString, positiveInteger } from './json-value.ts';
import { modalityName } from './provider-model-list.ts';
import { CALENDAR_DATE } from './resolve-model-info.ts';

/** IDs at models.dev of presets that have another name here. */
const PROVIDER_IDS: Readonly<Record<string, string>> = {
  'azure-deployments': 'azure',
  bedrock: 'amazon-bedrock',
  cloudflare: 'cloudflare-workers-ai',
  fireworks: 'fireworks-ai',
  gemini: 'google',
  moonshot: 'moonshotai',
  qwen: 'alibaba',
  together: 'togetherai',
  vertex: 'google-vertex',
  zhipu: 'zhipuai',
};

type Models = Readonly<Record<string, Json>>;

/** A catalog for the option `modelInfo`, of the data of models.dev: the parsed content of `https://models.dev/api.json`.
 *
 * A provider is found by its preset or name, or by its base URL. Prices of the data are not used.
 *
 * @throws {TypeError} if it isn't an object of providers, each with `models`
 */
export function modelsDev(data: unknown): ModelCatalog {
  assertObject(data, 'modelsDev: the data');
  const byId = new Map<string, Models>();
  const byUrl = new Map<string, Models>();
  const providers: readonly [string, Json][] = Object.entries(data ?? {});
  for (const [id, provider] of providers) {
    const models = isRecord(provider) ? provider['models'] : undefined;
    if (!isRecord(provider) || !isRecord(models)) {
      throw new TypeError(`modelsDev: the provider ${JSON.stringify(id)} has no models`);
    }
    byId.set(id, models);
    if (typeof provider['api'] === 'string') byUrl.set(withoutSlash(provider['api']), models);
  }
  return {
    find: ({ provider, url, model }: PriceQuery): ModelCatalogEntry | undefined => {
      const models =
        byId.get(PROVIDER_IDS[provider] ?? provider) ?? byUrl.get(url.replace(/\/chat\/completions$/, ''));
      const entry = models && (own(models, model) ?? own(models, model.slice(model.lastIndexOf('/') + 1)));
      return isRecord(entry) ? readEntry(entry) : undefined;
    },
  };
}

function own(models: Models, model: string): Json {
  return Object.hasOwn(models, model) ? models[model] : undefined;
}

function readEntry(entry: Models): ModelCatalogEntry {
  const limit = isRecord(entry['limit']) ? entry['limit'] : {};
  const modalities = isRecord(entry['modalities']) ? entry['modalities'] : {};
  return defined({
    name: nonEmptyString(entry['name']),
    description: nonEmptyString(entry['description']),
    created: secondsOf(entry['release_date']),
    inputModalities: readModalities(modalities['input']),
    outputModalities: readModalities(modalities['output']),
    supportedParameters: readParameters(entry),
    // Says that it reasons, and not by which parameter.
    tags: entry['reasoning'] === true ? ['reasoning'] : undefined,
    knowledgeCutoff: date(entry['knowledge']),
    contextWindow: positiveInteger(limit['context']),
    maxOutputTokens: positiveInteger(limit['output']),
  });
}

/** Undefined unless the entry says whether it takes tools. */
function readParameters(entry: Models): readonly string[] | undefined {
  if (typeof entry['tool_call'] !== 'boolean') return undefined;
  return [
    ...(entry['tool_call'] ? ['tools', 'tool_choice'] : []),
    ...(entry['structured_output'] === true ? ['structured_outputs', 'response_format'] : []),
    ...(entry['temperature'] === true ? ['temperature'] : []),
  ];
}

function readModalities(given: Json): readonly string[] | undefined {
  if (!Array.isArray(given) || given.length === 0) return undefined;
  return given.filter((name: Json) => typeof name === 'string').map(modalityName);
}

function date(given: Json): string | undefined {
  return typeof given === 'string' && CALENDAR_DATE.test(given) ? given : undefined;
}

function secondsOf(given: Json): number | undefined {
  const day = date(given);
  const ms = day === undefined ? Number.NaN : Date.parse(day);
  return Number.isFinite(ms) && ms > 0 ? ms / 1000 : undefined;
}

function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url;
}
