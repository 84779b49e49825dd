import { LRUCache } from 'lru-cache';

import type { ModelOptions, PriceCatalog, TargetOptions } from '../options/model-options.ts';
import { type ModelPatterns, parseModelPatterns } from '../options/model-patterns.ts';
import type { Model, Target } from './model.ts';
import { isModelId } from './model-id.ts';
import { costsMore, lacksPrices } from './implied-prices.ts';
import { type ResolveContext, priceQuestion, resolveModel } from './resolve-model.ts';

/** Models of wildcards that are cached. Clients choose their IDs, so that their number is unbounded. */
const MAX_MODELS = 1000;

/** The wildcard entries of `models`. */
export class Wildcards {
  readonly #byPrefix: ReadonlyMap<string, Wildcard>;
  /** Distinct lengths of prefixes, longest first. */
  readonly #lengths: readonly number[];
  readonly #made = new LRUCache<string, Model>({ max: MAX_MODELS });

  constructor(wildcards: readonly Wildcard[]) {
    this.#byPrefix = new Map(wildcards.map((wildcard) => [wildcard.prefix, wildcard]));
    this.#lengths = [...new Set(wildcards.map(({ prefix }) => prefix.length))].sort((a, b) => b - a);
  }

  /** The model for an ID, from the longest matching wildcard. */
  get(id: string): Model | undefined {
    if (this.#lengths.length === 0) return undefined;
    const made = this.#made.get(id);
    if (made) return made;
    const length = this.#lengths.find((each) => each < id.length && this.#byPrefix.has(id.slice(0, each)));
    if (length === undefined) return undefined;
    const model = this.#byPrefix.get(id.slice(0, length))?.modelOf(id);
    if (model) this.#made.set(id, model);
    return model;
  }

  get models(): readonly Model[] {
    return [...this.#byPrefix.values()].map(({ template }) => template);
  }
}

/** An entry whose ID ends in `*`: it makes a model for each ID with that prefix. */
export class Wildcard {
  readonly prefix: string;
  /** The model of the pattern itself, which shows the providers. */
  readonly template: Model;
  readonly #pattern: string;
  readonly #given: ModelOptions;
  readonly #except: ModelPatterns | undefined;
  readonly #context: ResolveContext;

  /** @throws {TypeError} naming the invalid option */
  constructor(pattern: string, given: ModelOptions, context: ResolveContext) {
    const option = `models[${JSON.stringify(pattern)}]`;
    if (pattern.indexOf('*') !== pattern.length - 1) {
      throw new TypeError(`${option}: a wildcard * is only allowed at the end of an ID`);
    }
    const prices = context.prices && ANY_PRICE;
    this.template = resolveModel(pattern, given, { ...context, prices });
    for (const [i, { model }] of this.template.targets.entries()) {
      if (model.split('*').length > 2) throw new TypeError(`${option}.targets[${i}] has more than one *`);
    }
    if (this.template.aliases.length > 0) {
      throw new TypeError(`${option}.aliases: a wildcard stands for many models and can't have aliases`);
    }
    this.prefix = pattern.slice(0, -1);
    this.#pattern = pattern;
    const { except, ...entry } = given;
    this.#given = entry;
    this.#except = except === undefined ? undefined : parseModelPatterns(except, `${option}.except`);
    this.#context = context;
  }

  /** The model for an ID; undefined for an invalid or excepted ID, or without a usable price in the price catalog. */
  modelOf(id: string): Model | undefined {
    const rest = id.slice(this.prefix.length);
    // If the base URL has the model in its path, dot segments would leave that path.
    if (!isModelId(id) || rest === '' || rest.split('/').some((segment) => /^\.{0,2}$/.test(segment))) {
      return undefined;
    }
    if (this.#except?.allows(id)) return undefined;
    const fill = (model: string): string => model.replace('*', () => rest);
    const targets = this.#given.targets.map((target: string | TargetOptions) =>
      typeof target === 'string' ? fill(target) : { ...target, model: fill(target.model) },
    );
    try {
      const model = resolveModel(id, { ...this.#given, targets }, this.#context);
      if (model.targets.some((target, i) => this.#lacksPrices(id, target, i))) return undefined;
      const [first, ...others] = model.targets.map((target, i): Target => ({
        ...target,
        wildcard: this.#pattern,
        healthKey: this.template.targets[i]?.model ?? target.model,
      }));
      return first && { ...model, wildcard: this.#pattern, targets: [first, ...others] };
    } catch (error) {
      // The entry itself is valid: the price catalog lacks this model, or has an unusable price.
      if (error instanceof TypeError) return undefined;
      throw error;
    }
  }

  /** Clients choose the name: a model is not served if its name implies prices that its pricing lacks. */
  #lacksPrices(id: string, { provider, model }: Target, i: number): boolean {
    const given: string | TargetOptions | undefined = this.#given.targets[i];
    const pricing = (typeof given === 'object' ? given.pricing : undefined) ?? this.#given.pricing;
    const entry = this.#context.prices?.find(priceQuestion(provider, model));
    if (pricing !== 'catalog') return costsMore(model, provider, pricing, entry?.pricing);
    return entry !== undefined && lacksPrices([id, model, entry.name], entry.pricing);
  }
}

/** Placeholder while a wildcard entry is checked, as no price catalog has a price for `*`. */
const ANY_PRICE: PriceCatalog = {
  find: () => ({ pricing: { input: '1', output: '1' }, contextWindow: 1, maxOutputTokens: 1 }),
};
