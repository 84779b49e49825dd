import type { TokenBudgets } from '../metering/estimate.ts';
import type { MarkupTerms } from '../metering/markup.ts';
import type { Price } from '../metering/price.ts';
import type { Choice } from '../options/model-options.ts';
import type { ChatCompletionsRouterOptions } from '../options/router-options.ts';
import { checkRecord, type Settings, wrong } from '../settings.ts';
import { withCallerMarkup } from './caller-markup.ts';
import { ModelList } from './list.ts';
import { isSameProvider, type Provider, resolveProvider } from './providers.ts';
import { resolveModel } from './resolve-model.ts';

/** A model as clients know it: where it is served and what it costs. */
export interface Model {
  readonly id: string;
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
  readonly tokenBudgets: TokenBudgets;
  readonly name: string;
  readonly description: string | undefined;
  /** Unix seconds; 0 when nobody said. */
  readonly created: number;
  readonly ownedBy: string;
}

/** One place where a model is served. */
export interface Target {
  /** ID of the model that it serves, as clients know it. */
  readonly modelId: string;
  readonly provider: Provider;
  /** The model's name there. */
  readonly model: string;
  /** What the client pays when this target answers. */
  readonly price: Price;
  /** What it pays when its own key was used. */
  readonly ownKeyPrice: Price;
  /** The client's own key is used: `price` is what it pays then, and the operator pays nothing. */
  readonly usesOwnKey: boolean;
  /** What the provider bills; undefined when nobody said. */
  readonly cost: Price | undefined;
  /** Its share of the requests, where targets are chosen by weight. */
  readonly weight: number;
}

/** Of lists with a caller's markup: each can be as large as the catalog. */
const KEPT_LISTS = 8;

/** All that clients can ask for, and where. It never changes: another one takes its place. */
export class Catalog {
  readonly providers: ReadonlyMap<string, Provider>;
  /** `GET /models`. */
  readonly list: ModelList;
  /** In the order of the options. A Map: an ID like `__proto__` is an ID. */
  readonly #models: ReadonlyMap<string, Model>;
  /** Names of the providers that serve a model, in lower case. */
  readonly #serving: ReadonlySet<string>;
  readonly #marked = new Map<MarkupTerms, ModelList>();

  constructor(providers: ReadonlyMap<string, Provider>, models: ReadonlyMap<string, Model>) {
    this.providers = providers;
    this.#models = models;
    this.list = new ModelList(models.values());
    const targets = [...models.values()].flatMap((model) => model.targets);
    this.#serving = new Set(targets.map(({ provider }) => provider.name.toLowerCase()));
  }

  /** The model of an ID; takes the same time however many there are. */
  get(id: string): Model | undefined {
    return this.#models.get(id);
  }

  /** `GET /models` with the prices of a caller that has a markup of its own. */
  listWith(markup: MarkupTerms): ModelList {
    let list = this.#marked.get(markup);
    if (!list) {
      const [oldest] = this.#marked.keys();
      if (this.#marked.size === KEPT_LISTS && oldest) this.#marked.delete(oldest);
      list = new ModelList([...this.#models.values()].map((model) => withCallerMarkup(model, markup)));
      this.#marked.set(markup, list);
    }
    return list;
  }

  /** Whether some model is served by a provider of this name; case doesn't matter. */
  hasProvider(name: string): boolean {
    return this.#serving.has(name.toLowerCase());
  }
}

/** What a catalog is made of. */
export type CatalogOptions = Pick<ChatCompletionsRouterOptions, 'models' | 'providers'>;

/** What of the router's own options counts for every catalog. */
export type CatalogSettings = Pick<Settings, 'timeouts' | 'markup'>;

/**
 * Checks all that is given before anything of it counts.
 *
 * @param before - a provider that is the same as there stays the same object: what is remembered of it is kept by that
 * @throws {TypeError} naming the option that can't be right
 */
export function createCatalog(
  options: CatalogOptions,
  { timeouts, markup }: CatalogSettings,
  before?: Catalog,
): Catalog {
  checkRecord(options.providers, 'providers');
  checkRecord(options.models, 'models');
  const providers = new Map<string, Provider>();
  for (const [name, given] of Object.entries(options.providers)) {
    if (name === '' || name.includes('/')) throw wrong('providers', 'named without slashes', name);
    const provider = resolveProvider(name, given, timeouts);
    const known = before?.providers.get(name);
    providers.set(name, known && isSameProvider(known, provider) ? known : provider);
  }
  const models = new Map<string, Model>();
  for (const [id, given] of Object.entries(options.models)) {
    models.set(id, resolveModel(id, given, { providers, markup }));
  }
  return new Catalog(providers, models);
}
