import type { PresetName } from '../options/preset-names.ts';
import type { ProviderOptions } from '../options/provider-options.ts';

/** Defaults for a known provider. */
export type Preset = Pick<ProviderOptions, 'auth' | 'query' | 'streamUsage' | 'onDisconnect' | 'usage'> & {
  /** `{names}` are filled from `variables`, `{model}` from the target. */
  readonly baseURL: string;
  /** Works without a key: a self-hosted server. */
  readonly keyless?: true;
};

/** One short entry for each name, alphabetically, and a row in preset-fields.ts.
 *
 * `drain` marks providers that bill the whole answer even if the connection is closed, from OpenRouter's guide to
 * streaming. Options that are not set have the defaults of any server; servers that reject `stream_options` are
 * learned.
 */
const ALL: Readonly<Record<PresetName, Preset>> = {
  anthropic: { baseURL: 'https://api.anthropic.com/v1' },
  azure: {
    baseURL: 'https://{resource}.openai.azure.com/openai/v1',
    auth: { header: 'api-key' },
  },
  'azure-deployments': {
    baseURL: 'https://{resource}.openai.azure.com/openai/deployments/{model}',
    auth: { header: 'api-key' },
    query: { 'api-version': '2024-10-21' }, // the first stable version with `stream_options`
  },
  bedrock: {
    baseURL: 'https://bedrock-runtime.{region}.amazonaws.com/openai/v1',
    onDisconnect: 'drain',
  },
  cerebras: { baseURL: 'https://api.cerebras.ai/v1', streamUsage: 'native' },
  cloudflare: { baseURL: 'https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1' },
  // Has rejected `stream_options` in the past; whether it still does is learned.
  cohere: { baseURL: 'https://api.cohere.ai/compatibility/v1' },
  deepseek: { baseURL: 'https://api.deepseek.com/v1' },
  fireworks: { baseURL: 'https://api.fireworks.ai/inference/v1' },
  gemini: {
    baseURL: 'https://generativelanguage.googleapis.com/v1beta/openai',
    onDisconnect: 'drain',
  },
  groq: { baseURL: 'https://api.groq.com/openai/v1', streamUsage: 'native', onDisconnect: 'drain' },
  huggingface: { baseURL: 'https://router.huggingface.co/v1', onDisconnect: 'drain' },
  llamacpp: { baseURL: 'http://127.0.0.1:8080/v1', keyless: true },
  lmstudio: { baseURL: 'http://127.0.0.1:1234/v1', keyless: true },
  mistral: { baseURL: 'https://api.mistral.ai/v1', streamUsage: 'rejected', onDisconnect: 'drain' },
  moonshot: { baseURL: 'https://api.moonshot.ai/v1' },
  nvidia: { baseURL: 'https://integrate.api.nvidia.com/v1' },
  ollama: { baseURL: 'http://127.0.0.1:11434/v1', keyless: true },
  openai: { baseURL: 'https://api.openai.com/v1' },
  openrouter: { baseURL: 'https://openrouter.ai/api/v1', streamUsage: 'native' },
  perplexity: {
    baseURL: 'https://api.perplexity.ai',
    streamUsage: 'native',
    onDisconnect: 'drain',
    usage: { reasoning: 'outside' },
  },
  qwen: { baseURL: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1', onDisconnect: 'drain' },
  sambanova: { baseURL: 'https://api.sambanova.ai/v1', streamUsage: 'native', onDisconnect: 'drain' },
  together: { baseURL: 'https://api.together.xyz/v1' },
  vercel: { baseURL: 'https://ai-gateway.vercel.sh/v1' },
  // Its keys are OAuth tokens that expire after an hour: `apiKey` must be a function.
  vertex: {
    baseURL:
      'https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/endpoints/openapi',
    onDisconnect: 'drain',
  },
  vllm: { baseURL: 'http://127.0.0.1:8000/v1', keyless: true },
  xai: { baseURL: 'https://api.x.ai/v1', usage: { cached: 'either' } },
  zhipu: { baseURL: 'https://open.bigmodel.cn/api/paas/v4' },
};

/** Providers that an entry of `providers` can name. */
export const PRESETS: Readonly<Record<string, Preset>> = ALL;
