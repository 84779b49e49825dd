import { afterEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter, type ModelOptions } from '../../../src/index.ts';
import { BILLED_FIELDS } from '../../../src/http/billed-fields.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, completionBody, type Script } from '../../helpers/provider.ts';

/** USD 1 and 2 per million: 100 and 50 tokens are 0.0002. */
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: { input: '1', output: '2' },
  contextWindow: 8192,
  maxOutputTokens: 1000,
};
const COUNTS = { prompt_tokens: 100, completion_tokens: 50 };
const SEARCH = { type: 'openrouter:web_search' };
const ADVISOR = { type: 'openrouter:advisor' };

let gateway: Gateway;

afterEach(() => gateway.close());

async function start(
  model: Partial<ModelOptions> = {},
  preset = 'openrouter',
  credits = '5.00',
): Promise<void> {
  gateway = await startGateway(
    { models: { 'acme/fast': { ...MODEL, ...model } }, provider: { ...(preset !== '' && { preset }) } },
    undefined,
    credits,
  );
}

/** What a request is charged, and what the journal has as searches. */
async function charged(
  fields: object,
  script: Script = answering({}),
): Promise<{ charged: string; searches: number | undefined }> {
  gateway.provider.script = script;
  const settled = gateway.nextSettled();
  const response = await gateway.post({ ...QUESTION, ...fields });
  expect(response.status).toBe(200);
  await response.text();
  const { charged, usage } = await settled;
  return { charged, searches: usage?.webSearches };
}

function answering(usage: object): Script {
  return answerJson(completionBody({ usage: { ...COUNTS, ...usage } }));
}

/** The error of a request of which nothing went upstream, and for which nothing was held. */
async function refusal(
  body: string | object,
): Promise<{ code: string; param: string | null; message: string }> {
  const response = await gateway.post(typeof body === 'string' ? body : { ...QUESTION, ...body });
  const { error } = (await response.json()) as { error: { code: string; param: string; message: string } };
  expect(response.status).toBe(error.code === 'insufficient_credits' ? 402 : 400);
  expect(gateway.provider.received).toEqual([]);
  const { balance, held } = await gateway.router.credits.balance('acct');
  expect({ balance, held }).toEqual({ balance: '5.00', held: '0.00' });
  return error;
}

describe('serverTools', () => {
  it.each([
    [[], 'models["m"].serverTools must be an object'],
    [{ x: '0.01' }, 'models["m"].serverTools["x"] must be an object'],
    [{ x: { atMost: 5 } }, 'models["m"].serverTools["x"].fee is missing'],
    [{ x: { fee: '0.01' } }, 'models["m"].serverTools["x"].atMost must be a positive integer'],
    [{ x: { fee: '0.01', atMost: 0 } }, 'models["m"].serverTools["x"].atMost must be a positive integer'],
    [{ x: { fee: '0.01', atMost: 1001 } }, 'models["m"].serverTools["x"].atMost must be at most 1000'],
    [{ x: { fee: 0.01, atMost: 5 } }, 'models["m"].serverTools["x"].fee must be'],
    [{ x: { fee: '-1', atMost: 5 } }, 'models["m"].serverTools["x"].fee must be'],
    [{ x: { fee: '0.01', most: 5 } }, 'models["m"].serverTools["x"] has an unknown key "most"'],
    [{ 'openrouter:*': { fee: '0.01', atMost: 5 } }, 'models["m"].serverTools must be named by'],
    [{ function: { fee: '0.01', atMost: 5 } }, 'models["m"].serverTools must be named by'],
  ])('is checked when the router is made: %j', async (serverTools, message) => {
    await start();
    const make = (): unknown =>
      createChatCompletionsRouter({
        store: 'memory:',
        providers: { openai: { apiKey: 'sk' } },
        models: { m: { ...MODEL, targets: ['openai/m'], serverTools: serverTools as never } },
      });
    expect(make).toThrow(TypeError);
    expect(make).toThrow(message);
  });

  it('is not for accountFiles, which is true or false', async () => {
    await start();
    const models = { m: { ...MODEL, targets: ['openai/m'], accountFiles: 'yes' as never } };
    expect(() =>
      createChatCompletionsRouter({ store: 'memory:', providers: { openai: { apiKey: 'sk' } }, models }),
    ).toThrow('models["m"].accountFiles must be a boolean');
  });
});

describe('a tool that the provider runs', () => {
  it.each([
    ['a type', '"tools":[{"type":"openrouter:advisor"}]', 'tools[0].type'],
    [
      'the second of them',
      '"tools":[{"type":"custom","custom":{"name":"c"}},{"type":"web_search"}]',
      'tools[1].type',
    ],
    ['a type beside a function', '"tools":[{"type":"mcp","function":{"name":"f"}}]', 'tools[0].type'],
    ['a second type', '"tools":[{"type":"function","type":"web_search"}]', 'tools[0].type'],
    ['a key in another case', '"tools":[{"type":"function","TYPE":"web_search"}]', 'tools[0].type'],
    ['an escaped type', String.raw`"tools":[{"\u0074ype":"we\u0062_search"}]`, 'tools[0].type'],
    ['a type in another case', '"tools":[{"type":"Function"}]', 'tools[0].type'],
    ['tools in another case', '"Tools":[{"type":"web_search"}]', 'tools[0].type'],
    ['a second list', '"tools":[],"tools":[{"type":"web_search"}]', 'tools[0].type'],
    ['a type that is no string', '"tools":[{"type":7}]', 'tools[0].type'],
    ['a type of a kilobyte', `"tools":[{"type":"${'x'.repeat(2000)}"}]`, 'tools[0].type'],
    ['no type', '"tools":[{"google_search":{}}]', 'tools[0].type'],
    ['an object of tools', '"tools":{"0":{"type":"web_search"}}', 'tools'],
    [
      'a built-in function',
      '"tools":[{"type":"builtin_function","function":{"name":"$web_search"}}]',
      'tools[0].function.name',
    ],
    [
      'a built-in function as a function',
      '"tools":[{"type":"function","function":{"name":"$web_search"}}]',
      'tools[0].function.name',
    ],
    [
      'an escaped dollar',
      String.raw`"tools":[{"type":"function","function":{"name":"\u0024web"}}]`,
      'tools[0].function.name',
    ],
    [
      'a built-in function of any name',
      '"tools":[{"type":"builtin_function","function":{"name":"web"}}]',
      'tools[0].type',
    ],
    ['a function of old', '"functions":[{"name":"$web_search"}]', 'functions[0].function.name'],
    ['a choice', '"tool_choice":{"type":"openrouter:fusion"}', 'tool_choice.type'],
    [
      'a choice of several',
      '"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"web_search"}]}}',
      'tool_choice[0].type',
    ],
    ['extra_body', '"extra_body":{"tools":[{"type":"web_search"}]}', 'extra_body.tools[0].type'],
  ])('is refused without a price: %s', async (_, fields, param) => {
    await start();
    const body = JSON.stringify(QUESTION).replace(/\}$/, `,${fields}}`);
    expect(await refusal(body)).toMatchObject({ code: 'unpriced_feature', param });
  });

  it('is named in the refusal', async () => {
    await start();
    const { message } = await refusal({ tools: [ADVISOR] });
    expect(message).toBe(
      'Nothing was sent: this model has no price for "openrouter:advisor", which its provider may bill apart.',
    );
  });

  it('is refused where there are more than any model has prices of', async () => {
    await start();
    const tools = Array.from({ length: 100_000 }, (_, i) => ({ type: `t${i}` }));
    expect(await refusal({ tools })).toMatchObject({ code: 'unpriced_feature', param: 'tools[32].type' });
  });

  it('is none where the client runs it, and nothing is added to its price', async () => {
    await start();
    const tools = [
      { type: 'function', function: { name: 'a', parameters: { properties: { type: { enum: ['$x'] } } } } },
      { type: 'custom', custom: { name: 'b' } },
    ];
    const named = { type: 'function', function: { name: 'a' } };
    for (const tool_choice of ['auto', named, { type: 'allowed_tools', allowed_tools: { tools: [named] } }]) {
      expect(await charged({ tools, tool_choice })).toEqual({ charged: '0.0002', searches: 0 });
    }
  });

  it('is charged as often as the usage tells', async () => {
    await start({ serverTools: { 'openrouter:web_search': { fee: '0.007', atMost: 5 } } });
    for (const name of ['server_tool_use', 'server_tool_use_details']) {
      const script = answering({ [name]: { web_search_requests: 2 } });
      expect(await charged({ tools: [SEARCH] }, script)).toEqual({ charged: '0.0142', searches: 2 });
    }
    expect(await charged({ tools: [SEARCH] })).toEqual({ charged: '0.0002', searches: 0 });
  });

  it('is charged more often than it was held for, where the usage tells that', async () => {
    await start({ serverTools: { 'openrouter:web_search': { fee: '0.007', atMost: 1 } } });
    const script = answering({ server_tool_use: { web_search_requests: 3 } });
    expect(await charged({ tools: [SEARCH] }, script)).toEqual({ charged: '0.0212', searches: 3 });
  });

  it('is charged at its own fee, in place of that for a search', async () => {
    const serverTools = { 'openrouter:web_search': { fee: '0.007', atMost: 5 } };
    await start({ serverTools, pricing: { input: '1', output: '2', webSearch: '0.01' } });
    const script = answering({ server_tool_use: { web_search_requests: 2 } });
    expect(await charged({ tools: [SEARCH] }, script)).toEqual({ charged: '0.0142', searches: 2 });
    expect(await charged({}, script)).toEqual({ charged: '0.0202', searches: 2 });
  });

  it('is priced by a fee for searches, where it is counted as one', async () => {
    await start({ pricing: { input: '1', output: '2', webSearch: '0.01' } });
    const script = answering({ server_tool_use: { web_search_requests: 2 } });
    expect(await charged({ tools: [SEARCH] }, script)).toEqual({ charged: '0.0202', searches: 2 });
    const response = await gateway.post({ ...QUESTION, tools: [ADVISOR] });
    expect(response.status).toBe(400);
  });

  it('is charged at its bound where no usage counts it', async () => {
    await start({ serverTools: { 'openrouter:advisor': { fee: '0.02', atMost: 3 } } });
    expect(await charged({ tools: [ADVISOR, ADVISOR] })).toEqual({ charged: '0.0602', searches: 0 });
  });

  it('is charged at its bound where the provider is known by no preset', async () => {
    await start({ serverTools: { web_search: { fee: '0.02', atMost: 3 } } }, '');
    const script = answering({ server_tool_use: { web_search_requests: 1 } });
    expect(await charged({ tools: [{ type: 'web_search' }] }, script)).toMatchObject({ charged: '0.0602' });
  });

  it('is charged with the markup', async () => {
    const serverTools = { 'openrouter:advisor': { fee: '0.02', atMost: 3 } };
    await start({ serverTools, markup: { factor: '1.5', fee: '0.001' } });
    expect(await charged({ tools: [ADVISOR] })).toMatchObject({ charged: '0.0913' });
  });

  it('is charged on a model whose tokens are free', async () => {
    await start({ pricing: 'free', serverTools: { 'openrouter:advisor': { fee: '0.02', atMost: 1 } } });
    expect(await charged({ tools: [ADVISOR] })).toMatchObject({ charged: '0.02' });
    expect((await gateway.post({ ...QUESTION, tools: [SEARCH] })).status).toBe(400);
  });

  it.each(['clamp', 'strict', 'adaptive'] as const)('is held for, by %s holds', async (holdMode) => {
    const serverTools = { 'openrouter:advisor': { fee: '2', atMost: 3 } };
    gateway = await startGateway({
      holdMode,
      models: { 'acme/fast': { ...MODEL, serverTools } },
      provider: { preset: 'openrouter' },
    });
    const error = await refusal({ tools: [ADVISOR], max_tokens: 16 });
    // Beside the fees the window, of which a provider's tool may fill all: 8,192 tokens, and 16 of output.
    expect(error).toMatchObject({ code: 'insufficient_credits', required: '6.008224' });
  });

  it('is charged at its bound where its client leaves before the usage', async () => {
    await start({ serverTools: { 'openrouter:web_search': { fee: '0.007', atMost: 5 } } });
    const settled = gateway.nextSettled();
    const gone = new AbortController();
    gateway.provider.script = () => {
      gone.abort();
    };
    await expect(gateway.post({ ...QUESTION, tools: [SEARCH] }, { signal: gone.signal })).rejects.toThrow(
      'aborted',
    );
    const { charged: paid, usageSource } = await settled;
    expect(usageSource).toBe('estimated');
    expect(Number(paid)).toBeGreaterThan(0.035);
    expect(Number(paid)).toBeLessThan(0.0351);
  });

  it('must be priced at each target that may answer', async () => {
    const serverTools = { 'openrouter:advisor': { fee: '0.02', atMost: 1 } };
    const dearer = { 'openrouter:advisor': { fee: '0.03', atMost: 1 } };
    gateway = await startGateway({
      models: {
        'acme/fast': { ...MODEL, serverTools },
        dearer: { ...MODEL, serverTools: dearer },
        other: MODEL,
      },
      requestControl: { models: true },
    });
    expect(await refusal({ tools: [ADVISOR], models: ['other'] })).toMatchObject({
      code: 'unpriced_feature',
    });
    expect(await charged({ tools: [ADVISOR], models: ['dearer'] })).toMatchObject({ charged: '0.0202' });
    expect(await charged({ model: 'dearer', tools: [ADVISOR] })).toMatchObject({ charged: '0.0302' });
  });
});

describe('calls that no usage counts', () => {
  it("are Moonshot's $web_search of the answer, whole or streamed", async () => {
    const serverTools = { $web_search: { fee: '0.005', atMost: 5 } };
    await start({ serverTools }, 'moonshot');
    const tools = [{ type: 'builtin_function', function: { name: '$web_search' } }];
    const call = {
      index: 0,
      id: 'c',
      type: 'builtin_function',
      function: { name: '$web_search', arguments: '{}' },
    };
    const whole = completionBody({
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: '', tool_calls: [call] },
          finish_reason: 'tool_calls',
        },
      ],
      usage: COUNTS,
    });
    expect(await charged({ tools }, answerJson(whole))).toEqual({ charged: '0.0052', searches: 1 });
    const chunk = (fields: object): string => `data: ${JSON.stringify(fields)}\n\n`;
    const stream = answerStream([
      chunk({ choices: [{ index: 0, delta: { tool_calls: [call] } }] }),
      chunk({
        choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: '{}' } }] } }],
      }),
      chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }),
      chunk({ choices: [], usage: COUNTS }),
      'data: [DONE]\n\n',
    ]);
    expect(await charged({ tools, stream: true }, stream)).toEqual({ charged: '0.0052', searches: 1 });
    expect(await charged({ tools })).toEqual({ charged: '0.0002', searches: 0 });
  });

  it.each([
    ['by name', { perplexity_search: 2, exa_search: 1 }, 3],
    ['as a list', [{ name: 'perplexity_search' }, { name: 'exa_search' }], 2],
    ['as nonsense', { perplexity_search: -1, exa_search: 1.5 }, 0],
  ])("are those of Vercel's gateway: %s", async (_, gatewayToolCalls, searches) => {
    await start({ serverTools: { 'vercel:perplexity_search': { fee: '0.005', atMost: 5 } } }, 'vercel');
    const message = {
      role: 'assistant',
      content: 'Hi.',
      provider_metadata: { gateway: { cost: '0.0045', gatewayToolCalls } },
    };
    const body = completionBody({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage: COUNTS });
    const told = await charged({ tools: [{ type: 'vercel:perplexity_search' }] }, answerJson(body));
    expect(told.searches).toBe(searches);
    expect(Number(told.charged)).toBe(Number((searches * 0.005 + 0.0002).toFixed(4)));
  });

  it("are counted by Qwen as its plugin's", async () => {
    await start({ serverTools: { enable_search: { fee: '0.01', atMost: 2 } } }, 'qwen');
    const script = answering({ plugins: { search: { count: 1, strategy: 'turbo' } } });
    expect(await charged({ enable_search: true }, script)).toEqual({ charged: '0.0102', searches: 1 });
  });
});

describe('a field that a provider bills', () => {
  it.each(Object.keys(BILLED_FIELDS))('is refused without a price, in any case: %s', async (name) => {
    await start();
    for (const key of [name, name.toUpperCase()]) {
      expect(await refusal({ [key]: {} })).toMatchObject({ code: 'unpriced_feature', param: name });
    }
    const param = `extra_body.${name}`;
    expect(await refusal({ extra_body: { [name]: true } })).toMatchObject({
      code: 'unpriced_feature',
      param,
    });
    const inner = { extra_body: { [name]: 'x' } };
    expect(await refusal({ extra_body: inner })).toMatchObject({ code: 'unpriced_feature', param });
  });

  it.each([
    ['enable_search', false],
    ['enable_search', null],
    ['speed', 'standard'],
    ['search_type', 'fast'],
    ['stream_mode', 'full'],
  ])('passes where it asks for nothing: %s %s', async (name, value) => {
    await start();
    expect(await charged({ [name]: value })).toMatchObject({ charged: '0.0002' });
    expect(gateway.provider.received.at(-1)?.json).toMatchObject({ [name]: value });
  });

  it.each([
    [{ google: { cached_content: 'cachedContents/x' } }, 'google.cached_content'],
    [{ google: { cachedContent: 'cachedContents/x' } }, 'google.cached_content'],
    [{ extra_body: { google: { tools: [{ googleSearch: {} }] } } }, 'google.tools'],
  ])("is refused among Google's own: %j", async (fields, param) => {
    await start();
    expect(await refusal(fields)).toMatchObject({ code: 'unpriced_feature', param });
  });

  it("passes among Google's own where it costs tokens alone", async () => {
    await start();
    expect(
      await charged({ extra_body: { google: { thinking_config: { thinking_budget: 9 } } } }),
    ).toMatchObject({
      charged: '0.0002',
    });
  });

  it('is charged at its bound', async () => {
    await start({ serverTools: { speed: { fee: '0.03', atMost: 1 } } });
    expect(await charged({ speed: 'fast' })).toEqual({ charged: '0.0302', searches: 0 });
  });

  it.each([
    [{ webSearch: '0.01' }, 200],
    [{ request: '0.01' }, 200],
    [{ request: '0' }, 400],
  ])('is priced by these fees, where it is web_search_options: %j', async (fees, status) => {
    await start({ pricing: { input: '1', output: '2', ...fees } }, 'openai');
    expect((await gateway.post({ ...QUESTION, web_search_options: {} })).status).toBe(status);
  });
});

describe('a search of a model that a list prices', () => {
  it('must be covered where a request asks for it', async () => {
    const pricing = { prompt: '0.000001', completion: '0.000002', web_search: '0.01' };
    const list = {
      data: [{ id: 'm', pricing, context_length: 1000, top_provider: { max_completion_tokens: 16 } }],
    };
    gateway = await startGateway(
      { provider: { preset: 'openrouter', models: { prefix: '' } }, models: {} },
      undefined,
      '0.02',
    );
    gateway.provider.script = (response, request) =>
      (request.method === 'GET' ? answerJson(JSON.stringify(list)) : answering({}))(response, request);
    expect((await gateway.post({ ...QUESTION, model: 'm' })).status).toBe(200);
    const response = await gateway.post({ ...QUESTION, model: 'm', tools: [SEARCH] });
    expect(response.status).toBe(402);
    expect(await response.json()).toMatchObject({ error: { required: '0.051032' } });
  });
});

describe('a part of content that a provider bills', () => {
  const PDF = {
    type: 'file',
    file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0x' },
  };
  const body = (...parts: object[]): object => ({ messages: [{ role: 'user', content: parts }] });

  it('is refused without a price there, and served elsewhere', async () => {
    await start();
    expect(await refusal(body(PDF))).toMatchObject({
      code: 'unpriced_feature',
      param: 'messages[0].content',
    });
    await gateway.close();
    await start({}, 'openai');
    expect(await charged(body(PDF))).toMatchObject({ charged: '0.0002' });
  });

  it('is charged for each of them', async () => {
    await start({ serverTools: { file: { fee: '0.002', atMost: 10 } } });
    expect(await charged(body(PDF, PDF))).toMatchObject({ charged: '0.0402' });
  });
});

describe("a file of the operator's account", () => {
  const part = (fields: object): object => ({ messages: [{ role: 'user', content: [fields] }] });
  const FILES: readonly (readonly [string, object])[] = [
    ['a file_id', part({ type: 'file', file: { file_id: 'file-1' } })],
    ['a file_id beside its type', part({ type: 'file', file_id: 'file-1' })],
    ['an image by file_id', part({ type: 'image_url', image_url: { file_id: 'file-1' } })],
    ['a file_id in another part', part({ type: 'input_image', source: { file_id: 'file-1' } })],
    ['ms://', part({ type: 'image_url', image_url: { url: 'ms://cf1' } })],
    ['ms:// without an object', part({ type: 'video_url', video_url: 'MS://cf1' })],
    ['gs://', part({ type: 'image_url', image_url: { url: 'gs://bucket/a.png' } })],
    ['gs:// as a file', part({ type: 'file', file: { file_data: 'gs://bucket/a.pdf' } })],
    [
      'gs:// as sound',
      part({ type: 'input_audio', input_audio: { data: 'gs://bucket/a.wav', format: 'wav' } }),
    ],
    ['oss:// in a list of frames', part({ type: 'video', video: ['oss://a.png'] })],
    [
      "a file of Gemini's",
      part({
        type: 'image_url',
        image_url: { url: 'https://generativelanguage.googleapis.com/v1beta/files/x' },
      }),
    ],
    ['fileid:// in a message', { messages: [{ role: 'system', content: 'fileid://a,fileid://b' }] }],
    [
      'fileid:// in a part',
      { messages: [{ role: 'system', content: [{ type: 'text', text: ' fileid://a' }] }] },
    ],
    ['a cached prompt', { messages: [{ role: 'cache', content: 'tag=x' }] }],
    ['sound that was made before', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }],
  ];

  it.each(FILES)('is refused: %s', async (_, fields) => {
    await start({}, 'openai');
    const { code, param, message } = await refusal({ ...fields });
    expect({ code, param }).toEqual({ code: 'unpriced_feature', param: 'messages[0]' });
    expect(message).toMatch(/^Nothing was sent: files that are stored at a provider/);
  });

  it.each(FILES)('is served with accountFiles: %s', async (_, fields) => {
    await start({ accountFiles: true, contextWindow: 8192 }, 'openai');
    expect(await charged(fields)).toMatchObject({ charged: '0.0002' });
  });

  it('is none where a text only mentions one', async () => {
    await start();
    const content = ['What is fileid://a?', { file_id: null }].map((text) =>
      typeof text === 'string'
        ? { type: 'text', text }
        : { type: 'image_url', image_url: { url: 'https://x.example/a', ...text } },
    );
    expect(await charged({ messages: [{ role: 'user', content }] })).toMatchObject({ charged: '0.0002' });
  });
});

describe("a client's own key", () => {
  it('lets all pass without a fee: its provider bills the client', async () => {
    gateway = await startGateway({
      authenticate: () => ({ account: 'acct', upstreamKeys: { loopback: 'sk-own' } }),
      models: { 'acme/fast': MODEL },
      provider: { preset: 'openrouter' },
    });
    expect(await charged({ tools: [ADVISOR] })).toMatchObject({ charged: '0.0002' });
  });
});
