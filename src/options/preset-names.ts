/** A provider whose base URL and habits the router knows. */
export type PresetName =
  | 'anthropic'
  | 'azure'
  | 'azure-deployments'
  | 'bedrock'
  | 'cerebras'
  | 'cloudflare'
  | 'cohere'
  | 'deepseek'
  | 'fireworks'
  | 'gemini'
  | 'groq'
  | 'huggingface'
  | 'llamacpp'
  | 'lmstudio'
  | 'mistral'
  | 'moonshot'
  | 'nvidia'
  | 'ollama'
  | 'openai'
  | 'openrouter'
  | 'perplexity'
  | 'qwen'
  | 'sambanova'
  | 'together'
  | 'vercel'
  | 'vertex'
  | 'vllm'
  | 'xai'
  | 'zhipu';

/**
 * Any string. The intersection keeps the literals of a union apart from it, so that editors list them.
 */
export type AnyString = string & Record<never, never>;
