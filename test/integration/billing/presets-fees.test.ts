import { afterEach, describe, expect, it } from 'vitest';

import type { ModelOptions } from '../../../src/index.ts';
import { PRESETS } from '../../../src/catalog/presets.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';

/**
 * USD 1 and 2 per million. Whatever is asked, 100 and 16 tokens are held for, which are 0.000132; an answer of 100 and 50 is
 * charged 0.0002.
 */
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: { input: '1', output: '2' },
  contextWindow: 100,
  maxOutputTokens: 16,
};
const COUNTS = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 };

interface Row {
  /** What the request adds. */
  readonly asks: object;
  /** What the refusal names, where the model has no price for that. */
  readonly param: string;
  /** With this price it is served; undefined where it is only refused. */
  readonly priced?: Partial<ModelOptions>;
  /** What the usage, the answer and its message have beside the rest. */
  readonly tells?: { readonly usage?: object; readonly answer?: object; readonly message?: object };
  readonly held?: string;
  readonly charged?: string;
}

function tool(type: string, fields: object = {}): object {
  return { tools: [{ type, ...fields }] };
}

function fees(name: string, fee: string, atMost: number): Partial<ModelOptions> {
  return { serverTools: { [name]: { fee, atMost } } };
}

const WEB_SEARCH: Row = { asks: tool('web_search'), param: 'tools[0].type' };
const FILE = { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0x', filename: 'a.pdf' } };

const ROWS: Readonly<Record<keyof typeof PRESETS, Row>> = {
  anthropic: {
    asks: { speed: 'fast' },
    param: 'speed',
    priced: fees('speed', '0.02', 1),
    held: '0.020132',
    charged: '0.0202',
  },
  azure: { asks: { enhancements: { ocr: { enabled: true } } }, param: 'enhancements' },
  'azure-deployments': {
    asks: { data_sources: [{ type: 'azure_search' }] },
    param: 'data_sources',
    priced: fees('data_sources', '0.01', 1),
    held: '0.010132',
    charged: '0.0102',
  },
  bedrock: {
    asks: { 'amazon-bedrock-guardrailConfig': { tagSuffix: 'x' } },
    param: 'amazon-bedrock-guardrailConfig',
  },
  cerebras: WEB_SEARCH,
  cloudflare: WEB_SEARCH,
  cohere: { asks: { connectors: [{ id: 'web-search' }] }, param: 'connectors' },
  deepseek: {
    asks: tool('deepseek_web_search'),
    param: 'tools[0].type',
    priced: {
      ...fees('deepseek_web_search', '0.001', 5),
      pricing: { input: '1', output: '2', webSearch: '0.001' },
    },
    tells: { usage: { server_tool_use: { web_search_requests: 20 } } },
    held: '0.010132',
    charged: '0.0202',
  },
  fireworks: WEB_SEARCH,
  gemini: {
    asks: { extra_body: { google: { cached_content: 'cachedContents/x' } } },
    param: 'google.cached_content',
  },
  groq: {
    asks: tool('browser_search'),
    param: 'tools[0].type',
    priced: fees('browser_search', '0.005', 4),
    tells: { message: { executed_tools: [{ type: 'browser_search', index: 0 }] } },
    held: '0.020132',
    charged: '0.0202',
  },
  huggingface: { asks: tool('browser_search'), param: 'tools[0].type' },
  llamacpp: WEB_SEARCH,
  lmstudio: WEB_SEARCH,
  mistral: {
    asks: tool('image_generation'),
    param: 'tools[0].type',
    priced: fees('image_generation', '0.1', 2),
    held: '0.200132',
    charged: '0.2002',
  },
  moonshot: {
    asks: tool('builtin_function', { function: { name: '$web_search' } }),
    param: 'tools[0].function.name',
    priced: fees('$web_search', '0.005', 3),
    tells: {
      message: { tool_calls: [{ id: 'c', type: 'builtin_function', function: { name: '$web_search' } }] },
    },
    held: '0.015132',
    charged: '0.0052',
  },
  nvidia: WEB_SEARCH,
  ollama: WEB_SEARCH,
  openai: {
    asks: { web_search_options: {} },
    param: 'web_search_options',
    priced: { pricing: { input: '1', output: '2', request: '0.01' } },
    held: '0.010132',
    charged: '0.0102',
  },
  openrouter: {
    asks: tool('openrouter:web_search'),
    param: 'tools[0].type',
    priced: fees('openrouter:web_search', '0.007', 5),
    tells: { usage: { cost: 0.0012, server_tool_use_details: { web_search_requests: 2 } } },
    held: '0.035132',
    charged: '0.0142',
  },
  perplexity: {
    asks: { web_search_options: { search_context_size: 'low' } },
    param: 'web_search_options',
    priced: { pricing: { input: '1', output: '2', request: '0.006' } },
    held: '0.006132',
    charged: '0.0062',
  },
  qwen: {
    asks: { enable_search: true },
    param: 'enable_search',
    priced: fees('enable_search', '0.01', 2),
    tells: { usage: { plugins: { search: { count: 1, strategy: 'turbo' } } } },
    held: '0.020132',
    charged: '0.0102',
  },
  sambanova: WEB_SEARCH,
  together: { asks: { safety_model: 'Meta-Llama/Llama-Guard-7b' }, param: 'safety_model' },
  vercel: {
    asks: tool('vercel:perplexity_search'),
    param: 'tools[0].type',
    priced: fees('vercel:perplexity_search', '0.005', 5),
    tells: { message: { provider_metadata: { gateway: { gatewayToolCalls: { perplexity_search: 2 } } } } },
    held: '0.025132',
    charged: '0.0102',
  },
  vertex: {
    asks: { web_search_options: {} },
    param: 'web_search_options',
    priced: fees('web_search_options', '0.035', 1),
    held: '0.035132',
    charged: '0.0352',
  },
  vllm: WEB_SEARCH,
  xai: {
    asks: { messages: [{ role: 'user', content: [FILE] }] },
    param: 'messages[0].content',
    priced: fees('file', '0.01', 3),
    held: '0.030132',
    charged: '0.0302',
  },
  zhipu: {
    asks: tool('web_search', { web_search: { enable: true, search_engine: 'search_pro' } }),
    param: 'tools[0].type',
    priced: fees('web_search', '0.004', 1),
    tells: { answer: { web_search: [{ title: 'x' }] } },
    held: '0.004132',
    charged: '0.0042',
  },
};

let gateway: Gateway;

afterEach(() => gateway.close());

async function start(preset: string, model: Partial<ModelOptions> = {}): Promise<void> {
  gateway = await startGateway({
    models: { 'acme/fast': { ...MODEL, ...model } },
    provider: { preset },
  });
}

/** What a request of the row held and was charged, what went upstream, and what its client saw. */
async function serve(
  asks: object,
  { usage, answer, message }: NonNullable<Row['tells']> = {},
): Promise<object> {
  const choice = {
    index: 0,
    message: { role: 'assistant', content: 'Hello.', ...message },
    finish_reason: 'stop',
  };
  const body = completionBody({ choices: [choice], usage: { ...COUNTS, ...usage }, ...answer });
  let held = '';
  gateway.provider.script = async (response, request) => {
    ({ held } = await gateway.router.credits.balance('acct'));
    await answerJson(body)(response, request);
  };
  const settled = gateway.nextSettled();
  const response = await gateway.post({ ...QUESTION, ...asks });
  const seen = (await response.json()) as { choices?: { message: { content: string } }[] };
  return {
    held,
    charged: (await settled).charged,
    upstream: gateway.provider.received.at(-1)?.json,
    seen: seen.choices?.[0]?.message.content,
  };
}

describe('what a preset bills beside tokens', () => {
  it('has a row for each of them', async () => {
    await start('openai');
    expect(Object.keys(ROWS)).toEqual(Object.keys(PRESETS));
  });

  it.each(Object.entries(ROWS))('is refused without a price: %s', async (preset, { asks, param }) => {
    await start(preset);
    const response = await gateway.post({ ...QUESTION, ...asks });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: 'unpriced_feature', param } });
    expect(gateway.provider.received).toEqual([]);
    expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '5.00', held: '0.00' });
  });

  it.each(Object.entries(ROWS).filter(([, { priced }]) => priced))(
    'is held for, charged and sent with a price: %s',
    async (preset, { asks, priced, tells, held, charged }) => {
      await start(preset, priced);
      const upstream = expect.objectContaining(asks);
      expect(await serve(asks, tells)).toEqual({ held, charged, upstream, seen: 'Hello.' });
    },
  );

  it.each(Object.keys(PRESETS))('adds nothing to a request that asks for none of it: %s', async (preset) => {
    await start(preset);
    const asks = { tools: [{ type: 'function', function: { name: 'f' } }] };
    const upstream = expect.objectContaining(asks);
    expect(await serve(asks)).toEqual({ held: '0.000132', charged: '0.0002', upstream, seen: 'Hello.' });
  });
});
