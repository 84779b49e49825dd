import { formatUsd, type NanoDollars } from '../../ledger/contract/money.ts';
import { FREE, type Price } from '../../metering/price.ts';
import type { Target } from '../../catalog/model.ts';
import { PRESET_FEES } from '../../catalog/preset-fees.ts';
import { searchesByName } from '../../catalog/priced-apart.ts';
import { unpricedTools } from '../../catalog/resolve-server-tools.ts';

/** What a provider is known to sell at a price of its own, and a target has none of: requests for it are refused. */
export function unpricedFeatures(target: Target): readonly string[] {
  const { price, provider, wildcard } = target;
  const searches = wildcard !== undefined && !pricesSearches(price) && sellsSearches(provider);
  const tools = [...unpricedTools(target), ...(searches ? ['models that search'] : [])];
  if (price === FREE) return tools;
  const tiers = (provider.serviceTiers?.sold ?? []).filter((name) => !price.serviceTiers.has(name));
  // Who bills writes to a cache apart may bill those for an hour again apart.
  const lacksHour = price.cacheWriteInput !== price.input && price.cacheWriteHourInput === undefined;
  return [
    ...tiers.map((name) => `service tier ${name}`),
    ...(lacksHour ? ['cache writes for an hour'] : []),
    ...tools,
  ];
}

/** What of the prices of tiers may not be meant so. */
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
      ? [`${place} has a price of the service tier ${name}, which ${provider.preset} isn't known to have`]
      : []),
    ...(cost && cost !== FREE && !reportsCost && !cost.serviceTiers.has(name)
      ? [
          `${place} has a price of the service tier ${name}, and its cost has none: what that costs isn't known`,
        ]
      : []),
  ]);
}

/** Which fees are below what they are for, or have no cost beside them. */
export function feeWarnings(target: Target): readonly string[] {
  const { modelId, model, price, cost, reportsCost, provider, serverTools } = target;
  const place = `${modelId} at ${provider.name}/${model}`;
  const below = (name: string, fee: NanoDollars, billed: NanoDollars): string[] =>
    // What is given away is meant to be.
    fee > 0n && isBelow(fee, billed, price)
      ? [
          `${place} has a fee for ${name} below its cost: ${formatUsd(fee)} and markup; costs ${formatUsd(billed)} USD`,
        ]
      : [];
  const ofTools = [...serverTools].flatMap(([name, tool]) => {
    const billed = tool.cost ?? (tool.isCounted ? cost?.webSearch : undefined);
    const isKnown = tool.cost !== undefined || (billed !== undefined && billed > 0n);
    if (isKnown && billed !== undefined) return below(name, tool.fee, billed);
    return cost && cost !== FREE && !reportsCost
      ? [`${place} has a fee for ${name} and no cost of it: what its requests cost isn't known`]
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
      ? [`${place} searches, by its name, and its price has no fee for that (webSearch or request)`]
      : []),
  ];
}

function sellsSearches({ preset }: Target['provider']): boolean {
  const { tools = {}, fields = {} } = PRESET_FEES[preset ?? ''] ?? {};
  return [...Object.keys(tools), ...Object.keys(fields)].some((name) => name.includes('search'));
}

function pricesSearches({ webSearch, request }: Price): boolean {
  return webSearch > 0n || request > 0n;
}

function isBelow(fee: NanoDollars, billed: NanoDollars, { markup }: Price): boolean {
  return fee * markup.numerator < billed * markup.denominator;
}
