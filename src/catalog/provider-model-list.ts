import type { ModelInfo, ReasoningInfo } from '../options/model-info.ts';
import type { Pricing } from '../metering/pricing.ts';
import { isRecord, type Json, nonEmptyString, positiveInteger } from './json-value.ts';
import { defined } from './defined.ts';
import { isModelId } from './model-id.ts';
import { pricingFromList } from './provider-pricing.ts';
import { CALENDAR_DATE } from './resolve-model-info.ts';

/** The usable members of a model in its provider's list. */
export interface ListedModel {
  readonly id: string;
  /** What the list says beside limits and prices. */
  readonly info: ModelInfo;
  readonly contextWindow: number | undefined;
  readonly maxOutputTokens: number | undefined;
  /** Undefined if the list has no price, or none that can be charged. */
  readonly pricing: Pricing | undefined;
}

/** More models than any provider has; the rest of a longer list is ignored. */
const MAX_MODELS = 5000;
const MAX_TEXT_LENGTH = 2000;
/** Most modalities or parameters. */
const MAX_NAMES = 64;
const MAX_NAME_LENGTH = 64;

/** Reads the models with text output from `GET /models`: OpenAI's `{ data: [...] }`, or a bare list.
 *
 * @throws {Error} if it is neither
 */
export function readListedModels(answer: Json): readonly ListedModel[] {
  const list = listIn(answer);
  if (!list) throw new Error('its answer is not a list of models');
  return list.slice(0, MAX_MODELS).flatMap((entry) => (isRecord(entry) ? readListedModel(entry) : []));
}

/** The IDs of all models, also of those without text output; undefined if the body is not a list. */
export function listedIds(answer: Json): ReadonlySet<string> | undefined {
  const ids = listIn(answer)?.flatMap((entry) =>
    isRecord(entry) && typeof entry['id'] === 'string' ? entry['id'] : [],
  );
  return ids && new Set(ids);
}

function listIn(answer: Json): readonly Json[] | undefined {
  const list = isRecord(answer) ? answer['data'] : answer;
  return Array.isArray(list) ? list : undefined;
}

function readListedModel(entry: Readonly<Record<string, Json>>): readonly ListedModel[] {
  const { id } = entry;
  if (typeof id !== 'string' || !isModelId(id) || !writesText(entry)) return [];
  const top = isRecord(entry['top_provider']) ? entry['top_provider'] : {};
  return [
    {
      id,
      info: readInfo(entry),
      contextWindow: positiveInteger(
        entry['context_window'] ??
          entry['context_length'] ??
          entry['max_model_len'] ??
          entry['max_context_length'] ??
          top['context_length'],
      ),
      maxOutputTokens: positiveInteger(
        top['max_completion_tokens'] ?? entry['max_completion_tokens'] ?? entry['max_tokens'],
      ),
      pricing: pricingFromList(entry['pricing']),
    },
  ];
}

/** OpenRouter's members; where those are missing, Vercel's `modalities` and `tags`, and Mistral's `capabilities`. */
function readInfo(entry: Readonly<Record<string, Json>>): ModelInfo {
  const architecture = isRecord(entry['architecture']) ? entry['architecture'] : {};
  const modalities = isRecord(entry['modalities']) ? entry['modalities'] : {};
  const tags = namesIn(entry['tags']);
  const capabilities = isRecord(entry['capabilities']) ? entry['capabilities'] : {};
  const can = (tag: string, capability: string): boolean =>
    tags?.includes(tag) === true || capabilities[capability] === true;
  const inputs = [
    ...(can('vision', 'vision') ? ['image'] : []),
    ...(tags?.includes('file-input') ? ['file'] : []),
    ...(capabilities['audio'] === true ? ['audio'] : []),
  ];
  return defined({
    name: boundedText(entry['name'] ?? entry['display_name']),
    description: boundedText(entry['description']),
    created: positiveInteger(entry['created']),
    ownedBy: boundedText(entry['owned_by']),
    inputModalities:
      modalitiesIn(architecture, 'input_modalities') ??
      namesIn(modalities['input'])?.map(modalityName) ??
      (inputs.length > 0 ? ['text', ...inputs] : undefined),
    outputModalities:
      modalitiesIn(architecture, 'output_modalities') ?? namesIn(modalities['output'])?.map(modalityName),
    supportedParameters:
      namesIn(entry['supported_parameters']) ?? (can('tool-use', 'function_calling') ? ['tools'] : undefined),
    tags: can('reasoning', 'reasoning') ? [...new Set([...(tags ?? []), 'reasoning'])] : tags,
    knowledgeCutoff: day(entry['knowledge_cutoff']),
    reasoning: readReasoning(entry['reasoning']),
    tokenizer: boundedText(architecture['tokenizer']),
    instructType: boundedText(architecture['instruct_type']),
    huggingFaceId: boundedText(entry['hugging_face_id']),
    defaultParameters: numbers(entry['default_parameters']),
  });
}

/** A modality of Vercel's or models.dev's, in OpenRouter's words. */
export function modalityName(name: string): string {
  return name === 'pdf' ? 'file' : name;
}

/** A list that has no `modality` says `['text']` only because OpenRouter's clients require a value. */
function modalitiesIn(
  architecture: Readonly<Record<string, Json>>,
  name: string,
): readonly string[] | undefined {
  const modalities = namesIn(architecture[name]);
  const isPlaceholder = architecture['modality'] === null && modalities?.join() === 'text';
  return isPlaceholder ? undefined : modalities;
}

function readReasoning(given: Json): ReasoningInfo | undefined {
  if (!isRecord(given) || typeof given['mandatory'] !== 'boolean') return undefined;
  return {
    mandatory: given['mandatory'],
    ...defined({
      supportedEfforts: namesIn(given['supported_efforts']),
      defaultEffort: boundedText(given['default_effort']),
    }),
  };
}

/** Whether a model has text output, as far as the list says: Vercel's and Together's `type`, OpenRouter's `architecture`. */
function writesText(entry: Readonly<Record<string, Json>>): boolean {
  const { type, architecture } = entry;
  if (typeof type === 'string' && !['language', 'chat', 'model', 'code'].includes(type)) return false;
  const outputs = isRecord(architecture) ? architecture['output_modalities'] : undefined;
  return !Array.isArray(outputs) || outputs.includes('text');
}

function boundedText(given: Json): string | undefined {
  return nonEmptyString(given)?.slice(0, MAX_TEXT_LENGTH);
}

/** Undefined if the list has none. */
function namesIn(given: Json): readonly string[] | undefined {
  if (!Array.isArray(given) || given.length === 0) return undefined;
  return given
    .filter((name: Json) => typeof name === 'string')
    .filter((name) => name.length <= MAX_NAME_LENGTH)
    .slice(0, MAX_NAMES);
}

function day(given: Json): string | undefined {
  return typeof given === 'string' && CALENDAR_DATE.test(given) ? given : undefined;
}

/** Undefined if the list has no number. */
function numbers(given: Json): Readonly<Record<string, number | null>> | undefined {
  if (!isRecord(given)) return undefined;
  const known = Object.entries(given)
    .filter((entry): entry is [string, number | null] => entry[1] === null || typeof entry[1] === 'number')
    .slice(0, MAX_NAMES);
  return known.some(([, value]) => value !== null) ? Object.fromEntries(known) : undefined;
}
