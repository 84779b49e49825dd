import type { ProviderOptions } from '../options.ts';

/** What is known of a provider by its name. */
export type Preset = Pick<
  ProviderOptions,
  'baseURL' | 'streamUsage' | 'outputLimitField' | 'onClientGone'
> & {
  readonly baseURL: string;
  /** Works without a key: a server of one's own. */
  readonly keyless?: true;
};

/**
 * Providers that an entry of `providers` can name; one line each, alphabetically.
 *
 * `drain` stands where closing the connection doesn't end the bill, as OpenRouter's guide to
 * streaming lists them.
 */
export const PRESETS: Readonly<Record<string, Preset>> = {
  anthropic: { baseURL: 'https://api.anthropic.com/v1' },
  cerebras: { baseURL: 'https://api.cerebras.ai/v1', streamUsage: 'native' },
  deepseek: { baseURL: 'https://api.deepseek.com/v1' },
  fireworks: { baseURL: 'https://api.fireworks.ai/inference/v1' },
  gemini: {
    baseURL: 'https://generativelanguage.googleapis.com/v1beta/openai',
    streamUsage: 'native',
    onClientGone: 'drain',
  },
  groq: { baseURL: 'https://api.groq.com/openai/v1', onClientGone: 'drain' },
  mistral: { baseURL: 'https://api.mistral.ai/v1', streamUsage: 'rejected', onClientGone: 'drain' },
  ollama: { baseURL: 'http://127.0.0.1:11434/v1', keyless: true },
  openai: { baseURL: 'https://api.openai.com/v1', outputLimitField: 'max_completion_tokens' },
  openrouter: { baseURL: 'https://openrouter.ai/api/v1', streamUsage: 'native' },
  perplexity: { baseURL: 'https://api.perplexity.ai', streamUsage: 'native', onClientGone: 'drain' },
  together: { baseURL: 'https://api.together.xyz/v1' },
  xai: { baseURL: 'https://api.x.ai/v1' },
};
