import { afterEach, describe, expect, it, vi } from 'vitest';

import type { ModelOptions, ProviderOptions, TargetOptions } from '../../../src/index.ts';
import { parsePricing } from '../../../src/metering/pricing.ts';
import { PRESET_FIELDS } from '../../../src/catalog/preset-fields.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, completionBody, DONE, event, text } from '../../helpers/provider.ts';

/** USD per million: a token of a prompt is 1 millionth of a dollar, one of an answer 2. */
const PRICES = { input: '1', output: '2', cachedInput: '0.1', cacheWriteInput: '1.25' };
const TIERS = { priority: { factor: '2' }, flex: { input: '0.5', output: '1' } };
const HOUR = { cacheWriteHourInput: '2' };
const CACHE_FOR_AN_HOUR = {
  messages: [
    {
      role: 'user',
      content: [{ type: 'text', text: 'Say hello.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    },
  ],
};
const USAGE = '{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150}';

interface Row {
  readonly says: string;
  readonly preset: string;
  readonly source: string;
  readonly request?: Record<string, unknown>;
  readonly pricing?: ModelOptions['pricing'];
  readonly markup?: ModelOptions['markup'];
  readonly cost?: TargetOptions['cost'];
  readonly provider?: Partial<ProviderOptions>;
  /** Members of the answer, and of each of its chunks; usage as it is written. */
  readonly answer?: Record<string, unknown>;
  readonly usage?: string;
  /** Only a JSON answer tells. */
  readonly only?: 'json';
  readonly charged?: string;
  /** @default 'upstream' */
  readonly usageSource?: 'estimated';
  readonly costs?: string | undefined;
  /** Nano-dollars: 1,000 tokens of output, and 142 of the prompt, all written to a cache, and a token a byte of the tier's name. */
  readonly held?: bigint;
  readonly version?: string;
  readonly refused?: { readonly code: string; readonly param: string };
}

const SOLD = { ...PRICES, serviceTiers: TIERS };
const NO_TIER = { code: 'unsupported_service_tier', param: 'service_tier' };
const XAI_USAGE =
  '{"prompt_tokens":12,"completion_tokens":1,"total_tokens":241,"prompt_tokens_details":{"cached_tokens":2},' +
  '"completion_tokens_details":{"reasoning_tokens":228},"num_sources_used":0,"cost_in_usd_ticks":1176500}';
const PERPLEXITY_USAGE =
  '{"prompt_tokens":20,"completion_tokens":1645,"total_tokens":1665,"search_context_size":"low",' +
  '"cost":{"input_tokens_cost":6e-05,"output_tokens_cost":0.02467,"request_cost":0.006,"total_cost":0.03073}}';

/** One row a preset that has tiers, or reports a cost; what its provider answers is as its source has it. */
const ROWS: readonly Row[] = [
  {
    says: 'fast is priority, and answered so',
    preset: 'openai',
    source: 'platform.openai.com: Priority processing; the SDK type of service_tier',
    request: { service_tier: 'fast' },
    answer: { service_tier: 'priority' },
    held: 4_365_000n,
    charged: '0.0004',
    version: 'priority',
  },
  {
    says: 'priority that was not to be had is plain',
    preset: 'openai',
    source: 'platform.openai.com: Priority processing, ramp rate',
    request: { service_tier: 'priority' },
    answer: { service_tier: 'default' },
    held: 4_375_000n,
    charged: '0.0002',
    version: 'plain',
  },
  {
    says: 'auto is held for the dearest',
    preset: 'openai',
    source: 'platform.openai.com: service_tier, auto',
    request: { service_tier: 'auto' },
    answer: { service_tier: 'default' },
    held: 4_365_000n,
    charged: '0.0002',
    version: 'plain',
  },
  {
    says: 'auto that turns out as a tier without a price is the dearest that was held for',
    preset: 'openai',
    source: 'platform.openai.com: Scale tier',
    request: { service_tier: 'auto' },
    answer: { service_tier: 'scale' },
    held: 4_365_000n,
    charged: '0.0004',
    version: 'priority',
  },
  {
    says: 'priority that nobody asked for, by the setting of the deployment',
    preset: 'azure',
    source: 'learn.microsoft.com: Priority processing',
    answer: { service_tier: 'priority' },
    held: 2_177_500n,
    charged: '0.0004',
    version: 'priority',
  },
  {
    says: 'a tier without a price',
    preset: 'azure-deployments',
    source: 'learn.microsoft.com: Azure OpenAI reference',
    request: { service_tier: 'scale' },
    refused: NO_TIER,
  },
  {
    says: 'a name of the plain tier, which is ignored',
    preset: 'anthropic',
    source: 'docs.claude.com: OpenAI SDK compatibility, Service tiers',
    request: { service_tier: 'standard_only' },
    held: 2_193_750n,
    charged: '0.0002',
    version: 'plain',
  },
  {
    says: 'flex at its own prices',
    preset: 'bedrock',
    source: 'docs.aws.amazon.com: Bedrock service tiers',
    request: { service_tier: 'flex' },
    answer: { service_tier: 'flex' },
    held: 1_073_000n,
    charged: '0.0001',
    version: 'flex',
  },
  {
    says: 'priority, told in a header only, as it was asked',
    preset: 'gemini',
    source: 'ai.google.dev: Priority inference',
    request: { service_tier: 'priority' },
    held: 4_375_000n,
    charged: '0.0004',
    version: 'priority',
  },
  {
    says: 'its own name of the plain tier',
    preset: 'groq',
    source: 'a recorded answer; console.groq.com: Service tiers',
    request: { service_tier: 'on_demand' },
    answer: { service_tier: 'on_demand' },
    usage: '{"queue_time":0.03,"prompt_tokens":45,"completion_tokens":607,"total_tokens":652}',
    only: 'json',
    held: 2_188_750n,
    charged: '0.001259',
    version: 'plain',
  },
  {
    says: 'priority, granted or not, as it tells',
    preset: 'xai',
    source: 'docs.x.ai: Priority processing',
    request: { service_tier: 'priority' },
    answer: { service_tier: 'default' },
    held: 4_375_000n,
    charged: '0.0002',
    version: 'plain',
  },
  {
    says: 'the ticks that it reports',
    preset: 'xai',
    source: 'a recorded answer; docs.x.ai: cost_in_usd_ticks',
    pricing: { reported: true, ceiling: PRICES },
    cost: 'reported',
    usage: XAI_USAGE,
    held: 2_177_500n,
    charged: '0.00011765',
    costs: '0.00011765',
    version: 'reported',
  },
  {
    says: 'the total cost that it reports, times the markup',
    preset: 'perplexity',
    source: 'docs.perplexity.ai: OpenAPI, UsageInfo',
    pricing: { reported: true, ceiling: PRICES },
    markup: { factor: '1.1' },
    cost: 'reported',
    usage: PERPLEXITY_USAGE,
    charged: '0.033803',
    costs: '0.03073',
  },
  {
    says: 'the cost that it reports, beside prices by token',
    preset: 'openrouter',
    source: 'openrouter.ai/docs: Usage accounting',
    usage:
      '{"prompt_tokens":10,"completion_tokens":15,"cost":1.2e-05,"is_byok":false,"cost_details":{"upstream_inference_cost":1e-05}}',
    held: 2_177_500n,
    charged: '0.00004',
    costs: '0.000012',
    version: 'plain',
  },
  {
    says: 'the fee and what a key of the operator paid',
    preset: 'openrouter',
    source: 'openrouter.ai/docs: Usage accounting, BYOK',
    pricing: { reported: true, ceiling: PRICES },
    usage:
      '{"prompt_tokens":10,"completion_tokens":15,"cost":0.0005,"is_byok":true,"cost_details":{"upstream_inference_cost":0.01}}',
    charged: '0.0105',
    costs: '0.0105',
  },
  {
    says: 'no fee, and not what a key of the operator paid: the ceiling, by tokens',
    preset: 'openrouter',
    source: 'openrouter.ai/docs: BYOK; that the cost of the key may be missing is assumed',
    pricing: { reported: true, ceiling: PRICES },
    usage: '{"prompt_tokens":100,"completion_tokens":50,"cost":0,"is_byok":true,"cost_details":null}',
    charged: '0.0002',
    costs: undefined,
  },
  {
    says: 'no cost told: the ceiling, by tokens',
    preset: 'openrouter',
    source: 'openrouter.ai: OpenAPI, ChatUsage.cost is nullable',
    pricing: { reported: true, ceiling: PRICES },
    usage: '{"prompt_tokens":100,"completion_tokens":50,"cost":null}',
    charged: '0.0002',
    costs: undefined,
  },
  {
    says: 'a write for an hour, in the counter of all writes',
    preset: 'openrouter',
    source: 'openrouter.ai/docs: Prompt caching',
    request: CACHE_FOR_AN_HOUR,
    pricing: { ...PRICES, ...HOUR },
    usage:
      '{"prompt_tokens":194,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":100}}',
    charged: '0.000298',
  },
  {
    says: 'a write for an hour without a price',
    preset: 'moonshot',
    source: 'platform.moonshot.ai: Chat',
    request: { prompt_cache_options: { ttl: '1h' } },
    refused: { code: 'unsupported_parameter', param: 'prompt_cache_options.ttl' },
  },
  {
    says: 'a write for an hour without a price',
    preset: 'openrouter',
    source: 'openrouter.ai/docs: Prompt caching',
    request: CACHE_FOR_AN_HOUR,
    refused: { code: 'unsupported_parameter', param: 'cache_control.ttl' },
  },
  {
    says: 'the cost that it reports, a string',
    preset: 'vercel',
    source: 'vercel.com/docs/ai-gateway: Usage',
    usage: '{"prompt_tokens":100,"completion_tokens":50,"cost":"0.0045405","market_cost":"0.0045405"}',
    charged: '0.0002',
    costs: '0.0045405',
  },
  {
    says: 'what the market costs, where a key of the operator paid',
    preset: 'vercel',
    source: 'vercel.com/docs/ai-gateway: BYOK',
    pricing: { reported: true, ceiling: PRICES },
    usage: '{"prompt_tokens":100,"completion_tokens":50,"cost":0,"market_cost":0.002}',
    charged: '0.002',
    costs: '0.002',
  },
  {
    says: 'what the market costs, where it says that a key of the operator paid',
    preset: 'vercel',
    source: 'vercel.com/docs/ai-gateway: BYOK',
    pricing: { reported: true, ceiling: PRICES },
    usage: '{"prompt_tokens":100,"completion_tokens":50,"cost":0,"market_cost":0.002,"is_byok":true}',
    charged: '0.002',
    costs: '0.002',
  },
  {
    says: 'the cost that it reports, without counts that can be read',
    preset: 'vercel',
    source: 'no documentation: the same answer with counts as text',
    pricing: { reported: true, ceiling: PRICES },
    usage: '{"prompt_tokens":"100","completion_tokens":"50","cost":0.0123,"market_cost":0.0123}',
    charged: '0.0123',
    usageSource: 'estimated',
    costs: '0.0123',
  },
  {
    says: 'priority, which no answer tells',
    preset: 'fireworks',
    source: 'docs.fireworks.ai: Serverless, priority; the SDK type of an answer',
    request: { service_tier: 'priority' },
    held: 4_375_000n,
    charged: '0.0004',
    version: 'priority',
  },
  {
    says: 'flex, which it takes for the plain tier',
    preset: 'fireworks',
    source: 'docs.fireworks.ai: "all other values are treated as default"',
    request: { service_tier: 'flex' },
    held: 2_182_500n,
    charged: '0.0002',
    version: 'plain',
  },
  {
    says: 'auto, and what came of it in a member of its own',
    preset: 'cerebras',
    source: 'inference-docs.cerebras.ai: Service tiers',
    request: { service_tier: 'auto' },
    answer: { service_tier: 'auto', service_tier_used: 'default' },
    held: 4_365_000n,
    charged: '0.0002',
    version: 'plain',
  },
  {
    says: 'priority without a price',
    preset: 'mistral',
    source: 'docs.mistral.ai: Priority tier',
    request: { service_tier: 'priority' },
    pricing: PRICES,
    refused: NO_TIER,
  },
  {
    says: 'the plain price, where its usage names the plain tier',
    preset: 'mistral',
    source: 'docs.mistral.ai: Priority tier',
    request: { service_tier: 'priority' },
    pricing: SOLD,
    usage: '{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"service_tier":"default"}',
    charged: '0.0002',
  },
  {
    says: 'the price of the tier of the answer, where its usage names another',
    preset: 'mistral',
    source: 'docs.mistral.ai: Priority tier',
    request: { service_tier: 'priority' },
    pricing: SOLD,
    answer: { service_tier: 'priority' },
    usage: '{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"service_tier":"default"}',
    charged: '0.0004',
  },
  {
    says: 'a tier that it does not have',
    preset: 'nvidia',
    source: 'docs.nvidia.com: NIM for LLMs, API reference',
    request: { service_tier: 'priority' },
    pricing: PRICES,
    refused: NO_TIER,
  },
];

const VERSIONS = {
  plain: parsePricing(PRICES, 'it').version,
  priority: parsePricing(SOLD, 'it').serviceTiers.get('priority')?.version,
  flex: parsePricing(SOLD, 'it').serviceTiers.get('flex')?.version,
  reported: parsePricing({ reported: true, ceiling: PRICES }, 'it').version,
};

let gateway: Gateway;
afterEach(() => gateway.close());

async function ask(
  row: Row,
  stream: boolean,
): Promise<{ response: Response; admit: ReturnType<typeof vi.spyOn> }> {
  const { preset, request, pricing = SOLD, markup, cost, answer = {}, usage = USAGE } = row;
  const model: ModelOptions = {
    targets: [{ provider: 'loopback', model: 'upstream-model', ...(cost && { cost }) }],
    pricing,
    ...(markup && { markup }),
    contextWindow: 8192,
    maxOutputTokens: 1000,
  };
  const answers = { cost: 'theirs', provider: 'show' } as const;
  const provider = { preset, ...row.provider };
  gateway = await startGateway({ provider, models: { 'acme/fast': model }, answer: answers });
  const said = { usage: 'USAGE', ...answer };
  const written = (json: string): string => json.replace('"USAGE"', usage);
  gateway.provider.script = stream
    ? answerStream([
        event({ choices: [{ index: 0, delta: { content: 'Hello.' }, finish_reason: null }], ...answer }),
        text('', 'stop'),
        written(event({ choices: [], ...said })),
        DONE,
      ])
    : answerJson(written(completionBody(said)));
  const admit = vi.spyOn(gateway.store, 'admit');
  const response = await gateway.post({ ...QUESTION, ...request, ...(stream && { stream }) });
  return { response, admit };
}

describe.each([
  ['JSON', false],
  ['a stream', true],
] as const)('what a preset serves at another price, in %s', (_, stream) => {
  it.each(
    ROWS.filter(({ only }) => !stream || !only).map((row) => [`${row.preset}: ${row.says}`, row] as const),
  )('%s', async (__, row) => {
    const { response, admit } = await ask(row, stream);
    const body = await response.text();
    if (row.refused) {
      expect(response.status).toBe(400);
      expect(JSON.parse(body)).toMatchObject({ error: row.refused });
      expect(admit).not.toHaveBeenCalled();
      expect(gateway.provider.received).toEqual([]);
      return;
    }
    expect(response.status).toBe(200);
    await gateway.router.close();
    const [settled] = gateway.settled;
    expect(settled).toMatchObject({ charged: row.charged, usageSource: row.usageSource ?? 'upstream' });
    if ('costs' in row) expect(settled?.cost).toBe(row.costs);
    const [up] = gateway.provider.received;
    expect(JSON.parse(up?.body.toString() ?? '')).toMatchObject({ model: 'upstream-model', ...row.request });
    if (row.held !== undefined) {
      expect(await admit.mock.results[0]?.value).toMatchObject({ hold: row.held });
    }
    if (row.version) expect(settled?.price).toBe(VERSIONS[row.version as keyof typeof VERSIONS]);
    const { usage = USAGE } = row;
    expect(body).toContain(stream ? '[DONE]' : usage);
  });
});

describe('the table of presets', () => {
  it('has a row for each that sells tiers or reports what it bills', () => {
    const those = Object.entries(PRESET_FIELDS).filter(
      ([, { serviceTiers, reportedCost }]) => serviceTiers ?? reportedCost,
    );
    const tested = new Set(ROWS.map(({ preset }) => preset));
    expect(those.map(([name]) => name).filter((name) => !tested.has(name))).toEqual([]);
  });
});
