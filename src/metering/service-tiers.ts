import { charge, type Price } from './price.ts';
import type { Usage } from './usage-dialects.ts';

/** Names of the service tier that has the plain price, at every provider. */
export const PLAIN_TIERS: ReadonlySet<string> = new Set(['default', 'standard']);

/** The name of a tier as prices have it; undefined for the one that has the plain price. */
export function tierNamed(name: string, plainNames: readonly string[]): string | undefined {
  if (PLAIN_TIERS.has(name) || plainNames.includes(name)) return undefined;
  // OpenAI's newer name for it; it answers with the other one.
  return name === 'fast' ? 'priority' : name;
}

/** The prices that a request for a tier may be charged by, which its hold covers; none where it isn't sold. */
export function pricesOfTier(price: Price, requested: string | undefined): readonly Price[] {
  if (requested === undefined) return [price];
  // The provider chooses.
  if (requested === 'auto') return [price, ...price.serviceTiers.values()];
  const tier = price.serviceTiers.get(requested);
  return tier ? [tier] : [];
}

/** The price of the tier that served, by the provider's word or else as asked; undefined where that has none. */
export function priceOfServed(
  price: Price,
  requested: string | undefined,
  reported: string | undefined,
  plainNames: readonly string[],
): Price | undefined {
  // An `auto` is no tier that serves: it repeats what was asked.
  const served = reported === undefined || reported === 'auto' ? requested : tierNamed(reported, plainNames);
  return served === undefined || served === 'auto' ? price : price.serviceTiers.get(served);
}

/** Of the prices that the hold covers, the one by which this usage costs most. */
export function dearestHeld(price: Price, requested: string | undefined, usage: Usage): Price {
  const [first = price, ...others] = pricesOfTier(price, requested);
  return others.reduce(
    (dearest, each) => (charge(usage, each) > charge(usage, dearest) ? each : dearest),
    first,
  );
}
