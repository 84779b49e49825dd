import { InvalidRequestError } from '../errors/request-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import { FREE, type Price, withHourWrites } from '../metering/price.ts';
import { pricesOfTier, tierNamed } from '../metering/service-tiers.ts';
import type { SelectedModels } from './model-selection.ts';
import type { PriceVariant, Model, Target } from './model.ts';

/** The fields of a request that have their own price. */
type PricedFields = Pick<ChatRequest, 'serviceTier' | 'hourWrites'>;

/** Keeps the targets that have a price for the requested service tier and cache writes; holds use those prices.
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
  const candidates = model.targets.map((target) => ({ target, priceVariant: variantFor(target, request) }));
  const [first, ...rest] = candidates
    .filter(
      ({ target, priceVariant }) => isFreeByok(target) || heldPrices(target.price, priceVariant).length > 0,
    )
    .map(({ target, priceVariant }) => (priceVariant ? { ...target, priceVariant } : target));
  if (!first) return undefined;
  const prices = [first, ...rest].flatMap(({ price, priceVariant }) => {
    const held = heldPrices(price, priceVariant);
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

/** This provider's own names for the tier with the plain price. */
export function plainNamesOf({ serviceTiers }: Target['provider']): readonly string[] {
  return serviceTiers?.plain ?? [];
}

/** The prices that a hold must cover; empty if a requested feature has no price. */
function heldPrices(price: Price, priceVariant: PriceVariant | undefined): readonly Price[] {
  if (!priceVariant) return [price];
  const prices = pricesOfTier(price, priceVariant.serviceTier);
  if (!priceVariant.hourWrites || price === FREE) return prices;
  // With `auto`, tiers without that price are not known to serve such requests.
  const selling = prices.filter(({ cacheWriteHourInput }) => cacheWriteHourInput !== undefined);
  return selling.length < prices.length && priceVariant.serviceTier !== 'auto'
    ? []
    : selling.map(withHourWrites);
}

/** With its own key at no price, the client pays the provider for everything. */
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
    `The service tier ${JSON.stringify(name.slice(0, MAX_SHOWN_LENGTH))} has no price for this model; supported tiers: ${sold}.`,
    'service_tier',
  );
}

function noHourWrites(): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_parameter',
    'One-hour cache writes have no price for this model; use a "ttl" of "5m", or none.',
    'cache_control.ttl',
  );
}
