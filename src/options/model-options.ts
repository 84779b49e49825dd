import type { TokenBudgets } from '../metering/estimate.ts';
import type { Markup } from '../metering/markup.ts';
import type { Pricing } from '../metering/pricing.ts';

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
  readonly choice?: Choice;
  /** What the client pays, whichever target answers. A model without a price must say `'free'`. */
  readonly pricing: Pricing | 'free';
  /** Added to every price of this model that a client pays, beside the router's own `markup`. */
  readonly markup?: Markup;
  /**
   * What the client pays where its own key for the provider is used (`upstreamKeys` of `authenticate`).
   *
   * @default as for every other request
   */
  readonly ownKeyPricing?: Pricing | 'free';
  /** Most tokens that prompt and completion can have together. */
  readonly contextWindow?: number;
  /** Most tokens that the model writes; required unless the model is free, because holds are made of it. */
  readonly maxOutputTokens?: number;
  /**
   * So many searches of the Web are held for, where the price has a fee for them. More are charged as well, as far as
   * the balance goes; the rest is written off.
   *
   * @default 5
   */
  readonly maxWebSearches?: number;
  /** Tokens that media in a prompt can cost, for holds and estimates. */
  readonly tokenBudgets?: Partial<TokenBudgets>;
  readonly name?: string;
  readonly description?: string;
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

/** One place where a model is served. */
export interface TargetOptions {
  readonly provider: string;
  /** The model's name there. */
  readonly model: string;
  /** What the client pays when this target answers, instead of the model's `pricing`. */
  readonly pricing?: Pricing | 'free';
  /** What it pays when its own key was used here, instead of the model's `ownKeyPricing`. */
  readonly ownKeyPricing?: Pricing | 'free';
  /** What the provider bills; told in the journal and in `onSettled`. */
  readonly cost?: Pricing | 'free';
  /**
   * Its share of the requests, where the model's `choice` is `weighted`.
   *
   * @default 1
   */
  readonly weight?: number;
}

/** In which order a model's targets are tried. */
export type Choice = 'ordered' | 'weighted' | 'cheapest' | 'fastest';
