import { FREE } from '../metering/price.ts';
import type { Model, Target } from './model.ts';

/**
 * A model as it is for a client that has keys of its own: its targets at those providers cost what
 * `byokPricing` says, and the operator nothing.
 *
 * @param hasKey - by the provider's name
 */
export function withByokPrices(model: Model, hasKey: (provider: string) => boolean): Model {
  if (!model.targets.some(({ provider }) => hasKey(provider.name))) return model;
  const own = (target: Target): Target => (hasKey(target.provider.name) ? byokTargetOf(target) : target);
  const [first, ...rest] = model.targets;
  const targets = [own(first), ...rest.map(own)] as const;
  return { ...model, targets, prices: [...new Set(targets.map(({ price }) => price))] };
}

/** One for each target: what is known of a target's health is kept by it. */
const byokTargets = new WeakMap<Target, Target>();

function byokTargetOf(target: Target): Target {
  let variant = byokTargets.get(target);
  if (!variant) {
    variant = { ...target, price: target.byokPrice, cost: FREE, reportsCost: false, usesByok: true };
    byokTargets.set(target, variant);
  }
  return variant;
}
