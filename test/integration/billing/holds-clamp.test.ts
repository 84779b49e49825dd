import { afterEach, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions, LedgerEvent, ModelOptions } from '../../../src/index.ts';
import { findingsOf } from '../../helpers/audit.ts';
import { clientsOf, type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  DONE,
  event,
  type Script,
  text,
} from '../../helpers/provider.ts';

/** What a client sends. */
interface Asked {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
  readonly tools?: readonly unknown[];
  readonly [field: string]: unknown;
}

const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: PRICING,
  maxOutputTokens: 4000,
};
/** 279 bytes that are 143 tokens, where the estimate is 70. */
const DENSE = '0x9f;'.repeat(55) + 'end.';
const TOOL = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } };
const IMAGE = { type: 'image_url', image_url: { url: `data:image/png;base64,${'iVBORw0K'.repeat(500)}` } };

let gateway: Gateway;
let events: LedgerEvent[];

async function start(
  model: Partial<ModelOptions> = {},
  credits = '5.00',
  options: Partial<ChatCompletionsRouterOptions> = {},
): Promise<void> {
  events = [];
  const hooks = { onLedgerEvent: (event: LedgerEvent) => events.push(event) };
  const models = { 'acme/fast': { ...MODEL, ...model } };
  gateway = await startGateway({ models, hooks: [hooks], ...options }, undefined, credits);
}

afterEach(async () => {
  expect(await findingsOf(gateway.store)).toEqual([]);
  await gateway.close();
});

/** The bound by the words of the documentation, not by the code. */
function promptTokensAtMost({ model, messages, tools, functions }: Asked): number {
  const lists = [tools, functions].filter((list) => list !== undefined);
  const written = lists.reduce((sum: number, list) => sum + JSON.stringify(list).length + 500, 0);
  const images = JSON.stringify(messages).split('"image_url":').length - 1;
  return model.length + bytesOf(messages) + 8 * messages.length + 100 + written + 2000 * images;
}

/** Of keys and strings, as they stand in the JSON; a `data:` URL is none. */
function bytesOf(value: unknown): number {
  if (typeof value === 'string')
    return value.startsWith('data:') ? 0 : Buffer.byteLength(JSON.stringify(value)) - 2;
  if (Array.isArray(value)) return value.reduce((sum: number, each) => sum + bytesOf(each), 0);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce((sum, [key, each]) => sum + key.length + bytesOf(each), 0);
}

/** Writes as much as it may, and counts so many tokens of prompt. */
function answerWith(prompt: number, more: Record<string, unknown> = {}): Script {
  return (response, request) => {
    const { stream, n = 1, max_tokens, max_completion_tokens } = request.json as Record<string, number>;
    const output = n * (max_completion_tokens ?? max_tokens ?? 4000);
    const usage = { prompt_tokens: prompt, completion_tokens: output, ...more };
    const answer = stream
      ? answerStream([text('Hello', 'stop'), event({ choices: [], usage }), DONE])
      : answerJson(completionBody({ usage }));
    return answer(response, request);
  };
}

/** Asks with a key until it is refused for money; says what the refusal was, and how many answers were shortened. */
async function spend(
  key: string,
  asked: Asked,
): Promise<{ code: string; required: string; clamped: number }> {
  const { post } = clientsOf(gateway.baseURL, key);
  let clamped = 0;
  for (;;) {
    const settled = gateway.nextSettled();
    const response = await post(asked);
    if (response.status === 402) {
      const { error } = (await response.json()) as { error: { code: string; required: string } };
      return { ...error, clamped };
    }
    expect(response.status).toBe(200);
    await response.text();
    if (response.headers.has('x-ccr-max-tokens')) clamped += 1;
    expect(await settled).toMatchObject({ writtenOff: '0.00', usageSource: 'upstream' });
  }
}

const nanos = (usd: string): number => Math.round(Number(usd) * 1e9);

interface Case {
  readonly model?: Partial<ModelOptions>;
  readonly fields?: Record<string, unknown>;
  /** In place of one that counts as many tokens of prompt as the bound allows, and writes all that it may. */
  readonly provider?: (asked: Asked) => Script;
}

const busy: Script = answerJson('{"error":{"message":"busy"}}', 503);

const CASES: Readonly<Record<string, Case>> = {
  'a dense prompt': { provider: () => answerWith(143) },
  'a prompt at the bound': {},
  'a stream': { fields: { stream: true } },
  'several answers': { fields: { n: 3 } },
  'a limit of the client’s': { fields: { max_tokens: 3000 } },
  'its other limit': { fields: { max_completion_tokens: 3000, max_tokens: null } },
  tools: { fields: { tools: [TOOL, TOOL], tool_choice: 'auto' } },
  'functions, as they were before tools': { fields: { functions: [TOOL.function] } },
  escapes: { fields: { messages: [{ role: 'user', content: '\u0001\n"\u{1f600}é' }] } },
  'many short messages': {
    fields: { messages: Array.from({ length: 40 }, () => ({ role: 'user', content: '.' })) },
  },
  images: {
    model: { tokenBudgets: { image: 2000 } },
    fields: { messages: [{ role: 'user', content: [IMAGE, { type: 'text', text: '?' }, IMAGE] }] },
  },
  'a dearer tier': {
    model: { pricing: { ...PRICING, tiers: [{ above: 200, input: '5', output: '9' }] } },
  },
  'fees and a markup': {
    model: { pricing: { ...PRICING, request: '0.0007' }, markup: { factor: '1.37', fee: '0.0001' } },
  },
  'dear reasoning': {
    model: { pricing: { ...PRICING, reasoningOutput: '7' } },
    provider: (asked) => (response, request) => {
      const { max_tokens: most = 4000 } = request.json as { max_tokens?: number };
      const details = { completion_tokens_details: { reasoning_tokens: most } };
      return answerWith(promptTokensAtMost(asked), details)(response, request);
    },
  },
  'writes to a dear cache': {
    model: { pricing: { ...PRICING, cacheWriteInput: '1.25' } },
    provider: (asked) => {
      const prompt = promptTokensAtMost(asked);
      return answerWith(prompt, { prompt_tokens_details: { cache_write_tokens: prompt } });
    },
  },
  'a second target that is dearer': {
    model: {
      targets: [
        'loopback/cheap',
        { provider: 'loopback', model: 'dear', pricing: { input: '4', output: '11' } },
      ],
    },
    provider: (asked) => (response, request) =>
      (request.json.model === 'cheap' ? busy : answerWith(promptTokensAtMost(asked)))(response, request),
  },
  'as many searches as it may make': {
    model: { pricing: { ...PRICING, webSearch: '0.001' } },
    provider: (asked) =>
      answerWith(promptTokensAtMost(asked), { server_tool_use: { web_search_requests: 5 } }),
  },
};

describe.each(Object.entries(CASES))(
  'a clamped request: %s',
  (_name, { model = {}, fields = {}, provider }) => {
    const asked: Asked = { model: 'acme/fast', messages: [{ role: 'user', content: DENSE }], ...fields };
    const script = provider?.(asked) ?? answerWith(promptTokensAtMost(asked));

    it('never costs more than the budget of its key has left', async () => {
      await start(model);
      gateway.provider.script = script;
      const budget = { amount: '0.0317', per: 'lifetime' } as const;
      const { key, id } = await gateway.router.keys.create({ account: 'acct', budget });
      const { code, required, clamped } = await spend(key, asked);
      expect(code).toBe('budget_exceeded');
      expect(clamped).toBeGreaterThan(0);
      const { spent, budgetLeft } = (await gateway.router.keys.get('acct', id))!;
      expect(nanos(spent)).toBeLessThanOrEqual(31_700_000);
      expect(nanos(budgetLeft!)).toBeLessThan(nanos(required));
      expect(events).toEqual([]);
    });

    it('never costs more than the balance', async () => {
      await start(model, '0.0317');
      gateway.provider.script = script;
      const { code, required, clamped } = await spend(gateway.key, asked);
      expect(code).toBe('insufficient_credits');
      expect(clamped).toBeGreaterThan(0);
      const { balance, totalUsed } = await gateway.router.credits.balance('acct');
      expect(nanos(balance) + nanos(totalUsed)).toBe(31_700_000);
      expect(nanos(balance)).toBeLessThan(nanos(required));
      expect(events).toEqual([]);
    });

    it('never costs more than the two, where many come at once', async () => {
      await start(model, '0.0317');
      gateway.provider.script = script;
      const budget = { amount: '0.0201', per: 'day' } as const;
      const { key } = await gateway.router.keys.create({ account: 'acct', budget });
      const both = [key, gateway.key].map((one) => clientsOf(gateway.baseURL, one).post);
      const responses = await Promise.all([...both, ...both, ...both].map((post) => post(asked)));
      await Promise.all(responses.map((response) => response.text()));
      await expect.poll(() => gateway.settled.length).toBe(responses.filter(({ ok }) => ok).length);
      expect(gateway.settled.filter(({ writtenOff }) => writtenOff !== '0.00')).toEqual([]);
      expect(events).toEqual([]);
    });
  },
);

describe('a clamped request with a key of its client’s own', () => {
  it('never costs more than the balance', async () => {
    const authenticate = () => ({ account: 'acct', upstreamKeys: { loopback: 'sk-own' } });
    await start({ byokPricing: { input: '2', output: '5' } }, '0.0317', { authenticate });
    const asked: Asked = { model: 'acme/fast', messages: [{ role: 'user', content: DENSE }] };
    gateway.provider.script = answerWith(promptTokensAtMost(asked));
    expect(await spend('anything', asked)).toMatchObject({ code: 'insufficient_credits', clamped: 1 });
    expect(events).toEqual([]);
  });
});

describe('an answer that breaks off after a count that lags', () => {
  it('costs the estimate of its text, and no more than was held', async () => {
    await start();
    // 10 tokens of output are allowed, and 10 were written, of 100 characters each; 1 was counted so far.
    const usage = { prompt_tokens: 9, completion_tokens: 1 };
    const first = event({ choices: [{ index: 0, delta: { content: 'x'.repeat(1000) } }], usage });
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(first, () => response.destroy());
    };
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, stream: true, max_tokens: 10 })).text();
    // 142 tokens of prompt and 10 of output
    expect(await settled).toMatchObject({ charged: '0.000172', usageSource: 'estimated' });
    expect(events).toEqual([]);
  });
});

describe('the limit that is written', () => {
  it('is what the balance covers beside a prompt of a token a byte, to the last token', async () => {
    await start({}, '0.001142');
    gateway.provider.script = answerWith(142);
    const settled = gateway.nextSettled();
    // 34 bytes, 8 for its message and 100: 142 tokens of prompt leave 0.001 USD, which is 333 tokens of output.
    const response = await gateway.post(QUESTION);
    expect(response.headers.get('x-ccr-max-tokens')).toBe('333');
    expect(await settled).toMatchObject({ charged: '0.001141', writtenOff: '0.00' });
  });

  it('is 16 tokens at least: where the balance does not cover those, 402 says what it takes', async () => {
    await start({}, '0.000189');
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(402);
    expect(await response.json()).toMatchObject({
      error: { required: '0.00019', available: '0.000189', affordable_max_tokens: 15 },
    });
    expect((await gateway.post({ ...QUESTION, max_tokens: 15 })).status).toBe(200);
  });
});

describe('a long prompt and little money', () => {
  const pricing = { input: '3', output: '15' };
  /** 10,000 characters of plain English: 2,510 tokens by the estimate, and 10,132 at most. */
  const long = { ...QUESTION, messages: [{ role: 'user', content: 'It is so. '.repeat(1000) }] };

  it('is refused by clamp, which can not know that it is plain', async () => {
    await start({ pricing }, '0.030635');
    const response = await gateway.post(long);
    expect(response.status).toBe(402);
    expect(await response.json()).toMatchObject({ error: { required: '0.030636' } });
    expect(gateway.provider.received).toEqual([]);
  });

  it('is sent with adaptive holds, which go by the estimate', async () => {
    await start({ pricing }, '0.00777', { holdMode: 'adaptive' });
    gateway.provider.script = answerWith(2510);
    const settled = gateway.nextSettled();
    const response = await gateway.post(long);
    expect(response.headers.get('x-ccr-max-tokens')).toBe('16');
    expect(await settled).toMatchObject({ charged: '0.00777', writtenOff: '0.00' });
  });

  it('is your loss there, where it was dense after all', async () => {
    await start({ pricing }, '0.00777', { holdMode: 'adaptive' });
    gateway.provider.script = answerWith(10_132);
    const settled = gateway.nextSettled();
    await gateway.post(long);
    expect(await settled).toMatchObject({ charged: '0.00777', writtenOff: '0.022866' });
    expect(events.map(({ type }) => type)).toEqual(['write_off']);
  });
});
