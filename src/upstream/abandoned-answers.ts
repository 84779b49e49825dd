import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { Quote } from '../metering/estimate.ts';
import type { Target } from '../catalog/model.ts';

/** What a request asks for, as far as it decides whether its abandoned answer is read on. */
export type AbandonedQuote = Pick<
  Quote,
  'size' | 'predictedTokens' | 'features' | 'searches' | 'webSearchesNeeded'
>;

/** Whether a target's answer is read on to its usage after its client disconnects.
 *
 * The provider's option decides, if set. Otherwise the answer is read on if the delivered text may say little about its cost:
 * the model reasons silently or answers in sound or images (by its name or price, by what was learned, or too little was
 * learned), or the request has parts that can't be estimated. With the client's own key it never is, as the client pays
 * the provider.
 */
export function isReadToEnd(
  target: Target,
  account: string,
  quote: AbandonedQuote,
  calibration: EstimateCalibration,
): boolean {
  const { provider, model, price, usesByok } = target;
  if (provider.onDisconnect !== undefined) return provider.onDisconnect === 'drain';
  if (usesByok) return false;
  return (
    cannotBeEstimated(quote) || pricesMedia(price) || reasonsSilently(model) || calibration.mayHide(account)
  );
}

/** Predicted output, media in the prompt, and tools that the provider runs: usage alone says what they cost. */
function cannotBeEstimated({
  size,
  predictedTokens,
  features = [],
  searches = false,
  webSearchesNeeded,
}: AbandonedQuote): boolean {
  const { images, audioBytes, files, linkedFiles } = size;
  const media = images + audioBytes + files + linkedFiles;
  const runsTools = features.length > 0 || searches || webSearchesNeeded > 0;
  return predictedTokens !== undefined || media > 0 || runsTools;
}

/** Sound and images in an answer have prices of their own. */
function pricesMedia({ output, audioOutput, imageOutput }: Target['price']): boolean {
  return audioOutput > output || imageOutput > output;
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
