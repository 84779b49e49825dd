import type { Target } from '../../catalog/model.ts';
import type { ListedModel } from '../../catalog/provider-model-list.ts';
import { priceQuestion } from '../../catalog/resolve-model.ts';
import { type PriceCatalogs, type PriceSource, SOURCES } from './compare-prices.ts';

/** The output limit of a model, from the first source that knows it. */
export interface MaxOutput {
  readonly tokens: number;
  readonly source: PriceSource;
}

export function findMaxOutput(
  { provider, model }: Target,
  listed: ListedModel | undefined,
  catalogs: PriceCatalogs,
): MaxOutput | undefined {
  const question = priceQuestion(provider, model);
  const known: Record<PriceSource, () => number | undefined> = {
    provider: () => listed?.maxOutputTokens,
    catalog: () => catalogs.catalog?.find(question)?.maxOutputTokens,
    package: () => catalogs.package?.find(question)?.maxOutputTokens,
  };
  for (const source of ['provider', 'catalog', 'package'] as const) {
    const tokens = known[source]();
    if (tokens !== undefined) return { tokens, source };
  }
  return undefined;
}

/** Warns if the model writes more than the config's limit: a request without a limit may then cost more than its hold. */
export function outputWarning(target: Target, known: MaxOutput | undefined): readonly string[] {
  const { maxTokens: max, insertsLimit } = target.output;
  if (!known || max === undefined || insertsLimit || known.tokens <= max) return [];
  const place = `${target.modelId} at ${target.provider.name}/${target.model}`;
  return [
    `${place} has maxOutputTokens ${max}, but writes up to ${known.tokens} (${SOURCES[known.source]}) without a limit ` +
      "from the client; raise it, or set enforceOutputLimit: 'insert'",
  ];
}
