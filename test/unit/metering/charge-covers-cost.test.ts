import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Pricing, ReportedPricing, ServerToolOptions } from '../../../src/index.ts';
import { formatUsd, parseUsd } from '../../../src/ledger/contract/money.ts';
import { EstimateCalibration } from '../../../src/metering/estimate-calibration.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import { quoteRequest } from '../../../src/billing/admission.ts';
import type { ChatRequest } from '../../../src/http/chat-request.ts';
import { ChatRequestScanner } from '../../../src/http/scan-request.ts';
import { keepPricedTargets } from '../../../src/catalog/request-prices.ts';
import { createCatalog } from '../../../src/catalog/catalog.ts';
import type { Model } from '../../../src/catalog/model.ts';
import { assertPriced } from '../../../src/catalog/server-tools.ts';
import { type Charge, chargeFor } from '../../../src/billing/charge-policy.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { runs } from '../../helpers/runs.ts';

const USD = fc.constantFrom('0', '0.000001', '0.15', '1', '2.5', '7.333333', '60');
const FACTOR = fc.constantFrom('0.5', '1', '1.75', '2', '2.5', '0.000001');
/** 1 and more: what is added never makes less of it. */
const MARKUP = fc.constantFrom('1', '1.000001', '1.2', '3');
const TIER = fc.constantFrom(
  'auto',
  'default',
  'standard',
  'fast',
  'priority',
  'flex',
  'scale',
  'on_demand',
  'odd',
);
const PRESET = fc.constantFrom(
  'openai',
  'groq',
  'openrouter',
  'vercel',
  'fireworks',
  'xai',
  'perplexity',
  'cerebras',
  undefined,
);

/** Counted by OpenRouter's usage, by Vercel's answer, by OpenRouter's usage among all calls, and by none. */
const TOOL = fc.constantFrom(
  'openrouter:web_search',
  'vercel:exa_search',
  'openrouter:advisor',
  'openrouter:web_fetch',
  'x_search',
);

const rates = { input: USD, output: USD, cachedInput: USD, cacheWriteInput: USD, reasoningOutput: USD };
const someRates = fc.record({ ...rates, cacheWriteHourInput: USD }, { requiredKeys: ['input', 'output'] });

function anyPricing(): fc.Arbitrary<Pricing> {
  const tier = fc.oneof(fc.record({ factor: FACTOR }), someRates);
  return fc
    .record(
      {
        base: someRates,
        request: fc.constantFrom('0', '0.005'),
        webSearch: fc.constantFrom('0', '0.01'),
        long: fc.record({ ...rates, above: fc.constantFrom(50, 1000) }),
        serviceTiers: fc.record({ priority: tier, flex: tier, scale: tier }, { requiredKeys: [] }),
      },
      { requiredKeys: ['base'] },
    )
    .map(({ base, long, ...rest }) => ({
      ...base,
      ...rest,
      ...(long && { tiers: [{ cacheWriteHourInput: '8', ...long }] }),
    }));
}

const anyConfig = fc.record({
  cost: anyPricing(),
  mode: fc.constantFrom(
    'by tokens',
    'by tokens, cost reported',
    'reported',
    'reported cost, priced by report',
  ),
  tools: fc.dictionary(
    TOOL,
    fc
      .tuple(
        fc.constantFrom('0', '0.0000001', '0.005', '1'),
        fc.constantFrom('0', '0.002'),
        fc.integer({ min: 1, max: 3 }),
      )
      .map(([cost, more, atMost]) => ({ cost, fee: sum(cost, more), atMost })),
  ),
  preset: PRESET,
  factor: MARKUP,
  fee: fc.constantFrom('0', '0.001'),
});

const anyRequest = fc.record(
  {
    tools: fc.uniqueArray(TOOL),
    service_tier: TIER,
    ttl: fc.constantFrom('1h', '5m'),
    n: fc.integer({ min: 1, max: 3 }),
  },
  { requiredKeys: [] },
);

const count = fc.nat(2000);
const anyAnswer = fc.record(
  {
    service_tier: fc.option(TIER),
    service_tier_used: TIER,
    counts: fc.record({
      prompt_tokens: count,
      completion_tokens: count,
      prompt_tokens_details: fc.record(
        { cached_tokens: count, cache_write_tokens: count },
        { requiredKeys: [] },
      ),
      cache_creation: fc.record({ ephemeral_1h_input_tokens: count }, { requiredKeys: [] }),
      completion_tokens_details: fc.record({ reasoning_tokens: count }, { requiredKeys: [] }),
      server_tool_use: fc.record(
        { web_search_requests: fc.nat(8), tool_calls_executed: fc.nat(8) },
        { requiredKeys: [] },
      ),
    }),
    reported: fc.constantFrom(0, 1e-7, 0.0012, 0.03073, 3, null),
    byok: fc.boolean(),
  },
  { requiredKeys: ['counts'] },
);

interface Config {
  readonly cost: Pricing;
  readonly mode: string;
  readonly preset: string | undefined;
  readonly factor: string;
  readonly fee: string;
  readonly tools: Readonly<Record<string, ServerToolOptions>>;
}

function sum(a: string, b: string): string {
  return formatUsd(parseUsd(a, 'a') + parseUsd(b, 'b'));
}

/** A model that is sold at what it costs, with a markup; undefined where its provider reports no cost, or all is free. */
function modelOf({ cost, mode, preset, factor, fee, tools }: Config): Model | undefined {
  const reported: ReportedPricing = { reported: true, ceiling: cost };
  const byReport = !mode.startsWith('by tokens');
  const options = {
    store: 'memory:',
    providers: { p: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'k', ...(preset && { preset }) } },
    models: {
      m: {
        targets: [
          {
            provider: 'p',
            model: 'm',
            cost: mode === 'reported' ? reported : mode === 'by tokens' ? cost : ('reported' as const),
          },
        ],
        pricing: byReport ? reported : cost,
        markup: { factor, fee },
        serverTools: tools,
        contextWindow: 100_000,
        maxOutputTokens: 4000,
      },
    },
  };
  try {
    return createCatalog(options, resolveSettings(options)).get('m');
  } catch (error) {
    if (error instanceof TypeError && /reports none|prices above 0/.test(error.message)) return undefined;
    throw error;
  }
}

function requestOf({
  ttl,
  tools = [],
  ...fields
}: {
  readonly tools?: readonly string[];
  readonly ttl?: string;
  readonly service_tier?: string;
}): ChatRequest {
  const cache_control = ttl && { type: 'ephemeral', ttl };
  const messages = [
    {
      role: 'user',
      content: [{ type: 'text', text: 'Say hello.', ...(cache_control && { cache_control }) }],
    },
  ];
  const scanner = new ChatRequestScanner();
  scanner.write(
    Buffer.from(JSON.stringify({ model: 'm', messages, tools: tools.map((type) => ({ type })), ...fields })),
  );
  return scanner.end();
}

interface Answer {
  readonly counts: object;
  readonly reported?: number | null | undefined;
  readonly byok?: boolean | undefined;
}

/** What is charged for it; undefined where it isn't sold. */
function consumed(
  config: Config,
  fields: Parameters<typeof requestOf>[0],
  { counts, reported, byok, ...told }: Answer,
): (Charge & { readonly held: bigint }) | undefined {
  const model = modelOf(config);
  if (!model) return undefined;
  const request = requestOf(fields);
  let asked: Model;
  try {
    [asked] = keepPricedTargets([model], request);
    assertPriced(request.features, asked);
  } catch {
    return undefined;
  }
  const quote = quoteRequest(request, asked);
  const [target] = asked.targets;
  const meter = new UsageMeter(target.provider.usage, undefined, target.provider.reportedCost);
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }];
  const usage = {
    ...counts,
    ...(reported !== undefined && {
      cost: config.preset === 'perplexity' ? { total_cost: reported } : reported,
      cost_in_usd_ticks: reported === null ? null : Math.round(reported * 1e10),
      ...(byok !== undefined && { is_byok: byok, cost_details: { upstream_inference_cost: 0.5 } }),
    }),
  };
  meter.write(Buffer.from(JSON.stringify({ choices, usage, ...told })));
  meter.end();
  const consumption = chargeFor(
    { ending: 'finished', target, dispatched: true, answer: { status: 200, meter } },
    {
      quote,
      held: quote.maximum,
      account: 'a',
      calibration: new EstimateCalibration(),
      emptyAnswerIsFree: false,
    },
  );
  expect(consumption).toBeDefined();
  return consumption && { ...consumption, held: quote.maximum };
}

describe('a charge', () => {
  it('covers the cost, wherever that is known and the markup takes nothing off', () => {
    const known = new Map<string, number>();
    fc.assert(
      fc.property(anyConfig, anyRequest, anyAnswer, (config, fields, { byok, ...answer }) => {
        const isByTokens = config.mode === 'by tokens, cost reported';
        // What the same tokens cost by the prices is what its provider reports.
        const bill =
          isByTokens &&
          consumed({ ...config, mode: 'by tokens' }, fields, { ...answer, reported: undefined });
        if (bill && bill.cost === undefined) return;
        const reported =
          bill && bill.cost !== undefined ? { reported: Number(formatUsd(bill.cost)) } : { byok };
        const consumption = consumed(config, fields, { ...answer, ...reported });
        const { charge, cost, held } = consumption ?? {};
        if (charge === undefined || cost === undefined || held === undefined) return;
        known.set(config.mode, (known.get(config.mode) ?? 0) + 1);
        if (bill && bill.cost !== undefined) expect(cost).toBe(bill.cost);
        const least = cost + parseUsd(config.fee, 'fee');
        // A tier that nobody asked for is paid for as far as the hold goes.
        if (charge < least && isOfAnotherTier(fields, answer)) expect(charge).toBeGreaterThanOrEqual(held);
        else expect(charge).toBeGreaterThanOrEqual(least);
      }),
      { numRuns: runs(2000) },
    );
    // Many of each are of a known cost: the property isn't empty.
    expect(known.size).toBe(4);
    expect(Math.min(...known.values())).toBeGreaterThan(runs(10));
  });
});

function isOfAnotherTier(
  asked: { readonly service_tier?: string },
  told: { readonly service_tier?: string | null; readonly service_tier_used?: string },
): boolean {
  const tier = told.service_tier_used ?? told.service_tier ?? undefined;
  return tier !== undefined && tier !== asked.service_tier;
}
