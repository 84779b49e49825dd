import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { Quote } from '../metering/estimate.ts';
import type { Target } from '../catalog/model.ts';

/** Whether a target's answer is read on to its usage after its client disconnects.
 *
 * The provider's option decides, if set. Otherwise the answer is read on if most of its cost may be invisible in the
 * delivered text: the model reasons silently (by its name, by what was learned, or too little was learned), or the
 * client predicted the output. With the client's own key it never is, as the client pays the provider.
 */
export function isReadToEnd(
  target: Target,
  account: string,
  quote: Pick<Quote, 'predictedTokens'>,
  calibration: EstimateCalibration,
): boolean {
  const { provider, model, usesByok } = target;
  if (provider.onDisconnect !== undefined) return provider.onDisconnect === 'drain';
  if (usesByok) return false;
  return quote.predictedTokens !== undefined || reasonsSilently(model) || calibration.mayHide(account);
}

/** Models that reason without showing it, by the part of their name after the last slash, at any provider.
 * Their usage counts tokens that no client sees.
 */
const SILENT: readonly RegExp[] = [
  // OpenAI's guide to reasoning: its tokens "are not visible via the API", and are billed as output.
  /^(?:o[1-9](?!\w)|codex-|gpt-5(?!.*-chat)|gpt-[6-9])/,
  // Google's guide to OpenAI compatibility: thoughts are only in the answer where `include_thoughts` asks for them.
  /^gemini-(?:2\.5|[3-9])/,
  // Google's guide to Grok on Vertex: reasoning is counted, and "the response doesn't have the reasoning_content field".
  /^grok-(?:4|[5-9])(?!.*non-reasoning)/,
];

/** Whether a model is known to reason without showing it. */
export function reasonsSilently(model: string): boolean {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase();
  return SILENT.some((pattern) => pattern.test(name));
}
