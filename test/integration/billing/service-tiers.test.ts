import { afterEach, describe, expect, it } from 'vitest';

import { ChatRequestScanner } from '../../../src/http/scan-request.ts';
import {
  type ModelOptions,
  type Pricing,
  type PricingOption,
  type TargetOptions,
} from '../../../src/index.ts';
import { catalogPrices } from '../../../src/prices.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  completionBody,
  DONE,
  startProvider,
  text,
} from '../../helpers/provider.ts';

const PRIORITY = { priority: { factor: '2' } };
/** 9 tokens and 12, which at PRICING are 0.000045 USD. */
const ANSWER = answerJson(completionBody());

function model(fields: Partial<ModelOptions> = {}): ModelOptions {
  return {
    targets: ['loopback/upstream-model'],
    pricing: { ...PRICING, serviceTiers: PRIORITY },
    contextWindow: 8192,
    maxOutputTokens: 1000,
    ...fields,
  };
}

let gateway: Gateway;

async function start(options: Parameters<typeof startGateway>[0] = {}): Promise<void> {
  gateway = await startGateway({ models: { 'acme/fast': model() }, ...options });
  gateway.provider.script = ANSWER;
}

async function refusalOf(request: object): Promise<unknown> {
  const response = await gateway.post({ ...QUESTION, ...request });
  expect(response.status).toBe(400);
  expect(gateway.provider.received).toEqual([]);
  expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '5.00', held: '0.00' });
  return ((await response.json()) as { error: unknown }).error;
}

describe('a request for a service tier', () => {
  afterEach(() => gateway.close());

  it('is refused by the name of the field where the tier has no price, which says those that have', async () => {
    await start();
    expect(await refusalOf({ service_tier: 'flex' })).toEqual({
      message:
        'The service tier "flex" has no price for this model; supported tiers: "auto", "default", "priority".',
      type: 'invalid_request_error',
      param: 'service_tier',
      code: 'unsupported_service_tier',
    });
  });

  it.each([
    ['a number', { service_tier: 1 }, 'invalid_type', 'service_tier'],
    ['in another case', { Service_Tier: 'priority' }, 'ambiguous_parameter', 'service_tier'],
    [
      'inside extra_body',
      { extra_body: { service_tier: 'priority' } },
      'unsupported_parameter',
      'extra_body.service_tier',
    ],
    ['of a name in another case', { service_tier: 'Priority' }, 'unsupported_service_tier', 'service_tier'],
  ])('is refused where it is %s', async (_, request, code, param) => {
    await start();
    expect(await refusalOf(request)).toMatchObject({ code, param });
  });

  it('is refused of a free model, whose owner would pay for it', async () => {
    await start({ models: { 'acme/fast': model({ pricing: 'free' }) } });
    expect(await refusalOf({ service_tier: 'priority' })).toMatchObject({ code: 'unsupported_service_tier' });
  });

  it('is served where the client’s own key pays the provider, and costs what that says', async () => {
    await start({
      models: { 'acme/fast': model({ byokPricing: 'free' }) },
      authenticate: () => ({ account: 'acct', upstreamKeys: { loopback: 'sk-own' } }),
    });
    const settled = gateway.nextSettled();
    expect((await gateway.post({ ...QUESTION, service_tier: 'flex' })).status).toBe(200);
    expect(await settled).toMatchObject({ charged: '0.00', price: 'free' });
  });

  it('has the tiers that stand beside a catalog’s price', async () => {
    await start({
      provider: { preset: 'openai' },
      prices: catalogPrices(),
      models: {
        'acme/fast': model({
          targets: [{ provider: 'loopback', model: 'gpt-4o-mini' }],
          pricing: 'catalog',
          serviceTiers: PRIORITY,
        }),
      },
    });
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, service_tier: 'priority' });
    // 9 × 0.15 + 12 × 0.60 millionths, twice.
    expect(await settled).toMatchObject({ charged: '0.0000171' });
  });

  it('goes to the targets that have a price of it, and to no other', async () => {
    const other = await startProvider(ANSWER);
    const target = (provider: string, pricing?: PricingOption): TargetOptions => ({
      provider,
      model: 'upstream-model',
      ...(pricing && { pricing }),
    });
    await start({
      providers: {
        plain: { baseURL: other.baseURL },
        tiered: { baseURL: other.baseURL },
      },
      models: { 'acme/fast': model({ targets: [target('plain', PRICING), target('tiered')] }) },
    });
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, service_tier: 'priority' });
    expect(await settled).toMatchObject({ provider: 'tiered', charged: '0.00009' });
    const next = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await next).toMatchObject({ provider: 'plain', charged: '0.000045' });
    await other.close();
  });

  it('is charged as asked where the answer says auto, which no tier is', async () => {
    await start();
    gateway.provider.script = answerJson(completionBody({ service_tier: 'auto' }));
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, service_tier: 'priority' });
    expect(await settled).toMatchObject({ charged: '0.00009' });
  });

  it('is not told a cost where the provider’s price has no such tier', async () => {
    await start({
      models: {
        'acme/fast': model({ targets: [{ provider: 'loopback', model: 'upstream-model', cost: PRICING }] }),
      },
    });
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, service_tier: 'priority' });
    expect(await settled).not.toHaveProperty('cost');
  });

  it('goes to the target that is cheapest in that tier', async () => {
    const at = (provider: string, input: string, factor: string): TargetOptions => ({
      provider,
      model: 'upstream-model',
      pricing: { input, output: input, serviceTiers: { priority: { factor } } },
    });
    const other = await startProvider(ANSWER);
    const { baseURL } = other;
    await start({
      providers: { steep: { baseURL }, flat: { baseURL } },
      models: {
        'acme/fast': model({
          strategy: 'cheapest',
          targets: [at('steep', '1', '10'), at('flat', '2', '1.5')],
        }),
      },
    });
    for (const [request, provider] of [
      [{ service_tier: 'priority' }, 'flat'],
      [{}, 'steep'],
    ] as const) {
      const settled = gateway.nextSettled();
      await gateway.post({ ...QUESTION, ...request });
      expect(await settled).toMatchObject({ provider });
    }
    await other.close();
  });
});

describe('a cost', () => {
  afterEach(() => gateway.close());

  it('is not told where it has no price of what is cached for an hour', async () => {
    const prices = { ...PRICING, cacheWriteInput: '1.25' };
    const targets = (cost: Pricing): TargetOptions[] => [
      { provider: 'loopback', model: 'upstream-model', cost },
    ];
    const sold = { pricing: { ...prices, cacheWriteHourInput: '2' } };
    await start({
      models: {
        'acme/fast': model({ ...sold, targets: targets(prices) }),
        known: model({ ...sold, targets: targets({ ...prices, cacheWriteHourInput: '1.5' }) }),
      },
    });
    const usage = {
      prompt_tokens: 10,
      completion_tokens: 0,
      prompt_tokens_details: { cache_write_tokens: 10 },
    };
    gateway.provider.script = answerJson(completionBody({ usage }));
    const asked = { ...QUESTION, cache_control: { type: 'ephemeral', ttl: '1h' } };
    const settled = gateway.nextSettled();
    await gateway.post(asked);
    expect(await settled).not.toHaveProperty('cost');
    const known = gateway.nextSettled();
    await gateway.post({ ...asked, model: 'known' });
    expect(await known).toMatchObject({ charged: '0.00002', cost: '0.000015' });
  });

  it('of a model that OpenRouter lists is what its answer says, else what the list says', async () => {
    const listed = {
      id: 'acme/fast',
      context_length: 8192,
      pricing: { prompt: '0.000001', completion: '0.000003' },
      top_provider: { max_completion_tokens: 1000 },
    };
    const list = answerJson(JSON.stringify({ data: [listed] }));
    await start({ models: {}, provider: { preset: 'openrouter', models: 'discover' } });
    for (const [reported, cost] of [
      [0.0001, '0.0001'],
      [null, '0.000045'],
    ] as const) {
      const usage = { prompt_tokens: 9, completion_tokens: 12, cost: reported };
      const answer = answerJson(completionBody({ usage }));
      gateway.provider.script = (response, request) =>
        (request.method === 'GET' ? list : answer)(response, request);
      const settled = gateway.nextSettled();
      await gateway.post({ ...QUESTION, model: 'loopback/acme/fast' });
      expect(await settled).toMatchObject({ charged: '0.000045', cost });
    }
  });

  it('that would be the price is estimated by the ceiling where a stream ends without usage', async () => {
    await start({ models: { 'acme/fast': model({ pricing: { reported: true, ceiling: PRICING } }) } });
    gateway.provider.script = answerStream([text('Hello there.', 'stop'), DONE]);
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, stream: true })).text();
    // By estimate 13 tokens and 3.
    expect(await settled).toMatchObject({ usageSource: 'estimated', charged: '0.000022' });
  });
});

describe('an answer of a tier that has no price', () => {
  afterEach(() => gateway.close());

  it('is charged as the plain one where none was asked for, and told to onError once', async () => {
    await start();
    gateway.provider.script = answerJson(completionBody({ service_tier: 'scale' }));
    for (let i = 0; i < 2; i++) {
      const settled = gateway.nextSettled();
      await gateway.post(QUESTION);
      expect(await settled).toMatchObject({ charged: '0.000045' });
    }
    expect(gateway.errors.map(({ message }) => message)).toEqual([
      'loopback served upstream-model in the service tier "scale", which has no price: ' +
        'give models["acme/fast"].pricing.serviceTiers',
    ]);
  });
});

describe('an answer of a tier that was not asked for', () => {
  afterEach(() => gateway.close());

  /** Of 100 tokens and 1,000: 0.0031 at the plain price, 0.0062 as priority. */
  const PRIORITY_ANSWER = answerJson(
    completionBody({ service_tier: 'priority', usage: { prompt_tokens: 100, completion_tokens: 1000 } }),
  );

  it.each([
    ['at its price, where the hold covers that', 2100, '0.0062'],
    ['as far as the hold goes', 1000, undefined],
  ])('is charged %s', async (_, maxOutputTokens, charge) => {
    await start({ models: { 'acme/fast': model({ maxOutputTokens }) } });
    let held = '';
    gateway.provider.script = async (response, request) => {
      held = (await gateway.router.credits.balance('acct')).held;
      PRIORITY_ANSWER(response, request);
    };
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(Number(held)).toBeGreaterThan(charge === undefined ? 0.0031 : 0.0062);
    expect(await settled).toMatchObject({ charged: charge ?? held, writtenOff: '0.00' });
  });

  it('is charged no less than the plain price, which may be beyond the hold', async () => {
    await start({ models: { 'acme/fast': model({ maxOutputTokens: 10 }) } });
    gateway.provider.script = PRIORITY_ANSWER;
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.0031' });
  });

  it('is charged beyond the hold where it was asked for', async () => {
    await start({ models: { 'acme/fast': model({ maxOutputTokens: 10 }) } });
    gateway.provider.script = PRIORITY_ANSWER;
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, service_tier: 'auto' });
    expect(await settled).toMatchObject({ charged: '0.0062' });
  });
});

describe('a cost that is reported above what was held', () => {
  afterEach(() => gateway.close());

  it('is charged as far as the balance goes', async () => {
    gateway = await startGateway(
      { models: { 'acme/fast': model({ pricing: { reported: true, ceiling: PRICING } }) } },
      undefined,
      '0.01',
    );
    const usage = { prompt_tokens: 9, completion_tokens: 12, cost: 0.025 };
    gateway.provider.script = answerJson(completionBody({ usage }));
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.01', writtenOff: '0.015' });
  });

  it.each(['-1', '1001', '"1e999"', '"much"', 'null', '[1]', '{"total":1}'])(
    'is the ceiling, by tokens, where it is %s: that is no cost',
    async (cost) => {
      await start({ models: { 'acme/fast': model({ pricing: { reported: true, ceiling: PRICING } }) } });
      const body = completionBody({ usage: { prompt_tokens: 9, completion_tokens: 12, cost: 'COST' } });
      gateway.provider.script = answerJson(body.replace('"COST"', cost));
      const settled = gateway.nextSettled();
      await gateway.post(QUESTION);
      expect(await settled).toMatchObject({ charged: '0.000045' });
    },
  );
});

describe('what is asked to be cached for an hour', () => {
  const asked = { cache_control: { type: 'ephemeral', ttl: '1h' } };
  const body = (fields: object): string => JSON.stringify({ model: 'm', messages: [], ...fields });
  const part = (fields: object): object => ({
    messages: [{ role: 'user', content: [{ type: 'text', text: 'a', ...fields }] }],
  });
  it.each<[string, boolean, string]>([
    ['in a part', true, body(part(asked))],
    ['in a message', true, body({ messages: [{ role: 'system', content: 'a', ...asked }] })],
    [
      'in a tool',
      true,
      body({ tools: [{ type: 'function', function: { name: 'f', parameters: {} }, ...asked }] }),
    ],
    ['of the request', true, body(asked)],
    ['in extra_body', true, body({ extra_body: asked })],
    ['before its type', true, body({ cache_control: { ttl: '1h', type: 'ephemeral' } })],
    [
      'in escapes',
      true,
      body(asked)
        .replace('ttl', String.raw`tt\u006c`)
        .replace('1h', String.raw`\u0031h`),
    ],
    ['in Moonshot’s words', true, body({ prompt_cache_options: { ttl: '1h' } })],
    ['in its words in another case', true, body({ Prompt_Cache_Options: { TTL: '1h' } })],
    ['in its words in extra_body', true, body({ extra_body: { prompt_cache_options: { ttl: '1h' } } })],
    ['in its words in settings', true, body({ parameters: { prompt_cache_options: { ttl: '1h' } } })],
    ['not: its five minutes', false, body({ prompt_cache_options: { ttl: '5m' } })],
    ['not: OpenAI’s half hour', false, body({ prompt_cache_options: { ttl: '30m' } })],
    ['not: its default', false, body({ prompt_cache_options: { mode: 'implicit', ttl: null } })],
    ['half an hour elsewhere', true, body({ cache_control: { ttl: '30m' } })],
    ['not: five minutes', false, body(part({ cache_control: { type: 'ephemeral', ttl: '5m' } }))],
    ['not: no time', false, body(part({ cache_control: { type: 'ephemeral' } }))],
    ['not: another ttl', false, body({ ttl: '1h', metadata: { ttl: '1h' } })],
    ['not: a text of it', false, body(part({ text: JSON.stringify(asked) }))],
  ])('is found %s', (_, found, text) => {
    const scanner = new ChatRequestScanner();
    scanner.write(Buffer.from(text));
    expect(scanner.end().hourWrites !== undefined).toBe(found);
  });
});
