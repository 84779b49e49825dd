import { LRUCache } from 'lru-cache';

import { combineMarkups, type Markup, type MarkupTerms, NO_MARKUP, parseMarkup } from '../metering/markup.ts';
import { withMarkup } from '../metering/price.ts';
import type { MarkupCaller } from '../options/router-options.ts';
import type { Model, Target } from './model.ts';

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
