import { LRUCache } from 'lru-cache';

import { InvalidRequestError } from '../errors/request-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import { combineMarkups, type Markup, type MarkupTerms, NO_MARKUP, parseMarkup } from '../metering/markup.ts';
import { withMarkup, FREE, type Price, withHourWrites, pricesOfTier, tierNamed } from '../metering/price.ts';
import type { MarkupCaller } from '../options/router-options.ts';
import type { Model, PriceVariant, SelectedModels, Target } from './model.ts';

/** What prices depend on in a caller. */
export interface PricedCaller extends MarkupCaller {
  readonly markup?: Markup | undefined;
}

/** Most markups that are cached: resellers have a few price lists. */
const MAX_MARKUPS = 1000;

/** Combines the markup of a caller's key with the one that `resolveMarkup` returns for its account. */
export class AccountMarkups {
  readonly #resolveMarkup: ((caller: MarkupCaller) => Markup | undefined) | undefined;
  readonly #interned = new LRUCache<string, MarkupTerms>({ max: MAX_MARKUPS });

  constructor(resolveMarkup: ((caller: MarkupCaller) => Markup | undefined) | undefined) {
    this.#resolveMarkup = resolveMarkup;
  }

  /** Returns the same object for the same markup; undefined without one.
   *
   * @throws {TypeError} if `resolveMarkup` returns an invalid markup: no answer is better than one at a wrong price
   */
  of({ account, key, markup }: PricedCaller): MarkupTerms | undefined {
    const ofAccount = this.#resolveMarkup?.({ account, key });
    if (markup === undefined && ofAccount === undefined) return undefined;
    if (markup === undefined || ofAccount === undefined) return this.#terms(markup ?? ofAccount ?? {});
    return this.#intern(combineMarkups(this.#terms(markup), this.#terms(ofAccount)));
  }

  #terms(markup: Markup): MarkupTerms {
    return this.#intern(parseMarkup(markup, 'markup of a caller'));
  }

  #intern(terms: MarkupTerms): MarkupTerms {
    const known = this.#interned.get(terms.name);
    if (known) return known;
    this.#interned.set(terms.name, terms);
    return terms;
  }
}

const modelsByMarkup = new WeakMap<MarkupTerms, WeakMap<Model, Model>>();

/** A model with marked-up prices; the same object for the same arguments. */
export function withAccountMarkup(model: Model, markup: MarkupTerms): Model {
  if (markup === NO_MARKUP) return model;
  let models = modelsByMarkup.get(markup);
  if (!models) modelsByMarkup.set(markup, (models = new WeakMap()));
  let variant = models.get(model);
  if (!variant) models.set(model, (variant = applyMarkup(model, markup)));
  return variant;
}

function applyMarkup(model: Model, markup: MarkupTerms): Model {
  const [first, ...rest] = model.targets;
  const withPrices = (target: Target): Target => ({
    ...target,
    price: withMarkup(target.price, markup),
    byokPrice: withMarkup(target.byokPrice, markup),
  });
  const targets = [withPrices(first), ...rest.map(withPrices)] as const;
  const prices = [...new Set(targets.map(({ price }) => price))];
  return { ...model, targets, price: withMarkup(model.price, markup), prices };
}

/**
 * A model for a BYOK client: targets at the providers of its keys have the price of `byokPricing`, and cost the operator nothing.
 *
 * @param hasKey - whether the client has a key for this provider
 */
export function withByokPrices(model: Model, hasKey: (provider: string) => boolean): Model {
  if (!model.targets.some(({ provider }) => hasKey(provider.name))) return model;
  const withByok = (target: Target): Target => (hasKey(target.provider.name) ? byokTargetOf(target) : target);
  const [first, ...rest] = model.targets;
  const targets = [withByok(first), ...rest.map(withByok)] as const;
  return { ...model, targets, prices: [...new Set(targets.map(({ price }) => price))] };
}

/** One BYOK target per target. */
const byokTargets = new WeakMap<Target, Target>();

function byokTargetOf(target: Target): Target {
  let byokTarget = byokTargets.get(target);
  if (!byokTarget) {
    byokTarget = { ...target, price: target.byokPrice, cost: FREE, reportsCost: false, usesByok: true };
    byokTargets.set(target, byokTarget);
  }
  return byokTarget;
}

/** The fields of a request that have their own price. */
type PricedFields = Pick<ChatRequest, 'serviceTier' | 'hourWrites'>;

/** Keeps the targets that have a price for the requested service tier and cache writes; holds use those prices.
 *
 * @throws {InvalidRequestError} if no target has one
 */
export function keepPricedTargets(models: SelectedModels, request: PricedFields): SelectedModels {
  const isPlain = request.serviceTier === undefined && request.hourWrites === undefined;
  return isPlain ? models : keepPriced(models, request);
}

function keepPriced(models: SelectedModels, request: PricedFields): SelectedModels {
  const [first, ...rest] = models
    .map((model) => withPricedTargets(model, request))
    .filter((model) => model !== undefined);
  if (first) return [first, ...rest];
  const { serviceTier } = request;
  const sellsTier = models.some(
    (model) => withPricedTargets(model, { serviceTier, hourWrites: undefined }) !== undefined,
  );
  throw serviceTier === undefined || sellsTier ? noHourWrites(request) : noSuchTier(serviceTier, models);
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
  return named === undefined && hourWrites === undefined
    ? undefined
    : { serviceTier: named, hourWrites: hourWrites !== undefined };
}

/** This provider's own names for the tier with the plain price. */
export function plainNamesOf({ serviceTiers }: Target['provider']): readonly string[] {
  return serviceTiers?.plain ?? [];
}

/** The prices that a request may be charged at a target; empty if a requested feature has none. */
export function pricesFor(target: Target, request: PricedFields): readonly Price[] {
  return heldPrices(target.price, variantFor(target, request));
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

function noHourWrites({ hourWrites = 'cache_control' }: PricedFields): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_parameter',
    `One-hour cache writes have no price for this model; use a "ttl" of "5m", or none, in "${hourWrites}".`,
    `${hourWrites}.ttl`,
  );
}
