import { usdPerToken } from '../metering/price.ts';
import type { Catalog, Model } from './catalog.ts';

/** `GET /models` and `GET /models/{id}`, serialised once: the catalog doesn't change. */
export interface ModelList {
  readonly all: Buffer;
  readonly byId: ReadonlyMap<string, Buffer>;
}

export function createModelList(catalog: Catalog): ModelList {
  const records = [...catalog.values()].map(modelRecord);
  return {
    all: toBytes({ object: 'list', data: records }),
    byId: new Map(records.map((record) => [record.id, toBytes(record)])),
  };
}

/**
 * OpenAI's record with the names beside it that clients look for: Vercel's (`context_window`,
 * `pricing.input`), OpenRouter's (`context_length`, `pricing.prompt`) and vLLM's (`max_model_len`).
 * Prices are decimal strings, USD per token.
 */
function modelRecord(model: Model): { readonly id: string; readonly [field: string]: unknown } {
  const { price, contextWindow, maxOutputTokens } = model;
  const input = usdPerToken(price.input);
  const output = usdPerToken(price.output);
  const cachedInput = usdPerToken(price.cachedInput);
  return {
    id: model.id,
    object: 'model',
    created: model.created,
    owned_by: model.ownedBy,
    name: model.name,
    ...(model.description !== undefined && { description: model.description }),
    type: 'language',
    ...(contextWindow !== undefined && {
      context_window: contextWindow,
      context_length: contextWindow,
      max_model_len: contextWindow,
    }),
    ...(maxOutputTokens !== undefined && {
      max_tokens: maxOutputTokens,
      max_completion_tokens: maxOutputTokens,
    }),
    pricing: { input, output, input_cache_read: cachedInput, prompt: input, completion: output },
  };
}

function toBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
