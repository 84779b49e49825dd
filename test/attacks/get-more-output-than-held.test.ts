import { afterEach, describe, expect, it } from 'vitest';

import type { ModelOptions, ProviderOptions, Settled } from '../../src/index.ts';
import { findingsOf } from '../helpers/audit.ts';
import { type Gateway, startGateway } from '../helpers/gateway.ts';
import { answerJson, completionBody, type Script } from '../helpers/provider.ts';

/** USD 1 and 10 per million tokens, and at most 100 tokens written. */
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: { input: '1', output: '10' },
  contextWindow: 20_000,
  maxOutputTokens: 100,
};
const ASK = { model: 'acme/fast', messages: [{ role: 'user', content: 'Write for ever.' }] };

/**
 * Fields of chat completions that the presets' servers document and that pass: of OpenAI, Groq, Cerebras, Perplexity, SambaNova, Fireworks,
 * Together, Mistral, OpenRouter, Ollama, vLLM, llama.cpp, Qwen, Zhipu and Cohere.
 */
const KNOWN = `
  _debug_render_only adaptive_target add_generation_prompt add_special_tokens allowed_token_ids audio
  backend_sampling bad_words cache_control cache_prompt cache_salt chat_format chat_template_kwargs
  citation_options clear_thinking context_length_exceeded_behavior continue_final_message country cum_logprobs
  disable_reasoning disable_search disable_tool_validation diverse_first_token do_sample documents
  dry_allowed_length dry_penalty_last_n dynatemp_range echo echo_last enable_search_classifier enable_thinking
  exclude_domains frequency_penalty function_call generation_prompt grammar grammar_lazy has_image_url
  ignore_eos image_domain_filter image_format_filter include_domains include_reasoning
  include_stop_str_in_output incremental_output json_schema language_preference last_updated_after_filter
  last_updated_before_filter latitude length_penalty logit_bias logprob_token_ids logprobs longitude lora
  maxInputTokens max_prompt_tokens max_thinking_tokens meta metadata min_completion_tokens min_keep min_p
  min_tokens mirostat_lr mirostat_target modalities model_parameters moderation n_cache_reuse n_discard n_indent
  n_keep n_probs num_images num_search_results nvext parallel_tool_calls parse_tool_calls
  perf_metrics_in_response post_sampling_probs presence_penalty preserved_tokens priority
  prompt_cache_isolation_key prompt_cache_key prompt_cache_options prompt_cache_retention prompt_logprobs
  prompt_mode prompt_truncate_len random_seed raw_output reasoning reasoning_budget_message
  reasoning_budget_tokens reasoning_effort reasoning_format reasoning_history repeat_last_n repeat_penalty
  repetition_detection repetition_penalty request_id response_fields response_format response_formatting_locale
  response_metadata result_format return_images return_progress return_prompt_text return_related_questions
  return_token_ids return_token_offsets return_tokens return_tokens_as_token_ids safe_prompt safe_search
  safe_tokenization safety_identifier safety_mode samplers search_after_date_filter search_before_date_filter
  search_domain_filter search_language_filter search_mode search_recency_filter search_settings seed
  sensitive_word_check session_id skip_special_tokens speculation sse_ping_interval stop stop_sequences
  stop_token_ids store stream_interval strict_tools structured_outputs t_max_predict_ms temperature thinking
  thinking_budget thinking_token_budget timings_per_token tool_stream top_a top_k top_logprobs top_n_sigma top_p
  trace transforms truncate_prompt_tokens truncation_side type typical_p updated_after_timestamp
  updated_before_timestamp use_beam_search user user_id user_original_query verbose verbosity
  vl_high_resolution_images vllm_xargs watermark_enabled xtc_probability
`
  .trim()
  .split(/\s+/);

let gateway: Gateway;

async function start(
  model: Partial<ModelOptions> = {},
  { credits = '0.002', provider = {} }: { credits?: string; provider?: Partial<ProviderOptions> } = {},
): Promise<void> {
  const models = { 'acme/fast': { ...MODEL, ...model } };
  gateway = await startGateway({ models, provider }, undefined, credits);
}

afterEach(async () => {
  expect(await findingsOf(gateway.store)).toEqual([]);
  await gateway.close();
});

type Fields = Readonly<Record<string, unknown>>;

/** A server that reads these fields for its limit, the first that is there, and writes as much as it may: 5,000 tokens at most. */
function obeys(...fields: readonly string[]): Script {
  return (response, request) => {
    const asked = request.json as Fields;
    const limit = fields.map((field) => asked[field]).find((value) => typeof value === 'number');
    const n = typeof asked['n'] === 'number' ? asked['n'] : 1;
    const usage = { prompt_tokens: 20, completion_tokens: n * Math.min(limit ?? 5000, 5000) };
    return answerJson(completionBody({ usage }))(response, request);
  };
}

interface Paid extends Settled {
  readonly sent: Fields;
  readonly told: string | null;
}

async function ask(fields: Fields): Promise<Paid> {
  const settled = gateway.nextSettled();
  const response = await gateway.post({ ...ASK, ...fields });
  expect([response.status, await response.text()]).toMatchObject([200, expect.any(String)]);
  const sent = gateway.provider.received.at(-1)?.json as Fields;
  return { ...(await settled), sent, told: response.headers.get('x-ccr-max-tokens') };
}

describe('a limit above the model’s', () => {
  it.each([
    { max_tokens: 5000 },
    { max_completion_tokens: 5000 },
    { max_tokens: 5000, max_completion_tokens: 5000 },
    { max_tokens: 5000, max_completion_tokens: 50 },
    { max_tokens: 5000, n: 1 },
  ])('is lowered to it, and told: %j', async (fields) => {
    await start({}, { provider: { preset: 'fireworks' } });
    gateway.provider.script = obeys('max_tokens', 'max_completion_tokens');
    const paid = await ask(fields);
    // 20 tokens at a dollar and 100 at ten dollars a million; 5,000 would be 0.05002.
    expect(paid).toMatchObject({ charged: '0.00102', writtenOff: '0.00', told: '100' });
  });

  it('is lowered in its place, and no other byte changes', async () => {
    await start();
    const body = '{ "model":"acme/fast", "x":1.0, "max_tokens" : 5e3 , "messages":[] }';
    await (await gateway.post(body)).text();
    const sent = gateway.provider.received[0]?.body.toString();
    expect(sent).toBe(body.replace('5e3', '100').replace('acme/fast', 'upstream-model'));
  });

  it('is lowered for each model of a request by its own', async () => {
    await start({}, { credits: '5.00' });
    gateway.router.reload({
      models: {
        'acme/fast': MODEL,
        'acme/long': { ...MODEL, maxOutputTokens: 4000, targets: ['loopback/long'] },
      },
    });
    gateway.provider.script = obeys('max_tokens');
    expect(await ask({ max_tokens: 5000 })).toMatchObject({ told: '100' });
    expect(await ask({ max_tokens: 5000, model: 'acme/long' })).toMatchObject({ told: '4000' });
  });

  it('is not touched or told where it is low enough', async () => {
    await start();
    gateway.provider.script = obeys('max_tokens');
    expect(await ask({ max_tokens: 100 })).toMatchObject({ told: null, sent: { max_tokens: 100 } });
  });
});

describe('a limit in the field that the provider ignores', () => {
  it.each(['deepseek', 'llamacpp', 'mistral', 'ollama', 'together', 'zhipu'])(
    'is moved to the one that %s obeys',
    async (preset) => {
      await start({}, { provider: { preset } });
      gateway.provider.script = obeys('max_tokens');
      const paid = await ask({ max_completion_tokens: 10 });
      expect(paid).toMatchObject({ charged: '0.00012', writtenOff: '0.00', sent: { max_tokens: 10 } });
      expect(paid.sent).not.toHaveProperty('max_completion_tokens');
    },
  );

  it('is moved at xAI, where max_tokens does not count reasoning', async () => {
    await start({}, { provider: { preset: 'xai' } });
    gateway.provider.script = obeys('max_completion_tokens');
    const paid = await ask({ max_tokens: 10 });
    expect(paid).toMatchObject({ charged: '0.00012', sent: { max_completion_tokens: 10 } });
  });

  it('is no limit for the hold, where it is not known whether the server obeys it', async () => {
    await start({ maxOutputTokens: 5000 });
    gateway.provider.script = obeys('max_tokens');
    // The balance doesn't cover the model's 5,000 tokens: so it is made a limit that the server is sure to obey.
    const paid = await ask({ max_completion_tokens: 50 });
    expect(paid).toMatchObject({ charged: '0.00052', writtenOff: '0.00', sent: { max_tokens: 50 } });
  });

  it('is no limit for the hold, where reasoning comes on top of it', async () => {
    await start({ maxOutputTokens: 5000 }, { credits: '1.00', provider: { preset: 'qwen' } });
    let held = '';
    gateway.provider.script = async (response, request) => {
      ({ held } = await gateway.router.credits.balance('acct'));
      return obeys()(response, request);
    };
    expect(await ask({ max_tokens: 10 })).toMatchObject({ charged: '0.05002', writtenOff: '0.00' });
    expect(Number(held)).toBeGreaterThanOrEqual(0.05002);
  });
});

describe('a request without a limit', () => {
  it('is sent without one, unless the model says otherwise', async () => {
    await start({ maxOutputTokens: 5000 }, { credits: '1.00' });
    const { sent, told } = await ask({});
    expect(told).toBeNull();
    expect(Object.keys(sent)).toEqual(['model', 'messages']);
  });

  it('gets the model’s with enforceOutputLimit', async () => {
    await start({ enforceOutputLimit: 'insert' });
    gateway.provider.script = obeys('max_tokens');
    const paid = await ask({});
    expect(paid).toMatchObject({ charged: '0.00102', writtenOff: '0.00', told: '100' });
  });

  it.each([
    ['deepseek', 'max_tokens'],
    ['openai', 'max_completion_tokens'],
    ['vllm', 'max_completion_tokens'],
  ])('gets it in the field of %s: %s', async (preset, field) => {
    await start({ enforceOutputLimit: 'insert' }, { provider: { preset } });
    const { sent } = await ask({ max_tokens: null });
    expect(sent[field]).toBe(100);
  });

  it('gets no more than the prompt leaves of the context window', async () => {
    const long = [{ role: 'user', content: 'a'.repeat(40_000) }];
    await start({ enforceOutputLimit: 'insert', maxOutputTokens: 16_000 }, { credits: '5.00' });
    // Four characters a token are 10,000 tokens, and the message and its names a few more.
    const { sent, told } = await ask({ messages: long });
    expect(sent['max_tokens']).toBe(Number(told));
    expect(Number(told)).toBeLessThan(10_000);
    expect(Number(told)).toBeGreaterThan(9900);
  });
});

describe('another name for a limit or a number of answers', () => {
  it.each([
    'n_predict',
    'num_predict',
    'max_new_tokens',
    'max_output_tokens',
    'best_of',
    'n_cmpl',
    'candidateCount',
    'maxTokens',
    'max-tokens',
    'MAX_COMPLETION_TOKEN',
    'maxCompletionTokens',
    'max_length',
    'max_gen_toks',
    'max_output',
    'output_tokens',
    'n_tokens_predict',
    'numResults',
    'num_choices',
    'completions_count',
    'BestOf',
  ])('is refused by its name, anywhere: %s', async (field) => {
    await start();
    for (const body of [{ [field]: 128 }, { extra_body: { [field]: 128 } }]) {
      const response = await gateway.post({ ...ASK, ...body });
      expect(response.status).toBe(400);
      const { error } = (await response.json()) as { error: { code: string; param: string } };
      expect(error.code).toBe('unsupported_parameter');
      expect(error.param).toContain(field);
    }
    expect(gateway.provider.received).toEqual([]);
  });

  it.each([
    ['options', 'num_predict'],
    ['parameters', 'max_new_tokens'],
    ['generation_config', 'max_output_tokens'],
    ['generationConfig', 'candidateCount'],
    ['inferenceConfig', 'maxTokens'],
    ['sampling_params', 'n'],
    ['google', 'maxOutputTokens'],
  ])('is refused in an object of settings: %s.%s', async (object, field) => {
    await start();
    const response = await gateway.post({ ...ASK, [object]: { temperature: 0, [field]: 128 } });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: 'unsupported_parameter', param: `${object}.${field}` },
    });
    expect(gateway.provider.received).toEqual([]);
  });

  it('is not what a field is that bounds the prompt, the reasoning or something else', async () => {
    await start({}, { credits: '1.00' });
    const fields = { ...Object.fromEntries(KNOWN.map((name) => [name, 1])), options: { num_ctx: 4096 } };
    expect((await ask(fields)).sent).toMatchObject(fields);
  });
});

describe('an answer that the client predicts', () => {
  const WRONG = 'x'.repeat(4000);

  it.each([
    ['a text', { type: 'content', content: WRONG }],
    ['parts', { type: 'content', content: [{ type: 'text', text: WRONG }] }],
    ['no object', WRONG],
  ])('is held for as output beside the answer’s own limit: %s', async (_what, prediction) => {
    await start({}, { credits: '1.00' });
    const most = async (fields: Fields): Promise<number> => {
      let held = '';
      gateway.provider.script = async (response, request) => {
        ({ held } = await gateway.router.credits.balance('acct'));
        // What was predicted and isn't in the answer is counted as if it were.
        const usage = { prompt_tokens: 20, completion_tokens: 10 + (fields['prediction'] ? 4000 : 0) };
        return answerJson(completionBody({ usage }))(response, request);
      };
      expect(await ask({ max_tokens: 10, ...fields })).toMatchObject({ writtenOff: '0.00' });
      return Number(held);
    };
    const plain = await most({});
    // 4,000 tokens at ten dollars a million.
    expect((await most({ prediction })) - plain).toBeGreaterThanOrEqual(0.04);
  });

  it('leaves less of a small balance to the answer', async () => {
    await start({}, { credits: '0.0449' });
    gateway.provider.script = obeys('max_tokens');
    const { sent } = await ask({ prediction: { type: 'content', content: WRONG } });
    expect(sent['max_tokens']).toBeLessThan(100);
  });
});
