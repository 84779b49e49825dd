export const OTHER_LIMIT = 'it is another output limit; use max_tokens or max_completion_tokens';
export const MORE_ANSWERS = 'it multiplies the output; use n';
const LONGER_PROMPT = 'it makes the prompt longer than the request shows';

/**
 * Request fields that never go upstream, with the reason: by them a client could leave the priced model, the configured
 * provider or the reserved output, or cause costs that no token count shows. They are rejected in any case, at the top
 * level and inside `extra_body`.
 *
 * What a model can have a price for (`web_search_options`, `speed`) is in billed-fields.ts, `service_tier` in
 * catalog/request-prices.ts. What only changes the prompt, not beyond its size, or the answer (`transforms`, `thinking`) passes.
 */
export const REJECTED_FIELDS: Readonly<Record<string, string>> = {
  models: 'it names other models to fall back to', // OpenRouter, Vercel
  route: 'it lets the provider choose another model', // OpenRouter
  provider: 'it chooses among providers, and so among prices', // OpenRouter
  preset: "it replaces the request's model and routing by a stored one", // OpenRouter
  search_parameters: 'it causes fees, by source, that no token count shows', // xAI
  // Which servers read which of these: catalog/preset-fields.ts.
  n_predict: OTHER_LIMIT,
  max_gen_len: OTHER_LIMIT,
  max_new_tokens: OTHER_LIMIT,
  max_output_tokens: OTHER_LIMIT,
  maxOutputTokens: OTHER_LIMIT,
  max_tokens_to_generate: OTHER_LIMIT,
  max_tokens_to_sample: OTHER_LIMIT,
  num_predict: OTHER_LIMIT,
  best_of: MORE_ANSWERS,
  candidate_count: MORE_ANSWERS,
  candidateCount: MORE_ANSWERS,
  n_cmpl: MORE_ANSWERS,
  num_generations: MORE_ANSWERS,
  num_return_sequences: MORE_ANSWERS,
  chat_template: LONGER_PROMPT, // vLLM: a loop in it repeats text without bound
  mm_processor_kwargs: LONGER_PROMPT, // vLLM: sets the size of images
  media_io_kwargs: LONGER_PROMPT, // vLLM: sets the number of video frames
  dataSources: LONGER_PROMPT,
  _inputs: LONGER_PROMPT, // Perplexity: a prompt as numbers, which don't count as text
  _prompt_token_length: LONGER_PROMPT, // Perplexity
  plugins: 'it causes fees, by page or by search, that no token count shows', // OpenRouter
  providerOptions: 'it chooses among providers and models', // Vercel
  provider_options: 'it chooses among providers and models', // Vercel, LiteLLM
  fallbacks: 'it names other models to fall back to', // LiteLLM, Portkey
  context_window_fallbacks: 'it names other models to fall back to', // LiteLLM
  content_policy_fallbacks: 'it names other models to fall back to', // LiteLLM
  context_window_fallback_dict: 'it names other models to fall back to', // LiteLLM
  model_list: 'it brings models and keys of its own', // LiteLLM
  user_config: 'it brings models and keys of its own', // LiteLLM
  deployment_id: 'it names another deployment', // LiteLLM, Azure
  compound_custom: 'it names other models to answer', // Groq
  api_base: 'it sends the request to another address', // LiteLLM
  base_url: 'it sends the request to another address', // LiteLLM
  api_key: 'it brings a key for the provider', // LiteLLM
  api_version: 'it is part of the address of the provider', // LiteLLM, Azure
  api_type: 'it is part of the address of the provider', // LiteLLM, Azure
  custom_llm_provider: 'it names another provider', // LiteLLM
  extra_headers: 'it sets headers of the request to the provider', // LiteLLM
};

/**
 * Objects in which some server reads settings as if they were at the top level. They are checked like `extra_body`: fields
 * that are rejected there or at the top level are rejected here, too.
 */
export const SETTINGS_FIELDS = [
  'generation_config', // Google
  'generationConfig',
  'inference_config', // Bedrock
  'inferenceConfig',
  'textGenerationConfig',
  'options', // Ollama
  'parameters', // text-generation-inference, Qwen
  'sampling_params', // SGLang, TensorRT-LLM
  'samplingParams',
] as const;

/** Common fields whose names look like none of those that are rejected: they need no further look. */
export const PLAIN_FIELDS = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'seed',
  'stop',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'parallel_tool_calls',
  'reasoning_effort',
  'reasoning',
  'verbosity',
  'modalities',
] as const;

const MIN_NAME = 6;
const MAX_NAME_LENGTH = 64;
/** Names of limits for something other than the output. */
const OTHER_THAN_OUTPUT = /^min|input|prompt|context|history|page|reasoning|thinking/;
const LIMIT_NAMES = [
  /^max.*(?:tok|len)/,
  /^max(?:imum)?(?:new|total)?(?:out|gen|compl|answer|resp)/,
  /(?:output|completion|response|answer|generated|new)(?:tok|len|limit)/,
  /^(?:tokens?|length)limit/,
  /(?:num|n)(?:tok(?:en)?s?)?predict$/,
] as const;
/** `num_choices`, `completions_count`. */
const NUMBER_NAMES = [
  /^(?:n|num|number|numof|numberof)(?:answer|candidate|choice|cmpl|completion|generation|output|response|result|returnsequence|sample|sequence)s?$/,
  /^(?:answer|candidate|choice|completion|generation|output|response|result|sample|sequence)s?(?:count|num|number)$/,
  /^bestof$/,
] as const;

/**
 * The reason to reject an unknown field: its name looks like an output limit or a number of answers, in some spelling.
 * Some server may read it, and rejecting it costs little. Undefined for all other names.
 *
 * @param length - length of the name, in characters
 */
export function rejectionReason(length: number, nameOf: () => string | undefined): string | undefined {
  if (length < MIN_NAME || length > MAX_NAME_LENGTH) return undefined;
  // Upper case first: it folds a long s to an s.
  const name = nameOf()
    ?.toUpperCase()
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');
  if (name === undefined) return undefined;
  if (NUMBER_NAMES.some((pattern) => pattern.test(name))) return MORE_ANSWERS;
  if (OTHER_THAN_OUTPUT.test(name)) return undefined;
  return LIMIT_NAMES.some((pattern) => pattern.test(name)) ? OTHER_LIMIT : undefined;
}
