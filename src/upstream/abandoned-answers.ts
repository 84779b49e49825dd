import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { Quote } from '../metering/estimate.ts';
import type { Target } from '../catalog/model.ts';
import { reasonsSilently } from '../catalog/silent-reasoning.ts';

/** Whether a target's answer is read on to its usage after its client disconnects.
 *
 * The provider's option decides, if set. Otherwise the answer is read on if most of its cost may be invisible in the
 * delivered text: the model reasons silently (by its name, by what was learned, or too little was learned), or the
 * client predicted the output. With the client's own key it never is, as the client pays the provider.
 */
export function isReadToEnd(
  target: Target,
  account: string,
  quote: Quote,
  calibration: EstimateCalibration,
): boolean {
  const { provider, model, usesByok } = target;
  if (provider.onDisconnect !== undefined) return provider.onDisconnect === 'drain';
  if (usesByok) return false;
  return quote.predictedTokens !== undefined || reasonsSilently(model) || calibration.mayHide(account);
}
