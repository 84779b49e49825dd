import { worstCase, type Quote } from '../metering/estimate.ts';
import { pricesOfTier } from '../metering/price.ts';
import type { Model, Target } from '../catalog/model.ts';
import type { RoutingStrategy } from '../options/model-options.ts';
import { TargetsEjectedError } from '../errors/upstream-errors.ts';
import type { CircuitBreakers } from './circuit-breaker.ts';
import type { Conversation } from './conversations.ts';
import type { EjectionsByHand } from './ejections-by-hand.ts';

/**
 * The targets of several models, those of the first before those of the next.
 *
 * @param conversation - goes on, within each model, where its last turn was served
 * @throws {TargetsEjectedError} if operators have ejected all of them
 */
export function targetsInOrder(
  [first, ...rest]: readonly [Model, ...Model[]],
  quote: Quote,
  breakers: CircuitBreakers,
  account: string,
  conversation?: Conversation,
): readonly [Target, ...Target[]] {
  const ordered = orderTargets(first, quote, breakers, account, conversation);
  const all: readonly [Target, ...Target[]] =
    rest.length === 0
      ? ordered
      : [...ordered, ...rest.flatMap((model) => orderTargets(model, quote, breakers, account, conversation))];
  return breakers.byHand.isEmpty ? all : withoutEjected(all, breakers.byHand);
}

/** @throws {TargetsEjectedError} if operators have ejected all of them */
function withoutEjected(targets: readonly Target[], byHand: EjectionsByHand): readonly [Target, ...Target[]] {
  const now = Date.now();
  const ends: number[] = [];
  const left = targets.filter((target) => {
    const ejection = byHand.of(target, now);
    if (ejection) ends.push(ejection.until?.getTime() ?? Infinity);
    return !ejection;
  });
  const [first, ...others] = left;
  if (!first) throw new TargetsEjectedError(Math.min(...ends) - now);
  return [first, ...others];
}

/** Orders targets for trying; ejected ones come last, but are still tried.
 * @param random - returns 0 to below 1
 */
export function orderTargets(
  { targets, strategy }: Model,
  quote: Quote,
  breakers: CircuitBreakers,
  account: string,
  conversation?: Conversation,
  random: () => number = Math.random,
): readonly [Target, ...Target[]] {
  const [only, second] = targets;
  if (!second) return targets;
  const now = Date.now();
  const byRule = byStrategy(targets, strategy, quote, breakers, now, random, conversation);
  const ordered = conversation?.preferred(byRule) ?? byRule;
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
  conversation: Conversation | undefined,
): Target[] {
  if (strategy === 'ordered') return [...targets];
  // Efraimidis and Spirakis: sorting by exponential times with rate `weight` is a weighted draw without replacement.
  if (strategy === 'weighted') {
    return ascending(targets, (target) => {
      const drawn = conversation ? conversation.draw(target) : random();
      const weight = breakers.weights.of(target);
      return weight === 0 ? Infinity : -Math.log(1 - drawn) / weight;
    });
  }
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
