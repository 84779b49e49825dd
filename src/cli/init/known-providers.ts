/** A provider that `init` can set up, with models to start with. */
export interface KnownProvider {
  /** Name of a preset. */
  readonly name: string;
  /** Environment variable of its API key. */
  readonly variable: string;
  /** Environment variable by which its own clients override the base URL. */
  readonly baseURL?: { readonly variable: string; readonly usual: string };
  readonly models: readonly KnownModel[];
}

interface KnownModel {
  /** The provider's name for it. */
  readonly model: string;
  readonly pricing: { readonly input: string; readonly output: string; readonly cachedInput?: string };
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
}

/** With list prices at the time of release, in USD per million tokens: a comment in the config says to check them. */
export const KNOWN_PROVIDERS: readonly KnownProvider[] = [
  {
    name: 'openai',
    variable: 'OPENAI_API_KEY',
    baseURL: { variable: 'OPENAI_BASE_URL', usual: 'https://api.openai.com/v1' },
    models: [
      known('gpt-4o-mini', 128_000, 16_384, { input: '0.15', output: '0.60', cachedInput: '0.075' }),
      known('gpt-4.1-mini', 1_047_576, 32_768, { input: '0.40', output: '1.60', cachedInput: '0.10' }),
    ],
  },
  {
    name: 'anthropic',
    variable: 'ANTHROPIC_API_KEY',
    models: [known('claude-haiku-4-5', 200_000, 64_000, { input: '1.00', output: '5.00' })],
  },
  {
    name: 'gemini',
    variable: 'GEMINI_API_KEY',
    models: [known('gemini-2.5-flash', 1_048_576, 65_536, { input: '0.30', output: '2.50' })],
  },
  {
    name: 'openrouter',
    variable: 'OPENROUTER_API_KEY',
    models: [
      known('openai/gpt-4o-mini', 128_000, 16_384, { input: '0.15', output: '0.60', cachedInput: '0.075' }),
    ],
  },
  {
    name: 'groq',
    variable: 'GROQ_API_KEY',
    models: [known('llama-3.3-70b-versatile', 131_072, 32_768, { input: '0.59', output: '0.79' })],
  },
  {
    name: 'mistral',
    variable: 'MISTRAL_API_KEY',
    models: [known('mistral-small-latest', 128_000, 32_768, { input: '0.10', output: '0.30' })],
  },
  {
    name: 'deepseek',
    variable: 'DEEPSEEK_API_KEY',
    models: [known('deepseek-chat', 128_000, 8_192, { input: '0.28', output: '0.42', cachedInput: '0.028' })],
  },
  {
    name: 'xai',
    variable: 'XAI_API_KEY',
    models: [known('grok-3-mini', 131_072, 32_768, { input: '0.30', output: '0.50', cachedInput: '0.075' })],
  },
  {
    name: 'together',
    variable: 'TOGETHER_API_KEY',
    models: [
      known('meta-llama/Llama-3.3-70B-Instruct-Turbo', 131_072, 16_384, { input: '0.88', output: '0.88' }),
    ],
  },
  {
    name: 'fireworks',
    variable: 'FIREWORKS_API_KEY',
    models: [
      known('accounts/fireworks/models/llama-v3p3-70b-instruct', 131_072, 16_384, {
        input: '0.90',
        output: '0.90',
      }),
    ],
  },
  {
    name: 'cerebras',
    variable: 'CEREBRAS_API_KEY',
    models: [known('gpt-oss-120b', 131_072, 32_768, { input: '0.35', output: '0.75' })],
  },
];

function known(
  model: string,
  contextWindow: number,
  maxOutputTokens: number,
  pricing: KnownModel['pricing'],
): KnownModel {
  return { model, pricing, contextWindow, maxOutputTokens };
}

/** Providers whose key is in the environment. */
export function findProviders(env: NodeJS.ProcessEnv): readonly KnownProvider[] {
  return KNOWN_PROVIDERS.filter(({ variable }) => env[variable]);
}
