import { LRUCache } from 'lru-cache';

import { type MarkupTerms, NO_MARKUP } from '../metering/markup.ts';
import type { ChatCompletionsRouterOptions } from '../options/router-options.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import { assertObject, type Settings, optionError } from '../options/resolve-options.ts';
import { didYouMean } from '../platform/did-you-mean.ts';
import { isShutDown, type Target, type Model } from './model.ts';
import { ModelList } from './model-list.ts';
import { isSameProvider, resolveProvider } from './resolve-provider.ts';
import type { Provider } from './provider.ts';
import { resolveModel } from './resolve-model.ts';
import { Wildcard, Wildcards } from './wildcards.ts';

/** Model lists that are cached, one per markup: each can be as large as the catalog. */
const MAX_LISTS = 8;

/** All models and their targets. A catalog never changes: a new one replaces it. */
export class Catalog {
  readonly providers: ReadonlyMap<string, Provider>;
  /** Targets of all models, in order; a wildcard has one set for all its models. */
  readonly targets: readonly Target[];
  /** In the order of the options. */
  readonly #models: readonly Model[];
  /** By ID and alias. A Map, as `__proto__` is a valid ID. */
  readonly #byId: ReadonlyMap<string, Model>;
  readonly #wildcards: Wildcards;
  readonly #configured: readonly Model[];
  readonly #wildcardEntries: readonly Wildcard[];
  /** Names of the providers that serve a model, in lower case. */
  readonly #serving: ReadonlySet<string>;
  /** Bodies of `GET /models`, valid until the next model is shut down. */
  readonly #lists = new LRUCache<MarkupTerms, ModelList>({ max: MAX_LISTS });
  #listedUntil = 0;

  constructor(
    providers: ReadonlyMap<string, Provider>,
    configured: readonly Model[],
    wildcards: readonly Wildcard[],
    discovered: readonly Model[] = [],
  ) {
    this.providers = providers;
    this.#configured = configured;
    this.#wildcardEntries = wildcards;
    const byId = indexed(configured);
    const models = [...configured];
    for (const model of discovered) {
      if (byId.has(model.id)) continue;
      byId.set(model.id, model);
      models.push(model);
    }
    this.#models = models;
    this.#byId = byId;
    this.#wildcards = new Wildcards(wildcards);
    this.targets = this.models.flatMap((model) => model.targets);
    this.#serving = new Set(this.targets.map(({ provider }) => provider.name.toLowerCase()));
  }

  /** All models, in the order of the options, then those that were discovered; a wildcard is one, by its pattern. */
  get models(): readonly Model[] {
    return [...this.#models, ...this.#wildcards.models];
  }

  /** The model of an ID or alias; one of a wildcard is made when it is asked for, and cached. */
  get(id: string): Model | undefined {
    return this.#byId.get(id) ?? this.#wildcards.get(id);
  }

  /** The model of an ID or alias that is in the list: none of a wildcard. */
  listed(id: string): Model | undefined {
    return this.#byId.get(id);
  }

  /** An available model that was perhaps meant: one with a similar ID, or the same without its prefix.
   *
   * @param allowed - the models that the caller may see; default: all
   */
  near(id: string, allowed?: ModelPatterns): string | undefined {
    const now = Date.now();
    const isSeen = (name: string): boolean => {
      const model = this.#byId.get(name);
      if (!model || isShutDown(model, now)) return false;
      return !allowed || allowed.allowsModel([model.id, ...model.aliases]);
    };
    for (const name of this.#byId.keys()) {
      if (name.endsWith(`/${id}`) && isSeen(name)) return name;
    }
    return didYouMean(id, this.#byId.keys(), isSeen);
  }

  /** The body of `GET /models`: all models but those that were shut down, or that a wildcard stands for.
   *
   * @param markup - the caller's
   */
  list(markup: MarkupTerms = NO_MARKUP): ModelList {
    const now = Date.now();
    if (now >= this.#listedUntil) {
      this.#lists.clear();
      const ends = this.#models.map(({ deprecation }) => deprecation?.shutdownAt ?? Infinity);
      this.#listedUntil = Math.min(...ends.filter((end) => end > now), Infinity);
    }
    let list = this.#lists.get(markup);
    if (!list) {
      list = new ModelList(
        this.#models.filter((model) => !isShutDown(model, now)),
        markup,
      );
      this.#lists.set(markup, list);
    }
    return list;
  }

  /** The catalog with discovered models added. Configured models win, then the first one with an ID. */
  with(discovered: readonly Model[]): Catalog {
    if (discovered.length === 0 && this.#models.length === this.#configured.length) return this;
    return new Catalog(this.providers, this.#configured, this.#wildcardEntries, discovered);
  }

  /** Whether any model is served by a provider of this name, ignoring case. */
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
        const taken = other.id === alias ? "a model's ID" : `an alias of ${JSON.stringify(other.id)}`;
        throw new TypeError(
          `models[${JSON.stringify(model.id)}].aliases has ${JSON.stringify(alias)}, which is already ${taken}`,
        );
      }
      byId.set(alias, model);
    }
  }
  return byId;
}

export type CatalogOptions = Pick<ChatCompletionsRouterOptions, 'models' | 'providers'>;

/** The router's settings that apply to every catalog. */
export type CatalogSettings = Pick<
  Settings,
  'timeouts' | 'proxy' | 'markup' | 'prices' | 'modelInfo' | 'answer' | 'sticky'
>;

/** Makes a catalog of the options.
 *
 * @param before - the catalog to replace: unchanged providers stay the same object, so that learned state is kept
 * @throws {TypeError} naming the invalid option
 */
export function createCatalog(
  options: CatalogOptions,
  { timeouts, proxy, markup, prices, modelInfo, answer, sticky }: CatalogSettings,
  before?: Catalog,
): Catalog {
  assertObject(options.providers, 'providers');
  assertObject(options.models, 'models');
  const providers = new Map<string, Provider>();
  for (const [name, given] of Object.entries(options.providers)) {
    if (name === '' || name.includes('/')) throw optionError('providers', 'named without slashes', name);
    const provider = resolveProvider(name, given, { timeouts, proxy });
    const known = before?.providers.get(name);
    providers.set(name, known && isSameProvider(known, provider) ? known : provider);
  }
  const context = { providers, markup, prices, modelInfo, answer, sticky };
  const models: Model[] = [];
  const wildcards: Wildcard[] = [];
  for (const [id, given] of Object.entries(options.models)) {
    if (id.includes('*')) wildcards.push(new Wildcard(id, given, context));
    else models.push(resolveModel(id, given, context));
  }
  return new Catalog(providers, models, wildcards);
}
