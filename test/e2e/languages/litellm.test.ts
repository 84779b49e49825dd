import { OpenAI } from '../../helpers/openai.ts';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions, Settled } from '../../../src/index.ts';
import { parseUsd } from '../../../src/ledger/contract/money.ts';
import { type Gateway, PRICING } from '../../helpers/gateway.ts';
import { costOf, describeClient, MODEL, startScriptedGateway } from '../helpers/client-contract.ts';
import { type ScriptedProvider, type Served, startScriptedProvider } from '../helpers/scripted-provider.ts';
import { type LiteLLMProxy, MASTER_KEY, startLiteLLMProxy } from './litellm-proxy.ts';
import { describeShownProgram } from './shown-program.ts';
import { python } from './toolchains.ts';

const LITELLM = python('litellm', 'litellm_client.py');
const CHECKS = [
  'completion',
  'stream',
  'stream_usage',
  'tool',
  'tool_streamed',
  'structured',
  'abort',
  'cancelled',
  'cut',
  'busy',
  'untold',
  'parallel',
  '401',
  '402',
  '404',
  '400',
  '500',
];

describeClient({
  name: 'LiteLLM',
  version: '1.83.0',
  ...LITELLM,
  // Its list of prices is in the package: it need not be fetched.
  env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
  checks: ['openai', 'openrouter'].flatMap((prefix) => CHECKS.map((check) => `${prefix}/ ${check}`)),
});

describeShownProgram('LiteLLM', LITELLM);

const WEATHER = {
  type: 'function' as const,
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
};
const CITY = {
  type: 'json_schema' as const,
  json_schema: { name: 'city', schema: { type: 'object', properties: { name: { type: 'string' } } } },
};

describe.skipIf(LITELLM.missing !== undefined)("LiteLLM's proxy 1.83.0 as a provider", () => {
  let provider: ScriptedProvider;
  let litellm: LiteLLMProxy;
  let gateway: Gateway;

  beforeAll(async () => {
    await LITELLM.prepare();
    provider = await startScriptedProvider();
    litellm = await startLiteLLMProxy(LITELLM.command[0], provider.baseURL);
  });

  afterAll(async () => {
    await litellm?.close();
    await provider?.close();
  });

  afterEach(() => gateway.close());

  const start = async (options: Partial<ChatCompletionsRouterOptions> = {}): Promise<void> => {
    gateway = await startScriptedGateway(provider, options);
  };
  const startWithKey = (): Promise<void> =>
    start({ providers: { litellm: { baseURL: litellm.baseURL, apiKey: MASTER_KEY } }, models: TARGET });

  const ask = (content = 'Say hello.') => ({ model: MODEL, messages: [{ role: 'user' as const, content }] });
  const create = (fields: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>, content?: string) =>
    gateway.client.chat.completions.create({ ...ask(content), ...fields });
  const stream = (fields: Partial<OpenAI.ChatCompletionCreateParamsStreaming>, content?: string) =>
    gateway.client.chat.completions.create({ ...ask(content), ...fields, stream: true });

  /** The request that the provider behind LiteLLM served last. */
  const last = (): Served => provider.served.at(-1)!;

  const expectExact = async (settled: Promise<Settled>): Promise<void> => {
    const { charged, usageSource } = await settled;
    expect(usageSource).toBe('upstream');
    expect(parseUsd(charged, 'charged')).toBe(costOf(last().told!));
  };

  it('answers, and is charged to the nano-dollar', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const { choices, usage } = await create({});
    expect(choices[0]?.message.content).toBe('Hello from the provider.');
    expect(usage?.prompt_tokens).toBe(last().told?.prompt);
    await expectExact(settled);
  });

  it('streams word by word', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const words: string[] = [];
    for await (const { choices } of await stream({}, 'scenario:gate')) {
      const word = choices[0]?.delta.content;
      if (word) words.push(word);
      if (words.length === 3) await fetch(provider.continueURL);
    }
    expect(words.join('')).toBe('one two three four five six ');
    expect(last().passed).toBe(true);
    await expectExact(settled);
  });

  it('shows no usage in streams to clients that did not ask, and charges it', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...ask(), stream: true });
    const events = eventsOf(await response.text());
    expect(events.filter(({ usage }) => usage !== undefined && usage !== null)).toEqual([]);
    expect(events.flatMap(({ choices }) => choices.map(({ delta }) => delta?.content ?? '')).join('')).toBe(
      'Hello from the provider.',
    );
    // Its event of usage has a choice without anything in it: where one is left, it is that which says the end.
    expect(events.at(-1)?.choices).toMatchObject([{ finish_reason: 'stop' }]);
    await expectExact(settled);
  });

  it('shows usage in streams to clients that asked', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const told: OpenAI.CompletionUsage[] = [];
    for await (const { usage } of await stream({ stream_options: { include_usage: true } })) {
      if (usage) told.push(usage);
    }
    expect(told).toMatchObject([
      { prompt_tokens: last().told?.prompt, completion_tokens: last().told?.completion },
    ]);
    await expectExact(settled);
  });

  it('calls tools', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const { choices } = await create({ tools: [WEATHER] });
    expect(choices[0]?.message.tool_calls).toMatchObject([
      { type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
    ]);
    await expectExact(settled);
  });

  it('calls tools in a stream', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const running = gateway.client.chat.completions.stream({ ...ask(), tools: [WEATHER] });
    const { choices } = await running.finalChatCompletion();
    expect(choices[0]?.message.tool_calls).toMatchObject([
      { function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
    ]);
    await expectExact(settled);
  });

  it('fills schemas', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const { choices } = await create({ response_format: CITY });
    expect(choices[0]?.message.content).toBe('{"name":"Oslo"}');
    await expectExact(settled);
  });

  it.each([
    [400, 'too-long', OpenAI.BadRequestError],
    [429, 'busy', OpenAI.RateLimitError],
    [500, 'broken', OpenAI.InternalServerError],
  ])('passes its %i on, and nothing is charged', async (status, scenario, kind) => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const error: unknown = await create({}, `scenario:${scenario}`).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject({ status, message: expect.stringContaining('litellm') });
    expect(await settled).toMatchObject({ voided: true, charged: '0.00' });
  });

  it('passes its error event in a stream on, and an estimate is charged', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const { words, error } = await broken('scenario:failing');
    expect(words).toBe('not to last ');
    expect(error).toBeInstanceOf(OpenAI.APIError);
    await expectEstimate(settled);
  });

  // What LiteLLM does without a router before it, too: nothing in its answer tells of the cut.
  it('makes a stream that was cut behind it look whole, and its own count is charged', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const response = await gateway.post({
      ...ask('scenario:cut'),
      stream: true,
      stream_options: { include_usage: true },
    });
    const events = eventsOf(await response.text());
    expect(events.some(({ choices }) => choices[0]?.finish_reason === 'stop')).toBe(true);
    const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = events.at(-1)?.usage ?? {};
    const { charged, usageSource } = await settled;
    expect(usageSource).toBe('upstream');
    expect(parseUsd(charged, 'charged')).toBe(costOf({ prompt, completion, cached: 0 }));
  });

  it('tells the provider behind it that a client has left, and an estimate is charged', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    let words = 0;
    for await (const _ of await stream({}, 'scenario:endless')) if (++words === 3) break;
    await expect.poll(() => last().left).toBe(true);
    await expectEstimate(settled);
  });

  /** Reads a stream that breaks. */
  const broken = async (content: string): Promise<{ words: string; error: unknown }> => {
    let words = '';
    try {
      for await (const { choices } of await stream({}, content)) words += choices[0]?.delta.content ?? '';
    } catch (error) {
      return { words, error };
    }
    throw new Error(`the stream looks whole: ${words}`);
  };

  const startBesideAnother = (apiKey: string, model = 'upstream-model'): Promise<void> =>
    start({
      retries: {},
      providers: {
        litellm: { baseURL: litellm.baseURL, apiKey },
        other: { baseURL: provider.baseURL },
      },
      models: { [MODEL]: { ...SERVED, targets: [`litellm/${model}`, 'other/upstream-model'] } },
    });

  it.each([
    ['429', 'upstream-model', 'scenario:busy, but here alone'],
    ['500', 'unreachable-model', 'Say hello.'],
  ])('is left for another target when it answers %s', async (_status, model, content) => {
    await startBesideAnother(MASTER_KEY, model);
    const settled = gateway.nextSettled();
    const { choices } = await create({}, content);
    expect(choices[0]?.message.content).toBe('Hello from the provider.');
    expect(await settled).toMatchObject({ provider: 'other' });
    await expectExact(settled);
  });

  describe('whose key is wrong', () => {
    it('answers 400, and not 401, as it is without a database', async () => {
      await startWithKey();
      const response = await fetch(`${litellm.baseURL}/chat/completions`, {
        method: 'POST',
        headers: { authorization: 'Bearer sk-wrong', 'content-type': 'application/json' },
        body: JSON.stringify({ ...ask(), model: 'upstream-model' }),
      });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { type: 'no_db_connection' } });
    });

    it('is a 502 to the client, without its words', async () => {
      await start({
        providers: { litellm: { baseURL: litellm.baseURL, apiKey: 'sk-wrong' } },
        models: TARGET,
      });
      for (const body of [ask(), { ...ask(), stream: true }]) {
        const response = await gateway.post(body);
        expect(response.status).toBe(502);
        const text = await response.text();
        expect(JSON.parse(text)).toMatchObject({ error: { code: 'upstream_refused_credentials' } });
        expect(text).not.toContain('No connected db');
      }
      expect((await gateway.router.credits.balance(gateway.account)).balance).toBe('5.00');
    });

    it('is asked with the next key', async () => {
      const apiKeys = ['sk-wrong', MASTER_KEY];
      await start({ providers: { litellm: { baseURL: litellm.baseURL, apiKeys } }, models: TARGET });
      const settled = gateway.nextSettled();
      const { choices } = await create({});
      expect(choices[0]?.message.content).toBe('Hello from the provider.');
      expect(gateway.errors.map(({ message }) => message)).toEqual([
        expect.stringMatching(/^Provider "litellm": key 1 of 2 is not used for one minute/),
      ]);
      await expectExact(settled);
    });

    it('is left for another target', async () => {
      await startBesideAnother('sk-wrong');
      const settled = gateway.nextSettled();
      const { choices } = await create({});
      expect(choices[0]?.message.content).toBe('Hello from the provider.');
      expect(await settled).toMatchObject({ provider: 'other' });
      await expectExact(settled);
    });
  });

  it('is reported as a cut stream when it dies itself, and an estimate is charged', async () => {
    await startWithKey();
    const settled = gateway.nextSettled();
    const served = provider.served.length;
    const reading = broken('scenario:endless');
    await expect.poll(() => provider.served[served]?.words).toBeGreaterThan(3);
    await litellm.close();
    expect(await reading).toMatchObject({ error: { code: 'upstream_cut' } });
    await expectEstimate(settled);
  });
});

const SERVED = { pricing: PRICING, contextWindow: 8192, maxOutputTokens: 1000 };
const TARGET = { [MODEL]: { ...SERVED, targets: ['litellm/upstream-model'] } } satisfies object;

interface Chunk {
  readonly choices: readonly {
    readonly delta?: { readonly content?: string };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: OpenAI.CompletionUsage | null;
}

function eventsOf(text: string): readonly Chunk[] {
  return [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => JSON.parse(json) as Chunk);
}

async function expectEstimate(settled: Promise<Settled>): Promise<void> {
  const { charged, usageSource, voided } = await settled;
  expect([usageSource, voided]).toEqual(['estimated', false]);
  expect(parseUsd(charged, 'charged')).toBeGreaterThan(0n);
}
