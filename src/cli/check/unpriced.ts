import { formatUsd, type NanoDollars } from '../../ledger/contract/money.ts';
import { FREE, type Price } from '../../metering/price.ts';
import type { Target } from '../../catalog/model.ts';
import { searchesByName } from '../../catalog/implied-prices.ts';
import { pricesSearches } from '../../catalog/unpriced-features.ts';

/** Warnings on prices of service tiers. */
export function tierWarnings({
  modelId,
  model,
  price,
  cost,
  reportsCost,
  provider,
}: Target): readonly string[] {
  const place = `${modelId} at ${provider.name}/${model}`;
  const sold = provider.serviceTiers?.sold ?? [];
  return [...price.serviceTiers.keys()].flatMap((name) => [
    ...(provider.preset !== undefined && !sold.includes(name)
      ? [`${place} has a price for the service tier ${name}, which ${provider.preset} is not known to offer`]
      : []),
    ...(cost && cost !== FREE && !reportsCost && !cost.serviceTiers.has(name)
      ? [
          `${place} has a price but no cost for the service tier ${name}, so the cost of its requests is unknown`,
        ]
      : []),
  ]);
}

/** Warnings on fees that are below their cost, or have no cost. */
export function feeWarnings(target: Target): readonly string[] {
  const { modelId, model, price, cost, reportsCost, provider, serverTools } = target;
  const place = `${modelId} at ${provider.name}/${model}`;
  const below = (name: string, fee: NanoDollars, billed: NanoDollars): string[] =>
    // A fee of 0 is intended.
    fee > 0n && isBelow(fee, billed, price)
      ? [
          `${place} has a fee for ${name} below its cost: ${formatUsd(fee)} USD plus markup; costs ${formatUsd(billed)} USD`,
        ]
      : [];
  const ofTools = [...serverTools].flatMap(([name, tool]) => {
    const billed = tool.cost ?? (tool.countedAs === 'searches' ? cost?.webSearch : undefined);
    const isKnown = tool.cost !== undefined || (billed !== undefined && billed > 0n);
    if (isKnown && billed !== undefined) return below(name, tool.fee, billed);
    return cost && cost !== FREE && !reportsCost
      ? [`${place} has a fee but no cost for ${name}, so the cost of its requests is unknown`]
      : [];
  });
  const searches = cost ? below('a search (webSearch)', price.webSearch, cost.webSearch) : [];
  const requests = cost ? below('a request', price.request, cost.request) : [];
  const named = target.wildcard === undefined && price !== FREE && searchesByName(model, provider);
  const unpriced = named && !pricesSearches(price) && !price.reported;
  return [
    ...ofTools,
    ...searches,
    ...requests,
    ...(unpriced
      ? [`${place} searches the web, by its name, but its price has no fee for that (webSearch or request)`]
      : []),
  ];
}

function isBelow(fee: NanoDollars, billed: NanoDollars, { markup }: Price): boolean {
  return fee * markup.numerator < billed * markup.denominator;
}
