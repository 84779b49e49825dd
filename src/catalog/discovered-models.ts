import type { ModelOptions } from '../options/model-options.ts';
import { type Pricing, type ReportedPricing } from '../metering/pricing.ts';
import type { Model } from './model.ts';
import type { ListedModel } from './provider-model-list.ts';
import type { DiscoveryTerms } from './discovery-options.ts';
import type { Provider } from './provider.ts';
import { costsMore, lacksPrices } from './implied-prices.ts';
import { type ResolveContext, priceQuestion, resolveModel } from './resolve-model.ts';

/** The models of a list that can be served: selected by `only`, and with a known price. */
export function discoveredModels(
  provider: Provider,
  listed: readonly ListedModel[],
  context: ResolveContext,
): readonly Model[] {
  const { discovery } = provider;
  if (!discovery) return [];
  return listed.flatMap((each) => {
    if (discovery.only && !discovery.only.some((pattern) => matchesPattern(each.id, pattern))) return [];
    for (const pricing of pricingsOf(discovery, each, context)) {
      if (pricing === 'catalog' && isPricedAsText(provider, each, context)) continue;
      if (pricing === discovery.pricing && isUnderpriced(provider, each, pricing, context)) continue;
      try {
        const options = optionsOf(provider, discovery, each, pricing);
        const model = resolveModel(discovery.prefix + each.id, options, context);
        // Lists show the search fee for every model that can search, but few requests do.
        return [pricing === each.pricing ? { ...model, webSearchesNeeded: 0 } : model];
      } catch (error) {
        // A model with an invalid price, limit or ID is skipped.
        if (!(error instanceof TypeError)) throw error;
      }
    }
    return [];
  });
}

/** Whether the name implies prices that the catalog entry lacks. */
function isPricedAsText(provider: Provider, { id }: ListedModel, { prices }: ResolveContext): boolean {
  const entry = prices?.find(priceQuestion(provider, id));
  return entry !== undefined && lacksPrices([id, entry.name], entry.pricing);
}

/** Whether the name implies a higher price than the one configured for the whole list. */
function isUnderpriced(
  provider: Provider,
  { id }: ListedModel,
  pricing: ModelOptions['pricing'],
  { prices }: ResolveContext,
): boolean {
  if (pricing === 'catalog') return false;
  return costsMore(id, provider, pricing, prices?.find(priceQuestion(provider, id))?.pricing);
}

/** The prices to try, in order. */
function pricingsOf(
  { pricing }: DiscoveryTerms,
  listed: ListedModel,
  { prices }: ResolveContext,
): readonly ModelOptions['pricing'][] {
  if (pricing !== undefined && pricing !== 'provider') return [pricing];
  const own = listed.pricing ? [listed.pricing] : [];
  return pricing === undefined && prices ? [...own, 'catalog'] : own;
}

function optionsOf(
  provider: Provider,
  { markup, contextWindow, maxOutputTokens, enforceOutputLimit }: DiscoveryTerms,
  listed: ListedModel,
  pricing: ModelOptions['pricing'],
): ModelOptions {
  const window = listed.contextWindow ?? contextWindow;
  const most = listed.maxOutputTokens ?? maxOutputTokens ?? window;
  return {
    targets: [
      {
        provider: provider.name,
        model: listed.id,
        ...(listed.pricing && { cost: costOf(provider, listed.pricing) }),
      },
    ],
    pricing,
    ...(markup && { markup }),
    ...(window !== undefined && { contextWindow: window }),
    // Some lists exceed the context window.
    ...(most !== undefined && { maxOutputTokens: Math.min(most, window ?? most) }),
    ...(enforceOutputLimit && { enforceOutputLimit }),
    ...listed.info,
  };
}

/** The listed price, or the reported cost with the listed price as its ceiling. */
function costOf({ reportsAllCost }: Provider, listed: Pricing): Pricing | ReportedPricing {
  return reportsAllCost ? { reported: true, ceiling: listed } : listed;
}

function matchesPattern(id: string, pattern: string): boolean {
  return pattern.endsWith('*') ? id.startsWith(pattern.slice(0, -1)) : id === pattern;
}
