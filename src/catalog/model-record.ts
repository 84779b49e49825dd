import { dayOf } from '../ledger/contract/usage.ts';
import type { MarkupTerms } from '../metering/markup.ts';
import { type Price, type Rates, usdPerCall, usdPerToken, withMarkup } from '../metering/price.ts';
import type { RecordInfo, Model } from './model.ts';

/**
 * A model in `GET /models`: OpenAI's record, with the members that clients of other lists read. A member of OpenRouter's that
 * its own client requires is null or empty if it is unknown; any other member is left out.
 */
export interface ModelRecord {
  readonly id: string;
  readonly object: 'model';
  /** Unix seconds; 0 if unknown. */
  readonly created: number;
  readonly owned_by: string;
  readonly name: string;
  /** Empty if unknown. */
  readonly description: string;
  readonly type: 'language';
  readonly tags?: readonly string[];
  readonly modalities?: { readonly input: readonly string[]; readonly output: readonly string[] };
  /** `completion_chat`, and as far as they are known `function_calling`, `reasoning`, `vision`, `audio`. */
  readonly capabilities: Readonly<Record<string, boolean>>;
  readonly aliases?: readonly string[];
  readonly deprecated_at?: string;
  readonly shutdown_date?: string;
  readonly expiration_date?: string;
  readonly replacement?: string;
  readonly context_length: number | null;
  readonly context_window?: number;
  readonly max_model_len?: number;
  readonly max_tokens?: number;
  readonly max_completion_tokens?: number;
  /** USD per token or call, as decimal strings. */
  readonly pricing: Readonly<Record<string, string | readonly PriceTier[]>>;
  readonly canonical_slug: string;
  readonly architecture: {
    /** E.g. `text+image->text`. */
    readonly modality: string | null;
    readonly input_modalities: readonly string[];
    readonly output_modalities: readonly string[];
    readonly tokenizer?: string;
    readonly instruct_type?: string;
  };
  readonly supported_parameters: readonly string[];
  /** The next four as OpenRouter asks them of providers' own lists. */
  readonly input_modalities?: readonly string[];
  readonly output_modalities?: readonly string[];
  readonly supported_features?: readonly string[];
  readonly supported_sampling_parameters?: readonly string[];
  readonly reasoning?: {
    readonly mandatory: boolean;
    readonly supported_efforts?: readonly string[];
    readonly default_effort?: string;
  };
  readonly top_provider: {
    readonly context_length: number | null;
    readonly max_completion_tokens: number | null;
    readonly is_moderated: false;
  };
  readonly knowledge_cutoff?: string;
  readonly hugging_face_id?: string;
  /** Relative to the base URL. */
  readonly links: { readonly details: string };
  readonly default_parameters: Readonly<Record<string, number | null>> | null;
  readonly per_request_limits: null;
  readonly supported_voices: null;
}

/** In Vercel's form: `min` is inclusive, `max` is the next tier's `min`. */
export interface PriceTier {
  readonly cost: string;
  readonly min: number;
  readonly max?: number;
}

/** Serialises the record of a model at a caller's markup. */
export function recordOf(model: Model, markup: MarkupTerms): Buffer {
  return Buffer.from(JSON.stringify(modelRecord(model, markup)));
}

/** Each group names the clients that read it. */
function modelRecord(model: Model, markup: MarkupTerms): ModelRecord {
  const { info } = model;
  const contextWindow = model.contextWindow ?? info.contextWindow;
  const maxOutputTokens = model.maxOutputTokens ?? info.maxOutputTokens;
  return {
    id: model.id,
    object: 'model',
    created: info.created,
    owned_by: info.ownedBy,
    name: info.name,
    // Zed rejects a list in which a description is missing or null (crates/open_router: `description: String`).
    description: info.description ?? '',
    // The Vercel AI Gateway's; Cline looks for `reasoning` in the tags (refreshVercelAiGatewayModels.ts).
    type: 'language',
    ...tagsAndCapabilities(info),
    ...lifecycleOf(model),
    // OpenRouter's name, then Vercel's and vLLM's.
    context_length: contextWindow ?? null,
    ...(contextWindow !== undefined && {
      context_window: contextWindow,
      max_model_len: contextWindow,
    }),
    ...(maxOutputTokens !== undefined && {
      max_tokens: maxOutputTokens,
      max_completion_tokens: maxOutputTokens,
    }),
    pricing: pricingRecord(withMarkup(model.price, markup)),
    // OpenRouter's clients (@openrouter/sdk, Zed, Roo Code).
    canonical_slug: model.id,
    architecture: architectureOf(info),
    supported_parameters: info.supportedParameters ?? [],
    // Cline's readers of providers that OpenRouter has.
    ...asProvidersList(info),
    ...(info.reasoning && { reasoning: reasoningOf(info.reasoning) }),
    top_provider: {
      context_length: contextWindow ?? null,
      max_completion_tokens: maxOutputTokens ?? null,
      // The router moderates nothing.
      is_moderated: false,
    },
    ...(info.knowledgeCutoff !== undefined && { knowledge_cutoff: info.knowledgeCutoff }),
    ...(info.huggingFaceId !== undefined && { hugging_face_id: info.huggingFaceId }),
    links: { details: `models/${encodeURIComponent(model.id)}` },
    default_parameters: info.defaultParameters ?? null,
    per_request_limits: null,
    supported_voices: null,
  };
}

function lifecycleOf({
  aliases,
  deprecation,
}: Model): Pick<
  ModelRecord,
  'aliases' | 'deprecated_at' | 'shutdown_date' | 'expiration_date' | 'replacement'
> {
  const { deprecatedAt, shutdownAt, replacement } = deprecation ?? {};
  return {
    ...(aliases.length > 0 && { aliases }),
    ...(deprecatedAt !== undefined && { deprecated_at: dayOf(deprecatedAt) }),
    ...(shutdownAt !== undefined && {
      shutdown_date: dayOf(shutdownAt),
      expiration_date: dayOf(shutdownAt),
    }),
    ...(replacement !== undefined && { replacement }),
  };
}

/** Vercel's tags, by parameters and modalities, and the same as `capabilities` in Mistral's words. */
function tagsAndCapabilities(info: RecordInfo): Pick<ModelRecord, 'tags' | 'capabilities' | 'modalities'> {
  const { supportedParameters, inputModalities, outputModalities } = info;
  const given = new Set(info.tags);
  const reasons = canReason(info);
  if (reasons) given.add('reasoning');
  if (supportedParameters?.includes('tools')) given.add('tool-use');
  if (inputModalities?.includes('image')) given.add('vision');
  if (inputModalities?.includes('file')) given.add('file-input');
  if (outputModalities?.includes('image')) given.add('image-generation');
  return {
    ...(given.size > 0 && { tags: [...given] }),
    // As Vercel and models.dev have it.
    ...(inputModalities && { modalities: { input: inputModalities, output: outputModalities ?? TEXT } }),
    capabilities: {
      completion_chat: true,
      ...((given.has('tool-use') || supportedParameters) && { function_calling: given.has('tool-use') }),
      ...((reasons || supportedParameters) && { reasoning: reasons }),
      ...((given.has('vision') || inputModalities) && { vision: given.has('vision') }),
      ...(inputModalities && { audio: inputModalities.includes('audio') }),
    },
  };
}

const TEXT: readonly string[] = ['text'];

const REASONING_PARAMETERS: ReadonlySet<string> = new Set([
  'reasoning',
  'reasoning_effort',
  'include_reasoning',
]);

export function architectureOf(info: RecordInfo): ModelRecord['architecture'] {
  const { inputModalities = TEXT, outputModalities = TEXT, tokenizer, instructType } = info;
  const isKnown = info.inputModalities !== undefined;
  return {
    modality: isKnown ? `${inputModalities.join('+')}->${outputModalities.join('+')}` : null,
    input_modalities: inputModalities,
    output_modalities: outputModalities,
    ...(tokenizer !== undefined && { tokenizer }),
    ...(instructType !== undefined && { instruct_type: instructType }),
  };
}

const FEATURES = ['tools', 'structured_outputs', 'logprobs', 'reasoning'];

const SAMPLING_PARAMETERS: ReadonlySet<string> = new Set([
  'temperature',
  'top_p',
  'top_k',
  'top_a',
  'min_p',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'stop',
  'seed',
  'max_tokens',
  'logit_bias',
]);

function asProvidersList(
  info: RecordInfo,
): Pick<
  ModelRecord,
  'input_modalities' | 'output_modalities' | 'supported_features' | 'supported_sampling_parameters'
> {
  const { inputModalities, outputModalities = TEXT, supportedParameters } = info;
  return {
    ...(inputModalities && { input_modalities: inputModalities, output_modalities: outputModalities }),
    ...(supportedParameters && {
      supported_features: FEATURES.filter((name) =>
        name === 'reasoning' ? canReason(info) : supportedParameters.includes(name),
      ),
      supported_sampling_parameters: supportedParameters.filter((name) => SAMPLING_PARAMETERS.has(name)),
    }),
  };
}

function canReason({ reasoning, tags, supportedParameters = [] }: RecordInfo): boolean {
  return (
    reasoning !== undefined ||
    (tags ?? []).includes('reasoning') ||
    supportedParameters.some((name) => REASONING_PARAMETERS.has(name))
  );
}

function reasoningOf({
  mandatory,
  supportedEfforts,
  defaultEffort,
}: NonNullable<RecordInfo['reasoning']>): NonNullable<ModelRecord['reasoning']> {
  return {
    mandatory,
    ...(supportedEfforts && { supported_efforts: supportedEfforts }),
    ...(defaultEffort !== undefined && { default_effort: defaultEffort }),
  };
}

/**
 * USD per token or call, as decimal strings, with the price's markup. Those that equal plain input or output are omitted,
 * but for `input_cache_read`.
 */
export function pricingRecord(price: Price): ModelRecord['pricing'] {
  const { tiers, request, webSearch, markup } = price;
  const usd = (pico: bigint): string => usdPerToken(pico, markup);
  const ifDifferent = (name: string, pico: bigint, whole: bigint): Readonly<Record<string, string>> =>
    pico === whole ? {} : { [name]: usd(pico) };
  const input = usd(price.input);
  const output = usd(price.output);
  return {
    input,
    output,
    input_cache_read: usd(price.cachedInput),
    prompt: input,
    completion: output,
    ...ifDifferent('input_cache_write', price.cacheWriteInput, price.input),
    ...ifDifferent('audio', price.audioInput, price.input),
    ...ifDifferent('image_token', price.imageInput, price.input),
    ...ifDifferent('internal_reasoning', price.reasoningOutput, price.output),
    ...ifDifferent('audio_output', price.audioOutput, price.output),
    ...ifDifferent('image_output', price.imageOutput, price.output),
    ...((request > 0n || markup.fee > 0n) && { request: requestFee(price) }),
    ...(webSearch > 0n && { web_search: usdPerCall(webSearch, markup) }),
    ...(tiers.length > 0 && {
      input_tiers: tiersOf(price, ({ input: pico }) => usd(pico)),
      output_tiers: tiersOf(price, ({ output: pico }) => usd(pico)),
      input_cache_read_tiers: tiersOf(price, ({ cachedInput: pico }) => usd(pico)),
      input_cache_write_tiers: tiersOf(price, ({ cacheWriteInput: pico }) => usd(pico)),
    }),
  };
}

function tiersOf(price: Price, costOf: (rates: Rates) => string): readonly PriceTier[] {
  const { tiers } = price;
  return [price, ...tiers].map((rates, i) => {
    const min = i === 0 ? 0 : (tiers[i - 1]?.above ?? 0) + 1;
    const next = tiers[i];
    return { cost: costOf(rates), min, ...(next && { max: next.above + 1 }) };
  });
}

function requestFee({ request, markup }: Price): string {
  const { numerator, denominator, fee } = markup;
  return usdPerCall(request * numerator + fee * denominator, { ...markup, numerator: 1n });
}
