import { LRUCache } from 'lru-cache';

import type { ModelOptions, PriceCatalog, TargetOptions } from '../options/model-options.ts';
import { type ModelPatterns, parseModelPatterns } from '../options/model-patterns.ts';
import type { Model, Target } from './model.ts';
import { isModelId } from './model-id.ts';
import { costsMore, lacksPrices } from './implied-prices.ts';
import { type ResolveContext, priceQuestion, resolveModel } from './resolve-model.ts';

/** Models that were made of wildcards and are kept; clients choose their IDs, so that there is no end of them. */
const MAX_MODELS = 1000;

/** The entries of `models` that end in a star. */
export class Wildcards {
  readonly #byPrefix: ReadonlyMap<string, Wildcard>;
  /** Of prefixes, the longest first, each length once. */
  readonly #lengths: readonly number[];
  readonly #made = new LRUCache<string, Model>({ max: MAX_MODELS });

  constructor(wildcards: readonly Wildcard[]) {
    this.#byPrefix = new Map(wildcards.map((wildcard) => [wildcard.prefix, wildcard]));
    this.#lengths = [...new Set(wildcards.map(({ prefix }) => prefix.length))].sort((a, b) => b - a);
  }

  /** The model that the longest fitting wildcard makes of an ID. */
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

/** An entry whose ID ends in a star: a model for each ID that begins as it does. */
export class Wildcard {
  readonly prefix: string;
  /** The model of the star itself: it shows which providers serve it. */
  readonly template: Model;
  readonly #pattern: string;
  readonly #given: ModelOptions;
  readonly #except: ModelPatterns | undefined;
  readonly #context: ResolveContext;

  /** @throws {TypeError} naming the option that can't be right */
  constructor(pattern: string, given: ModelOptions, context: ResolveContext) {
    const option = `models[${JSON.stringify(pattern)}]`;
    if (pattern.indexOf('*') !== pattern.length - 1) {
      throw new TypeError(`${option}: a star stands for the rest of an ID, at its end`);
    }
    const prices = context.prices && ANY_PRICE;
    this.template = resolveModel(pattern, given, { ...context, prices });
    for (const [i, { model }] of this.template.targets.entries()) {
      if (model.split('*').length > 2) throw new TypeError(`${option}.targets[${i}] has more than one star`);
    }
    if (this.template.aliases.length > 0) {
      throw new TypeError(`${option}.aliases: an alias is of one model, and this stands for many`);
    }
    this.prefix = pattern.slice(0, -1);
    this.#pattern = pattern;
    const { except, ...entry } = given;
    this.#given = entry;
    this.#except = except === undefined ? undefined : parseModelPatterns(except, `${option}.except`);
    this.#context = context;
  }

  /** Undefined for what can't be an ID or is excepted, and for what no catalog has a price of, or none that could be held for. */
  modelOf(id: string): Model | undefined {
    const rest = id.slice(this.prefix.length);
    // Where the base URL has the model in its path, dots would lead out of it.
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
      // The entry itself was found right: what is wrong is what a catalog says, or doesn't, of this one model.
      if (error instanceof TypeError) return undefined;
      throw error;
    }
  }

  /** Clients choose the name: nothing is served under one that says more than its price does. */
  #lacksPrices(id: string, { provider, model }: Target, i: number): boolean {
    const given: string | TargetOptions | undefined = this.#given.targets[i];
    const pricing = (typeof given === 'object' ? given.pricing : undefined) ?? this.#given.pricing;
    const entry = this.#context.prices?.find(priceQuestion(provider, model));
    if (pricing !== 'catalog') return costsMore(model, provider, pricing, entry?.pricing);
    return entry !== undefined && lacksPrices([id, model, entry.name], entry.pricing);
  }
}

/** Stands for a catalog while the entry itself is checked: no catalog has a price of a star. */
const ANY_PRICE: PriceCatalog = {
  find: () => ({ pricing: { input: '1', output: '1' }, contextWindow: 1, maxOutputTokens: 1 }),
};
