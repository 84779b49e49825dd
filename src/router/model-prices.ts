import type { Catalog } from '../catalog/catalog.ts';
import type { Model, Target } from '../catalog/model.ts';
import { type ModelRecord, pricingRecord } from '../catalog/model-record.ts';
import { unpricedFeatures } from '../catalog/unpriced-features.ts';
import type { RoutingStrategy } from '../options/strategies.ts';
import type { WeightsByHand } from '../upstream/weights-by-hand.ts';

/** A model as operators see it: where its requests go, what they are sold for, and what they cost. */
export interface ModelPrices {
  /** Of a wildcard its pattern, such as `openai/*`. */
  readonly id: string;
  readonly aliases: readonly string[];
  readonly strategy: RoutingStrategy;
  /** From then on its requests are rejected. */
  readonly shutdownAt?: Date;
  /** In the order of the options. */
  readonly targets: readonly TargetPrices[];
}

export interface TargetPrices {
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  /** Its share of the requests, with the strategy `weighted`. */
  readonly weight: number;
  /** An operator has set the weight, which the options say otherwise. */
  readonly weightByHand?: { readonly at: Date; readonly by?: string; readonly configured: number };
  /** In USD, with the markup, as in `GET /models`. */
  readonly pricing: ModelRecord['pricing'];
  /** What the provider bills, in the same form; undefined if it is unknown. */
  readonly cost?: ModelRecord['pricing'];
  /** The provider reports the cost of each request. */
  readonly reportsCost: boolean;
  /** What the provider bills separately and this has no price for: such requests are rejected. */
  readonly unpriced: readonly string[];
}

export function modelPrices({ models }: Catalog, weights: WeightsByHand): ModelPrices[] {
  return models.map((model) => pricesOf(model, weights));
}

export function pricesOf(
  { id, aliases, strategy, deprecation, targets }: Model,
  weights: WeightsByHand,
): ModelPrices {
  const { shutdownAt } = deprecation ?? {};
  return {
    id,
    aliases,
    strategy,
    ...(shutdownAt !== undefined && { shutdownAt: new Date(shutdownAt) }),
    targets: targets.map((target) => targetPrices(target, weights)),
  };
}

function targetPrices(target: Target, weights: WeightsByHand): TargetPrices {
  const { provider, model, price, cost, reportsCost } = target;
  const byHand = weights.find(target);
  const { at, by } = byHand ?? {};
  return {
    provider: provider.name,
    model,
    weight: byHand?.weight ?? target.weight,
    ...(at && { weightByHand: { at, ...(by !== undefined && { by }), configured: target.weight } }),
    pricing: pricingRecord(price),
    ...(cost && { cost: pricingRecord(cost) }),
    reportsCost,
    unpriced: unpricedFeatures(target),
  };
}
