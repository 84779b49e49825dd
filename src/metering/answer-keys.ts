import { KeyMatcher } from '../json/key-matcher.ts';
import type { CostMember } from './reported-cost.ts';
import {
  CACHE_WRITE_COUNTS,
  COMPLETION_COUNTS,
  type Count,
  PLUGIN_COUNTS,
  PROMPT_COUNTS,
  SERVER_TOOL_COUNTS,
  TIMING_COUNTS,
  USAGE_COUNTS,
} from './usage-dialects.ts';

/** The part of an answer that directly contains a value. */
export type AnswerPosition =
  | 'document'
  | 'answer'
  | 'choices'
  | 'choice'
  | 'delta'
  | 'usage'
  | 'prompt details'
  | 'completion details'
  | 'server tools'
  | 'cache writes'
  | 'cost'
  | 'plugins'
  | 'plugin'
  | 'metadata'
  | 'gateway calls'
  | 'x_groq'
  | 'timings'
  | 'base_resp'
  | 'list'
  | 'listed'
  | 'elsewhere';

type AnswerKey =
  | 'choices'
  | 'usage'
  | 'error'
  | 'moderation'
  | 'object'
  | 'x_groq'
  | 'timings'
  | 'base_resp'
  | 'status_code'
  | 'service_tier'
  | 'service_tier_used';
type ChoiceKey = 'index' | 'delta' | 'finish_reason' | 'usage' | 'name' | 'metadata' | 'gateway calls';
type UsageKey =
  | Count
  | CostMember
  | 'own key'
  | 'prompt details'
  | 'completion details'
  | 'server tools'
  | 'cache writes'
  | 'plugins'
  | 'plugin';
/** The meaning of a member in its position. */
export type AnswerMember = AnswerKey | ChoiceKey | UsageKey | 'notDelivered';

const NO_KEYS = new KeyMatcher<AnswerMember>({});
/** The members of an answer that metering reads, by position. */
export const KEYS: Readonly<Record<AnswerPosition, KeyMatcher<AnswerMember>>> = {
  document: NO_KEYS,
  answer: new KeyMatcher<AnswerMember>({
    choices: 'choices',
    usage: 'usage',
    error: 'error',
    moderation: 'moderation',
    object: 'object',
    x_groq: 'x_groq',
    timings: 'timings',
    base_resp: 'base_resp',
    service_tier: 'service_tier',
    service_tier_used: 'service_tier_used', // Cerebras, for `auto`
  }),
  choices: NO_KEYS,
  choice: new KeyMatcher<AnswerMember>({
    index: 'index',
    delta: 'delta',
    message: 'delta',
    finish_reason: 'finish_reason',
    usage: 'usage',
  }),
  // All strings in a delta or message are delivered text, except in these members:
  // labels, media, sources, and copies or signatures of the text.
  delta: new KeyMatcher<AnswerMember>({
    name: 'name',
    provider_metadata: 'metadata', // Vercel
    role: 'notDelivered',
    id: 'notDelivered',
    type: 'notDelivered',
    data: 'notDelivered',
    url: 'notDelivered',
    b64_json: 'notDelivered',
    signature: 'notDelivered',
    format: 'notDelivered',
    annotations: 'notDelivered',
    citations: 'notDelivered',
    images: 'notDelivered',
    reasoning_details: 'notDelivered', // OpenRouter: `reasoning` again
    thinking_blocks: 'notDelivered', // LiteLLM: `reasoning_content` again
    provider_specific_fields: 'notDelivered',
    extra_content: 'notDelivered',
  }),
  usage: new KeyMatcher<AnswerMember>({
    ...USAGE_COUNTS,
    prompt_tokens_details: 'prompt details',
    prompt_token_details: 'prompt details',
    completion_tokens_details: 'completion details',
    server_tool_use: 'server tools',
    server_tool_use_details: 'server tools',
    cache_creation: 'cache writes',
    cost: 'cost',
    cost_details: 'cost',
    cost_in_usd_ticks: 'ticks', // xAI
    market_cost: 'market_cost', // Vercel
    is_byok: 'own key', // OpenRouter
    plugins: 'plugins', // Qwen
    service_tier: 'service_tier', // Mistral
  }),
  'prompt details': new KeyMatcher<AnswerMember>({
    ...PROMPT_COUNTS,
    cache_creation: 'cache writes',
    cache_creation_token_details: 'cache writes', // LiteLLM
  }),
  'cache writes': new KeyMatcher<AnswerMember>({ ...CACHE_WRITE_COUNTS }),
  cost: new KeyMatcher<AnswerMember>({ total_cost: 'total_cost', upstream_inference_cost: 'upstream_cost' }),
  'completion details': new KeyMatcher<AnswerMember>({ ...COMPLETION_COUNTS }),
  'server tools': new KeyMatcher<AnswerMember>({ ...SERVER_TOOL_COUNTS }),
  plugins: new KeyMatcher<AnswerMember>({ search: 'plugin' }),
  plugin: new KeyMatcher<AnswerMember>({ ...PLUGIN_COUNTS }),
  metadata: new KeyMatcher<AnswerMember>({ gatewayToolCalls: 'gateway calls' }),
  'gateway calls': NO_KEYS,
  x_groq: new KeyMatcher<AnswerMember>({ usage: 'usage' }),
  timings: new KeyMatcher<AnswerMember>({ ...TIMING_COUNTS }),
  base_resp: new KeyMatcher<AnswerMember>({ status_code: 'status_code' }),
  // Gemini's errors are a list.
  list: NO_KEYS,
  listed: new KeyMatcher<AnswerMember>({ error: 'error' }),
  elsewhere: NO_KEYS,
};
