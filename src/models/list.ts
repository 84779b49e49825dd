import { usdPerToken } from '../metering/price.ts';
import type { Model } from './catalog.ts';

/** `GET /models` and `GET /models/{id}`, serialised once: the models of a catalog don't change. */
export class ModelList {
  /** In the order of the catalog. */
  readonly #records: ReadonlyMap<string, Buffer>;
  readonly all: Buffer;

  constructor(models: Iterable<Model>) {
    this.#records = new Map([...models].map((model) => [model.id, toBytes(modelRecord(model))]));
    this.all = listOf([...this.#records.values()]);
  }

  get(id: string): Buffer | undefined {
    return this.#records.get(id);
  }

  /** The list of those models alone that somebody may use. */
  only(allows: (id: string) => boolean): Buffer {
    return listOf([...this.#records].filter(([id]) => allows(id)).map(([, record]) => record));
  }
}

function listOf(records: readonly Buffer[]): Buffer {
  const pieces = records.flatMap((record, i) => (i === 0 ? [record] : [COMMA, record]));
  return Buffer.concat([LIST_HEAD, ...pieces, LIST_TAIL]);
}

const LIST_HEAD = Buffer.from('{"object":"list","data":[');
const COMMA = Buffer.from(',');
const LIST_TAIL = Buffer.from(']}');

/**
 * OpenAI's record with the names beside it that clients look for: Vercel's (`context_window`,
 * `pricing.input`), OpenRouter's (`context_length`, `pricing.prompt`) and vLLM's (`max_model_len`).
 * Prices are decimal strings, USD per token.
 */
function modelRecord(model: Model): Readonly<Record<string, unknown>> {
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
