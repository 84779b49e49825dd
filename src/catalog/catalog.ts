import { LRUCache } from 'lru-cache';

import { type MarkupTerms, NO_MARKUP } from '../metering/markup.ts';
import type { ChatCompletionsRouterOptions } from '../options/router-options.ts';
import { assertObject, type Settings, optionError } from '../options/resolve-options.ts';
import type { Target, Model } from './model.ts';
import { withAccountMarkup } from './account-markup.ts';
import { isShutDown } from './deprecation.ts';
import { ModelList } from './model-list.ts';
import { isSameProvider, resolveProvider } from './resolve-provider.ts';
import type { Provider } from './provider.ts';
import { resolveModel } from './resolve-model.ts';
import { Wildcard, Wildcards } from './wildcards.ts';

/** Lists, one a markup: each can be as large as the catalog. */
const MAX_LISTS = 8;

/** All that clients can ask for, and where. It never changes: another one takes its place. */
export class Catalog {
  readonly providers: ReadonlyMap<string, Provider>;
  /** Of all models, in their order; a wildcard has one for all that it makes. */
  readonly targets: readonly Target[];
  /** In the order of the options. */
  readonly #models: readonly Model[];
  /** By ID and by alias. A Map: an ID like `__proto__` is an ID. */
  readonly #byId: ReadonlyMap<string, Model>;
  readonly #wildcards: Wildcards;
  readonly #own: readonly Model[];
  readonly #wildcardEntries: readonly Wildcard[];
  /** Names of the providers that serve a model, in lower case. */
  readonly #serving: ReadonlySet<string>;
  /** `GET /models`, as it is until a model is shut down. */
  readonly #lists = new LRUCache<MarkupTerms, ModelList>({ max: MAX_LISTS });
  #listedUntil = 0;

  constructor(
    providers: ReadonlyMap<string, Provider>,
    own: readonly Model[],
    wildcards: readonly Wildcard[],
    discovered: readonly Model[] = [],
  ) {
    this.providers = providers;
    this.#own = own;
    this.#wildcardEntries = wildcards;
    const byId = indexed(own);
    const models = [...own];
    for (const model of discovered) {
      if (byId.has(model.id)) continue;
      byId.set(model.id, model);
      models.push(model);
    }
    this.#models = models;
    this.#byId = byId;
    this.#wildcards = new Wildcards(wildcards);
    this.targets = [...models, ...this.#wildcards.models].flatMap((model) => model.targets);
    this.#serving = new Set(this.targets.map(({ provider }) => provider.name.toLowerCase()));
  }

  /** The model of an ID or alias; takes the same time however many there are. */
  get(id: string): Model | undefined {
    return this.#byId.get(id) ?? this.#wildcards.get(id);
  }

  /**
   * `GET /models` of the models that there still are; not those that a wildcard may make.
   *
   * @param markup - of the caller
   */
  list(markup: MarkupTerms = NO_MARKUP): ModelList {
    const now = Date.now();
    if (now >= this.#listedUntil) {
      this.#lists.clear();
      const ends = this.#models.map(({ deprecation: lifecycle }) => lifecycle?.shutdownAt ?? Infinity);
      this.#listedUntil = Math.min(...ends.filter((end) => end > now), Infinity);
    }
    let list = this.#lists.get(markup);
    if (!list) {
      const listed = this.#models.filter((model) => !isShutDown(model, now));
      list = new ModelList(listed.map((model) => withAccountMarkup(model, markup)));
      this.#lists.set(markup, list);
    }
    return list;
  }

  /** The same with other models beside its own, which win where they have the same ID; of others the first one does. */
  with(discovered: readonly Model[]): Catalog {
    if (discovered.length === 0 && this.#models.length === this.#own.length) return this;
    return new Catalog(this.providers, this.#own, this.#wildcardEntries, discovered);
  }

  /** Whether some model is served by a provider of this name; case doesn't matter. */
  hasProvider(name: string): boolean {
    return this.#serving.has(name.toLowerCase());
  }
}

/** @throws {TypeError} if two models have the same ID or alias */
function indexed(models: readonly Model[]): Map<string, Model> {
  const byId = new Map(models.map((model) => [model.id, model]));
  for (const model of models) {
    for (const alias of model.aliases) {
      const other = byId.get(alias);
      if (other) {
        throw new TypeError(
          `models[${JSON.stringify(model.id)}].aliases has ${JSON.stringify(alias)}, which is ${JSON.stringify(other.id)} already`,
        );
      }
      byId.set(alias, model);
    }
  }
  return byId;
}

/** What a catalog is made of. */
export type CatalogOptions = Pick<ChatCompletionsRouterOptions, 'models' | 'providers'>;

/** What of the router's own options counts for every catalog. */
export type CatalogSettings = Pick<Settings, 'timeouts' | 'markup' | 'prices' | 'answer'>;

/**
 * Checks all that is given before anything of it counts.
 *
 * @param before - a provider that is the same as there stays the same object: what is remembered of it is kept by that
 * @throws {TypeError} naming the option that can't be right
 */
export function createCatalog(
  options: CatalogOptions,
  { timeouts, markup, prices, answer }: CatalogSettings,
  before?: Catalog,
): Catalog {
  assertObject(options.providers, 'providers');
  assertObject(options.models, 'models');
  const providers = new Map<string, Provider>();
  for (const [name, given] of Object.entries(options.providers)) {
    if (name === '' || name.includes('/')) throw optionError('providers', 'named without slashes', name);
    const provider = resolveProvider(name, given, timeouts);
    const known = before?.providers.get(name);
    providers.set(name, known && isSameProvider(known, provider) ? known : provider);
  }
  const context = { providers, markup, prices, answer };
  const models: Model[] = [];
  const wildcards: Wildcard[] = [];
  for (const [id, given] of Object.entries(options.models)) {
    if (id.includes('*')) wildcards.push(new Wildcard(id, given, context));
    else models.push(resolveModel(id, given, context));
  }
  return new Catalog(providers, models, wildcards);
}
