export const OTHER_LIMIT = 'it is another output limit; use max_tokens or max_completion_tokens';
export const MORE_ANSWERS = 'it multiplies the output; use n';
const LONGER_PROMPT = 'it makes a prompt that is longer than the request shows';

/**
 * Fields of a request that never go upstream, and why: by them a client could
 * leave the model that is priced, the provider that is configured or the output
 * that is held for, or make costs that no token count shows. They are refused in any spelling of case,
 * at the top level and inside `extra_body`.
 *
 * What a model can have a price for (`web_search_options`, `speed`) is in billed-fields.ts, `service_tier` in
 * models/asked-apart.ts. What only changes the prompt, not beyond its size, or the answer (`transforms`, `thinking`) passes.
 */
export const REFUSED_FIELDS: Readonly<Record<string, string>> = {
  models: 'it names other models to fall back to', // OpenRouter, Vercel
  route: 'it lets the provider choose another model', // OpenRouter
  provider: 'it chooses among providers, and so among prices', // OpenRouter
  preset: "it replaces the request's model and routing by a stored one", // OpenRouter
  search_parameters: 'it makes fees, by source, that no token count shows', // xAI
  // Which servers read which of these: models/preset-fields.ts.
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
  chat_template: LONGER_PROMPT, // vLLM: a loop in it repeats what it likes
  mm_processor_kwargs: LONGER_PROMPT, // vLLM: images of as many pixels as it says
  dataSources: LONGER_PROMPT,
  plugins: 'it makes fees, by page or by search, that no token count shows', // OpenRouter
  providerOptions: 'it chooses among providers and models', // Vercel
  provider_options: 'it chooses among providers and models', // Vercel, LiteLLM
  fallbacks: 'it names other models to fall back to', // LiteLLM, Portkey
  context_window_fallbacks: 'it names other models to fall back to', // LiteLLM
  content_policy_fallbacks: 'it names other models to fall back to', // LiteLLM
  context_window_fallback_dict: 'it names other models to fall back to', // LiteLLM
  model_list: 'it brings models and keys of its own', // LiteLLM
  user_config: 'it brings models and keys of its own', // LiteLLM
  deployment_id: 'it names another deployment', // LiteLLM, Azure
  compound_custom: 'it names other models that answer', // Groq
  api_base: 'it sends the request to another address', // LiteLLM
  base_url: 'it sends the request to another address', // LiteLLM
  api_key: 'it brings a key for the provider', // LiteLLM
  api_version: 'it is part of the address of the provider', // LiteLLM, Azure
  api_type: 'it is part of the address of the provider', // LiteLLM, Azure
  custom_llm_provider: 'it names another provider', // LiteLLM
  extra_headers: 'it sets headers of the request to the provider', // LiteLLM
};
