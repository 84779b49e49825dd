import { FAKE_MODEL } from './chunk.ts';
import { respond, type Script } from './script.ts';

/** A model in the list of a fake provider. */
export interface FakeModel {
  readonly id: string;
  /** In tokens. @default 128000 */
  readonly contextWindow?: number;
  /** In tokens. @default 16384 */
  readonly maxOutputTokens?: number;
  /** USD per million tokens, as decimal strings; null for a list without prices. @default { input: '0.15', output: '0.60' } */
  readonly prices?: { readonly input: string; readonly output: string } | null;
}

/** Answers with a list of models, as OpenRouter's: with prices and context sizes. @default the one model `fake-model` */
export function modelList(...models: readonly (string | FakeModel)[]): Script {
  const listed = models.length === 0 ? [FAKE_MODEL] : models;
  const data = listed.map((model) => entry(typeof model === 'string' ? { id: model } : model));
  return respond(200, { object: 'list', data });
}

function entry({
  id,
  contextWindow = 128_000,
  maxOutputTokens = 16_384,
  prices = { input: '0.15', output: '0.60' },
}: FakeModel): object {
  return {
    id,
    object: 'model',
    created: 0,
    owned_by: 'fake',
    context_length: contextWindow,
    top_provider: { context_length: contextWindow, max_completion_tokens: maxOutputTokens },
    ...(prices && { pricing: { prompt: perToken(prices.input), completion: perToken(prices.output) } }),
  };
}

/** A price per million tokens as one per token. */
function perToken(price: string): string {
  return (Number(price) / 1e6).toFixed(12);
}
