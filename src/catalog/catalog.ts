import { LRUCache } from 'lru-cache';

import type { MemberPlan } from '../http/member-plan.ts';
import type { MediaBounds, TokenBudgets } from '../metering/estimate.ts';
import { type MarkupTerms, NO_MARKUP } from '../metering/markup.ts';
import type { Price } from '../metering/price.ts';
import type { ServerTools } from '../metering/server-tool-fees.ts';
import type { Choice } from '../options/model-options.ts';
import type { ChatCompletionsRouterOptions } from '../options/router-options.ts';
import { assertObject, type Settings, optionError } from '../options/resolve-options.ts';
import type { AskedApart } from './asked-apart.ts';
import type { TargetRules } from './resolve-body-rules.ts';
import { withAccountMarkup } from './account-markup.ts';
import { isShutDown, type Deprecation } from './deprecation.ts';
import { ModelList } from './model-list.ts';
import { isSameProvider, type Provider, resolveProvider } from './providers.ts';
import { resolveModel } from './resolve-model.ts';
import { Wildcard, Wildcards } from './wildcards.ts';

/** A model as clients know it: where it is served and what it costs. */
export interface Model {
  readonly id: string;
  /** Other IDs for it. */
  readonly aliases: readonly string[];
  /** The entry with a star that it comes of, as `openai/*`; undefined where it has one of its own. */
  readonly wildcard: string | undefined;
  /** Undefined where it is here to stay. */
  readonly deprecation: Deprecation | undefined;
  /** Ordered, at least one. */
  readonly targets: readonly [Target, ...Target[]];
  /** In which order they are tried. */
  readonly choice: Choice;
  /** What the model list says it costs; a target's own price may differ. */
  readonly price: Price;
  /** Every price that it may be charged by, without repetition: holds cover the dearest. */
  readonly prices: readonly Price[];
  readonly contextWindow: number | undefined;
  /** Undefined only where every price is free. */
  readonly maxOutputTokens: number | undefined;
  /** So many searches of the Web are held for. */
  readonly webSearches: number;
  /** Searches that must be covered for a request to be admitted; 0 where none has a fee. */
  readonly webSearchesNeeded: number;
  readonly tokenBudgets: TokenBudgets;
  readonly mediaBounds: MediaBounds;
  readonly name: string;
  readonly description: string | undefined;
  readonly inputModalities: readonly string[];
  /** Empty where they are not known. */
  readonly supportedParameters: readonly string[];
  /** Unix seconds; 0 when nobody said. */
  readonly created: number;
  readonly ownedBy: string;
}

/** One place where a model is served. */
export interface Target {
  /** ID of the model that it serves, as clients know it. */
  readonly modelId: string;
  /** The entry with a star that its model comes of. */
  readonly wildcard: string | undefined;
  readonly provider: Provider;
  /** The model's name there. */
  readonly model: string;
  /** By which it is remembered how it does: its name, or one for all that a wildcard makes, whose names clients choose. */
  readonly healthKey: string;
  /** What the client pays when this target answers. */
  readonly price: Price;
  /** What it pays when its own key was used. */
  readonly byokPrice: Price;
  /** The client's own key is used: `price` is what it pays then, and the operator pays nothing. */
  readonly usesByok: boolean;
  /** What the provider bills; undefined when nobody said. */
  readonly cost: Price | undefined;
  /** The cost is what the provider reports, where it does. */
  readonly reportsCost: boolean;
  /** What a request asks of it that has a price of its own; undefined for all others. */
  readonly asked?: AskedApart;
  /** Its share of the requests, where targets are chosen by weight. */
  readonly weight: number;
  readonly output: TargetOutput;
  /** What becomes of fields of a request on its way there; undefined where it stays as it is. */
  readonly body: TargetRules | undefined;
  /** What is edited in its answers; undefined where nothing is. */
  readonly answerPlan: MemberPlan | undefined;
  /** What tools cost that its provider runs itself, by their names. */
  readonly serverTools: ServerTools;
  /** Requests may name files of the operator's account there. */
  readonly accountFiles: boolean;
}

/** What its model may write there. */
export interface TargetOutput {
  /** Undefined only where its model is free. */
  readonly most: number | undefined;
  /** A request without a limit is sent with one. */
  readonly isLimited: boolean;
  readonly contextWindow: number | undefined;
}

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
  const surroundings = { providers, markup, prices, answer };
  const models: Model[] = [];
  const wildcards: Wildcard[] = [];
  for (const [id, given] of Object.entries(options.models)) {
    if (id.includes('*')) wildcards.push(new Wildcard(id, given, surroundings));
    else models.push(resolveModel(id, given, surroundings));
  }
  return new Catalog(providers, models, wildcards);
}
