import type { Pricing } from '../metering/pricing.ts';
import { isRecord, type Json } from './json-value.ts';
import { isModelId } from './model-id.ts';
import { pricingFromList } from './provider-pricing.ts';

/** A model as its provider's own list has it, as far as we can use it. */
export interface ListedModel {
  readonly id: string;
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly created: number | undefined;
  readonly ownedBy: string | undefined;
  readonly inputModalities: readonly string[] | undefined;
  readonly supportedParameters: readonly string[] | undefined;
  readonly contextWindow: number | undefined;
  readonly maxOutputTokens: number | undefined;
  /** Undefined where the list doesn't say it, or not so that we could charge it. */
  readonly pricing: Pricing | undefined;
}

/** More than any provider has; a list may grow longer, and the rest of it isn't read. */
const MAX_MODELS = 5000;
const MAX_TEXT_LENGTH = 2000;
/** Of modalities, or parameters. */
const MAX_NAMES = 64;
const MAX_NAME_LENGTH = 64;

/**
 * The models of a provider's `GET /models` that write text: `{ data: [...] }` as OpenAI has it, or a bare list.
 *
 * @throws {Error} if it is neither
 */
export function readListedModels(answer: Json): readonly ListedModel[] {
  const list = listIn(answer);
  if (!list) throw new Error('its answer is not a list of models');
  return list.slice(0, MAX_MODELS).flatMap((entry) => (isRecord(entry) ? readListedModel(entry) : []));
}

/** The IDs of all its models, also of those that write no text; undefined if it is no list. */
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
  const architecture = isRecord(entry['architecture']) ? entry['architecture'] : {};
  return [
    {
      id,
      name: text(entry['name'] ?? entry['display_name']),
      description: text(entry['description']),
      created: count(entry['created']),
      ownedBy: text(entry['owned_by']),
      inputModalities: namesIn(architecture['input_modalities']),
      supportedParameters: namesIn(entry['supported_parameters']),
      contextWindow: count(
        entry['context_window'] ?? entry['context_length'] ?? entry['max_model_len'] ?? top['context_length'],
      ),
      maxOutputTokens: count(
        top['max_completion_tokens'] ?? entry['max_completion_tokens'] ?? entry['max_tokens'],
      ),
      pricing: pricingFromList(entry['pricing']),
    },
  ];
}

/** As far as it is said: Vercel's `type`, Together's, OpenRouter's `architecture`. */
function writesText(entry: Readonly<Record<string, Json>>): boolean {
  const { type, architecture } = entry;
  if (typeof type === 'string' && !['language', 'chat', 'model', 'code'].includes(type)) return false;
  const outputs = isRecord(architecture) ? architecture['output_modalities'] : undefined;
  return !Array.isArray(outputs) || outputs.includes('text');
}

function text(given: Json): string | undefined {
  return typeof given === 'string' && given !== '' ? given.slice(0, MAX_TEXT_LENGTH) : undefined;
}

/** Undefined where the list says nothing of them. */
function namesIn(given: Json): readonly string[] | undefined {
  if (!Array.isArray(given) || given.length === 0) return undefined;
  return given
    .filter((name: Json) => typeof name === 'string')
    .filter((name) => name.length <= MAX_NAME_LENGTH)
    .slice(0, MAX_NAMES);
}

function count(given: Json): number | undefined {
  return typeof given === 'number' && Number.isSafeInteger(given) && given > 0 ? given : undefined;
}
