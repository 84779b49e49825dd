/** Finds what this machine can reach: providers by their environment variables, and local servers. */
import type { ChatCompletionsRouterOptions, ModelOptions, ProviderOptions } from 'chat-completions-router';

/** A part of the router's options. */
export type Found = Pick<ChatCompletionsRouterOptions, 'providers' | 'models'>;

/** A provider that is used if its variable is set, with a model or two of its own. */
interface KnownProvider {
  readonly variable: string;
  /** The router knows the base URL and the habits of providers with these names. */
  readonly preset: string;
  /** By the name that the provider gives them. */
  readonly models: Readonly<Record<string, Omit<ModelOptions, 'targets'>>>;
}

/**
 * Prices are list prices as we knew them, in USD per million tokens. They change:
 * check them with the provider before your customers pay by them, and add your margin.
 */
const KNOWN_PROVIDERS: readonly KnownProvider[] = [
  {
    variable: 'OPENAI_API_KEY',
    preset: 'openai',
    models: {
      'gpt-4o-mini': {
        pricing: { input: '0.15', output: '0.60', cachedInput: '0.075' },
        contextWindow: 128_000,
        maxOutputTokens: 16_384,
      },
      'gpt-4.1-mini': {
        pricing: { input: '0.40', output: '1.60', cachedInput: '0.10' },
        contextWindow: 1_047_576,
        maxOutputTokens: 32_768,
      },
    },
  },
  {
    variable: 'OPENROUTER_API_KEY',
    preset: 'openrouter',
    models: {
      'openai/gpt-4o-mini': {
        pricing: { input: '0.15', output: '0.60', cachedInput: '0.075' },
        contextWindow: 128_000,
        maxOutputTokens: 16_384,
      },
    },
  },
  {
    variable: 'ANTHROPIC_API_KEY',
    preset: 'anthropic',
    models: {
      'claude-haiku-4-5': {
        pricing: { input: '1.00', output: '5.00' },
        contextWindow: 200_000,
        maxOutputTokens: 64_000,
      },
    },
  },
  {
    variable: 'GEMINI_API_KEY',
    preset: 'gemini',
    models: {
      'gemini-2.5-flash': {
        pricing: { input: '0.30', output: '2.50' },
        contextWindow: 1_048_576,
        maxOutputTokens: 65_536,
      },
    },
  },
  {
    variable: 'GROQ_API_KEY',
    preset: 'groq',
    models: {
      'llama-3.3-70b-versatile': {
        pricing: { input: '0.59', output: '0.79' },
        contextWindow: 131_072,
        maxOutputTokens: 32_768,
      },
    },
  },
  {
    variable: 'MISTRAL_API_KEY',
    preset: 'mistral',
    models: {
      'mistral-small-latest': {
        pricing: { input: '0.10', output: '0.30' },
        contextWindow: 128_000,
        maxOutputTokens: 32_768,
      },
    },
  },
  {
    variable: 'DEEPSEEK_API_KEY',
    preset: 'deepseek',
    models: {
      'deepseek-chat': {
        pricing: { input: '0.28', output: '0.42', cachedInput: '0.028' },
        contextWindow: 128_000,
        maxOutputTokens: 8_192,
      },
    },
  },
  {
    variable: 'XAI_API_KEY',
    preset: 'xai',
    models: {
      'grok-3-mini': {
        pricing: { input: '0.30', output: '0.50', cachedInput: '0.075' },
        contextWindow: 131_072,
        maxOutputTokens: 32_768,
      },
    },
  },
  {
    variable: 'TOGETHER_API_KEY',
    preset: 'together',
    models: {
      'meta-llama/Llama-3.3-70B-Instruct-Turbo': {
        pricing: { input: '0.88', output: '0.88' },
        contextWindow: 131_072,
        maxOutputTokens: 16_384,
      },
    },
  },
  {
    variable: 'FIREWORKS_API_KEY',
    preset: 'fireworks',
    models: {
      'accounts/fireworks/models/llama-v3p3-70b-instruct': {
        pricing: { input: '0.90', output: '0.90' },
        contextWindow: 131_072,
        maxOutputTokens: 16_384,
      },
    },
  },
  {
    variable: 'CEREBRAS_API_KEY',
    preset: 'cerebras',
    models: {
      'gpt-oss-120b': {
        pricing: { input: '0.35', output: '0.75' },
        contextWindow: 131_072,
        maxOutputTokens: 32_768,
      },
    },
  },
];

export async function findProviders(env: NodeJS.ProcessEnv): Promise<Found> {
  const found = [...findKnown(env), ...(await Promise.all([findOllama(), findUpstream(env)]))];
  return {
    providers: Object.assign({}, ...found.map(({ providers }) => providers)),
    models: Object.assign({}, ...found.map(({ models }) => models)),
  };
}

function findKnown(env: NodeJS.ProcessEnv): Found[] {
  return KNOWN_PROVIDERS.filter(({ variable }) => env[variable]).map(({ variable, preset, models }) => ({
    providers: { [preset]: { apiKey: () => env[variable] } },
    models: Object.fromEntries(
      Object.entries(models).map(([model, options]) => [
        `${preset}/${model}`,
        { ...options, targets: [{ provider: preset, model }] },
      ]),
    ),
  }));
}

/** The models of an Ollama on this machine; none if nothing answers at once. */
async function findOllama(): Promise<Found> {
  const models = await listModels('http://127.0.0.1:11434/v1', 300).catch(() => []);
  return freeModels('ollama', {}, models);
}

/** The models of the server that UPSTREAM_BASE_URL names, or the one in UPSTREAM_MODEL. */
async function findUpstream(env: NodeJS.ProcessEnv): Promise<Found> {
  const { UPSTREAM_BASE_URL: baseURL, UPSTREAM_API_KEY: apiKey, UPSTREAM_MODEL: model } = env;
  if (!baseURL) return { providers: {}, models: {} };
  const models = model ? [model] : await listModels(baseURL, 5_000, apiKey).catch(explain);
  return freeModels(
    'upstream',
    { baseURL, ...(apiKey && { apiKey: () => env['UPSTREAM_API_KEY'] }) },
    models,
  );

  function explain(error: unknown): string[] {
    const reason = error instanceof Error ? (error.cause ?? error) : error; // fetch says little itself
    console.error(`UPSTREAM_BASE_URL: ${baseURL}/models gave no list (${String(reason)}).`);
    console.error('Set UPSTREAM_MODEL to the name of a model there.');
    return [];
  }
}

/** Nobody told what these cost, so they cost nothing: your customers must not meet them like this. */
function freeModels(name: string, provider: ProviderOptions, models: readonly string[]): Found {
  return {
    providers: { [name]: provider },
    models: Object.fromEntries(
      models.map((model) => [
        `${name}/${model}`,
        { targets: [{ provider: name, model }], pricing: 'free' as const },
      ]),
    ),
  };
}

async function listModels(baseURL: string, timeoutMs: number, apiKey?: string): Promise<string[]> {
  const response = await fetch(`${baseURL.replace(/\/+$/, '')}/models`, {
    headers: apiKey ? { authorization: `Bearer ${apiKey}` } : {},
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const list: unknown = await response.json();
  if (!isModelList(list)) throw new Error('no list of models');
  return list.data.map(({ id }) => id);
}

function isModelList(value: unknown): value is { data: { id: string }[] } {
  return typeof value === 'object' && value !== null && 'data' in value && Array.isArray(value.data);
}
