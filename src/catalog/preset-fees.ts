import type { CountedAs } from '../metering/server-tool-fees.ts';

/** What a preset's server bills besides tokens, if a request asks for it. */
export interface PresetFees {
  /** Tools that the server runs: by type, prefix of a type (`openrouter:*`), or function name (`$web_search`). */
  readonly tools: Readonly<Record<string, CountedAs>>;
  /** Fields of a request; http/billed-fields.ts has them all. Those of http/rejected-fields.ts have no price. */
  readonly fields: Readonly<Record<string, CountedAs>>;
  /** Content parts that are billed per page or call. */
  readonly parts: readonly string[];
  /** Source, as of November 2026. */
  readonly source: string;
}

/** Servers that only run a model. */
const NOTHING = { tools: {}, fields: {}, parts: [] } as const;

const AZURE: PresetFees = {
  tools: {},
  fields: { data_sources: 'nothing', enhancements: 'nothing', web_search_options: 'nothing' },
  parts: [],
  source: 'learn.microsoft.com: Azure OpenAI On Your Data; Priority processing',
};

/** One row per preset, in the same order. `npm run check` requires a row for each preset.
 *
 * Everything named here is rejected unless the model has a price for it, at every provider, because the answering provider isn't
 * known while a request is read. So are unnamed types of tools, except `function` and `custom`.
 */
export const PRESET_FEES: Readonly<Record<string, PresetFees>> = {
  anthropic: {
    tools: {
      'web_search_*': 'nothing',
      'web_fetch_*': 'nothing',
      'code_execution_*': 'nothing',
      'advisor_*': 'nothing',
    },
    fields: { speed: 'nothing', inference_geo: 'nothing', container: 'nothing', mcp_servers: 'nothing' },
    parts: [],
    source: 'platform.claude.com: OpenAI SDK compatibility; the tools and fields: its native API',
  },
  azure: AZURE,
  'azure-deployments': AZURE,
  bedrock: {
    tools: {},
    fields: { 'amazon-bedrock-guardrailConfig': 'nothing', additionalModelRequestFields: 'nothing' },
    parts: [],
    source: 'docs.aws.amazon.com: Bedrock, Chat Completions and guardrails',
  },
  cerebras: { ...NOTHING, source: 'github.com/Cerebras/cerebras-cloud-sdk-node' },
  cloudflare: { ...NOTHING, source: 'developers.cloudflare.com: Workers AI, OpenAI compatibility' },
  cohere: {
    ...NOTHING,
    fields: { connectors: 'nothing' },
    source: 'docs.cohere.com: Compatibility API; connectors: its native API',
  },
  deepseek: {
    ...NOTHING,
    tools: { deepseek_web_search: 'searches', deepseek_read_url: 'nothing' },
    source: 'api-docs.deepseek.com: Create chat completion, Web tools',
  },
  fireworks: { ...NOTHING, source: 'docs.fireworks.ai; github.com/fw-ai-external/python-sdk' },
  gemini: {
    tools: { google_search: 'nothing' },
    fields: { 'google.tools': 'nothing', 'google.cached_content': 'nothing' },
    parts: [],
    source: 'ai.google.dev: OpenAI compatibility',
  },
  groq: {
    tools: { browser_search: 'nothing', code_interpreter: 'nothing', mcp: 'nothing' },
    fields: {},
    parts: [],
    source: 'console.groq.com: Compound, Browser search; github.com/groq/groq-typescript',
  },
  huggingface: {
    ...NOTHING,
    tools: { browser_search: 'nothing', code_interpreter: 'nothing' },
    source: 'huggingface.co/docs/inference-providers; the tools: Groq, which it routes to',
  },
  llamacpp: { ...NOTHING, source: 'github.com/ggml-org/llama.cpp: tools/server/README.md' },
  lmstudio: { ...NOTHING, source: 'lmstudio.ai/docs: OpenAI compatibility' },
  mistral: {
    tools: {
      image_generation: 'nothing',
      web_search: 'nothing',
      web_search_premium: 'nothing',
      code_interpreter: 'nothing',
      document_library: 'nothing',
      connector: 'nothing',
    },
    fields: { guardrails: 'nothing', agent_id: 'nothing' },
    parts: ['document_url'],
    source: 'github.com/mistralai/platform-docs-public: openapi.yaml, agent-tools.md',
  },
  moonshot: {
    tools: { $web_search: 'searches', builtin_function: 'nothing' },
    fields: {},
    parts: [],
    source: 'platform.moonshot.ai: Pricing of tools, Web search',
  },
  nvidia: { ...NOTHING, source: 'docs.api.nvidia.com: NIM, LLM APIs' },
  ollama: { ...NOTHING, source: 'docs.ollama.com: OpenAI compatibility' },
  openai: {
    tools: {},
    fields: { web_search_options: 'nothing' },
    parts: [],
    source: 'github.com/openai/openai-node: resources/chat/completions',
  },
  openrouter: {
    tools: {
      'openrouter:*': 'calls',
      'openrouter:web_search': 'searches',
      'openrouter:web_fetch': 'calls',
      'openrouter:image_generation': 'calls',
      'openrouter:advisor': 'calls',
      'openrouter:subagent': 'calls',
      'openrouter:fusion': 'calls',
      web_search: 'searches',
      web_search_preview: 'searches',
      web_search_preview_2025_03_11: 'searches',
      web_search_2025_08_26: 'searches',
      advisor_20260301: 'nothing',
    },
    fields: {
      web_search_options: 'searches',
      speed: 'nothing',
      stop_server_tools_when: 'nothing',
      max_tool_calls: 'nothing',
      image_config: 'nothing',
      debug: 'nothing',
    },
    parts: ['file'],
    source: 'openrouter.ai/docs: Server tools, Web search, PDF inputs',
  },
  perplexity: {
    tools: {},
    fields: {
      web_search_options: 'searches',
      search_type: 'nothing',
      stream_mode: 'nothing',
      file_workspace_id: 'nothing',
      thread_id: 'nothing',
      use_threads: 'nothing',
      ranking_model: 'nothing',
      search_tenant: 'nothing',
      search_internal_properties: 'nothing',
      _force_new_agent: 'nothing',
      _debug_pro_search: 'nothing',
    },
    parts: [],
    source: 'docs.perplexity.ai: Pricing, Chat completions; github.com/perplexityai/perplexity-py',
  },
  qwen: {
    tools: {},
    fields: { enable_search: 'searches', search_options: 'searches', enable_code_interpreter: 'nothing' },
    parts: [],
    source: 'alibabacloud.com/help/en/model-studio: Web search; help.aliyun.com: Qwen-Long',
  },
  sambanova: { ...NOTHING, source: 'docs.sambanova.ai; github.com/sambanova/sambanova-python' },
  together: {
    ...NOTHING,
    fields: { safety_model: 'nothing', compliance: 'nothing' },
    source: 'github.com/togethercomputer/openapi: openapi.yaml',
  },
  vercel: {
    tools: {
      'vercel:*': 'nothing',
      'vercel:perplexity_search': 'searches',
      'vercel:parallel_search': 'searches',
      'vercel:exa_search': 'searches',
      'vercel:tako_search': 'searches',
      'vercel:browserbase_search': 'searches',
    },
    fields: { web_search_options: 'nothing' },
    parts: [],
    source: 'vercel.com/docs/ai-gateway: OpenAI-compatible API; github.com/vercel/ai: AI Gateway',
  },
  vertex: {
    tools: {},
    fields: { web_search_options: 'nothing', 'google.tools': 'nothing', 'google.cached_content': 'nothing' },
    parts: [],
    source: 'docs.cloud.google.com: Vertex AI, OpenAI compatibility',
  },
  vllm: { ...NOTHING, source: 'docs.vllm.ai: OpenAI-compatible server' },
  xai: {
    tools: {
      live_search: 'searches',
      web_search: 'nothing',
      x_search: 'nothing',
      code_execution: 'nothing',
      code_interpreter: 'nothing',
      collections_search: 'nothing',
      file_search: 'nothing',
      attachment_search: 'nothing',
      mcp: 'nothing',
      image_generation: 'nothing',
    },
    fields: { deferred: 'nothing' },
    parts: ['file'],
    source: 'docs.x.ai: Pricing, Tools, Cost tracking, REST reference',
  },
  zhipu: {
    tools: {
      web_search: 'nothing',
      retrieval: 'nothing',
      web_browser: 'nothing',
      drawing_tool: 'nothing',
      code_interpreter: 'nothing',
      mcp: 'nothing',
    },
    fields: { agent_id: 'nothing', conversation_id: 'nothing', web_search: 'nothing' },
    parts: [],
    source: 'docs.bigmodel.cn: Chat completions, Web search; github.com/zai-org/z-ai-sdk-python',
  },
};
