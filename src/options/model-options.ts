import type { TokenBudgets } from '../metering/estimate.ts';
import type { Markup } from '../metering/markup.ts';
import type { Pricing, ReportedPricing, ServiceTiersPricing } from '../metering/pricing.ts';
import type { AnswerOptions } from './answer-options.ts';
import type { BodyRules } from './body-rules.ts';
import type { Labels } from './labels.ts';
import type { ModelInfo } from './model-info.ts';
import type { AnyString, PresetName } from './preset-names.ts';
import type { UpstreamLimits } from './upstream-limits.ts';
import type { WaitOptions } from './wait-options.ts';
import type { ModelStickyOptions } from './sticky-options.ts';
import type { RoutingStrategy } from './strategies.ts';

/**
 * A price, or its source: `'catalog'` looks it up in the router's option `prices`. `{ reported: true, ceiling }` charges
 * the cost that the provider reports; holds use the ceiling.
 */
export type PricingOption =
  | Pricing
  | 'free'
  | 'catalog'
  | ReportedPricing
  | { readonly reported: true; readonly ceiling: 'catalog' };

export interface ModelOptions extends ModelInfo {
  /**
   * The targets that serve the model: the first one that answers is used. A string is `provider/upstream-model`: the first
   * slash ends the provider's name.
   */
  readonly targets: readonly (string | TargetOptions)[];
  /**
   * The order in which targets are tried. `ordered`: as listed. `weighted`: at random, by their weights. `cheapest`: by what
   * the request likely costs you there. `price`: by what it likely costs the client. `fastest`: of two random targets, the one
   * with lower latency and fewer running requests. `throughput`: by tokens a second of recent answers, most first. `latency`:
   * by the time to their first event. Ejected targets come last.
   *
   * @default 'ordered'
   */
  readonly strategy?: RoutingStrategy;
  /** `false`: its requests are each routed on their own; `{ ttlMs }`: its own time. @default the router's `sticky` */
  readonly sticky?: ModelStickyOptions | false;
  /** Its requests wait in line where all targets are full, in place of a 429. @default they don't wait */
  readonly wait?: WaitOptions;
  /**
   * What the client pays, whichever target answers; with `'catalog'` the price of the first target. A free model must say
   * `'free'`.
   */
  readonly pricing: PricingOption;
  /**
   * Prices of the provider's service tiers, by name: `{ priority: { factor: '2' } }`. The same as in `pricing`; needed with
   * catalog prices, which have none. A request for a tier without a price is rejected.
   *
   * @default none
   */
  readonly serviceTiers?: ServiceTiersPricing;
  /** A markup on every price of this model, in addition to the router's `markup`. */
  readonly markup?: Markup;
  /**
   * What the client pays if its own key for the provider is used (`upstreamKeys` of `authenticate`).
   *
   * @default as for every other request
   */
  readonly byokPricing?: PricingOption;
  /** Most tokens of prompt and completion together. @default the catalog's, with `pricing: 'catalog'` */
  readonly contextWindow?: number;
  /**
   * Most output tokens of the model, at most `contextWindow`. Required unless the model is free, because holds depend on it.
   *
   * @default the catalog's, or its context window, with `pricing: 'catalog'`
   */
  readonly maxOutputTokens?: number;
  /**
   * How `maxOutputTokens` is enforced. `lower`: a higher limit of the client's is lowered to it. `insert`: a request without
   * a limit also gets one: `maxOutputTokens`, or the estimated rest of the context window if that is less, because a
   * provider may reject a limit that exceeds the window together with the prompt.
   *
   * @default 'lower'
   */
  readonly enforceOutputLimit?: EnforceOutputLimit;
  /**
   * Number of web searches in the hold of a request, if the price has a fee for them; the balance must cover them. 0 for a
   * model that doesn't search. Further searches are charged as far as the balance goes; the rest is written off.
   *
   * @default 5
   */
  readonly maxWebSearches?: number;
  /**
   * Prices of tools that the provider runs, and of other features that it bills beside tokens, by the tool's type or the
   * field's name: `{ 'openrouter:web_search': { fee: '0.005', atMost: 5 } }`. A request for a feature without a price is
   * rejected.
   *
   * @default none: only `web_search_options` and searches that the provider counts, if the price has a fee for searches
   */
  readonly serverTools?: Readonly<Record<string, ServerToolOptions>>;
  /**
   * Whether requests may refer to files, buckets or stored prompts of your own account at the provider (`file_id`, `gs://`
   * and the like): then any client can read each of them whose name it knows.
   *
   * @default false
   */
  readonly accountFiles?: boolean;
  /**
   * Token counts of media in a prompt, for holds and estimates: per `image`, per second of audio (`audioPerSecond`), and per
   * document or video (`file`).
   *
   * @default for holds upper bounds: per image the provider preset's largest (16,384 without a preset); 50 per second of
   * audio (of 1,000 bytes); per file one token per byte plus 20,000, or the context window if the file isn't in the request
   * itself. For estimates 2,000, 50 (per 4,000 bytes) and 20,000
   */
  readonly tokenBudgets?: Partial<TokenBudgets>;
  /**
   * For a wildcard entry: IDs that it doesn't serve; `*` matches any characters: `['openai/*-preview']`.
   *
   * @default none
   */
  readonly except?: readonly string[];
  /** What its answers show of the provider and of costs. @default for each member, the router's `answer` */
  readonly answer?: AnswerOptions;
  /** Other IDs for the model. Their requests are charged and journaled under the model's own ID. */
  readonly aliases?: readonly string[];
  /**
   * When the model is deprecated, in the past or future: a date such as `'2027-01-31'`, or an ISO 8601 timestamp. Its answers
   * have a `deprecation` header.
   */
  readonly deprecatedAt?: string | Date;
  /** When requests for it begin to be rejected: a date or timestamp. Announced in `shutdown_date` and in a `sunset` header. */
  readonly shutdownDate?: string | Date;
  /** ID of the model to use instead, for the error after the shutdown. */
  readonly replacement?: string;
}

/** The price of a tool that the provider runs. */
export interface ServerToolOptions {
  /** Fee per call in USD, before markup, as a decimal string. */
  readonly fee: string;
  /** What the provider bills you per call, in USD, for `cost` in the journal. @default unknown; then the request's `cost` is, too */
  readonly cost?: string;
  /**
   * Number of calls per request in the hold, 1 to 1000. Searches that the provider counts are charged by its count, even if
   * it is higher; for any other tool, this number is charged whenever it was requested.
   */
  readonly atMost: number;
}

/** A provider and upstream model that serve a model. */
export interface TargetOptions {
  readonly provider: PresetName | AnyString;
  /** The provider's name for the model. */
  readonly model: string;
  /** What the client pays when this target answers, instead of the model's `pricing`. */
  readonly pricing?: PricingOption;
  /** What the client pays when its own key is used here, instead of the model's `byokPricing`. */
  readonly byokPricing?: PricingOption;
  /**
   * What the provider bills you; shown in the journal and in `onSettled`. `'reported'`: the cost in its answers.
   *
   * @default 'reported' for the presets `openrouter` and `vercel`, else unknown
   */
  readonly cost?: PricingOption | 'reported';
  /**
   * Its share of the requests, if the model's `strategy` is `weighted`.
   *
   * @default 1
   */
  readonly weight?: number;
  /** Edits of request fields, in addition to the provider's `body`. @default none */
  readonly body?: BodyRules;
  /** Where it is and what happens to data there, for keys, accounts and requests that require it. @default none */
  readonly labels?: Labels;
  /** Limits of each of the provider's API keys at this target, in addition to the provider's `limits`. @default none */
  readonly limits?: UpstreamLimits;
  /**
   * The parameters that it takes, in OpenRouter's terms, for requests with `require_parameters`.
   *
   * @default the model's `supportedParameters`, or what the option `modelInfo` knows of this target
   */
  readonly supportedParameters?: readonly string[];
}

/** How a model's `maxOutputTokens` is enforced. */
export type EnforceOutputLimit = 'lower' | 'insert';

/** An external source of prices, e.g. `catalogPrices()` of `chat-completions-router/prices`. */
export interface PriceCatalog {
  /** Synchronous, because the router is constructed synchronously; returns undefined for an unknown model. */
  find(asked: PriceQuery): CatalogEntry | undefined;
}

/**
 * A source of what `GET /models` says of a model, e.g. `modelsDev(data)`. Prices, holds and limits never depend on it.
 */
export interface ModelCatalog {
  /** Called for each target of each model when a catalog of models is made; returns undefined for an unknown model. */
  find(asked: PriceQuery): ModelCatalogEntry | undefined;
}

/** A model in a model catalog. */
export interface ModelCatalogEntry extends ModelInfo {
  /** For the record of a model whose options have none. */
  readonly contextWindow?: number;
  /** For the record of a model whose options have none. */
  readonly maxOutputTokens?: number;
}

/** The model and provider that are looked up in a catalog. */
export interface PriceQuery {
  /** The provider's preset, else its name in `providers`. */
  readonly provider: string;
  /** URL of its chat completions endpoint. */
  readonly url: string;
  /** The provider's name for the model. */
  readonly model: string;
}

/** A model in a price catalog. */
export interface CatalogEntry {
  /** The catalog's name for it. */
  readonly name?: string;
  readonly pricing: Pricing;
  readonly contextWindow?: number;
  readonly maxOutputTokens?: number;
}
