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

/** A warning if the provider bills cache writes of this model at more than input, and the price has no more for them. */
export function cacheWriteWarnings(target: Target): readonly string[] {
  const { modelId, model, price, provider, usesByok } = target;
  const isPriced = price === FREE || price.reported || price.cacheWriteInput > price.input;
  if (usesByok || isPriced || !billsCacheWrites(model, provider)) return [];
  return [
    `${modelId} at ${provider.name}/${model} costs more than input where a prompt is written to a cache, but its price has no cacheWriteInput above input`,
  ];
}

/** Anthropic's Claude, OpenAI's models from GPT-5.6 on, and Alibaba Cloud's own models. */
function billsCacheWrites(model: string, { preset }: Target['provider']): boolean {
  if (/\bclaude/i.test(model) || (preset === 'qwen' && /^qwen/i.test(model))) return true;
  const [, major = '0', minor = '0'] = /\bgpt-(\d)(?:\.(\d{1,2}))?(?!\d)/i.exec(model) ?? [];
  return Number(major) > 5 || (major === '5' && Number(minor) >= 6);
}

function isBelow(fee: NanoDollars, billed: NanoDollars, { markup }: Price): boolean {
  return fee * markup.numerator < billed * markup.denominator;
}
