import type { MemberPlan } from '../http/member-plan.ts';
import type { MediaBounds, TokenBudgets } from '../metering/estimate.ts';
import type { Price } from '../metering/price.ts';
import type { ServerTools } from '../metering/server-tool-fees.ts';
import type { Choice } from '../options/model-options.ts';
import type { Provider } from './provider.ts';
import type { TargetRules } from './resolve-body-rules.ts';

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
  readonly priceVariant?: PriceVariant;
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

/** That a model is going, or gone. */
export interface Deprecation {
  /** In ms since the epoch. */
  readonly deprecatedAt: number | undefined;
  /** In ms since the epoch; from then on it is refused. */
  readonly shutdownAt: number | undefined;
  readonly replacement: string | undefined;
  /** For its answers: RFC 9745, RFC 8594. */
  readonly headers: Readonly<Record<string, string>>;
}

/** What a request asks that has a price of its own. */
export interface PriceVariant {
  /** As prices name it; undefined for the tier that has the plain price. */
  readonly serviceTier: string | undefined;
  /** What is written to a cache may be written for an hour. */
  readonly hourWrites: boolean;
}
