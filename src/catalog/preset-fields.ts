import type { ReportedCostField } from '../metering/reported-cost.ts';
import type { OutputLimitField } from '../options/provider-options.ts';

/** What the server of a preset reads in a request, and tells in an answer, that decides what an answer can cost. */
export interface PresetFields {
  /** The output limits that it obeys; the first is the one to insert. A limit in the other field is ignored or refused. */
  readonly limits: readonly [OutputLimitField, ...OutputLimitField[]];
  /** Its limit is one of the visible answer, and reasoning comes on top. */
  readonly limitsAnswerOnly?: true;
  /**
   * Other names that it reads for an output limit, or for a number of answers. Each is refused, and so is what only looks like one:
   * http/refused-fields.ts.
   */
  readonly others?: readonly string[];
  /** The most tokens that one image of a prompt is, by how the model's name begins; `''` is every other model. */
  readonly imageTokens: Readonly<Record<string, number>>;
  /**
   * Members of its answers by which a client could learn what an answer costs the operator, or who gave it. Of a preset with `cost`
   * both are taken out unless the option `answer` says otherwise. Counts of tokens and what the client asked for are none of them.
   */
  readonly shows?: { readonly cost?: readonly string[]; readonly supplier?: readonly string[] };
  /** Its service tiers, where it has any. */
  readonly serviceTiers?: PresetTiers;
  /** Where it reports what it bills; undefined where it doesn't. */
  readonly reportedCost?: ReportedCostField;
  /** What it reports is all that it bills, for models whose `cost` isn't given. */
  readonly reportsAllCost?: true;
  /** Where that was read. */
  readonly source: string;
}

/** Service tiers: what `service_tier` of a request can ask for. */
export interface PresetTiers {
  /** Those that are billed at prices of their own. */
  readonly sold: readonly string[];
  /** Its names of the plain one, beside `default` and `standard`. */
  readonly plain?: readonly string[];
}

/** GPT-4o mini counts 2,833 tokens and 5,667 for each of up to 8 tiles; GPT-5.4 takes up to 10,000 patches. */
const OPENAI_IMAGES = { 'gpt-4o-mini': 48_169, 'ft:gpt-4o-mini': 48_169, '': 10_000 };
/** 28 × 28 pixels a token, up to 16,384 of them: the most that a model with published weights takes by default. */
const OPEN_IMAGES = { '': 16_384 };
/** 258 tokens for each of up to 16 tiles; Gemini 3 takes 2,240 at most. */
const GOOGLE_IMAGES = { '': 4128 };
const ANTHROPIC_IMAGES = { '': 4784 };
/** Gateways that serve all of them. */
const ANY_IMAGES = { 'openai/gpt-4o-mini': 48_169, '': 16_384 };

const AZURE_FILTERS = ['system_fingerprint', 'prompt_filter_results', 'choices[].content_filter_results'];
/** What its gateway did, and at which costs; beside it stand signatures that clients send back. */
const VERCEL_ROUTING = [
  'provider_metadata.gateway',
  'providerMetadata.gateway',
  'choices[].message.provider_metadata.gateway',
  'choices[].delta.provider_metadata.gateway',
];

/** One row a preset, in their order. A new preset needs one: `npm run check` says so. */
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
    // An answer never tells; it takes every other name for the plain one.
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
    serviceTiers: { sold: ['priority', 'flex', 'scale'] },
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
        // Of errors: the operator's account.
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
    serviceTiers: { sold: ['priority', 'flex'] },
    reportedCost: 'cost',
    reportsAllCost: true,
    source: 'vercel.com/docs/ai-gateway: OpenAI-compatible API; the other names: the AI SDK and Responses',
  },
  vertex: {
    limits: ['max_tokens', 'max_completion_tokens'],
    others: ['max_output_tokens', 'maxOutputTokens', 'candidate_count', 'candidateCount'],
    // Models of other makers have their names before a slash.
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
      'docs.bigmodel.cn: Chat completions; github.com/zai-org/z-ai-sdk-python: api_resource/chat/completions.py',
  },
};
