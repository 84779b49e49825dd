import type { ReportedCostField } from '../metering/reported-cost.ts';
import type { OutputLimitField } from '../options/provider-options.ts';

/** Request and answer fields of a preset's server that affect the cost of an answer. */
export interface PresetFields {
  /** The output limits that it obeys; the first is the one to insert. A limit in the other field is ignored or rejected. */
  readonly limits: readonly [OutputLimitField, ...OutputLimitField[]];
  /** The limit applies to the visible answer only; reasoning is not limited. */
  readonly limitsAnswerOnly?: true;
  /** Other names for an output limit, or for a number of answers. They are rejected, and so are similar ones:
   * http/rejected-fields.ts.
   */
  readonly others?: readonly string[];
  /** Most tokens of one image in a prompt, by prefix of the model's name; `''` matches every other model. */
  readonly imageTokens: Readonly<Record<string, number>>;
  /** Answer members that reveal the operator's cost, or the supplier. For a preset with `cost`, both are removed unless the option
   * `answer` says otherwise. Token counts and requested content are not included.
   */
  readonly shows?: { readonly cost?: readonly string[]; readonly supplier?: readonly string[] };
  /** Its service tiers, if it has any. */
  readonly serviceTiers?: PresetTiers;
  /** The field with its reported cost, if it reports one. */
  readonly reportedCost?: ReportedCostField;
  /** The reported cost is the whole bill; used for models without a configured `cost`. */
  readonly reportsAllCost?: true;
  /** Source of the above. */
  readonly source: string;
}

/** Values of `service_tier`. */
export interface PresetTiers {
  /** Tiers with their own prices. */
  readonly sold: readonly string[];
  /** Names of the tier with the plain price, besides `default` and `standard`. */
  readonly plain?: readonly string[];
}

/** GPT-4o mini counts 2,833 tokens and 5,667 for each of up to 8 tiles; GPT-5.4 takes up to 10,000 patches. */
const OPENAI_IMAGES = { 'gpt-4o-mini': 48_169, 'ft:gpt-4o-mini': 48_169, '': 10_000 };
/** 28 × 28 pixels per token, up to 16,384 tokens: the highest default of models with published weights. */
const OPEN_IMAGES = { '': 16_384 };
/** 258 tokens for each of up to 16 tiles; Gemini 3 takes 2,240 at most. */
const GOOGLE_IMAGES = { '': 4128 };
const ANTHROPIC_IMAGES = { '': 4784 };
/** Gateways, which serve models of all providers. */
const ANY_IMAGES = { 'openai/gpt-4o-mini': 48_169, '': 16_384 };

const AZURE_FILTERS = ['system_fingerprint', 'prompt_filter_results', 'choices[].content_filter_results'];
/** Routing and costs of its gateway. Sibling members are signatures that clients send back, and stay. */
const VERCEL_ROUTING = [
  'provider_metadata.gateway',
  'providerMetadata.gateway',
  'choices[].message.provider_metadata.gateway',
  'choices[].delta.provider_metadata.gateway',
];

/** One row per preset, in the same order. `npm run check` requires a row for each preset. */
export const PRESET_FIELDS: Readonly<Record<string, PresetFields>> = {
  anthropic: {
    limits: ['max_tokens', 'max_completion_tokens'],
    imageTokens: ANTHROPIC_IMAGES,
    serviceTiers: { sold: [], plain: ['standard_only'] },
    source: 'docs.claude.com: OpenAI SDK compatibility, Vision',
  },
  azure: {
    limits: ['max_completion_tokens', 'max_tokens'],
    imageTokens: OPENAI_IMAGES,
    shows: { supplier: AZURE_FILTERS },
    serviceTiers: { sold: ['priority'] },
    source: 'learn.microsoft.com: Azure OpenAI reference',
  },
  'azure-deployments': {
    limits: ['max_completion_tokens', 'max_tokens'],
    // A deployment may have any name.
    imageTokens: { '': 48_169 },
    shows: { supplier: AZURE_FILTERS },
    serviceTiers: { sold: ['priority'] },
    source: 'learn.microsoft.com: Azure OpenAI reference',
  },
  bedrock: {
    limits: ['max_completion_tokens', 'max_tokens'],
    others: ['max_gen_len', 'max_tokens_to_sample'],
    imageTokens: OPEN_IMAGES,
    serviceTiers: { sold: ['priority', 'flex', 'reserved'] },
    source: 'docs.aws.amazon.com: Bedrock, OpenAI models; the other names: its native models',
  },
  cerebras: {
    limits: ['max_completion_tokens', 'max_tokens'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['system_fingerprint', 'time_info'] },
    serviceTiers: { sold: ['priority', 'flex'] },
    source: 'github.com/Cerebras/cerebras-cloud-sdk-node',
  },
  cloudflare: {
    limits: ['max_tokens'],
    imageTokens: OPEN_IMAGES,
    source: 'github.com/cloudflare/cloudflare-docs: src/content/workers-ai-models, which all take max_tokens',
  },
  cohere: {
    limits: ['max_tokens'],
    others: ['num_generations'],
    imageTokens: OPEN_IMAGES,
    source:
      'docs.cohere.com: Compatibility API, Image inputs (256 tokens a tile); the other name: its older native API',
  },
  deepseek: {
    limits: ['max_tokens'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['system_fingerprint'] },
    source: 'api-docs.deepseek.com: Create chat completion, Vision; github.com/earendil-works/pi/issues/8018',
  },
  fireworks: {
    limits: ['max_tokens', 'max_completion_tokens'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['perf_metrics'] },
    // Answers don't name the tier; every other name means the plain one.
    serviceTiers: { sold: ['priority'], plain: ['flex'] },
    source: 'github.com/fw-ai-external/python-sdk',
  },
  gemini: {
    limits: ['max_tokens', 'max_completion_tokens'],
    others: ['max_output_tokens', 'maxOutputTokens', 'candidate_count', 'candidateCount'],
    imageTokens: GOOGLE_IMAGES,
    serviceTiers: { sold: ['priority', 'flex'] },
    source: 'ai.google.dev: OpenAI compatibility, Media resolution; the other names: its native API',
  },
  groq: {
    limits: ['max_completion_tokens', 'max_tokens'],
    imageTokens: OPEN_IMAGES,
    shows: {
      supplier: [
        'system_fingerprint',
        'x_groq',
        'usage_breakdown',
        'usage.queue_time',
        'usage.prompt_time',
        'usage.completion_time',
        'usage.total_time',
        'choices[].message.executed_tools',
        'choices[].delta.executed_tools',
      ],
    },
    serviceTiers: { sold: ['performance', 'flex'], plain: ['on_demand'] },
    source: 'github.com/groq/groq-typescript',
  },
  huggingface: {
    limits: ['max_tokens'],
    others: ['max_new_tokens', 'best_of', 'num_return_sequences'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['system_fingerprint'] },
    source:
      'huggingface.co/docs/inference-providers: Chat completion; github.com/huggingface/text-generation-inference: router/src/lib.rs',
  },
  llamacpp: {
    // Builds of 2025 ignore `max_completion_tokens`.
    limits: ['max_tokens'],
    others: ['n_predict', 'n_cmpl'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['system_fingerprint', 'timings'] },
    source: 'github.com/ggml-org/llama.cpp: tools/server/server-schema.cpp, issues/13700',
  },
  lmstudio: {
    limits: ['max_tokens'],
    others: ['n_predict', 'n_cmpl'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['system_fingerprint', 'stats', 'model_info', 'runtime'] },
    source: 'lmstudio.ai/docs: OpenAI compatibility; the other names: llama.cpp, which it runs',
  },
  mistral: {
    limits: ['max_tokens'],
    imageTokens: { '': 4160 },
    serviceTiers: { sold: ['priority'] },
    source: 'github.com/mistralai/client-ts; docs.mistral.ai: Vision',
  },
  moonshot: {
    limits: ['max_tokens', 'max_completion_tokens'],
    imageTokens: OPEN_IMAGES,
    source: 'platform.moonshot.ai: Chat',
  },
  nvidia: {
    limits: ['max_tokens', 'max_completion_tokens'],
    others: ['best_of'],
    imageTokens: OPEN_IMAGES,
    source: 'docs.nvidia.com: NIM for LLMs, which runs vLLM',
  },
  ollama: {
    limits: ['max_tokens'],
    others: ['num_predict'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['system_fingerprint'] },
    source: 'github.com/ollama/ollama: openai/openai.go; the other name: its native API',
  },
  openai: {
    limits: ['max_completion_tokens', 'max_tokens'],
    others: ['max_output_tokens', 'best_of'],
    imageTokens: OPENAI_IMAGES,
    shows: { supplier: ['system_fingerprint'] },
    serviceTiers: { sold: ['priority', 'flex', 'scale', 'ultrafast'] },
    source: 'platform.openai.com: Chat, Images and vision; the other names: Responses and Completions',
  },
  openrouter: {
    limits: ['max_tokens', 'max_completion_tokens'],
    others: ['max_output_tokens'],
    imageTokens: ANY_IMAGES,
    shows: {
      cost: ['usage.cost', 'usage.cost_details', 'usage.is_byok', 'cache_discount'],
      supplier: [
        'provider',
        'openrouter_metadata',
        // In errors: the operator's account.
        'user_id',
        'choices[].native_finish_reason',
        'choices[].error.metadata.provider_name',
        'choices[].error.metadata.raw',
        'error.metadata.provider_name',
        'error.metadata.raw',
        'error.metadata.is_byok',
        'error.metadata.remedy_hint',
      ],
    },
    serviceTiers: { sold: ['priority', 'flex'] },
    reportedCost: 'cost',
    reportsAllCost: true,
    source: 'github.com/OpenRouterTeam/typescript-sdk; the other name: its Responses',
  },
  perplexity: {
    limits: ['max_tokens'],
    others: ['best_of', 'max_output_tokens'],
    imageTokens: OPEN_IMAGES,
    shows: { cost: ['usage.cost'] },
    reportedCost: 'cost.total_cost',
    source: 'github.com/perplexityai/perplexity-node: src/generated/api.ts; max_output_tokens: its Responses',
  },
  qwen: {
    limits: ['max_tokens'],
    limitsAnswerOnly: true,
    others: ['max_new_tokens'],
    imageTokens: OPEN_IMAGES,
    source: 'alibabacloud.com/help/en/model-studio: Qwen API, Deep thinking',
  },
  sambanova: {
    limits: ['max_tokens', 'max_completion_tokens'],
    others: ['max_tokens_to_generate'],
    imageTokens: OPEN_IMAGES,
    shows: {
      supplier: [
        'system_fingerprint',
        'usage.is_last_response',
        'usage.time_to_first_token',
        'usage.total_latency',
        'usage.start_time',
        'usage.end_time',
        'usage.stop_reason',
        'usage.total_tokens_per_sec',
        'usage.completion_tokens_per_sec',
        'usage.completion_tokens_after_first_per_sec',
        'usage.completion_tokens_after_first_per_sec_first_ten',
      ],
    },
    source: 'github.com/sambanova/sambanova-python; the other name: its older API',
  },
  together: {
    limits: ['max_tokens'],
    imageTokens: OPEN_IMAGES,
    source: 'github.com/togethercomputer/openapi: openapi.yaml',
  },
  vercel: {
    limits: ['max_tokens', 'max_completion_tokens'],
    others: ['max_output_tokens', 'maxOutputTokens'],
    imageTokens: ANY_IMAGES,
    shows: {
      cost: ['usage.cost', 'usage.market_cost', 'usage.cost_details', 'usage.is_byok', ...VERCEL_ROUTING],
      supplier: ['generationId', ...VERCEL_ROUTING],
    },
    serviceTiers: { sold: ['priority', 'flex', 'ultrafast'] },
    reportedCost: 'cost',
    reportsAllCost: true,
    source: 'vercel.com/docs/ai-gateway: OpenAI-compatible API; the other names: the AI SDK and Responses',
  },
  vertex: {
    limits: ['max_tokens', 'max_completion_tokens'],
    others: ['max_output_tokens', 'maxOutputTokens', 'candidate_count', 'candidateCount'],
    // Names of other vendors' models begin with the vendor and a slash.
    imageTokens: { 'google/': 4128, '': 16_384 },
    shows: { supplier: ['usage.extra_properties'] },
    source: 'cloud.google.com: Chat Completions on Vertex AI; the other names: its native API',
  },
  vllm: {
    limits: ['max_completion_tokens', 'max_tokens'],
    others: ['best_of'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['kv_transfer_params'] },
    source: 'github.com/vllm-project/vllm: entrypoints/openai/chat_completion/protocol.py',
  },
  xai: {
    // `max_tokens` does not count reasoning.
    limits: ['max_completion_tokens'],
    others: ['max_output_tokens'],
    imageTokens: { '': 1792 },
    shows: { cost: ['usage.cost_in_usd_ticks'] },
    serviceTiers: { sold: ['priority'] },
    reportedCost: 'cost_in_usd_ticks',
    source: 'docs.x.ai: REST reference, Image understanding; github.com/xai-org/xai-proto',
  },
  zhipu: {
    limits: ['max_tokens'],
    imageTokens: OPEN_IMAGES,
    shows: { supplier: ['request_id'] },
    source:
      'docs.bigmodel.cn: Chat completions; docs.z.ai: Core parameters; github.com/zai-org/z-ai-sdk-python: api_resource/chat/completions.py',
  },
};
