import { worstCase, type Quote } from '../metering/estimate.ts';
import { pricesOfTier } from '../metering/price.ts';
import type { Model, Target } from '../catalog/model.ts';
import type { RoutingStrategy } from '../options/model-options.ts';
import type { CircuitBreakers } from './circuit-breaker.ts';

/** The targets of several models, those of the first before those of the next. */
export function targetsInOrder(
  [first, ...rest]: readonly [Model, ...Model[]],
  quote: Quote,
  breakers: CircuitBreakers,
  account: string,
): readonly [Target, ...Target[]] {
  const ordered = orderTargets(first, quote, breakers, account);
  if (rest.length === 0) return ordered;
  return [...ordered, ...rest.flatMap((model) => orderTargets(model, quote, breakers, account))];
}

/** Orders targets for trying; ejected ones come last, but are still tried.
 * @param random - returns 0 to below 1
 */
export function orderTargets(
  { targets, strategy }: Model,
  quote: Quote,
  breakers: CircuitBreakers,
  account: string,
  random: () => number = Math.random,
): readonly [Target, ...Target[]] {
  const [only, second] = targets;
  if (!second) return targets;
  const now = Date.now();
  const ordered = byStrategy(targets, strategy, quote, breakers, now, random);
  const available = ordered.filter((target) => breakers.of(target).isAvailable(now, account));
  const ejected = ordered.filter((target) => !available.includes(target));
  ejected.sort((a, b) => breakers.of(a).retryAt - breakers.of(b).retryAt);
  const [first = only, ...rest] = [...available, ...ejected];
  return [first, ...rest];
}

function byStrategy(
  targets: readonly Target[],
  strategy: RoutingStrategy,
  quote: Quote,
  breakers: CircuitBreakers,
  now: number,
  random: () => number,
): Target[] {
  if (strategy === 'ordered') return [...targets];
  // Efraimidis and Spirakis: sorting by exponential times with rate `weight` is a weighted draw without replacement.
  if (strategy === 'weighted') return ascending(targets, ({ weight }) => -Math.log(1 - random()) / weight);
  if (strategy === 'cheapest') {
    return ascending(targets, ({ cost, price, priceVariant }) => {
      const own = cost ?? price;
      const [first = own, ...others] = pricesOfTier(own, priceVariant?.serviceTier);
      return Math.max(...[first, ...others].map((each) => Number(worstCase(quote, each))));
    });
  }
  const byLoad = ascending(targets, (target) => breakers.of(target).load(now));
  const two = ascending(targets, () => random()).slice(0, 2);
  const first = byLoad.filter((target) => two.includes(target)).slice(0, 1);
  return [...first, ...byLoad.filter((target) => !first.includes(target))];
}

function ascending(targets: readonly Target[], rank: (target: Target) => number): Target[] {
  return targets
    .map((target) => ({ target, rank: rank(target) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ target }) => target);
}
