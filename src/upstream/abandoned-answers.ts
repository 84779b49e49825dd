import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { Quote } from '../metering/estimate.ts';
import type { Target } from '../catalog/model.ts';
import { reasonsSilently } from '../catalog/silent-reasoning.ts';

/**
 * Whether a target's answer to a request of this account is read on to its usage when its client leaves it.
 *
 * As the provider's options have it; else where the model reasons silently, by its name or by what was seen, or where too little was seen
 * of it, and where the client predicted an answer: of what such an answer costs, what was delivered says next to nothing. A client's own account at the provider is its own matter.
 */
export function isReadToEnd(
  target: Target,
  account: string,
  quote: Quote,
  correction: EstimateCalibration,
): boolean {
  const { provider, model, usesByok } = target;
  if (provider.onDisconnect !== undefined) return provider.onDisconnect === 'drain';
  if (usesByok) return false;
  return quote.predictedTokens !== undefined || reasonsSilently(model) || correction.mayHide(account);
}
