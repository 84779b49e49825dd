import { FREE } from '../metering/price.ts';
import type { Model, Target } from './model.ts';

/**
 * A model for a BYOK client: targets at the providers of its keys have the price of `byokPricing`, and cost the operator nothing.
 *
 * @param hasKey - whether the client has a key for this provider
 */
export function withByokPrices(model: Model, hasKey: (provider: string) => boolean): Model {
  if (!model.targets.some(({ provider }) => hasKey(provider.name))) return model;
  const withByok = (target: Target): Target => (hasKey(target.provider.name) ? byokTargetOf(target) : target);
  const [first, ...rest] = model.targets;
  const targets = [withByok(first), ...rest.map(withByok)] as const;
  return { ...model, targets, prices: [...new Set(targets.map(({ price }) => price))] };
}

/** One BYOK target per target. */
const byokTargets = new WeakMap<Target, Target>();

function byokTargetOf(target: Target): Target {
  let byokTarget = byokTargets.get(target);
  if (!byokTarget) {
    byokTarget = { ...target, price: target.byokPrice, cost: FREE, reportsCost: false, usesByok: true };
    byokTargets.set(target, byokTarget);
  }
  return byokTarget;
}
