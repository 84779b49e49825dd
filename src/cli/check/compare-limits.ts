import type { Target } from '../../catalog/model.ts';
import type { ListedModel } from '../../catalog/provider-model-list.ts';
import { priceQuestion } from '../../catalog/resolve-model.ts';
import { type PriceCatalogs, type PriceSource, SOURCES } from './compare-prices.ts';

/** The most that a model writes, by the first source that knows it. */
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

/** What a request without a limit may cost beyond its hold: the model writes more than the config says. */
export function outputWarning(target: Target, own: MaxOutput | undefined): readonly string[] {
  const { most, isLimited } = target.output;
  if (!own || most === undefined || isLimited || own.tokens <= most) return [];
  const place = `${target.modelId} at ${target.provider.name}/${target.model}`;
  return [
    `${place} has maxOutputTokens ${most}, and writes up to ${own.tokens} (${SOURCES[own.source]}) where a client gives no ` +
      "limit: raise it, or set enforceOutputLimit: 'insert'",
  ];
}
