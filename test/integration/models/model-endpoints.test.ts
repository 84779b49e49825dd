import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, type Provider, startProvider } from '../../helpers/provider.ts';

const BUSY = answerJson('{"error":{"message":"busy"}}', 503);

let us: Provider;
let eu: Provider;
let gateway: Gateway;

beforeEach(async () => {
  [us, eu] = await Promise.all([startProvider(), startProvider()]);
  await start();
});

afterEach(async () => {
  await gateway.close();
  await Promise.all([us.close(), eu.close()]);
});

async function start(options: Partial<ChatCompletionsRouterOptions> = {}): Promise<void> {
  await gateway?.close();
  gateway = await startGateway({
    clientRouting: true,
    retries: { perTarget: 0 },
    health: { failures: 1 },
    providers: {
      us: { baseURL: us.baseURL, apiKey: 'sk-us' },
      eu: { baseURL: eu.baseURL, apiKey: 'sk-eu' },
    },
    models: {
      'acme/fast': {
        targets: [
          { provider: 'us', model: 'their-own-name', labels: { region: 'us' } },
          {
            provider: 'eu',
            model: 'their-own-name',
            pricing: { input: '2', output: '6', cachedInput: '0.2' },
            labels: { region: 'eu', quantization: 'fp8' },
            supportedParameters: ['tools', 'seed'],
          },
        ],
        aliases: ['fast'],
        pricing: { input: '1', output: '3' },
        contextWindow: 8192,
        maxOutputTokens: 1000,
        name: 'Fast',
        created: 1_754_524_800,
        inputModalities: ['text', 'image'],
      },
      'acme/endpoints': { targets: ['us/x'], pricing: 'free' },
      acme: { targets: ['us/x'], pricing: 'free' },
      'any/*': { targets: ['us/*'], pricing: 'free' },
    },
    ...options,
  });
}

interface Shown {
  readonly tag: string;
  readonly latency_last_30m: object;
  readonly throughput_last_30m: object;
}

interface Read {
  readonly status: number;
  readonly body: { readonly data: { readonly endpoints: readonly Shown[] } };
}

async function read(path: string, key = gateway.key): Promise<Read> {
  const headers = key === '' ? {} : { authorization: `Bearer ${key}` };
  const response = await fetch(`${gateway.baseURL}${path}`, { headers });
  return { status: response.status, body: (await response.json()) as Read['body'] };
}

describe('GET /models/{id}/endpoints', () => {
  it('shows the targets of a model in OpenRouter’s form, and not the provider’s name for it', async () => {
    const { status, body } = await read('/models/acme/fast/endpoints');
    expect(status).toBe(200);
    expect(body).toEqual({
      data: {
        id: 'acme/fast',
        name: 'Fast',
        created: 1_754_524_800,
        description: '',
        architecture: {
          modality: 'text+image->text',
          input_modalities: ['text', 'image'],
          output_modalities: ['text'],
          tokenizer: null,
          instruct_type: null,
        },
        endpoints: [
          expect.objectContaining({
            name: 'us | acme/fast',
            provider_name: 'us',
            quantization: 'unknown',
            supported_parameters: [],
            supports_implicit_caching: false,
          }),
          {
            name: 'eu | acme/fast',
            model_id: 'acme/fast',
            model_name: 'Fast',
            provider_name: 'eu',
            tag: 'eu',
            context_length: 8192,
            max_completion_tokens: 1000,
            max_prompt_tokens: null,
            pricing: {
              input: '0.000002',
              output: '0.000006',
              prompt: '0.000002',
              completion: '0.000006',
              input_cache_read: '0.0000002',
            },
            quantization: 'fp8',
            supported_parameters: ['tools', 'seed'],
            status: 0,
            uptime_last_5m: null,
            uptime_last_30m: null,
            uptime_last_1d: null,
            supports_implicit_caching: true,
            supports_tool_choice: { auto: false, function: false, none: false, required: false },
            latency_last_30m: null,
            throughput_last_30m: null,
          },
        ],
      },
    });
    expect(JSON.stringify(body)).not.toContain('their-own-name');
  });

  it('shows how they did: uptime, latency, throughput, and which are ejected', async () => {
    us.script = BUSY;
    const settled = gateway.nextSettled();
    await (await gateway.post(QUESTION)).text();
    await settled;
    const { body } = await read('/models/acme/fast/endpoints');
    const [ofUs, ofEu] = body.data.endpoints;
    expect(ofUs).toMatchObject({ status: -5, uptime_last_5m: 0, uptime_last_30m: 0, latency_last_30m: null });
    expect(ofEu).toMatchObject({ status: 0, uptime_last_5m: 100, uptime_last_30m: 100 });
    for (const each of [ofEu?.latency_last_30m ?? {}, ofEu?.throughput_last_30m ?? {}]) {
      expect(Object.keys(each)).toEqual(['p50', 'p75', 'p90', 'p99']);
      for (const value of Object.values(each)) expect(value).toBeGreaterThan(0);
    }
  });

  it.each([
    ['an alias', '/models/fast/endpoints', 'acme/fast'],
    ['an encoded ID', '/models/acme%2Ffast/endpoints', 'acme/fast'],
    ['a slash at the end', '/models/acme/fast/endpoints/', 'acme/fast'],
    ['a model of a wildcard', '/models/any/thing/endpoints', 'any/thing'],
    ['a model that is named endpoints', '/models/acme/endpoints/endpoints', 'acme/endpoints'],
  ])('takes %s', async (_name, path, id) => {
    expect(await read(path)).toMatchObject({ status: 200, body: { data: { id } } });
  });

  it('is the record of a model that is so named', async () => {
    expect(await read('/models/acme/endpoints')).toMatchObject({
      status: 200,
      body: { id: 'acme/endpoints', object: 'model' },
    });
  });

  it('has the caller’s prices, and only targets that it may use', async () => {
    const { key } = await gateway.router.keys.create({
      account: 'acct',
      require: { region: 'eu' },
      markup: { factor: '2' },
    });
    const { body } = await read('/models/acme/fast/endpoints', key);
    expect(body.data.endpoints).toMatchObject([{ tag: 'eu', pricing: { prompt: '0.000004' } }]);
  });

  it.each([
    ['an unknown model', '/models/acme/none/endpoints', {}],
    ['a model that the key may not use', '/models/acme/fast/endpoints', { models: ['any/*'] }],
  ])('is a 404 for %s', async (_name, path, policy) => {
    const { key } = await gateway.router.keys.create({ account: 'acct', ...policy });
    expect(await read(path, key)).toMatchObject({
      status: 404,
      body: { error: { code: 'model_not_found' } },
    });
  });

  it.each([false, { models: true }])(
    'is a 403 that says so with clientRouting: %j',
    async (clientRouting) => {
      await start({ clientRouting });
      const all = ['/models/acme/fast/endpoints', '/models/acme/none/endpoints'];
      for (const path of all) {
        expect(await read(path)).toMatchObject({
          status: 403,
          body: {
            error: {
              code: 'endpoints_hidden',
              message: expect.stringContaining('does not show the providers'),
            },
          },
        });
      }
    },
  );

  it('needs a key, unless its model is public', async () => {
    expect((await read('/models/acme/fast/endpoints', '')).status).toBe(401);
    await start({ publicModels: ['acme/fast'] });
    expect((await read('/models/acme/fast/endpoints', '')).status).toBe(200);
    expect((await read('/models/acme/endpoints/endpoints', '')).status).toBe(404);
    await start({ publicModels: ['acme/fast'], clientRouting: false });
    expect((await read('/models/acme/fast/endpoints', '')).status).toBe(403);
  });

  it('takes no other method', async () => {
    const response = await fetch(`${gateway.baseURL}/models/acme/fast/endpoints`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
    });
    expect(response.status).toBe(405);
  });
});
