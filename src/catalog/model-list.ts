import { LRUCache } from 'lru-cache';

import { type Price, type Rates, usdPerCall, usdPerToken } from '../metering/price.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import type { Model } from './model.ts';
import { dayOf } from '../ledger/contract/usage.ts';

/** The body of `GET /models`, serialized once, as a catalog never changes. */
export class ModelList {
  /** In the order of the catalog. */
  readonly #models: readonly ModelRecord[];
  /** The complete list. */
  readonly all: Buffer;
  /** Lists by the patterns of allowed models. */
  readonly #lists = new LRUCache<string, Buffer>({ max: MAX_LISTS });

  constructor(models: Iterable<Model>) {
    this.#models = [...models].map((model) => {
      return { names: [model.id, ...model.aliases], record: recordOf(model) };
    });
    this.all = listBody(this.#models);
  }

  /** The list of allowed models, cached by their patterns. */
  only(patterns: ModelPatterns): Buffer {
    const known = this.#lists.get(patterns.name);
    if (known) return known;
    const list = listBody(this.#allowed(patterns));
    this.#lists.set(patterns.name, list);
    return list;
  }

  /** The list from an offset on, for clients that expect several pages. */
  from(offset: number, patterns: ModelPatterns | undefined): Buffer {
    return listBody(patterns ? this.#allowed(patterns) : this.#models, offset);
  }

  #allowed(patterns: ModelPatterns): readonly ModelRecord[] {
    return this.#models.filter(({ names }) => names.some((name) => patterns.allows(name)));
  }
}

/** `GET /models/{id}`. */
export function recordOf(model: Model): Buffer {
  return Buffer.from(JSON.stringify(modelRecord(model)));
}

/** Most lists that are cached: apps sell a few sets of models. */
const MAX_LISTS = 100;

interface ModelRecord {
  /** The ID and aliases: a key that allows one of them lists the model. */
  readonly names: readonly string[];
  readonly record: Buffer;
}

/** OpenAI's list with OpenRouter's extra members: one page, and the number of models. */
function listBody(models: readonly ModelRecord[], offset = 0): Buffer {
  const parts = models.slice(offset).flatMap(({ record }, i) => (i === 0 ? [record] : [COMMA, record]));
  const tail = Buffer.from(`],"links":{"next":null},"total_count":${models.length}}`);
  return Buffer.concat([LIST_HEAD, ...parts, tail]);
}

const LIST_HEAD = Buffer.from('{"object":"list","data":[');
const COMMA = Buffer.from(',');

/** Members of OpenRouter's records that the router doesn't know. */
const UNKNOWN = {
  default_parameters: null,
  per_request_limits: null,
  supported_voices: null,
};

/** OpenAI's record with additional members for clients: Vercel's (`context_window`,
 * `pricing.input`), OpenRouter's (`context_length`, `pricing.prompt`) and vLLM's (`max_model_len`).
 *
 * OpenRouter's clients reject a list with missing members: unknown ones are null or empty.
 */
function modelRecord(model: Model): Readonly<Record<string, unknown>> {
  const { price, contextWindow, maxOutputTokens } = model;
  const { deprecatedAt, shutdownAt, replacement } = model.deprecation ?? {};
  return {
    id: model.id,
    object: 'model',
    created: model.created,
    owned_by: model.ownedBy,
    name: model.name,
    ...(model.description !== undefined && { description: model.description }),
    type: 'language',
    ...(model.aliases.length > 0 && { aliases: model.aliases }),
    ...(deprecatedAt !== undefined && { deprecated_at: dayOf(deprecatedAt) }),
    ...(shutdownAt !== undefined && {
      shutdown_date: dayOf(shutdownAt),
      expiration_date: dayOf(shutdownAt),
    }),
    ...(replacement !== undefined && { replacement }),
    context_length: contextWindow ?? null,
    ...(contextWindow !== undefined && { context_window: contextWindow, max_model_len: contextWindow }),
    ...(maxOutputTokens !== undefined && {
      max_tokens: maxOutputTokens,
      max_completion_tokens: maxOutputTokens,
    }),
    pricing: pricingRecord(price),
    canonical_slug: model.id,
    architecture: {
      modality: null,
      input_modalities: model.inputModalities,
      output_modalities: ['text'],
    },
    supported_parameters: model.supportedParameters,
    top_provider: {
      context_length: contextWindow ?? null,
      max_completion_tokens: maxOutputTokens ?? null,
      // The router moderates nothing.
      is_moderated: false,
    },
    // Relative to the base URL.
    links: { details: `models/${encodeURIComponent(model.id)}` },
    ...UNKNOWN,
  };
}

/** Decimal strings, USD per token or call; prices equal to plain input or output are omitted. */
function pricingRecord(price: Price): Readonly<Record<string, unknown>> {
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

/** Vercel's form: `min` is inclusive, `max` is the next tier's `min`. */
function tiersOf(price: Price, costOf: (rates: Rates) => string): readonly unknown[] {
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
