import { gzipSync } from 'node:zlib';

import { afterEach, describe, expect, it } from 'vitest';

import { type AnswerOptions, createChatCompletionsRouter, type ProviderOptions } from '../../../src/index.ts';
import { PRESET_FIELDS } from '../../../src/catalog/preset-fields.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  completionBody,
  DONE,
  event,
  STREAM,
  text,
  USAGE,
} from '../../helpers/provider.ts';

let gateway: Gateway;

afterEach(async () => {
  await gateway?.close();
});

const MODEL = {
  targets: ['loopback/upstream-model'],
  pricing: PRICING,
  contextWindow: 8192,
  maxOutputTokens: 1000,
};

async function start(
  answer: AnswerOptions | undefined,
  provider: Partial<ProviderOptions> = {},
  ofModel?: AnswerOptions,
): Promise<void> {
  gateway = await startGateway({
    ...(answer && { answer }),
    provider,
    models: { 'acme/fast': { ...MODEL, aliases: ['fast'], ...(ofModel && { answer: ofModel }) } },
  });
}

async function settled(): Promise<string | undefined> {
  const [first] = gateway.settled;
  return (first ?? (await gateway.nextSettled())).charged;
}

interface Chunk {
  readonly model: string;
  readonly choices: readonly { readonly delta: { readonly content: string } }[];
  readonly usage: { readonly cost: number };
}

function eventsOf(stream: string): Chunk[] {
  return stream
    .split('\n\n')
    .filter((each) => each.startsWith('data: {'))
    .map((each): Chunk => JSON.parse(each.slice(6)));
}

/** The JSON of an answer with one more member, at the end of a path. */
function withMember(json: string, [step = '', ...rest]: readonly string[]): string {
  const name = step.replace('[]', '');
  const object: Record<string, unknown> = JSON.parse(json);
  const own = step.endsWith('[]') ? [object[name]].flat()[0] : object[name];
  const inner: unknown =
    rest.length === 0 ? 'SHOWN' : JSON.parse(withMember(JSON.stringify(own ?? {}), rest));
  return JSON.stringify({ ...object, [name]: step.endsWith('[]') ? [inner] : inner });
}

/** What each preset that shows the operator's cost sends, and what its clients get of that. */
const TOLD: readonly [preset: string, fields: object, seen: object][] = [
  [
    'openrouter',
    {
      provider: 'Acme',
      user_id: 'user_1',
      error: {
        message: 'no',
        metadata: { raw: '{}', provider_name: 'Acme', is_byok: true, remedy_hint: 'x' },
      },
      choices: [
        { index: 0, finish_reason: 'stop', native_finish_reason: 'STOP', message: { content: 'Hi' } },
      ],
      usage: { ...USAGE, cost: 1e-5, is_byok: false, cost_details: { upstream_inference_cost: null } },
    },
    {
      error: { message: 'no', metadata: {} },
      choices: [{ index: 0, finish_reason: 'stop', message: { content: 'Hi' } }],
      usage: USAGE,
    },
  ],
  [
    'perplexity',
    { usage: { ...USAGE, search_context_size: 'low', cost: { total_cost: 0.02, request_cost: 0.01 } } },
    { usage: { ...USAGE, search_context_size: 'low' } },
  ],
  [
    'vercel',
    {
      generationId: 'gen_1',
      providerMetadata: { gateway: { cost: '0.0045' } },
      choices: [
        {
          index: 0,
          finish_reason: 'stop',
          message: {
            content: 'Hi',
            provider_metadata: { gateway: { cost: '0.1' }, acme: { signature: 'x' } },
          },
        },
      ],
      usage: { ...USAGE, cost: 0.1, market_cost: 0.2, is_byok: true, cost_details: {} },
    },
    {
      providerMetadata: {},
      choices: [
        {
          index: 0,
          finish_reason: 'stop',
          message: { content: 'Hi', provider_metadata: { acme: { signature: 'x' } } },
        },
      ],
      usage: USAGE,
    },
  ],
  [
    'xai',
    { system_fingerprint: 'fp', usage: { ...USAGE, cost_in_usd_ticks: 123_456 } },
    { system_fingerprint: 'fp', usage: USAGE },
  ],
];

describe('a preset that tells what an answer costs the operator', () => {
  it('is one of these', () => {
    const names = Object.keys(PRESET_FIELDS).filter((name) => PRESET_FIELDS[name]?.shows?.cost);
    expect(names).toEqual(TOLD.map(([name]) => name));
  });

  it.each(TOLD)('tells it no client, unless it may: %s', async (preset, fields, seen) => {
    const more = { ...fields };
    await start(undefined, { preset });
    gateway.provider.script = answerJson(completionBody(more));
    expect(await (await gateway.post(QUESTION)).text()).toBe(completionBody({ ...seen }));
    const last = event({ ...more });
    gateway.provider.script = answerStream([': PROCESSING\n\n', text('Hi', 'stop'), last, DONE]);
    const asked = { ...QUESTION, stream: true, stream_options: { include_usage: true } };
    const stream = await (await gateway.post(asked)).text();
    const comment = PRESET_FIELDS[preset]?.shows?.supplier ? ':\n\n' : ': PROCESSING\n\n';
    expect(stream).toBe(comment + text('Hi', 'stop') + event({ ...seen }) + DONE);
  });

  it.each(TOLD)('tells it where the host says so: %s', async (preset, fields) => {
    await start({ cost: 'theirs', provider: 'show' }, { preset });
    const body = completionBody({ ...fields });
    gateway.provider.script = answerJson(body);
    const response = await gateway.post(QUESTION);
    expect(await response.text()).toBe(body);
  });

  it('is not told by the length of the answer either', async () => {
    await start(undefined, { preset: 'openrouter' });
    const body = completionBody({ provider: 'Acme' });
    gateway.provider.script = answerJson(body, 200, { 'content-length': body.length });
    const response = await gateway.post(QUESTION);
    expect(response.headers.get('content-length')).toBeNull();
    expect(await response.text()).toBe(completionBody());
  });

  it('hides in an error who failed', async () => {
    await start(undefined, { preset: 'openrouter' });
    const error = {
      message: 'no',
      code: 400,
      metadata: { provider_name: 'Acme', raw: '{}', reasons: ['x'] },
    };
    gateway.provider.script = answerJson(JSON.stringify({ error }), 400);
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({ error: { ...error, metadata: { reasons: ['x'] } } });
  });
});

describe('every preset', () => {
  const rows = Object.entries(PRESET_FIELDS).filter(([, { shows }]) => shows);

  it.each(rows)(
    'shows nothing of what it is known to show, with answer: hide: %s',
    async (preset, { shows }) => {
      await start({ provider: 'hide', cost: 'hide' }, { preset, auth: { header: 'authorization' } });
      const paths = [...new Set([...(shows?.cost ?? []), ...(shows?.supplier ?? [])])];
      const answer = paths.reduce((whole, path) => withMember(whole, path.split('.')), completionBody());
      expect(answer.split('SHOWN')).toHaveLength(paths.length + 1);
      gateway.provider.script = answerJson(answer);
      const response = await gateway.post(QUESTION);
      const body = await response.text();
      expect(body).not.toContain('SHOWN');
      expect(JSON.parse(body)).toMatchObject(JSON.parse(completionBody()));
    },
  );
});

describe("model: 'ours'", () => {
  it.each(['acme/fast', 'fast'])('is what the client asked for, in every event: %s', async (model) => {
    await start({ model: 'ours' });
    gateway.provider.script = answerStream(STREAM);
    const stream = await (await gateway.post({ ...QUESTION, model, stream: true })).text();
    const wanted = STREAM.filter((each) => !each.includes('"usage"')).join('');
    expect(stream).toBe(wanted.replaceAll('"upstream-model"', JSON.stringify(model)));
    gateway.provider.script = answerJson(completionBody());
    expect(await (await gateway.post({ ...QUESTION, model })).text()).toBe(completionBody({ model }));
  });

  it('is the ID of the model that answered, of several', async () => {
    gateway = await startGateway({
      clientRouting: true,
      answer: { model: 'ours' },
      models: {
        a: { ...MODEL, targets: ['gone/x'] },
        b: MODEL,
      },
      retries: { perTarget: 0 },
      providers: {
        gone: { baseURL: 'http://127.0.0.1:9/v1', apiKey: 'k' },
        loopback: { baseURL: 'http://127.0.0.1:9/v1', apiKey: 'k' },
      },
    });
    const { provider } = gateway;
    gateway.router.reload({
      providers: {
        gone: { baseURL: 'http://127.0.0.1:9/v1', apiKey: 'k' },
        loopback: { baseURL: provider.baseURL, apiKey: 'k' },
      },
    });
    const response = await gateway.post({ ...QUESTION, model: 'a', models: ['b'] });
    expect(await response.json()).toMatchObject({ model: 'b' });
  });

  it("may be a model's own, over the router's", async () => {
    await start({ model: 'ours', cost: 'ours' }, {}, { model: 'theirs' });
    expect(await (await gateway.post(QUESTION)).json()).toMatchObject({
      model: 'upstream-model',
      usage: { cost: 0.000045 },
    });
  });
});

describe("cost: 'ours'", () => {
  const OPENROUTER = { ...USAGE, cost: 0.7, cost_details: { upstream_inference_cost: 0.6 } };

  it.each([
    ['where none was told', USAGE],
    ['in place of theirs', OPENROUTER],
  ])('is what the journal charges, in JSON %s', async (_where, usage) => {
    await start({ cost: 'ours' });
    gateway.provider.script = answerJson(completionBody({ usage }));
    const body = await (await gateway.post(QUESTION)).text();
    expect(body).toContain(`,"cost":${await settled()}}`);
    expect(JSON.parse(body)).toEqual(JSON.parse(completionBody({ usage: { ...USAGE, cost: 0.000045 } })));
  });

  it('is the same where usage comes first', async () => {
    gateway = await startGateway({ answer: { cost: 'ours' } });
    const body = `{"usage":${JSON.stringify(OPENROUTER)},"choices":[{"message":{"content":"Hi"}}]}`;
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const send = (at: number): void => {
        if (at === body.length) response.end();
        else response.write(body[at], () => setImmediate(send, at + 1));
      };
      send(0);
    };
    const response = await gateway.post(QUESTION);
    expect(await response.text()).toBe(
      `{"usage":${JSON.stringify(USAGE).slice(0, -1)},"cost":0.000045},"choices":[{"message":{"content":"Hi"}}]}`,
    );
    expect(await settled()).toBe('0.000045');
  });

  it.each([
    ['on an event of its own', [event({ choices: [], usage: OPENROUTER })]],
    ['without a blank line after it', [event({ choices: [], usage: OPENROUTER }).trimEnd()]],
    [
      'growing on each',
      [1, 5, 12].map((done) => event({ choices: [], usage: { ...USAGE, completion_tokens: done } })),
    ],
  ])('is what the journal charges, in a stream that tells usage %s', async (_where, usage) => {
    await start({ cost: 'ours' });
    gateway.provider.script = answerStream([...STREAM.slice(0, -2), ...usage]);
    const asked = { ...QUESTION, stream: true, stream_options: { include_usage: true } };
    const told = eventsOf(await (await gateway.post(asked)).text()).at(-1);
    expect(told?.usage).toEqual({ ...USAGE, cost: Number(await settled()) });
    expect(told?.usage.cost).toBe(0.000045);
  });

  it('comes in no event that the client did not ask for', async () => {
    await start({ cost: 'ours' });
    gateway.provider.script = answerStream(STREAM);
    const stream = await (await gateway.post({ ...QUESTION, stream: true })).text();
    expect(stream).toBe(STREAM.filter((each) => !each.includes('"usage"')).join(''));
  });

  it('has all the digits of a nano-dollar', async () => {
    gateway = await startGateway({
      answer: { cost: 'ours' },
      models: { 'acme/fast': { ...MODEL, pricing: { input: '0.123456', output: '1234.567891' } } },
    });
    const body = await (await gateway.post(QUESTION)).text();
    expect(body).toContain(`"cost":${await settled()}}`);
    expect(await settled()).toMatch(/\.\d{9}$/);
  });

  it('is of an answer that came compressed', async () => {
    await start({ cost: 'ours', provider: 'hide', model: 'ours' });
    const packed = gzipSync(completionBody({ provider: 'Acme', usage: OPENROUTER }));
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(packed);
    };
    const usage = { ...USAGE, cost: 0.000045 };
    expect(await (await gateway.post(QUESTION)).json()).toEqual(
      JSON.parse(completionBody({ model: 'acme/fast', usage })),
    );
  });

  it('makes no cut answer look finished', async () => {
    await start({ cost: 'ours' });
    const body = completionBody({ usage: OPENROUTER });
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(body.slice(0, -1));
    };
    const read = gateway.post(QUESTION).then((response) => response.text());
    await expect(read).rejects.toThrow(/terminated|fetch failed/);
  });

  it('comes through holds that grow', async () => {
    gateway = await startGateway({ answer: { cost: 'ours', model: 'ours' }, holdMode: 'adaptive' });
    gateway.provider.script = answerStream([text('x'.repeat(100_000)), ...STREAM.slice(-3)]);
    const asked = { ...QUESTION, stream: true, stream_options: { include_usage: true } };
    const events = eventsOf(await (await gateway.post(asked)).text());
    expect(events.map(({ model }) => model)).toEqual(events.map(() => 'acme/fast'));
    expect(events[0]?.choices[0]?.delta.content).toHaveLength(100_000);
    expect(events.at(-1)?.usage.cost).toBe(Number(await settled()));
  });
});

describe('the option answer', () => {
  it.each([
    [{ answer: 'ours' }, 'answer must be an object, got a string'],
    [{ answer: { model: 'mine' } }, 'answer.model must be one of ours, theirs, got "mine"'],
    [{ answer: { provider: true } }, 'answer.provider must be one of hide, show, got true'],
    [{ answer: { cost: 'show' } }, 'answer.cost must be one of ours, hide, theirs, got "show"'],
    [{ answer: { price: 'hide' } }, 'answer has an unknown key "price"; it takes model, provider, cost'],
    [{ models: { x: { ...MODEL, answer: { cost: null } } } }, 'models["x"].answer.cost must be one of'],
  ])('must be right: %j', async (options, message) => {
    gateway = await startGateway();
    const providers = { loopback: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'k' } };
    const all = { providers, models: {}, ...options } as never;
    expect(() => createChatCompletionsRouter(all)).toThrow(message);
    expect(() => createChatCompletionsRouter(all)).toThrow(TypeError);
  });

  it('leaves all bytes as they are where it is not given', async () => {
    await start(undefined);
    const body = completionBody({ provider: 'Acme', usage: { ...USAGE, cost: 1 } });
    gateway.provider.script = answerJson(body);
    expect(await (await gateway.post(QUESTION)).text()).toBe(body);
  });
});
