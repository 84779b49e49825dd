import type { PresetName } from '../../src/options/preset-names.ts';

/** How a preset writes its streams: an event of text, what precedes them, and what follows. */
interface StreamFormat {
  readonly text: (content: string, n: number) => object;
  /** @default none */
  readonly before?: string;
  readonly after: string;
  readonly lineEnd?: '\r\n';
  /** One line end between events, and no blank line. */
  readonly isJoined?: true;
}

const USAGE = { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 };
const DONE = 'data: [DONE]\n\n';

const event = (fields: object): string => `data: ${JSON.stringify(fields)}\n\n`;

function common(n: number): object {
  return {
    id: 'chatcmpl-BxK3pQ7r',
    object: 'chat.completion.chunk',
    created: 1_790_000_000 + n,
    model: 'acme-1',
  };
}

/** A chunk with one choice. */
function chunk(delta: object, choice: object = { finish_reason: null }, rest: object = {}, n = 0): object {
  return { ...common(n), choices: [{ index: 0, delta, ...choice }], ...rest };
}

const ROLE = event(chunk({ role: 'assistant', content: '' }));
const STOP = event(chunk({}, { finish_reason: 'stop' }));
const STOP_WITH_USAGE = event(chunk({}, { finish_reason: 'stop' }, { usage: USAGE })) + DONE;
const USAGE_LAST = STOP + event({ ...common(0), choices: [], usage: USAGE }) + DONE;
const FILTERS = { hate: { filtered: false, severity: 'safe' }, violence: { filtered: false } };

/** As any server writes it that was made to be like OpenAI's. */
const PLAIN: StreamFormat = {
  text: (content, n) => chunk({ content }, { finish_reason: null }, {}, n),
  before: ROLE,
  after: USAGE_LAST,
};
const USAGE_AT_THE_END: StreamFormat = { ...PLAIN, after: STOP_WITH_USAGE };
const USAGE_IN_EACH: StreamFormat = {
  text: (content, n) =>
    chunk({ role: 'assistant', content }, {}, { usage: { ...USAGE, completion_tokens: n } }, n),
  after: STOP_WITH_USAGE,
};
const AZURE: StreamFormat = {
  before: event({
    choices: [],
    id: '',
    object: '',
    prompt_filter_results: [{ prompt_index: 0, content_filter_results: FILTERS }],
  }),
  text: (content, n) =>
    chunk({ content }, { finish_reason: null, logprobs: null, content_filter_results: FILTERS }, {}, n),
  after: USAGE_LAST,
};

const FORMATS: Readonly<Record<PresetName, StreamFormat>> = {
  anthropic: { ...PLAIN, text: (content, n) => chunk({ content, role: 'assistant' }, {}, {}, n) },
  azure: AZURE,
  'azure-deployments': AZURE,
  bedrock: {
    ...PLAIN,
    text: (content, n) => chunk({ content }, { finish_reason: null }, { service_tier: 'default' }, n),
  },
  cerebras: {
    ...USAGE_AT_THE_END,
    text: (content, n) => chunk({ content }, {}, { system_fingerprint: `fp_${n}` }, n),
    after: event(
      chunk({}, { finish_reason: 'stop' }, { usage: USAGE, time_info: { completion_time: 0.01 } }),
    ),
  },
  cloudflare: {
    ...PLAIN,
    text: (content, n) => ({ response: content, ...chunk({ content }, {}, {}, n), p: 'abc' }),
  },
  cohere: PLAIN,
  deepseek: {
    ...USAGE_AT_THE_END,
    before: `: keep-alive\n\n${ROLE}`,
    text: (content, n) =>
      chunk(
        n % 2 === 0 ? { content: null, reasoning_content: content } : { content, reasoning_content: null },
        { logprobs: null, finish_reason: null },
        { usage: null },
        n,
      ),
  },
  fireworks: { ...USAGE_AT_THE_END, text: (content, n) => chunk({ content }, {}, { usage: null }, n) },
  gemini: USAGE_IN_EACH,
  groq: {
    ...PLAIN,
    before: event(chunk({ role: 'assistant', content: '' }, {}, { x_groq: { id: 'req_1' } })),
    after: event(chunk({}, { finish_reason: 'stop' }, { x_groq: { id: 'req_1', usage: USAGE } })) + DONE,
  },
  huggingface: {
    ...PLAIN,
    text: (content, n) =>
      chunk({ role: 'assistant', content }, { logprobs: null, finish_reason: null }, { usage: null }, n),
  },
  llamacpp: {
    ...PLAIN,
    after: event(
      chunk({}, { finish_reason: 'stop' }, { timings: { cache_n: 4, prompt_n: 5, predicted_n: 12 } }),
    ),
  },
  lmstudio: PLAIN,
  mistral: {
    ...USAGE_AT_THE_END,
    text: (content, n) => chunk({ content }, { finish_reason: null }, { p: 'abcdefghij' }, n),
  },
  moonshot: {
    ...PLAIN,
    text: (content, n) => chunk({ content }, { finish_reason: null, usage: null }, { usage: null }, n),
    after: event(chunk({}, { finish_reason: 'stop', usage: USAGE })) + DONE,
  },
  nvidia: {
    ...PLAIN,
    text: (content, n) =>
      chunk(
        { role: 'assistant', content, reasoning_content: null, tool_calls: [] },
        { logprobs: null, finish_reason: null },
        {},
        n,
      ),
  },
  ollama: {
    ...PLAIN,
    text: (content, n) =>
      chunk({ role: 'assistant', content }, { finish_reason: null }, { system_fingerprint: 'fp_ollama' }, n),
  },
  openai: {
    ...PLAIN,
    text: (content, n) =>
      chunk(
        { content },
        {
          logprobs: { content: [{ token: content, logprob: -1.5e-7 * n, bytes: null }] },
          finish_reason: null,
        },
        { service_tier: 'default', system_fingerprint: null, usage: null, obfuscation: 'x'.repeat(n % 7) },
        n,
      ),
  },
  openrouter: {
    ...PLAIN,
    before: `: OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n${ROLE}`,
    text: (content, n) => ({
      provider: 'Acme',
      ...chunk(
        {
          role: 'assistant',
          content: '',
          reasoning: content,
          reasoning_details: [{ type: 'x', text: content }],
        },
        { finish_reason: null, native_finish_reason: null, logprobs: null },
        {},
        n,
      ),
    }),
    after: STOP + event(chunk({ content: '' }, {}, { usage: { ...USAGE, cost: 0.000_045 } })) + DONE,
  },
  perplexity: { ...USAGE_IN_EACH, lineEnd: '\r\n' },
  qwen: {
    ...PLAIN,
    text: (content, n) => ({
      choices: [
        { delta: { content, reasoning_content: null }, finish_reason: null, index: 0, logprobs: null },
      ],
      object: 'chat.completion.chunk',
      usage: null,
      created: 1_790_000_000 + n,
      system_fingerprint: null,
      model: 'acme-1',
      id: 'chatcmpl-1',
    }),
  },
  sambanova: { ...PLAIN, isJoined: true },
  together: {
    ...USAGE_AT_THE_END,
    text: (content, n) => ({
      id: 'o1',
      object: 'chat.completion.chunk',
      created: 1_790_000_000,
      choices: [
        {
          index: 0,
          text: content,
          logprobs: null,
          finish_reason: null,
          seed: null,
          delta: { token_id: n + 1, role: 'assistant', content, tool_calls: null },
        },
      ],
      model: 'acme-1',
      usage: null,
    }),
  },
  vercel: {
    ...PLAIN,
    after:
      event(
        chunk(
          { provider_metadata: { gateway: { cost: '0.0001' }, gatewayToolCalls: { search: 2 } } },
          { finish_reason: 'stop' },
        ),
      ) + USAGE_LAST,
  },
  vertex: PLAIN,
  vllm: {
    ...PLAIN,
    text: (content, n) =>
      chunk({ content }, { logprobs: null, finish_reason: null, token_ids: null }, { usage: null }, n),
  },
  xai: {
    ...PLAIN,
    text: (content, n) => chunk({ content, role: 'assistant' }, {}, { system_fingerprint: 'fp_x' }, n),
  },
  zhipu: { ...USAGE_AT_THE_END, text: (content, n) => chunk({ role: 'assistant', content }, {}, {}, n) },
};

export const PRESET_NAMES = Object.keys(FORMATS) as readonly PresetName[];
/** Those that report usage in each event, or put no blank line between events. */
export const READ_IN_FULL: ReadonlySet<PresetName> = new Set(['gemini', 'perplexity', 'sambanova']);

/** A stream of these texts as a preset's provider writes it. */
export function presetStream(preset: PresetName, texts: readonly string[]): string {
  const { text, before = '', after, lineEnd, isJoined } = FORMATS[preset];
  const stream = before + texts.map((content, n) => event(text(content, n))).join('') + after;
  const joined = isJoined ? `${stream.replaceAll('\n\n', '\n')}\n` : stream;
  return lineEnd ? joined.replaceAll('\n', lineEnd) : joined;
}

/** Events in which one model's streams differ: tool calls, reasoning, several choices, media, prompts' filters, and errors. */
export const OTHER_EVENTS: readonly string[] = [
  event(
    chunk({
      tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'find', arguments: '' } }],
    }),
  ),
  event(chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a' } }] })),
  event(chunk({ tool_calls: [{ index: 1, function: { arguments: '":1}' } }] })),
  event(chunk({ tool_calls: [{ index: 0, function: { name: '$web_search', arguments: '{}' } }] })),
  event(chunk({ reasoning_content: 'Hm.' })),
  event(chunk({ refusal: 'No.' })),
  event(chunk({ content: [{ type: 'text', text: 'Hi' }, 'é'] })),
  event(chunk({ content: 'x' }, { finish_reason: '' })),
  event(chunk({ content: 'x' }, { finish_reason: 'error' })),
  event({ ...common(0), choices: [{ index: 1, delta: { content: 'b' } }], usage: null }),
  event({
    ...common(0),
    choices: [
      { delta: { content: 'a' }, index: 2 },
      { delta: { content: 'b' }, index: 3 },
    ],
  }),
  event({ ...common(0), choices: ['x'], usage: null }),
  event({ ...common(0), choices: [], moderation: { input: {} }, usage: null }),
  event({ error: { message: 'Overloaded' } }),
  event({ error: '', ...chunk({ content: 'x' }) }),
  event({ error: 'no', ...chunk({ content: 'x' }) }),
  event({ ...common(0), object: 'error', message: 'no' }),
  event(chunk({ content: 'x' }, {}, { service_tier: 'priority', service_tier_used: 'flex' })),
  event(chunk({ content: 'x' }, {}, { service_tier: 'auto' })),
  event(chunk({ content: 'x' }, {}, { usage: null, base_resp: { status_code: 1002 } })),
  event(chunk({ content: 'x' }, {}, { Usage: null, CHOICES: [1], x: { usage: null } })),
  event(chunk({ audio: { data: 'AAAA', transcript: 'Hi' }, images: [{ url: 'data:x' }] })),
  'data: {"usage":null,"usage":null,"choices":[{"delta":{"content":"x"}}]}\n\n',
  'data: {"choices":[{"delta":{"content":"x"}}]}\r{"usage":{"prompt_tokens":1}}\n\n',
  'data: {"choices":\r[{"delta":{"content":"x"}}]}\n\n',
  'data:{"choices":[{"delta":{"content":"x"}}],"usage":null} \n\n',
  'data: {"choices":[{"delta":{"content":"x"}}]}\r\n\r\n',
  'data: {"choices":[{"delta":{"content":"x"}}]}\n\r\n',
  'data: {"choices":[{"delta":{"content":"x"}}]}\r\r',
  'data: {"choices":[{"delta":{"content":"x"}}]}{"choices":[{"delta":{"content":"x"}}]}\n\n',
  'event: x\ndata: {"choices":[{"delta":{"content":"x"}}]}\nid: 1\n\n',
  'data: {"choices":[{"delta":{"content":"x"}}]}\n',
  'data: {"choices":\ndata: [{"delta":{"content":"x"}}]}\n\n',
  'data: [{"choices":[{"delta":{"content":"x"}}]}]\n\n',
  'event: error\n\n',
  ': ping\n\n',
  '\n',
];
