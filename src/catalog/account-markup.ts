import { LRUCache } from 'lru-cache';

import { combineMarkups, type Markup, type MarkupTerms, NO_MARKUP, parseMarkup } from '../metering/markup.ts';
import { withMarkup } from '../metering/price.ts';
import type { MarkupCaller } from '../options/router-options.ts';
import type { Model, Target } from './model.ts';

/** Whose request it is, as far as prices depend on it. */
export interface PricedCaller extends MarkupCaller {
  readonly markup?: Markup | undefined;
}

/** Different ones that are kept: resellers have a few price lists. */
const MAX_MARKUPS = 1000;

/** What is added to prices for one caller: by its key or its host's word, and by its account. */
export class AccountMarkups {
  readonly #resolveMarkup: ((caller: MarkupCaller) => Markup | undefined) | undefined;
  readonly #interned = new LRUCache<string, MarkupTerms>({ max: MAX_MARKUPS });

  constructor(resolveMarkup: ((caller: MarkupCaller) => Markup | undefined) | undefined) {
    this.#resolveMarkup = resolveMarkup;
  }

  /**
   * The same object for the same markup; undefined where nothing is added.
   *
   * @throws {TypeError} if `resolveMarkup` returns what can't be a markup: rather no answer than one at a wrong price
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
    const kept = this.#interned.get(terms.name);
    if (kept) return kept;
    this.#interned.set(terms.name, terms);
    return terms;
  }
}

const modelsByMarkup = new WeakMap<MarkupTerms, WeakMap<Model, Model>>();

/** A model as it is for a caller with a markup; the same object each time. */
export function withAccountMarkup(model: Model, markup: MarkupTerms): Model {
  if (markup === NO_MARKUP) return model;
  let models = modelsByMarkup.get(markup);
  if (!models) modelsByMarkup.set(markup, (models = new WeakMap()));
  let variant = models.get(model);
  if (!variant) models.set(model, (variant = markedUp(model, markup)));
  return variant;
}

function markedUp(model: Model, markup: MarkupTerms): Model {
  const [first, ...rest] = model.targets;
  const dearer = (target: Target): Target => ({
    ...target,
    price: withMarkup(target.price, markup),
    byokPrice: withMarkup(target.byokPrice, markup),
  });
  const targets = [dearer(first), ...rest.map(dearer)] as const;
  const prices = [...new Set(targets.map(({ price }) => price))];
  return { ...model, targets, price: withMarkup(model.price, markup), prices };
}
