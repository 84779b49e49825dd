import type { Correction } from '../metering/correction.ts';
import type { Target } from '../models/catalog.ts';
import { reasonsSilently } from '../models/silent-reasoning.ts';

/**
 * Whether a target's answer is read on to its usage when its client, of this account, leaves it.
 *
 * As the provider's options have it; else where the model reasons silently, by its name or by what was seen: of what such an
 * answer costs, what was delivered says next to nothing. A client's own account at the provider is its own matter.
 */
export function isReadOn(target: Target, account: string, correction: Correction): boolean {
  const { provider, model, usesOwnKey } = target;
  if (provider.onClientGone !== undefined) return provider.onClientGone === 'drain';
  if (usesOwnKey) return false;
  return reasonsSilently(model) || correction.hides(account) || correction.isSampled(account);
}
