import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import {
  chunk,
  completion,
  type DialectName,
  DONE,
  drip,
  end,
  error,
  type FakeProvider,
  hang,
  hangUp,
  head,
  html,
  pause,
  rateLimited,
  raw,
  repeat,
  reset,
  respond,
  type Script,
  sequence,
  startFakeProvider,
  stream,
  truncated,
} from '../../../src/testing.ts';

const QUESTION = { model: 'gpt-4o-mini', messages: [{ role: 'user' as const, content: 'Say hello.' }] };

let provider: FakeProvider;
let openai: OpenAI;

beforeEach(async () => {
  provider = await startFakeProvider();
  openai = new OpenAI({ baseURL: provider.baseURL, apiKey: 'any', maxRetries: 0 });
});

afterEach(() => provider.close());

function ask(
  fields: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {},
): Promise<OpenAI.ChatCompletion> {
  return openai.chat.completions.create({ ...QUESTION, ...fields });
}

/** The chunks of a stream, as far as they came; what it threw comes last. */
async function chunksOf(
  fields: Partial<OpenAI.ChatCompletionCreateParamsStreaming> = {},
): Promise<(OpenAI.ChatCompletionChunk | Error)[]> {
  const chunks: (OpenAI.ChatCompletionChunk | Error)[] = [];
  try {
    const answer = await openai.chat.completions.create({ ...QUESTION, ...fields, stream: true });
    for await (const each of answer) chunks.push(each);
  } catch (thrown) {
    chunks.push(thrown as Error);
  }
  return chunks;
}

async function textOf(fields: Partial<OpenAI.ChatCompletionCreateParamsStreaming> = {}): Promise<string> {
  const chunks = await chunksOf(fields);
  return chunks
    .map((each) => (each instanceof Error ? `!${each.name}` : (each.choices[0]?.delta.content ?? '')))
    .join('|');
}

function post(body: unknown = QUESTION): Promise<Response> {
  return fetch(`${provider.baseURL}/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
}

describe('a fake provider', () => {
  it('answers before it is configured', async () => {
    expect(await ask()).toMatchObject({
      model: 'gpt-4o-mini',
      choices: [{ message: { role: 'assistant', content: 'Hello there.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 },
    });
  });

  it('answers each request by its own script, and the rest by the last one', async () => {
    provider.answer(completion('one'), ...repeat(2, error(503)), completion('four'));
    const heard: unknown[] = [];
    for (let i = 0; i < 5; i++) {
      heard.push(
        await ask().then(
          ({ choices }) => choices[0]?.message.content,
          (refusal) => refusal.status,
        ),
      );
    }
    expect(heard).toEqual(['one', 503, 503, 'four', 'four']);
  });

  it('knows what it was sent', async () => {
    const arriving = provider.nextRequest();
    await openai.chat.completions.create(QUESTION, {
      query: { 'api-version': 'v1' },
      headers: { 'X-Odd': 'Yes' },
    });
    expect(provider.requests).toEqual([await arriving]);
    const [request] = provider.requests;
    expect(request).toMatchObject({
      method: 'POST',
      url: '/v1/chat/completions?api-version=v1',
      json: QUESTION,
    });
    expect(request?.headers['x-odd']).toBe('Yes');
    expect(request?.rawHeaders).toContain('x-odd');
    expect(request?.body.toString()).toBe(JSON.stringify(QUESTION));
  });

  it('may look at a request to answer it', async () => {
    provider.answer((response, request) => completion(`You are ${request.json.model}.`)(response, request));
    expect((await ask()).choices[0]?.message.content).toBe('You are gpt-4o-mini.');
  });

  it('counts its connections, and closes them', async () => {
    provider.answer(hang);
    const arriving = provider.nextRequest();
    const asking = ask().catch((thrown: unknown) => thrown);
    const { aborted } = await arriving;
    expect([provider.connections, provider.openConnections]).toEqual([1, 1]);
    await provider.close();
    expect(await asking).toBeInstanceOf(OpenAI.APIConnectionError);
    expect(provider.openConnections).toBe(0);
    await aborted;
  });

  it('knows when a client left before its answer was complete', async () => {
    provider.answer(stream(chunk('Hello'), hang));
    const leaving = new AbortController();
    const answer = await openai.chat.completions.create(
      { ...QUESTION, stream: true },
      { signal: leaving.signal },
    );
    await answer[Symbol.asyncIterator]().next();
    leaving.abort();
    await provider.requests[0]!.aborted;
  });

  it('tells at its end what a script has thrown', async () => {
    const flawed = await startFakeProvider();
    flawed.answer(() => {
      throw new Error('a mistake in a test');
    });
    await expect(fetch(flawed.baseURL)).rejects.toThrow('fetch failed');
    await expect(flawed.close()).rejects.toThrow('a mistake in a test');
  });

  it('is closed where its scope ends', async () => {
    let baseURL;
    {
      await using scoped = await startFakeProvider();
      ({ baseURL } = scoped);
      expect((await fetch(baseURL, { method: 'POST', body: '{}' })).status).toBe(200);
    }
    await expect(fetch(baseURL)).rejects.toThrow('fetch failed');
  });
});

describe('a completion', () => {
  it('is streamed where that is asked for, in the pieces that it was given', async () => {
    provider.answer(completion({ content: ['Hel', 'lo'] }), completion('Hello there. '));
    expect(await textOf()).toBe('|Hel|lo|');
    expect(await textOf()).toBe('|Hello| there.| |');
  });

  it('tells its usage in a stream where that is asked for', async () => {
    const without = await chunksOf();
    const asked = await chunksOf({ stream_options: { include_usage: true } });
    expect(without.every((each) => !('usage' in each))).toBe(true);
    expect(asked.map((each) => 'usage' in each && each.usage?.total_tokens)).toEqual([
      ...Array.from({ length: 4 }),
      21,
    ]);
    expect(asked.at(-1)).toMatchObject({ choices: [] });
  });

  it('calls tools', async () => {
    const toolCalls = [
      { name: 'get_weather', arguments: { city: 'Paris', unit: 'celsius' } },
      { name: 'clock', arguments: '{"zone":', id: 'call_odd' },
    ];
    provider.answer(completion({ toolCalls }));
    const [choice] = (await ask()).choices;
    const calls = [
      {
        id: 'call_0',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Paris","unit":"celsius"}' },
      },
      { id: 'call_odd', type: 'function', function: { name: 'clock', arguments: '{"zone":' } },
    ];
    expect(choice).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: null, tool_calls: calls },
    });
    const streamed = await openai.chat.completions.stream(QUESTION).finalChatCompletion();
    expect(streamed.choices[0]?.message.tool_calls).toMatchObject(calls);
  });

  it('has structured output', async () => {
    provider.answer(completion({ json: { city: 'Paris' } }));
    expect((await ask()).choices[0]?.message.content).toBe('{"city":"Paris"}');
    expect((await textOf()).replaceAll('|', '')).toBe('{"city":"Paris"}');
  });

  it('takes its time between chunks', async () => {
    provider.answer(completion({ content: ['a', 'b'], chunkMs: 20 }));
    const startedAt = performance.now();
    expect(await textOf()).toBe('|a|b|');
    expect(performance.now() - startedAt).toBeGreaterThan(5 * 20 - 10);
  });

  it.each<[unknown]>([[{ prompt_tokens: -1, completion_tokens: '7' }], [null]])(
    'tells %j as its usage',
    async (usage) => {
      provider.answer(completion({ usage: usage as object | null }));
      expect((await ask()).usage ?? null).toEqual(usage);
    },
  );

  it('refuses what is no JSON', async () => {
    const response = await fetch(provider.baseURL, { method: 'POST', body: '{"model"' });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
  });

  /** Reasoning that a dialect doesn't name is 0. */
  const DIALECTS: readonly [DialectName, cached: number, reasoning: number][] = [
    ['openai', 80, 7],
    ['deepseek', 80, 7],
    ['gemini', 0, 0],
    ['groq', 80, 7],
    ['mistral', 80, 0],
    ['moonshot', 80, 0],
    ['openrouter', 80, 7],
    ['perplexity', 0, 7],
    ['together', 80, 0],
    ['xai', 80, 7],
  ];

  it.each(DIALECTS)(
    'tells the same usage as %s does, in JSON and in a stream',
    async (dialect, cachedTokens, reasoningTokens) => {
      provider.answer(
        completion({ dialect, tokens: { prompt: 100, completion: 20, cached: 80, reasoning: 7 } }),
      );
      const told = { promptTokens: 100, completionTokens: 20, cachedTokens, reasoningTokens };
      for (const body of [QUESTION, { ...QUESTION, stream: true, stream_options: { include_usage: true } }]) {
        const meter = new UsageMeter();
        meter.write(Buffer.from(await (await post(body)).arrayBuffer()));
        meter.end();
        expect(meter.usage).toMatchObject(told);
      }
    },
  );

  it('has the chunks of its dialect', async () => {
    provider.answer(
      completion({ content: ['Hi'], dialect: 'perplexity' }),
      completion({ dialect: 'openrouter' }),
    );
    const perplexity = await (await post({ ...QUESTION, stream: true })).text();
    expect(perplexity.split('\r\n\r\n')).toHaveLength(4);
    expect(perplexity).not.toContain('[DONE]');
    expect(await (await post({ ...QUESTION, stream: true })).text()).toMatch(
      /^: OPENROUTER PROCESSING\n\ndata: /,
    );
  });
});

describe('a refusal', () => {
  it.each<[string, Script, object]>([
    ['an error', error(400), { status: 400, type: 'invalid_request_error', code: null }],
    [
      'an error with all its members',
      error(529, { message: 'Busy.', type: 'overloaded', param: 'model', code: 'busy' }),
      { status: 529, message: '529 Busy.', type: 'overloaded', param: 'model', code: 'busy' },
    ],
    ['a rate limit', rateLimited(), { status: 429, code: 'rate_limit_exceeded' }],
    ['a page', html(502), { status: 502, message: '502 <html><body><h1>502</h1></body></html>' }],
    ['another shape', respond(422, { detail: 'no' }), { status: 422 }],
  ])('is %s', async (_, script, refusal) => {
    provider.answer(script);
    await expect(ask()).rejects.toMatchObject(refusal);
  });

  it('says how long to wait', async () => {
    provider.answer(rateLimited(2), error(503, { headers: { 'retry-after-ms': '20' } }));
    expect((await post()).headers.get('retry-after')).toBe('2');
    expect((await post()).headers.get('retry-after-ms')).toBe('20');
  });
});

describe('a fault', () => {
  it.each<[string, Script]>([
    ['a reset', reset],
    ['an end before the head', hangUp],
    ['bytes that are no HTTP', sequence(raw('SSH-2.0-OpenSSH_9.6\r\n'), hangUp)],
    ['a head that breaks off', sequence(raw('HTTP/1.1 200 OK\r\ncontent-le'), reset)],
    [
      'JSON with a reset in it',
      sequence(head(200, { 'content-length': 99 }), '{"choices":', pause(20), reset),
    ],
    ['JSON that is shorter than announced', truncated({ choices: [] }, 5)],
  ])('is %s', async (_, script) => {
    provider.answer(script);
    await expect(ask()).rejects.toThrow(/Connection error|terminated/);
  });

  it.each<[string, Script]>([
    ['a reset', stream(chunk('Hello'), pause(20), reset)],
    ['an end without a last chunk', stream(chunk('Hello'), hangUp)],
  ])('is %s in a stream', async (_, script) => {
    provider.answer(script);
    expect(await textOf()).toMatch(/^Hello\|!(TypeError|Error|APIConnectionError)$/);
  });

  it('is a silence', async () => {
    provider.answer(hang);
    await expect(openai.chat.completions.create(QUESTION, { timeout: 50 })).rejects.toThrow(
      OpenAI.APIConnectionTimeoutError,
    );
  });

  it('is a pause before the head', async () => {
    provider.answer(sequence(pause(50), completion()));
    const startedAt = performance.now();
    await ask();
    expect(performance.now() - startedAt).toBeGreaterThan(45);
  });

  it('is a stream that ends in the middle of an event', async () => {
    provider.answer(stream(chunk('Hel'), 'data: {"choi'));
    expect(await (await post()).text()).toBe(`${chunk('Hel')}data: {"choi`);
  });

  it('is a body that comes a byte at a time', async () => {
    provider.answer(
      sequence(head(200, { 'content-type': 'text/event-stream' }), drip(chunk('Hi')), DONE, end),
    );
    const sizes: number[] = [];
    for await (const piece of (await post()).body!) sizes.push(piece.length);
    expect(sizes.length).toBeGreaterThan(50);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(chunk('Hi').length + DONE.length);
  });

  it('ends with the one who would have suffered from it', async () => {
    let over = false;
    provider.answer(sequence(head(200), pause(60_000), () => (over = true)));
    const leaving = new AbortController();
    await fetch(provider.baseURL, { method: 'POST', signal: leaving.signal });
    leaving.abort();
    await provider.requests[0]!.aborted;
    await new Promise(setImmediate);
    expect(over).toBe(false);
  });
});

it('is documented in all that it exports', async () => {
  const page = readFileSync(new URL('../../../docs/testing.md', import.meta.url), 'utf8');
  const names = Object.keys(await import('../../../src/testing.ts'));
  const reference = page.slice(page.indexOf('## Fake provider'));
  expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(reference))).toEqual([]);
});

it('is shown by an example that passes', () => {
  const root = new URL('../../..', import.meta.url).pathname;
  const [, program = ''] = /^```ts\n(.*?)^```/ms.exec(readFileSync(`${root}docs/testing.md`, 'utf8')) ?? [];
  mkdirSync(`${root}.cache/testing`, { recursive: true });
  writeFileSync(`${root}.cache/testing/example.ts`, program);
  const { stdout } = spawnSync(process.execPath, ['--test', '.cache/testing/example.ts'], {
    cwd: root,
    encoding: 'utf8',
    timeout: 10_000,
  });
  expect(stdout).toMatch(/^(ℹ|#) pass 1$/m);
  expect(stdout).toMatch(/^(ℹ|#) fail 0$/m);
});

describe('the model list of the fake provider', () => {
  const ids = async (): Promise<string[]> => (await openai.models.list()).data.map(({ id }) => id);

  it('is there until scripts are set, which answer everything', async () => {
    expect(await ids()).toEqual(['fake-model']);
    provider.answer(respond(404));
    await expect(ids()).rejects.toThrow('404');
  });

  it('is answered whatever the scripts are, once it is given, and uses up none of them', async () => {
    provider.listModels('small', { id: 'large', prices: { input: '2.00', output: '8.00' } });
    provider.answer(completion('One.'), completion('Two.'));
    expect(await ids()).toEqual(['small', 'large']);
    const { choices } = await openai.chat.completions.create(QUESTION);
    expect(choices[0]?.message.content).toBe('One.');
    expect(await ids()).toEqual(['small', 'large']);
  });

  it('has what discovery needs: prices and context sizes', async () => {
    provider.listModels('small', { id: 'unpriced', prices: null });
    const router = createChatCompletionsRouter({
      store: 'memory:',
      providers: { fake: { baseURL: provider.baseURL, models: 'discover' } },
      models: {},
    });
    await router.ready();
    const answer = await router.fetch(
      new Request('http://router/v1/models', {
        headers: { authorization: `Bearer ${(await router.keys.create({ account: 'acme' })).key}` },
      }),
    );
    const { data } = (await answer.json()) as { data: object[] };
    await router.close();
    expect(data).toMatchObject([{ id: 'fake/small', context_length: 128_000 }]);
  });
});
