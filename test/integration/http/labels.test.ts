import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions, CreateApiKey, LabelRequirements } from '../../../src/index.ts';
import { clientsOf, type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';

const BUSY = answerJson('{"error":{"message":"busy"}}', 503);
const SECRET = 'a secret of at least 32 characters';

let us: Provider;
let eu: Provider;
let gateway: Gateway;

beforeEach(async () => {
  [us, eu] = await Promise.all([startProvider(), startProvider()]);
  await start();
});

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
  await Promise.all([us.close(), eu.close()]);
});

/** `acme/fast` in the US and, twice as dear, in the EU; `acme/plain` in the US, without labels. */
async function start(options: Partial<ChatCompletionsRouterOptions> = {}): Promise<void> {
  await gateway?.close();
  gateway = await startGateway({
    clientRouting: true,
    sessions: { secret: SECRET },
    retries: { perTarget: 0 },
    providers: {
      us: { baseURL: us.baseURL, apiKey: 'sk-us' },
      eu: { baseURL: eu.baseURL, apiKey: 'sk-eu' },
    },
    models: {
      'acme/fast': {
        targets: [
          { provider: 'us', model: 'fast', labels: { region: 'us', training: true, quantization: 'fp16' } },
          {
            provider: 'eu',
            model: 'fast',
            pricing: { input: '2', output: '6' },
            labels: { region: 'eu', zdr: true, training: false, quantization: 'fp8' },
          },
        ],
        pricing: PRICING,
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
      'acme/plain': { targets: ['us/plain'], pricing: PRICING, maxOutputTokens: 1000 },
    },
    ...options,
  });
}

type Post = Gateway['post'];

async function keyWith(policy: Omit<CreateApiKey, 'account'>): Promise<Post> {
  const { key } = await gateway.router.keys.create({ account: 'acct', ...policy });
  return clientsOf(gateway.baseURL, key).post;
}

function asked(): { us: number; eu: number } {
  return { us: us.received.length, eu: eu.received.length };
}

async function errorOf(response: Response): Promise<object> {
  const { error } = (await response.json()) as { error: object };
  return { status: response.status, ...error };
}

describe('labels that are required', () => {
  const ways: readonly [string, (require: LabelRequirements) => Promise<Post>][] = [
    ['a key', (require) => keyWith({ require })],
    [
      'an account',
      async (require) => {
        await gateway.router.accounts.update('acct', { require });
        return clientsOf(gateway.baseURL, gateway.key).post;
      },
    ],
    [
      'a session',
      (require) => {
        const { session } = gateway.router.sessions.create({
          account: 'acct',
          maxSpend: '1.00',
          ttlMs: 60_000,
          origins: ['https://chat.example.com'],
          require,
        });
        return Promise.resolve(clientsOf(gateway.baseURL, session).post);
      },
    ],
    [
      'authenticate',
      async (require) => {
        await start({ authenticate: () => ({ account: 'acct', require }) });
        await gateway.router.credits.grant('acct', '5.00', { id: 'more' });
        return clientsOf(gateway.baseURL, gateway.key).post;
      },
    ],
    [
      'a request',
      (require) => Promise.resolve((body) => gateway.post({ ...Object(body), provider: { require } })),
    ],
  ];

  it.each(ways)('by %s choose the target, and its price', async (_name, postWith) => {
    const post = await postWith({ region: ['ch', 'eu'], zdr: true });
    const settled = gateway.nextSettled();
    expect((await post(QUESTION)).status).toBe(200);
    // 9 × 2,000 + 12 × 6,000 nano-dollars
    expect(await settled).toMatchObject({ provider: 'eu', charged: '0.00009' });
    expect(asked()).toEqual({ us: 0, eu: 1 });
  });

  it.each(ways)('by %s are a 404 where no target has them', async (name, postWith) => {
    const post = await postWith({ region: 'eu' });
    const by = /key|account|request/.exec(name)?.[0] ?? 'key';
    const says = `region=eu of the ${by} excludes 1 of 1`;
    expect(await errorOf(await post({ ...QUESTION, model: 'acme/plain' }))).toMatchObject({
      status: 404,
      code: 'no_matching_target',
      param: 'model',
      message: expect.stringContaining(`No target of "acme/plain" has all that is required: ${says}`),
    });
    expect(asked()).toEqual({ us: 0, eu: 0 });
  });

  it('by a key and its account hold together', async () => {
    await gateway.router.accounts.update('acct', { require: { training: false } });
    const post = await keyWith({ require: { region: 'us' } });
    expect(await errorOf(await post(QUESTION))).toMatchObject({
      code: 'no_matching_target',
      message:
        'No target of "acme/fast" has all that is required: region=us of the key excludes 1 of 2; training=false of the account excludes 1 of 2.',
    });
  });

  it('name providers to a client that may choose among them', async () => {
    const response = await gateway.post({ ...QUESTION, provider: { zdr: true, quantizations: ['fp16'] } });
    expect(await errorOf(response)).toMatchObject({
      message: expect.stringContaining(
        'zdr=true of the request excludes 1 of 2 (us); quantization=fp16 of the request excludes 1 of 2 (eu).',
      ),
    });
  });

  it('are held for alone', async () => {
    const held: string[] = [];
    const script: Provider['script'] = async (response, request) => {
      held.push((await gateway.router.credits.balance('acct')).held);
      await answerJson(completionBody())(response, request);
    };
    us.script = script;
    eu.script = script;
    const body = { ...QUESTION, max_tokens: 100 };
    for (const region of ['us', 'eu']) await (await keyWith({ require: { region } }))(body);
    const [cheap, dear] = held.map(Number);
    expect(dear).toBeCloseTo(Number(cheap) * 2, 9);
  });

  it('keep a failover among the targets that have them', async () => {
    eu.script = BUSY;
    const post = await keyWith({ require: { region: 'eu' } });
    expect((await post(QUESTION)).status).toBe(503);
    expect(asked()).toEqual({ us: 0, eu: 1 });
  });

  it('of a key that changes count for its next request', async () => {
    const { key, id } = await gateway.router.keys.create({ account: 'acct' });
    const { post } = clientsOf(gateway.baseURL, key);
    await post(QUESTION);
    await gateway.router.keys.update('acct', id, { require: { region: 'eu' } });
    await post(QUESTION);
    expect(asked()).toEqual({ us: 1, eu: 1 });
    expect(await gateway.router.keys.get('acct', id)).toMatchObject({ require: { region: 'eu' } });
    await gateway.router.keys.update('acct', id, { require: null });
    await post(QUESTION);
    expect(asked()).toEqual({ us: 2, eu: 1 });
  });
});

describe('what a request requires, in OpenRouter’s words', () => {
  it.each<[string, object, 'us' | 'eu']>([
    ['zdr', { zdr: true }, 'eu'],
    ['no zdr', { zdr: false }, 'us'],
    ['data_collection', { data_collection: 'deny' }, 'eu'],
    ['data_collection that is allowed', { data_collection: 'allow' }, 'us'],
    ['quantizations', { quantizations: ['int4', 'fp8'] }, 'eu'],
    ['a price above both', { max_price: { prompt: 2, completion: 6 } }, 'us'],
    ['nulls', { zdr: null, data_collection: null, quantizations: null, max_price: null }, 'us'],
    ['the first that matches', { zdr: true, allow_fallbacks: false }, 'eu'],
    ['a price below one', { order: ['eu'], max_price: { prompt: '1' } }, 'us'],
  ])('chooses targets: %s', async (_name, provider, expected) => {
    expect((await gateway.post({ ...QUESTION, provider })).status).toBe(200);
    expect(asked()).toEqual({ us: 0, eu: 0, [expected]: 1 });
    const [request] = [...us.received, ...eu.received];
    expect(JSON.parse(String(request?.body))).not.toHaveProperty('provider');
  });

  it.each<[string, object]>([
    ['prompt', { prompt: 0.999_999 }],
    ['completion', { completion: '2.99' }],
  ])('is a 404 where every target is dearer: %s', async (_name, price) => {
    const response = await gateway.post({ ...QUESTION, provider: { max_price: price } });
    expect(await errorOf(response)).toMatchObject({
      status: 404,
      message: expect.stringContaining('max_price of the request excludes 2 of 2 (us, eu).'),
    });
  });

  it('counts the markup of the key', async () => {
    const post = await keyWith({ markup: { factor: '1.5' } });
    const provider = { max_price: { prompt: 1.4 } };
    expect((await post({ ...QUESTION, provider })).status).toBe(404);
    expect((await gateway.post({ ...QUESTION, provider })).status).toBe(200);
  });

  it.each<[object, string, string]>([
    [{ zdr: 'true' }, 'invalid_type', 'provider.zdr'],
    [{ data_collection: 'no' }, 'invalid_type', 'provider.data_collection'],
    [{ quantizations: 'fp8' }, 'invalid_type', 'provider.quantizations'],
    [{ quantizations: [] }, 'invalid_type', 'provider.quantizations'],
    [{ quantizations: ['x'.repeat(65)] }, 'invalid_type', 'provider.quantizations'],
    [{ require: { zdr: 'yes' } }, 'invalid_type', 'provider.require'],
    [{ max_price: { prompt: -1 } }, 'invalid_type', 'provider.max_price.prompt'],
    [{ max_price: { prompt: '' } }, 'invalid_type', 'provider.max_price.prompt'],
    [{ max_price: { image: 1 } }, 'unsupported_parameter', 'provider.max_price'],
    [{ experimental: true }, 'unsupported_parameter', 'provider'],
  ])('is a 400 that names what cannot be required: %j', async (provider, code, param) => {
    const response = await gateway.post({ ...QUESTION, provider });
    expect(await errorOf(response)).toMatchObject({ status: 400, code, param });
    expect(asked()).toEqual({ us: 0, eu: 0 });
  });

  it.each<[object | string, string]>([
    [{ region: 'eu', zdr: 'yes' }, 'The field provider.require.zdr must be a boolean, got "yes".'],
    [
      { Region: 'eu' },
      'The field provider.require must be named with 1 to 32 lowercase letters, digits and _, beginning with a letter, got "Region".',
    ],
    ['eu', 'The field provider.require must be an object of labels, got "eu".'],
  ])('is a 400 that says what is wrong with a label: %j', async (require, message) => {
    const response = await gateway.post({ ...QUESTION, provider: { require } });
    expect(await errorOf(response)).toMatchObject({ status: 400, param: 'provider.require', message });
  });

  it('is a 400 where clients may not choose', async () => {
    await start({ clientRouting: { models: true } });
    const response = await gateway.post({ ...QUESTION, provider: { zdr: true } });
    expect(await errorOf(response)).toMatchObject({ status: 400, code: 'unsupported_parameter' });
  });
});
