/** A provider that `init` can set up, with models to start with. */
export interface KnownProvider {
  /** Name of a preset. */
  readonly name: string;
  /** Environment variable of its API key; undefined for a server on this machine, which needs no key. */
  readonly variable?: string;
  /** Environment variable by which its own clients override the base URL. */
  readonly baseURL?: { readonly variable: string; readonly usual: string };
  /** Parts of its base URL that depend on the customer: name → example. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Without any: all models of the server, free of charge. */
  readonly models: readonly KnownModel[];
}

interface KnownModel {
  /** The provider's name for it. */
  readonly model: string;
  readonly pricing: Pricing;
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
  /** Shown above it in the config. */
  readonly comment?: string;
}

interface Pricing {
  readonly input: string;
  readonly output: string;
  readonly cachedInput?: string;
  /** Per request. */
  readonly request?: string;
}

const GPT_4O_MINI: Pricing = { input: '0.15', output: '0.60', cachedInput: '0.075' };

/** With list prices at the time of release, in USD per million tokens: a comment in the config says to check them. */
export const KNOWN_PROVIDERS: readonly KnownProvider[] = [
  {
    name: 'openai',
    variable: 'OPENAI_API_KEY',
    baseURL: { variable: 'OPENAI_BASE_URL', usual: 'https://api.openai.com/v1' },
    models: [
      known('gpt-4o-mini', 128_000, 16_384, GPT_4O_MINI),
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
    models: [known('openai/gpt-4o-mini', 128_000, 16_384, GPT_4O_MINI)],
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
  {
    name: 'azure',
    variable: 'AZURE_OPENAI_API_KEY',
    variables: { resource: 'contoso' },
    models: [
      known(
        'gpt-4o-mini',
        128_000,
        16_384,
        GPT_4O_MINI,
        'On Azure the name after the slash is your deployment.',
      ),
    ],
  },
  {
    name: 'azure-deployments',
    variable: 'AZURE_OPENAI_API_KEY',
    variables: { resource: 'contoso' },
    models: [
      known(
        'gpt-4o-mini',
        128_000,
        16_384,
        GPT_4O_MINI,
        'On Azure the name after the slash is your deployment.',
      ),
    ],
  },
  {
    name: 'bedrock',
    variable: 'AWS_BEARER_TOKEN_BEDROCK',
    variables: { region: 'us-west-2' },
    models: [known('openai.gpt-oss-120b-1:0', 128_000, 16_384, { input: '0.15', output: '0.60' })],
  },
  {
    name: 'cloudflare',
    variable: 'CLOUDFLARE_API_TOKEN',
    variables: { account: '0123456789abcdef0123456789abcdef' },
    models: [
      known('@cf/meta/llama-3.3-70b-instruct-fp8-fast', 24_000, 8_192, { input: '0.293', output: '2.253' }),
    ],
  },
  {
    name: 'cohere',
    variable: 'COHERE_API_KEY',
    models: [known('command-a-03-2025', 256_000, 8_192, { input: '2.50', output: '10.00' })],
  },
  {
    name: 'huggingface',
    variable: 'HF_TOKEN',
    models: [known('openai/gpt-oss-120b:groq', 131_072, 32_768, { input: '0.15', output: '0.75' })],
  },
  { name: 'llamacpp', models: [] },
  { name: 'lmstudio', models: [] },
  {
    name: 'moonshot',
    variable: 'MOONSHOT_API_KEY',
    models: [known('kimi-k2-0905-preview', 262_144, 32_768, { input: '0.60', output: '2.50' })],
  },
  {
    name: 'nvidia',
    variable: 'NVIDIA_API_KEY',
    models: [
      known(
        'meta/llama-3.3-70b-instruct',
        128_000,
        4_096,
        { input: '0.60', output: '0.60' },
        'NVIDIA has no list prices: set your own.',
      ),
    ],
  },
  { name: 'ollama', models: [] },
  {
    name: 'perplexity',
    variable: 'PERPLEXITY_API_KEY',
    models: [known('sonar', 128_000, 8_192, { input: '1.00', output: '1.00', request: '0.012' })],
  },
  {
    name: 'qwen',
    variable: 'DASHSCOPE_API_KEY',
    models: [known('qwen-plus', 131_072, 8_192, { input: '0.40', output: '1.20' })],
  },
  {
    name: 'sambanova',
    variable: 'SAMBANOVA_API_KEY',
    models: [known('Meta-Llama-3.3-70B-Instruct', 131_072, 16_384, { input: '0.60', output: '1.20' })],
  },
  {
    name: 'vercel',
    variable: 'AI_GATEWAY_API_KEY',
    models: [known('openai/gpt-4o-mini', 128_000, 16_384, GPT_4O_MINI)],
  },
  {
    name: 'vertex',
    variable: 'VERTEX_ACCESS_TOKEN',
    variables: { location: 'us-central1', project: 'my-project' },
    models: [
      known(
        'google/gemini-2.5-flash',
        1_048_576,
        65_535,
        { input: '0.30', output: '2.50' },
        'Tokens of Vertex expire after an hour: make apiKey an async function that returns a fresh one.',
      ),
    ],
  },
  { name: 'vllm', models: [] },
  {
    name: 'zhipu',
    variable: 'ZHIPUAI_API_KEY',
    models: [known('glm-4.6', 200_000, 32_768, { input: '0.60', output: '2.20', cachedInput: '0.11' })],
  },
];

function known(
  model: string,
  contextWindow: number,
  maxOutputTokens: number,
  pricing: Pricing,
  comment?: string,
): KnownModel {
  return { model, pricing, contextWindow, maxOutputTokens, ...(comment !== undefined && { comment }) };
}

/** Providers whose key is in the environment, and whose base URL is known. */
export function findProviders(env: NodeJS.ProcessEnv): readonly KnownProvider[] {
  return KNOWN_PROVIDERS.filter(({ variable, variables }) => variable && env[variable] && !variables);
}
