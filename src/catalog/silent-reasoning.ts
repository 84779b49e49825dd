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
