/**
 * Request fields that providers bill beside tokens, or that give a client access to data of the operator's account
 * there. Each has the values, beside null and false, that request nothing. They are recognised in any case, at the top
 * level and inside `extra_body`, and go upstream only if the model has a price for them.
 *
 * Which servers read which of these: catalog/preset-fees.ts.
 */
export const BILLED_FIELDS: Readonly<Record<string, readonly string[]>> = {
  _debug_pro_search: [],
  _force_new_agent: [],
  additionalModelRequestFields: [],
  agent_id: [],
  agents: [],
  'amazon-bedrock-guardrailConfig': [],
  compliance: [],
  connectors: [],
  container: [],
  conversation_id: [],
  data_sources: [],
  debug: [],
  deferred: [],
  enable_code_interpreter: [],
  enable_search: [],
  enhancements: [],
  file_workspace_id: [],
  guardrails: [],
  image_config: [],
  inference_geo: ['global'],
  max_tool_calls: [],
  mcp_servers: [],
  ranking_model: [],
  safety_model: [],
  search_internal_properties: [],
  search_options: [],
  search_tenant: [],
  search_type: ['fast'],
  speed: ['standard'],
  stop_server_tools_when: [],
  stream_mode: ['full'],
  thread_id: [],
  use_threads: [],
  web_search: [],
  web_search_options: [],
};

/** Members of Gemini's and Vertex's own `google` object, with the names under which they are priced. */
export const GOOGLE_MEMBERS: Readonly<Record<string, string>> = {
  cached_content: 'google.cached_content',
  cachedContent: 'google.cached_content',
  tools: 'google.tools',
};
