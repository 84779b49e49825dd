import type { MemberPlan } from '../http/member-plan.ts';
import type { MediaBounds, TokenBudgets } from '../metering/estimate.ts';
import type { Price } from '../metering/price.ts';
import type { ServerTools } from '../metering/server-tool-fees.ts';
import type { Labels } from '../options/labels.ts';
import type { ModelInfo } from '../options/model-info.ts';
import type { UpstreamLimits } from '../options/upstream-limits.ts';
import type { RoutingStrategy } from '../options/strategies.ts';
import type { StickySettings } from '../options/resolve-sticky.ts';
import type { WaitSettings } from '../options/resolve-wait.ts';
import type { Provider } from './provider.ts';
import type { TargetRules } from './resolve-body-rules.ts';

/** A model for clients, with its targets and prices. */
export interface Model {
  readonly id: string;
  /** Other IDs for it. */
  readonly aliases: readonly string[];
  /** The wildcard pattern that it came from, e.g. `openai/*`; undefined for a model with its own entry. */
  readonly wildcard: string | undefined;
  /** Undefined without a deprecation. */
  readonly deprecation: Deprecation | undefined;
  /** In order, at least one. */
  readonly targets: readonly [Target, ...Target[]];
  /** Routing strategy: the order of trying. */
  readonly strategy: RoutingStrategy;
  /** What the client of a request says of the order; undefined if it leaves it to the strategy. */
  readonly clientOrder?: ClientOrder;
  /** How its conversations are kept at a target; undefined if they aren't. */
  readonly sticky: StickySettings | undefined;
  /** How its requests wait where all targets are full; undefined if they don't. */
  readonly wait: WaitSettings | undefined;
  /** The price in the model list; a target's own price may differ. */
  readonly price: Price;
  /** All distinct prices that may be charged: holds cover the highest. */
  readonly prices: readonly Price[];
  readonly contextWindow: number | undefined;
  /** Undefined only if all prices are free. */
  readonly maxOutputTokens: number | undefined;
  /** Number of Web searches that a hold covers. */
  readonly webSearches: number;
  /** Searches that must be covered for a request to be admitted; 0 without a fee. */
  readonly webSearchesNeeded: number;
  readonly tokenBudgets: TokenBudgets;
  readonly mediaBounds: MediaBounds;
  /** What its record says beside limits and prices. */
  readonly info: RecordInfo;
}

/** A client's word on the order of targets. */
export interface ClientOrder {
  /** The client named providers or a sort: that comes before its conversation. */
  readonly isChosen: boolean;
  /** Names of the providers that come first, in this order, in lower case. */
  readonly first: readonly string[];
  /** Only the first target is asked. */
  readonly firstOnly: boolean;
  /** The targets of all models are sorted together. */
  readonly acrossModels: boolean;
}

/** What a model's record says beside limits and prices; a missing member is unknown. */
export interface RecordInfo extends ModelInfo {
  readonly name: string;
  /** Unix seconds; 0 if unknown. */
  readonly created: number;
  readonly ownedBy: string;
  /** By a model catalog: shown if the model has no limit of its own. */
  readonly contextWindow: number | undefined;
  /** As `contextWindow`. */
  readonly maxOutputTokens: number | undefined;
}

/** At least one model, in the order of trying, each with its allowed targets. */
export type SelectedModels = readonly [Model, ...Model[]];

/** One place where a model is served. */
export interface Target {
  /** ID of the model that it serves, as clients know it. */
  readonly modelId: string;
  /** The wildcard pattern of its model, if it came from one. */
  readonly wildcard: string | undefined;
  readonly provider: Provider;
  /** The provider's name for the model. */
  readonly model: string;
  /** Key for health and learned behavior: the upstream model, or the wildcard pattern, because clients choose the names it expands to. */
  readonly healthKey: string;
  /** Its name says that it searches without being asked, for a fee. */
  readonly searches: boolean;
  /** The client's price for answers of this target. */
  readonly price: Price;
  /** The client's price with its own key. */
  readonly byokPrice: Price;
  /** The client's own key is used: `price` is the BYOK price, and the operator pays nothing. */
  readonly usesByok: boolean;
  /** What the provider bills; undefined if unknown. */
  readonly cost: Price | undefined;
  /** The cost that the provider reports replaces `cost`. */
  readonly reportsCost: boolean;
  /** Requested features with their own price; undefined for most requests. */
  readonly priceVariant?: PriceVariant;
  /** Its share of the requests with the strategy `weighted`. */
  readonly weight: number;
  readonly output: TargetOutput;
  /** What keys, accounts and requests may require; empty without any. */
  readonly labels: Labels;
  /** Of each of its provider's keys; undefined without any. */
  readonly limits: UpstreamLimits | undefined;
  /** The parameters that it takes, in OpenRouter's terms; undefined if unknown. */
  readonly parameters: ReadonlySet<string> | undefined;
  /** Edits of request fields; undefined without any. */
  readonly body: TargetRules | undefined;
  /** Edits of answers; undefined without any. */
  readonly answerPlan: MemberPlan | undefined;
  /** Prices of tools that the provider runs, by name. */
  readonly serverTools: ServerTools;
  /** Requests may refer to files of the operator's account. */
  readonly accountFiles: boolean;
}

/** Output limits of a target. */
export interface TargetOutput {
  /** Undefined only for a free model. */
  readonly maxTokens: number | undefined;
  /** A limit is inserted into requests without one. */
  readonly insertsLimit: boolean;
  readonly contextWindow: number | undefined;
}

/** A model's deprecation and shutdown. */
export interface Deprecation {
  /** In ms since the epoch. */
  readonly deprecatedAt: number | undefined;
  /** In ms since the epoch; from then on requests are rejected. */
  readonly shutdownAt: number | undefined;
  readonly replacement: string | undefined;
  /** Response headers: RFC 9745, RFC 8594. */
  readonly headers: Readonly<Record<string, string>>;
}

export function isShutDown({ deprecation }: Model, now: number): boolean {
  return deprecation?.shutdownAt !== undefined && now >= deprecation.shutdownAt;
}

/** Features of a request that have their own price. */
export interface PriceVariant {
  /** Its name in prices; undefined for the tier with the plain price. */
  readonly serviceTier: string | undefined;
  /** Cache writes may be for an hour. */
  readonly hourWrites: boolean;
}

/** Learned state per target, kept while the provider's configuration is unchanged.
 *
 * Keyed by provider and health key, as a BYOK target is another object for the same target.
 */
export class PerTarget<T extends object> {
  readonly #byProvider = new WeakMap<Provider, Map<string, T>>();
  readonly #make: (target: Target) => T;

  /** @param make - creates the initial state of a target */
  constructor(make: (target: Target) => T) {
    this.#make = make;
  }

  of(target: Target): T {
    const { provider, healthKey } = target;
    let ofProvider = this.#byProvider.get(provider);
    if (!ofProvider) this.#byProvider.set(provider, (ofProvider = new Map<string, T>()));
    let known = ofProvider.get(healthKey);
    if (!known) ofProvider.set(healthKey, (known = this.#make(target)));
    return known;
  }

  /** Undefined if nothing was learned. */
  find({ provider, healthKey }: Target): T | undefined {
    return this.#byProvider.get(provider)?.get(healthKey);
  }
}
