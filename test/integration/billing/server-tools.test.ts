import { afterEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import {
  ADVISOR,
  answering,
  charged,
  COUNTS,
  gateway,
  MODEL,
  refusal,
  SEARCH,
  settled,
  start,
  startWith,
} from '../../helpers/billed-apart.ts';
import { answerJson, answerStream, completionBody } from '../../helpers/provider.ts';

afterEach(() => gateway.close());

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
    [{ x: { fee: '0.01', cost: '-1', atMost: 5 } }, 'models["m"].serverTools["x"].cost must be'],
    [{ x: { fee: '0.01', most: 5 } }, 'models["m"].serverTools["x"] has an unknown key "most"'],
    [{ 'openrouter:*': { fee: '0.01', atMost: 5 } }, 'models["m"].serverTools must be named after'],
    [{ function: { fee: '0.01', atMost: 5 } }, 'models["m"].serverTools must be named after'],
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
    ['no type', '"tools":[{"google_search":{}}]', 'tools[0].google_search'],
    ['nothing', '"tools":[{}]', 'tools[0].type'],
    [
      'a member beside a function',
      '"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"},"google_search":{}}]',
      'tools[1].google_search',
    ],
    [
      'a member before a function',
      '"tools":[{"google_search":{},"function":{"name":"g"},"type":"function"}]',
      'tools[0].google_search',
    ],
    [
      'a member of a function',
      '"tools":[{"type":"function","function":{"name":"g","code_execution":true}}]',
      'tools[0].function.code_execution',
    ],
    ['a member of a function of old', '"functions":[{"name":"g","retrieval":{}}]', 'functions[0].retrieval'],
    [
      'a member of a kilobyte',
      `"tools":[{"type":"function","function":{"name":"g"},"${'x'.repeat(2000)}":{}}]`,
      `tools[0].${'x'.repeat(64)}`,
    ],
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
      'Nothing was sent: this model has no price for "openrouter:advisor", which its provider may bill separately.',
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

  it('is none of what describes a function, nor what says nothing', async () => {
    await start();
    const described = { name: 'a', description: 'b', strict: true, parameters: { type: 'object', mcp: {} } };
    const tools = [
      { type: 'function', function: described, cache_control: { type: 'ephemeral' }, google_search: null },
      { type: 'custom', custom: { name: 'c', format: { type: 'text' } } },
    ];
    expect(await charged({ tools, functions: [described] })).toEqual({ charged: '0.0002', searches: 0 });
  });

  it('is priced by its member, of which each needs a price; a type of its own has any members', async () => {
    const fee = { fee: '0.01', atMost: 2 };
    await start({ serverTools: { google_search: fee, code_execution: fee, web_search_x: fee } });
    const tool = { type: 'function', function: { name: 'f' }, google_search: {} };
    expect(await charged({ tools: [tool] })).toMatchObject({ charged: '0.0202' });
    expect(await charged({ tools: [{ ...tool, code_execution: {} }] })).toMatchObject({ charged: '0.0402' });
    expect(await charged({ tools: [{ type: 'web_search_x', engine: 'a' }] })).toMatchObject({
      charged: '0.0202',
    });
    const response = await gateway.post({ ...QUESTION, tools: [{ ...tool, url_context: {} }] });
    expect(await response.json()).toMatchObject({ error: { param: 'tools[0].url_context' } });
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

  it('is charged the prompts of all steps, as the usage sums them', async () => {
    await start({ serverTools: { 'openrouter:web_search': { fee: '0', atMost: 1 } } });
    const script = answering({ prompt_tokens: 100_000 });
    expect(await charged({ tools: [SEARCH] }, script)).toMatchObject({ charged: '0.1001' });
    const endless = answering({ prompt_tokens: 1_000_000_000 });
    expect(await charged({ tools: [SEARCH] }, endless)).toMatchObject({ charged: '0.24586' });
    expect(await charged({}, script)).toMatchObject({ charged: '0.008292' });
  });

  it('is charged what was written to a cache, where the prompt or the searches are more than can be', async () => {
    const pricing = { input: '1', output: '2', cacheWriteInput: '1.25', webSearch: '0.001' };
    await start({ pricing });
    const written = { prompt_tokens_details: { cache_write_tokens: 80 } };
    // 20 × 1,000 + 80 × 1,250 + 50 × 2,000, and 1,000 searches.
    const endless = answering({ ...written, server_tool_use: { web_search_requests: 5000 } });
    expect(await charged({}, endless)).toEqual({ charged: '1.00022', searches: 1000 });
    // 192 × 1,000 + 8,000 × 1,250 + 50 × 2,000.
    const long = answering({ prompt_tokens: 10_000, prompt_tokens_details: { cache_write_tokens: 8000 } });
    expect(await charged({}, long)).toMatchObject({ charged: '0.010292' });
  });

  it('is charged at its own fee, in place of that for a search', async () => {
    const serverTools = { 'openrouter:web_search': { fee: '0.007', atMost: 5 } };
    await start({ serverTools, pricing: { input: '1', output: '2', webSearch: '0.01' } });
    const script = answering({ server_tool_use: { web_search_requests: 2 } });
    expect(await charged({ tools: [SEARCH] }, script)).toEqual({ charged: '0.0142', searches: 2 });
    expect(await charged({}, script)).toEqual({ charged: '0.0202', searches: 2 });
  });

  it.each<[string, object, object, string | undefined]>([
    ['its own cost, as often as it is counted', { fee: '0.007', cost: '0.004' }, {}, '0.0121'],
    ['that of a search, where it has none', { fee: '0.007' }, { webSearch: '0.005' }, '0.0151'],
    ['its own before that of a search', { fee: '0.007', cost: '0.004' }, { webSearch: '1' }, '0.0121'],
    ['nothing that is known, without both', { fee: '0.007' }, {}, undefined],
  ])('costs its operator %s', async (_, fees, costs, cost) => {
    const tokens = { input: '0.5', output: '1' };
    await start({
      targets: [{ provider: 'loopback', model: 'm', cost: { ...tokens, ...costs } }],
      serverTools: { 'openrouter:web_search': { fee: '0', atMost: 5, ...fees } },
    });
    const script = answering({ server_tool_use: { web_search_requests: 3 } });
    expect((await settled({ tools: [SEARCH] }, script)).cost).toBe(cost);
  });

  it('costs its operator its bound where no usage counts it', async () => {
    await start({
      targets: [{ provider: 'loopback', model: 'm', cost: { input: '0.5', output: '1' } }],
      serverTools: { 'openrouter:advisor': { fee: '0.02', cost: '0.01', atMost: 3 } },
    });
    expect(await settled({ tools: [ADVISOR] })).toMatchObject({ charged: '0.0602', cost: '0.0301' });
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

  it.each<[string, object, string]>([
    ['more than its bound', { tool_calls_executed: 30 }, '0.3002'],
    ['fewer', { tool_calls_requested: 3, tool_calls_executed: 1 }, '0.0102'],
    ['none', { tool_calls_executed: 0 }, '0.0002'],
    ['more than is plausible', { tool_calls_executed: 5000 }, '10.0002'],
    ['some that may be searches', { tool_calls_executed: 3, web_search_requests: 2 }, '0.0202'],
    ['some that cannot all be searches', { tool_calls_executed: 30, web_search_requests: 2 }, '0.2802'],
    ['fewer than its bound, with searches', { tool_calls_executed: 1, web_search_requests: 2 }, '0.0102'],
    ['requests only', { tool_calls_requested: 30 }, '0.0202'],
  ])('is charged as often as it was executed, if it was the only tool: %s', async (_, counts, charge) => {
    const serverTools = { 'openrouter:web_fetch': { fee: '0.01', atMost: 2 } };
    await start({ serverTools }, 'openrouter', '20.00');
    const script = answering({ server_tool_use: counts });
    expect(await charged({ tools: [{ type: 'openrouter:web_fetch' }] }, script)).toMatchObject({
      charged: charge,
    });
  });

  it('is charged as often as it was executed, without the searches of another tool', async () => {
    const serverTools = {
      'openrouter:web_fetch': { fee: '0.01', atMost: 2 },
      'openrouter:web_search': { fee: '0.007', atMost: 5 },
    };
    await start({ serverTools });
    const script = answering({ server_tool_use: { tool_calls_executed: 7, web_search_requests: 2 } });
    expect(await charged({ tools: [{ type: 'openrouter:web_fetch' }, SEARCH] }, script)).toEqual({
      charged: '0.0642',
      searches: 2,
    });
  });

  it.each([
    ['of several tools', ['openrouter:advisor', 'openrouter:web_fetch'], '0.0302'],
    ["of another provider's tool", ['advisor_20260301'], '0.0102'],
    ['of any other tool of OpenRouter', ['openrouter:new'], '0.3002'],
  ])('is charged by a count of all calls only if that is its own: %s', async (_, types, charge) => {
    const fee = { fee: '0.01', atMost: 1 };
    const serverTools = {
      'openrouter:advisor': fee,
      'openrouter:web_fetch': { ...fee, atMost: 2 },
      'openrouter:new': fee,
      advisor_20260301: fee,
    };
    await start({ serverTools });
    const script = answering({ server_tool_use: { tool_calls_executed: 30 } });
    expect(await charged({ tools: types.map((type) => ({ type })) }, script)).toMatchObject({
      charged: charge,
    });
  });

  it.each([
    ['counts', 20, '0.0202'],
    ['does not count', 0, '0.0052'],
  ])(
    'is charged once for searches that usage %s, at the fee of the tool or of a search',
    async (_, n, charge) => {
      const pricing = { input: '1', output: '2', webSearch: '0.001' };
      const script = answering({ server_tool_use: { web_search_requests: n } });
      await start({ pricing, serverTools: { some_search: { fee: '0.001', atMost: 5 } } }, '');
      expect(await charged({ tools: [{ type: 'some_search' }] }, script)).toMatchObject({ charged: charge });
    },
  );

  it('is charged once for searches that usage counts as calls, too', async () => {
    const pricing = { input: '1', output: '2', webSearch: '0.001' };
    await start({ pricing, serverTools: { 'openrouter:x_search': { fee: '0.01', atMost: 5 } } });
    const script = answering({ server_tool_use: { tool_calls_executed: 3, web_search_requests: 3 } });
    expect(await charged({ tools: [{ type: 'openrouter:x_search' }] }, script)).toMatchObject({
      charged: '0.0302',
    });
  });

  it('is charged beside the searches, if it searches files', async () => {
    const pricing = { input: '1', output: '2', webSearch: '0.001' };
    await start({ pricing, serverTools: { file_search: { fee: '0.001', atMost: 5 } } }, '');
    const script = answering({ server_tool_use: { web_search_requests: 20 } });
    expect(await charged({ tools: [{ type: 'file_search' }] }, script)).toMatchObject({ charged: '0.0252' });
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
    await startWith({
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
    await startWith({
      models: {
        'acme/fast': { ...MODEL, serverTools },
        dearer: { ...MODEL, serverTools: dearer },
        other: MODEL,
      },
      clientRouting: { models: true },
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
