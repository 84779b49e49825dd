import { FREE } from '../metering/price.ts';
import type { Target } from '../models/catalog.ts';
import { unpricedTools } from '../models/server-tools.ts';

/** What a provider is known to sell at a price of its own, and a target has none of: requests for it are refused. */
export function unpricedAt(target: Target): readonly string[] {
  const { price, provider } = target;
  const tools = unpricedTools(target);
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
