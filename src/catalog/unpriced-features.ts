import { FREE, type Price } from '../metering/price.ts';
import type { Target } from './model.ts';
import { PRESET_FEES } from './preset-fees.ts';
import { unpricedTools } from './server-tools.ts';

/** Features that a provider bills separately and a target has no price for: such requests are rejected. */
export function unpricedFeatures(target: Target): readonly string[] {
  const { price, provider, wildcard } = target;
  const searches = wildcard !== undefined && !pricesSearches(price) && sellsSearches(provider);
  const tools = [...unpricedTools(target), ...(searches ? ['models that search'] : [])];
  if (price === FREE) return tools;
  const tiers = (provider.serviceTiers?.sold ?? []).filter((name) => !price.serviceTiers.has(name));
  // A provider that bills cache writes may bill those with a lifetime of an hour separately.
  const lacksHour = price.cacheWriteInput !== price.input && price.cacheWriteHourInput === undefined;
  return [
    ...tiers.map((name) => `service tier ${name}`),
    ...(lacksHour ? ['cache writes for an hour'] : []),
    ...tools,
  ];
}

function sellsSearches({ preset }: Target['provider']): boolean {
  const { tools = {}, fields = {} } = PRESET_FEES[preset ?? ''] ?? {};
  return [...Object.keys(tools), ...Object.keys(fields)].some((name) => name.includes('search'));
}

export function pricesSearches({ webSearch, request }: Price): boolean {
  return webSearch > 0n || request > 0n;
}
