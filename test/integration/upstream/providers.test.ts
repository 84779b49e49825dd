import { Readable } from 'node:stream';

import nock from 'nock';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type ChatCompletionsRouter, createChatCompletionsRouter, type Settled } from '../../../src/index.ts';
import { variablesOf } from '../../../src/catalog/base-url.ts';
import { PRESETS } from '../../../src/catalog/presets.ts';
import { type Mounted, mountOnNode, PRICING } from '../../helpers/gateway.ts';
import { completionBody, DONE, event, STREAM, text, USAGE } from '../../helpers/provider.ts';

/** What presets leave open, filled in. */
const FILLED: Readonly<Record<string, string>> = {
  resource: 'contoso',
  region: 'us-east-1',
  account: 'acc_1',
  location: 'us-central1',
  project: 'proj-1',
};

/** What each provider says is said by nock, at the provider's own address; nothing leaves this machine. */
describe('a preset', () => {
  let router: ChatCompletionsRouter;
  let mounted: Mounted;
  let client: OpenAI;
  let settled: Settled[];

  beforeAll(() => {
    nock.disableNetConnect();
    nock.enableNetConnect((host) => host.startsWith('127.0.0.1'));
  });

  afterAll(() => {
    nock.enableNetConnect();
    nock.restore();
  });

  beforeEach(async () => {
    settled = [];
    const names = Object.keys(PRESETS);
    router = createChatCompletionsRouter({
      store: 'memory:',
      providers: Object.fromEntries(
        names.map((name) => [name, { apiKey: `sk-${name}`, variables: variablesFor(name) }]),
      ),
      models: Object.fromEntries(
        names.map((name) => [
          name,
          { targets: [`${name}/their/model:1`], pricing: PRICING, maxOutputTokens: 100 },
        ]),
      ),
      hooks: { onSettled: (event) => settled.push(event) },
    });
    const { key } = await router.keys.create({ account: 'acct' });
    await router.credits.grant('acct', '5.00', { id: 'welcome' });
    mounted = await mountOnNode(router);
    client = new OpenAI({ baseURL: mounted.baseURL, apiKey: key, maxRetries: 0 });
  });

  afterEach(async () => {
    await mounted.close();
    await router.close();
    expect(nock.pendingMocks()).toEqual([]);
    nock.cleanAll();
  });

  const ask = (model: string): Promise<OpenAI.ChatCompletion> =>
    client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }] });

  async function readStream(model: string): Promise<string> {
    const stream = await client.chat.completions.create({
      model,
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
    });
    let content = '';
    for await (const chunk of stream) content += chunk.choices[0]?.delta?.content ?? '';
    return content;
  }

  it.each(Object.entries(PRESETS))(
    '%s is asked at its address, with its key and its model',
    async (name, preset) => {
      const { origin, pathname } = addressOf(preset);
      const header = preset.auth?.header ?? 'authorization';
      const key = preset.auth ? `sk-${name}` : `Bearer sk-${name}`;
      nock(origin, { reqheaders: { [header]: key } })
        .post(pathname, {
          model: 'their/model:1',
          messages: [{ role: 'user', content: 'Hi' }],
        })
        .query({ ...preset.query })
        .reply(200, completionBody(), { 'content-type': 'application/json' });
      const completion = await ask(name);
      expect(completion.choices[0]?.message.content).toBe('Hello there.');
      expect(settled).toMatchObject([
        { provider: name, upstreamModel: 'their/model:1', charged: '0.000045' },
      ]);
    },
  );

  it.each(Object.entries(PRESETS))(
    '%s is asked for usage in a stream where it takes that',
    async (name, preset) => {
      const isAsked = !['cerebras', 'groq', 'mistral', 'openrouter', 'perplexity', 'sambanova'].includes(
        name,
      );
      const { origin, pathname } = addressOf(preset);
      nock(origin)
        .post(pathname, (body: Record<string, unknown>) => 'stream_options' in body === isAsked)
        .query({ ...preset.query })
        .reply(200, () => Readable.from(STREAM.map((piece) => Buffer.from(piece))), {
          'content-type': 'text/event-stream',
        });
      expect(await readStream(name)).toBe('Hello there.');
      expect(settled).toMatchObject([{ charged: '0.000045', usageSource: 'upstream' }]);
    },
  );

  it('openai is asked for the usage of a stream, and its extra event is kept from the client', async () => {
    nock('https://api.openai.com')
      .post('/v1/chat/completions', (body: Record<string, unknown>) => 'stream_options' in body)
      .reply(200, () => Readable.from(STREAM.map((piece) => Buffer.from(piece))), {
        'content-type': 'text/event-stream',
      });
    expect(await readStream('openai')).toBe('Hello there.');
    expect(settled).toMatchObject([{ charged: '0.000045', usageSource: 'upstream' }]);
  });

  it('mistral, which refuses the option, is not asked; its usage comes on the last chunk', async () => {
    const last = event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: USAGE });
    nock('https://api.mistral.ai')
      .post('/v1/chat/completions', (body: Record<string, unknown>) => !('stream_options' in body))
      .reply(200, () => Readable.from([text('Bonjour'), last, DONE].map((piece) => Buffer.from(piece))), {
        'content-type': 'text/event-stream',
      });
    expect(await readStream('mistral')).toBe('Bonjour');
    expect(settled).toMatchObject([{ charged: '0.000045', usageSource: 'upstream' }]);
  });

  it('groq tells usage under a name of its own as well: it counts once', async () => {
    const last = event({
      choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
      x_groq: { id: 'req_1', usage: USAGE },
    });
    nock('https://api.groq.com')
      .post('/openai/v1/chat/completions')
      .reply(200, () => Readable.from([text('Hi'), last, DONE].map((piece) => Buffer.from(piece))), {
        'content-type': 'text/event-stream',
      });
    await readStream('groq');
    expect(settled).toMatchObject([{ charged: '0.000045', usageSource: 'upstream' }]);
  });

  it('xai counts reasoning beside the completion: it is charged as output', async () => {
    const usage = {
      prompt_tokens: 9,
      completion_tokens: 2,
      total_tokens: 21,
      completion_tokens_details: { reasoning_tokens: 10 },
    };
    nock('https://api.x.ai')
      .post('/v1/chat/completions')
      .reply(200, completionBody({ usage }), { 'content-type': 'application/json' });
    await ask('xai');
    expect(settled).toMatchObject([
      { charged: '0.000045', usage: { completionTokens: 12, reasoningTokens: 10 } },
    ]);
  });

  it('perplexity counts up in every chunk, in CRLF, and sends no [DONE]', async () => {
    const counting = [1, 5, 12].map((completion) =>
      event({
        choices: [{ index: 0, delta: { content: 'x' }, finish_reason: completion === 12 ? 'stop' : null }],
        usage: { prompt_tokens: 9, completion_tokens: completion, total_tokens: 9 + completion },
      }).replaceAll('\n', '\r\n'),
    );
    nock('https://api.perplexity.ai')
      .post('/chat/completions')
      .reply(200, () => Readable.from(counting.map((piece) => Buffer.from(piece))), {
        'content-type': 'text/event-stream',
      });
    expect(await readStream('perplexity')).toBe('xxx');
    expect(settled).toMatchObject([{ charged: '0.000045', usageSource: 'upstream', ending: 'finished' }]);
  });

  it('deepseek’s empty lines before a JSON answer do not hide its usage', async () => {
    const usage = { ...USAGE, prompt_cache_hit_tokens: 4, prompt_cache_miss_tokens: 5 };
    nock('https://api.deepseek.com')
      .post('/v1/chat/completions')
      .reply(200, `\n\n\n${completionBody({ usage })}`, { 'content-type': 'application/json' });
    await ask('deepseek');
    expect(settled).toMatchObject([{ charged: '0.0000414', usage: { cachedTokens: 4 } }]);
  });
});

/** Of its chat completions, for the model of these tests. */
function addressOf({ baseURL }: { readonly baseURL: string }): URL {
  let address = baseURL.replace('{model}', 'their%2Fmodel%3A1');
  for (const [name, value] of Object.entries(FILLED)) address = address.replaceAll(`{${name}}`, value);
  return new URL(`${address}/chat/completions`);
}

function variablesFor(name: string): Record<string, string> {
  const names = [...variablesOf(PRESETS[name]?.baseURL ?? '')];
  return Object.fromEntries(names.map((variable) => [variable, FILLED[variable] ?? '']));
}
