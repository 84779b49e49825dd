import { InvalidRequestError } from '../errors/errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import { FREE, type Price, withHourWrites } from '../metering/price.ts';
import { pricesOfTier, tierNamed } from '../metering/service-tiers.ts';
import type { SelectedModels } from './model-selection.ts';
import type { PriceVariant, Model, Target } from './model.ts';

/** What of a request decides that. */
type PricedFields = Pick<ChatRequest, 'serviceTier' | 'hourWrites'>;

/**
 * Models as a request asks them: with the targets that have a price of what it asks, held for at those prices.
 *
 * @throws {InvalidRequestError} if no target has one
 */
export function keepPricedTargets(models: SelectedModels, request: PricedFields): SelectedModels {
  if (request.serviceTier === undefined && !request.hourWrites) return models;
  const [first, ...rest] = models
    .map((model) => withPricedTargets(model, request))
    .filter((model) => model !== undefined);
  if (first) return [first, ...rest];
  const { serviceTier } = request;
  const sellsTier = models.some(
    (model) => withPricedTargets(model, { serviceTier, hourWrites: false }) !== undefined,
  );
  throw serviceTier === undefined || sellsTier ? noHourWrites() : noSuchTier(serviceTier, models);
}

function withPricedTargets(model: Model, request: PricedFields): Model | undefined {
  const asking = model.targets.map((target) => ({ target, asked: variantFor(target, request) }));
  const [first, ...rest] = asking
    .filter(({ target, asked }) => isFreeByok(target) || heldPrices(target.price, asked).length > 0)
    .map(({ target, asked }) => (asked ? { ...target, priceVariant: asked } : target));
  if (!first) return undefined;
  const prices = [first, ...rest].flatMap(({ price, priceVariant: asked }) => {
    const held = heldPrices(price, asked);
    return held.length > 0 ? held : [price];
  });
  return { ...model, targets: [first, ...rest], prices: [...new Set(prices)] };
}

function variantFor(
  { provider }: Target,
  { serviceTier, hourWrites }: PricedFields,
): PriceVariant | undefined {
  const named = serviceTier === undefined ? undefined : tierNamed(serviceTier, plainNamesOf(provider));
  return named === undefined && !hourWrites ? undefined : { serviceTier: named, hourWrites };
}

/** Names of the tier with the plain price that only this provider has. */
export function plainNamesOf({ serviceTiers }: Target['provider']): readonly string[] {
  return serviceTiers?.plain ?? [];
}

/** None where something of what is asked isn't sold. */
function heldPrices(price: Price, asked: PriceVariant | undefined): readonly Price[] {
  if (!asked) return [price];
  const prices = pricesOfTier(price, asked.serviceTier);
  if (!asked.hourWrites || price === FREE) return prices;
  // With `auto` those tiers that don't sell it aren't known to serve it.
  const selling = prices.filter(({ cacheWriteHourInput }) => cacheWriteHourInput !== undefined);
  return selling.length < prices.length && asked.serviceTier !== 'auto' ? [] : selling.map(withHourWrites);
}

/** Its client pays the provider, whatever it asks. */
function isFreeByok({ usesByok, price }: Target): boolean {
  return usesByok && price === FREE;
}

const MAX_SHOWN_LENGTH = 64;

function noSuchTier(name: string, models: SelectedModels): InvalidRequestError {
  const names = models.flatMap(({ targets }) =>
    targets.flatMap(({ price }) => [...price.serviceTiers.keys()]),
  );
  const sold = [...new Set(['auto', 'default', ...names])].map((each) => JSON.stringify(each)).join(', ');
  return new InvalidRequestError(
    'unsupported_service_tier',
    `The service tier ${JSON.stringify(name.slice(0, MAX_SHOWN_LENGTH))} has no price here; those that have one are ${sold}.`,
    'service_tier',
  );
}

function noHourWrites(): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_parameter',
    'What is written to a cache for an hour has no price here; use a "ttl" of "5m", or none.',
    'cache_control.ttl',
  );
}
