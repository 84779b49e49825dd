import { afterEach, describe, expect, it } from 'vitest';
import { createCatalog } from '../../../src/catalog/catalog.ts';
import { assertPriced } from '../../../src/catalog/server-tools.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { BILLED_FIELDS } from '../../../src/http/billed-fields.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import {
  ADVISOR,
  answering,
  charged,
  gateway,
  MODEL,
  refusal,
  SEARCH,
  start,
  startWith,
} from '../../helpers/billed-apart.ts';
import { answerJson } from '../../helpers/provider.ts';

afterEach(() => gateway.close());

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
    await startWith(
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

  it.each(['', 'mistral'])('is a document that is read by OCR, at the preset %j', async (preset) => {
    const document = { type: 'document_url', document_url: 'https://x.example/a.pdf' };
    await start({}, preset);
    expect(await refusal(body(document))).toMatchObject({ code: 'unpriced_feature' });
    await gateway.close();
    await start({ serverTools: { document_url: { fee: '0.002', atMost: 10 } } }, preset);
    expect(await charged(body(document))).toMatchObject({ charged: '0.0202' });
  });

  it.each([
    ['https://openrouter.ai/api/v1', false],
    ['https://api.x.ai/v1', false],
    ['https://api.openai.com/v1', true],
    ['https://gateway.example/v1', true],
  ])('is known by the host where no preset is said: a file at %s', async (baseURL, isSold) => {
    await start();
    const options = {
      store: 'memory:',
      providers: { mine: { baseURL, apiKey: 'k' } },
      models: { m: { ...MODEL, targets: ['mine/m'] } },
    };
    const model = createCatalog(options, resolveSettings(options)).get('m')!;
    const asked = [{ name: 'file', kind: 'part', path: 'messages[0].content', times: 1 }] as const;
    const sell = (): void => assertPriced(asked, model);
    if (isSold) expect(sell).not.toThrow();
    else expect(sell).toThrow('"file"');
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
    expect(message).toMatch(/^Nothing was sent: this model can't use files that are stored at a provider/);
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
    await startWith({
      authenticate: () => ({ account: 'acct', upstreamKeys: { loopback: 'sk-own' } }),
      models: { 'acme/fast': MODEL },
      provider: { preset: 'openrouter' },
    });
    expect(await charged({ tools: [ADVISOR] })).toMatchObject({ charged: '0.0002' });
  });
});
