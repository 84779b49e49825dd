import type { Target } from '../catalog/model.ts';
import { likelyCharge, type Quote } from '../metering/estimate.ts';
import { type Price, pricesOfTier } from '../metering/price.ts';
import type { RoutingStrategy } from '../options/strategies.ts';
import type { CircuitBreakers } from './circuit-breaker.ts';
import type { Conversation } from './conversations.ts';
import type { Measure, Speed } from './target-history.ts';

/** What an order of targets depends on. */
export interface RankTerms {
  readonly quote: Quote;
  readonly breakers: CircuitBreakers;
  /** Undefined if the request belongs to none. */
  readonly conversation: Conversation | undefined;
  /** In ms since the epoch. */
  readonly now: number;
  /** Returns 0 to below 1. */
  readonly random: () => number;
}

/** The targets in the order of a strategy. */
export function rankTargets(
  targets: readonly Target[],
  strategy: RoutingStrategy,
  terms: RankTerms,
): readonly Target[] {
  switch (strategy) {
    case 'weighted':
      return byWeight(targets, terms);
    case 'cheapest':
      return ascending(targets, (target) => likelyPrice(target, target.cost ?? target.price, terms));
    case 'price':
      return ascending(targets, (target) => likelyPrice(target, target.price, terms));
    case 'fastest':
      return byLoad(targets, terms);
    case 'throughput':
      return byMeasure(targets, ({ throughput }) => throughput, 'most', terms);
    case 'latency':
      return byMeasure(targets, ({ latency }) => latency, 'least', terms);
    case 'ordered':
    default:
      return targets;
  }
}

/** Efraimidis and Spirakis: sorting by exponential times with rate `weight` is a weighted draw without replacement. */
function byWeight(
  targets: readonly Target[],
  { breakers, conversation, random }: RankTerms,
): readonly Target[] {
  return ascending(targets, (target) => {
    const drawn = conversation ? conversation.draw(target) : random();
    const weight = breakers.weights.of(target);
    return weight === 0 ? Infinity : -Math.log(1 - drawn) / weight;
  });
}

/** What this request likely costs at a price: the highest of the service tiers that may serve it. */
function likelyPrice(target: Target, price: Price, { quote, conversation }: RankTerms): number {
  const isWarm = conversation?.isAt(target) ?? false;
  const [first = price, ...others] = pricesOfTier(price, target.priceVariant?.serviceTier);
  return Math.max(...[first, ...others].map((each) => Number(likelyCharge(quote, each, isWarm))));
}

/** Of two random targets the one with less load, then the others by load. */
function byLoad(targets: readonly Target[], { breakers, random }: RankTerms): readonly Target[] {
  const ordered = ascending(targets, (target) => breakers.of(target).load);
  const two = ascending(targets, () => random()).slice(0, 2);
  const first = ordered.find((target) => two.includes(target));
  return first ? toFront(ordered, first) : ordered;
}

/** Share of the requests that measure a target whose last measurements are few or old. */
const MEASURING = 0.1;

/**
 * By what was measured, then those that never were, at random.
 *
 * A target that this process hasn't tried in the last hour comes first, for one request at a time; so does, for a tenth of the
 * requests, one of those with too few answers in the last five minutes.
 */
function byMeasure(
  targets: readonly Target[],
  measureOf: (speed: Speed) => Measure,
  best: 'most' | 'least',
  { breakers, now, random }: RankTerms,
): readonly Target[] {
  const all = ascending(targets, random).map((target) => {
    const breaker = breakers.of(target);
    const speed = breaker.speed(now);
    const { median, isRecent } = measureOf(speed);
    return { target, median, isRecent, isNew: !speed.wasTried && !breaker.isRunning };
  });
  const sign = best === 'most' ? -1 : 1;
  const ranked = ascending(all, ({ median }) => (median === undefined ? Infinity : sign * median));
  const untried = ranked.find(({ isNew }) => isNew);
  const few = ranked.slice(1).filter(({ isRecent }) => !isRecent);
  const measured =
    few.length > 0 && random() < MEASURING ? few[Math.floor(random() * few.length)] : undefined;
  const first = untried ?? measured;
  return (first ? toFront(ranked, first) : ranked).map(({ target }) => target);
}

function ascending<T>(all: readonly T[], rank: (each: T) => number): readonly T[] {
  return all
    .map((each) => ({ each, rank: rank(each) }))
    .sort((a, b) => (a.rank === b.rank ? 0 : a.rank - b.rank))
    .map(({ each }) => each);
}

function toFront<T>(all: readonly T[], first: T): readonly T[] {
  return [first, ...all.filter((each) => each !== first)];
}
