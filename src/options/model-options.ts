import type { TokenBudgets } from '../metering/estimate.ts';
import type { Markup } from '../metering/markup.ts';
import type { Pricing, ReportedPricing, ServiceTiersPricing } from '../metering/pricing.ts';
import type { AnswerOptions } from './answer-options.ts';
import type { BodyRules } from './body-rules.ts';

/**
 * A price, or where it is kept: `'catalog'` asks the router's option `prices`. `{ reported: true, ceiling }` is what the provider
 * reports as its cost, held for by the ceiling.
 */
export type PricingOption =
  | Pricing
  | 'free'
  | 'catalog'
  | ReportedPricing
  | { readonly reported: true; readonly ceiling: 'catalog' };

export interface ModelOptions {
  /**
   * Where it is served: the first one that answers does. A string is `provider/upstream-model`: the first slash
   * ends the provider.
   */
  readonly targets: readonly (string | TargetOptions)[];
  /**
   * `ordered`: as they are listed. `weighted`: at random, by their weights. `cheapest`: by what the request could
   * cost there. `fastest`: of two taken at random, the one that answers sooner and has less to do. Those that were
   * set aside for failing come last.
   *
   * @default 'ordered'
   */
  readonly strategy?: RoutingStrategy;
  /**
   * What the client pays, whichever target answers; of a catalog the price of the first target. A model without a
   * price must say `'free'`.
   */
  readonly pricing: PricingOption;
  /**
   * Prices of the provider's service tiers, by their names: `{ priority: { factor: '2' } }`. The same as in `pricing`, where a
   * catalog's can't have them. A request for a tier that has no price is refused.
   *
   * @default none
   */
  readonly serviceTiers?: ServiceTiersPricing;
  /** Added to every price of this model that a client pays, beside the router's own `markup`. */
  readonly markup?: Markup;
  /**
   * What the client pays where its own key for the provider is used (`upstreamKeys` of `authenticate`).
   *
   * @default as for every other request
   */
  readonly byokPricing?: PricingOption;
  /** Most tokens that prompt and completion can have together. @default the catalog's, with `pricing: 'catalog'` */
  readonly contextWindow?: number;
  /**
   * Most tokens that the model may write here, not above `contextWindow`; required unless the model is free, because holds are made of it.
   *
   * @default the catalog's, or its context window, with `pricing: 'catalog'`
   */
  readonly maxOutputTokens?: number;
  /**
   * What becomes of `maxOutputTokens` in a request. `lower`: a limit of the client's above it is lowered to it. `insert`: a request
   * without a limit is also sent with one, of `maxOutputTokens` or what the prompt, by estimate, leaves of the context window: a
   * provider may refuse a limit that with the prompt exceeds the window.
   *
   * @default 'lower'
   */
  readonly enforceOutputLimit?: EnforceOutputLimit;
  /**
   * So many searches of the Web are held for, where the price has a fee for them, and must be covered for a request
   * to be admitted: 0 for a model that makes none. More are charged as well, as far as the balance goes; the rest is
   * written off.
   *
   * @default 5
   */
  readonly maxWebSearches?: number;
  /**
   * What tools cost that the provider runs itself, and other things that it bills beside tokens, by the type of the tool or the name of
   * the field: `{ 'openrouter:web_search': { fee: '0.005', atMost: 5 } }`. A request that asks for what has no price is refused.
   *
   * @default none: only `web_search_options` and searches that the provider counts, where the price has a fee for searches
   */
  readonly serverTools?: Readonly<Record<string, ServerToolOptions>>;
  /**
   * Whether requests may name files, buckets or stored prompts of your own account at the provider (`file_id`, `gs://` and the like):
   * any client may then read each of them whose name it knows.
   *
   * @default false
   */
  readonly accountFiles?: boolean;
  /**
   * Tokens that media in a prompt cost, for holds and estimates: `image` each, `audioPerSecond`, `file` each document or video.
   *
   * @default for holds what they can cost: an image as the provider's preset counts the largest (16,384 without a preset), 50 a second
   * of audio (of 1,000 bytes), a file a token a byte and 20,000, and of one that isn't in the request itself the context window; for
   * estimates 2,000, 50 (of 4,000 bytes) and 20,000
   */
  readonly tokenBudgets?: Partial<TokenBudgets>;
  /**
   * Of an entry whose ID ends in a star: IDs that it doesn't serve, in which a `*` stands for any characters: `['openai/*-preview']`.
   *
   * @default none
   */
  readonly except?: readonly string[];
  /** What its answers tell clients of the provider and of costs. @default as the router's own `answer`, each of its members */
  readonly answer?: AnswerOptions;
  /** Other IDs for it. Requests by them are charged and journaled under its own. */
  readonly aliases?: readonly string[];
  /**
   * Since when, or from when on, nobody should use it any more: a date as `'2027-01-31'`, or a moment as ISO 8601 has it.
   * Its answers have a header `deprecation`.
   */
  readonly deprecatedAt?: string | Date;
  /** From when on it is refused, as a date or moment; told before in `shutdown_date` and in a header `sunset`. */
  readonly shutdownDate?: string | Date;
  /** ID of the model to use instead, for the error after its shutdown. */
  readonly replacement?: string;
  readonly name?: string;
  readonly description?: string;
  /**
   * What it takes, as OpenRouter's list names it: `text`, `image`, `file`, `audio`, `video`. Told to clients, and no more.
   *
   * @default ['text']
   */
  readonly inputModalities?: readonly string[];
  /**
   * Parameters that it obeys, as OpenRouter's list names them: `tools`, `reasoning`, `structured_outputs` and so on. Told
   * to clients, some of which offer no others; nothing is refused for it.
   *
   * @default [], which says nothing of them
   */
  readonly supportedParameters?: readonly string[];
  /**
   * When the model was made, in Unix seconds.
   *
   * @default 0
   */
  readonly created?: number;
  /**
   * `owned_by` of the model's record.
   *
   * @default what stands before the ID's first slash, else `system`
   */
  readonly ownedBy?: string;
}

/** What a client pays for a tool that the provider runs itself. */
export interface ServerToolOptions {
  /** USD a call, before markup, as a decimal string. */
  readonly fee: string;
  /** What the provider bills you for a call, in USD, for `cost` of the journal. @default not known, nor is then what such a request costs */
  readonly cost?: string;
  /**
   * So many calls a request are held for. Searches that the provider counts are charged by its count, also beyond that; of
   * all else so many are charged whenever it was asked for. 1 to 1000.
   */
  readonly atMost: number;
}

/** One place where a model is served. */
export interface TargetOptions {
  readonly provider: string;
  /** The model's name there. */
  readonly model: string;
  /** What the client pays when this target answers, instead of the model's `pricing`. */
  readonly pricing?: PricingOption;
  /** What it pays when its own key was used here, instead of the model's `byokPricing`. */
  readonly byokPricing?: PricingOption;
  /**
   * What the provider bills; told in the journal and in `onSettled`. `'reported'`: what it says in its answers.
   *
   * @default 'reported' for the presets `openrouter` and `vercel`, else not known
   */
  readonly cost?: PricingOption | 'reported';
  /**
   * Its share of the requests, where the model's `strategy` is `weighted`.
   *
   * @default 1
   */
  readonly weight?: number;
  /** What becomes of fields of a request on its way there, beside what the provider's `body` says. @default nothing */
  readonly body?: BodyRules;
}

/** What becomes of a model's `maxOutputTokens` in a request. */
export type EnforceOutputLimit = 'lower' | 'insert';

/** In which order a model's targets are tried. */
export type RoutingStrategy = 'ordered' | 'weighted' | 'cheapest' | 'fastest';

/** Prices that somebody else keeps, e.g. what `catalogPrices()` of `chat-completions-router/prices` gives. */
export interface PriceCatalog {
  /** Synchronous, because a router is made without waiting; undefined for a model that it doesn't know. */
  find(asked: PriceQuery): CatalogEntry | undefined;
}

/** Which price is looked for: that of a model at a provider. */
export interface PriceQuery {
  /** The provider's preset, or else its name in `providers`. */
  readonly provider: string;
  /** Where its chat completions are asked. */
  readonly url: string;
  /** The model's name there. */
  readonly model: string;
}

/** What a catalog knows of a model. */
export interface CatalogEntry {
  /** The catalog's own name for it. */
  readonly name?: string;
  readonly pricing: Pricing;
  readonly contextWindow?: number;
  readonly maxOutputTokens?: number;
}
