import { charge, type Price } from './price.ts';
import type { Usage } from './usage-dialects.ts';

/** Names, at every provider, of the service tier with the standard price. */
export const PLAIN_TIERS: ReadonlySet<string> = new Set(['default', 'standard']);

/** The tier's name in prices; undefined for the tier with the standard price. */
export function tierNamed(name: string, plainNames: readonly string[]): string | undefined {
  if (PLAIN_TIERS.has(name) || plainNames.includes(name)) return undefined;
  // OpenAI's newer name; its answers use the older one.
  return name === 'fast' ? 'priority' : name;
}

/** The prices that may apply to a request for a tier, all covered by its hold; empty if the tier has no price. */
export function pricesOfTier(price: Price, requested: string | undefined): readonly Price[] {
  if (requested === undefined) return [price];
  // The provider chooses the tier.
  if (requested === 'auto') return [price, ...price.serviceTiers.values()];
  const tier = price.serviceTiers.get(requested);
  return tier ? [tier] : [];
}

/** The price of the tier that served, as reported, or else as requested; undefined if that tier has no price. */
export function priceOfServed(
  price: Price,
  requested: string | undefined,
  reported: string | undefined,
  plainNames: readonly string[],
): Price | undefined {
  // `auto` isn't a tier: it repeats the request.
  const served = reported === undefined || reported === 'auto' ? requested : tierNamed(reported, plainNames);
  return served === undefined || served === 'auto' ? price : price.serviceTiers.get(served);
}

/** The price covered by the hold at which this usage costs most. */
export function dearestHeld(price: Price, requested: string | undefined, usage: Usage): Price {
  const [first = price, ...others] = pricesOfTier(price, requested);
  return others.reduce(
    (dearest, each) => (charge(usage, each) > charge(usage, dearest) ? each : dearest),
    first,
  );
}
