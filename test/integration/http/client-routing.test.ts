import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { spliceRequest } from '../../../src/http/chat-request.ts';
import { scanWhole } from '../../../src/http/scan-request.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';
import { runs } from '../../helpers/runs.ts';

const NAMES = ['first', 'second', 'third'] as const;
const BUSY = answerJson('{"error":{"message":"busy"}}', 503);
const CONTROLS = new Set(['models', 'provider']);
const DEARER = { input: '2', output: '6' };

let providers: Record<(typeof NAMES)[number], Provider>;
let gateway: Gateway;

beforeEach(async () => {
  const [first, second, third] = await Promise.all([startProvider(), startProvider(), startProvider()]);
  providers = { first, second, third };
  await start(true);
});

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
  for (const provider of Object.values(providers)) await provider.close();
});

/** `acme/fast` at two providers, and `acme/smart`, twice as dear, at two. */
async function start(clientRouting: boolean | { models?: boolean; provider?: boolean }): Promise<void> {
  await gateway?.close();
  gateway = await startGateway({
    clientRouting,
    retries: { perTarget: 0 },
    providers: Object.fromEntries(
      NAMES.map((name) => [name, { baseURL: providers[name].baseURL, apiKey: `sk-${name}` }]),
    ),
    models: {
      'acme/fast': {
        targets: ['first/fast-1', 'second/fast-2'],
        aliases: ['acme/quick'],
        pricing: PRICING,
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
      'acme/smart': {
        targets: ['third/smart-3', 'second/smart-2'],
        pricing: DEARER,
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
    },
  });
}

/** Whom a request was sent to, and for which model, in order. */
function asked(): string[] {
  return NAMES.flatMap((name) =>
    providers[name].received.map(({ body }) => {
      const { model } = JSON.parse(body.toString()) as { model: string };
      return `${name}/${model}`;
    }),
  );
}

describe('models of a request’s own choice', () => {
  it('are asked after its model, and the one that answers is charged and named', async () => {
    providers.first.script = BUSY;
    providers.second.script = (response, request) =>
      (request.body.includes('fast') ? BUSY : answerJson(completionBody()))(response, request);
    providers.third.script = BUSY;
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, models: ['acme/fast', 'acme/smart'] });
    expect(response.status).toBe(200);
    expect(asked().sort()).toEqual(['first/fast-1', 'second/fast-2', 'second/smart-2', 'third/smart-3']);
    // 9 × 2,000 + 12 × 6,000 nano-dollars
    expect(await settled).toMatchObject({
      model: 'acme/smart',
      provider: 'second',
      upstreamModel: 'smart-2',
      charged: '0.00009',
    });
  });

  it('are held for: the dearest of them', async () => {
    const held: string[] = [];
    providers.first.script = async (response, request) => {
      held.push((await gateway.router.credits.balance('acct')).held);
      await answerJson(completionBody())(response, request);
    };
    await gateway.post({ ...QUESTION, max_tokens: 100 });
    await gateway.post({ ...QUESTION, max_tokens: 100, models: ['acme/smart'] });
    const [alone, together] = held.map(Number);
    expect(together).toBeCloseTo(Number(alone) * 2, 9);
  });

  it('are asked once, whatever they are called', async () => {
    for (const name of NAMES) providers[name].script = BUSY;
    const models = ['acme/fast', 'acme/quick:floor', 'acme/fast:nitro'];
    expect((await gateway.post({ ...QUESTION, model: 'acme/quick', models })).status).toBe(503);
    expect(asked()).toEqual(['first/fast-1', 'second/fast-2']);
  });

  it('are a 404 where one does not exist, and no provider is asked', async () => {
    const response = await gateway.post({ ...QUESTION, models: ['acme/smart', 'acme/none'] });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: 'model_not_found' } });
    expect(asked()).toEqual([]);
  });
});

describe('providers of a request’s own choice', () => {
  it.each<[string, object, string[]]>([
    ['order', { provider: { order: ['second'] } }, ['second/fast-2']],
    ['order, in capitals', { provider: { order: ['SECOND', 'first'] } }, ['second/fast-2']],
    ['only', { provider: { only: ['second'] } }, ['second/fast-2']],
    ['ignore', { provider: { ignore: ['first'] } }, ['second/fast-2']],
    ['null', { models: null, provider: null }, ['first/fast-1']],
    [
      'a model where the first is ignored',
      { models: ['acme/smart'], provider: { only: ['third'] } },
      ['third/smart-3'],
    ],
  ])('are asked by %s', async (_name, control, expected) => {
    expect((await gateway.post({ ...QUESTION, ...control })).status).toBe(200);
    expect(asked()).toEqual(expected);
  });

  it.each<[string, object, string[]]>([
    ['those of order', { order: ['second'], allow_fallbacks: false }, ['second/fast-2']],
    ['the first one', { allow_fallbacks: false }, ['first/fast-1']],
    ['all', { order: ['second'] }, ['first/fast-1', 'second/fast-2']],
  ])('may say who else is asked: %s', async (_name, provider, expected) => {
    for (const name of NAMES) providers[name].script = BUSY;
    expect((await gateway.post({ ...QUESTION, provider })).status).toBe(503);
    expect(asked()).toEqual(expected);
  });

  it('lower the hold where the dearest is left out', async () => {
    const held: string[] = [];
    providers.first.script = async (response, request) => {
      held.push((await gateway.router.credits.balance('acct')).held);
      await answerJson(completionBody())(response, request);
    };
    const models = ['acme/smart'];
    await gateway.post({ ...QUESTION, max_tokens: 100, models });
    await gateway.post({ ...QUESTION, max_tokens: 100, models, provider: { only: ['first'] } });
    const [both, one] = held.map(Number);
    expect(both).toBeCloseTo(Number(one) * 2, 9);
  });

  it.each<[string, object, string, string]>([
    ['nobody knows', { provider: { order: ['fourth'] } }, 'provider_not_found', 'provider'],
    ['does not serve the model', { provider: { only: ['third'] } }, 'provider_not_available', 'provider'],
    ['are all ignored', { provider: { ignore: ['first', 'second'] } }, 'provider_not_available', 'provider'],
    ['is no string', { provider: { only: [1] } }, 'invalid_type', 'provider.only'],
    ['is not in a list', { provider: { only: 'first' } }, 'invalid_type', 'provider.only'],
    ['is sorted by luck', { provider: { sort: 'luck' } }, 'invalid_type', 'provider.sort'],
    [
      'is in two forms',
      { provider: { only: ['first'] }, providerOptions: { gateway: { only: ['first'] } } },
      'ambiguous_parameter',
      'provider',
    ],
    [
      'has options of its own',
      { providerOptions: { first: {} } },
      'unsupported_parameter',
      'providerOptions',
    ],
    ['may not be spelled so', { Provider: { only: ['first'] } }, 'ambiguous_parameter', 'provider'],
    [
      'is in too long a list',
      { provider: { only: Array.from({ length: 33 }, () => 'first') } },
      'invalid_type',
      'provider.only',
    ],
    ['has an endless name', { provider: { only: ['x'.repeat(20_000)] } }, 'invalid_type', 'provider'],
    [
      'is hidden in extra_body',
      { extra_body: { provider: {} } },
      'unsupported_parameter',
      'extra_body.provider',
    ],
  ])('are a 400 where one %s, and nobody is asked', async (_name, control, code, param) => {
    const response = await gateway.post({ ...QUESTION, ...control });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code, param } });
    expect(asked()).toEqual([]);
  });
});

describe('what a request may choose', () => {
  it.each<[string, boolean | { models?: boolean; provider?: boolean }, object]>([
    ['nothing, unless the host says so', false, { provider: { only: ['first'] } }],
    ['no models where only providers may be', { provider: true }, { models: ['acme/smart'] }],
    ['no providers where only models may be', { models: true }, { provider: {} }],
  ])('is %s', async (_name, clientRouting, control) => {
    await start(clientRouting);
    const response = await gateway.post({ ...QUESTION, ...control });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: 'unsupported_parameter' } });
    expect(asked()).toEqual([]);
  });

  it('is one of three things', () => {
    const options = { providers: {}, models: {}, clientRouting: { route: true } as object };
    expect(() => createChatCompletionsRouter(options)).toThrow('clientRouting has an unknown key "route"');
  });
});

describe('what goes to the provider', () => {
  it('is the client’s own bytes but for the fields that were for us', async () => {
    const body =
      '{ "models" : ["acme/smart"] , "provider":{"order":["first"]}, "seed":12345678901234567890,\n' +
      '"model":"acme/fast"\t,"messages":[],"temperature": 1.0 }';
    await gateway.post(body);
    expect(providers.first.received[0]?.body.toString()).toBe(
      '{   "seed":12345678901234567890,\n"model":"fast-1"\t,"messages":[],"temperature": 1.0 }',
    );
  });

  it('is the same JSON without them, wherever they stand and whatever else is edited', async () => {
    const member = fc.constantFrom<[string, unknown]>(
      ['models', ['a', 'b,}"']],
      ['provider', { only: ['x'], y: [{}, []] }],
      ['stream', true],
      ['max_tokens', 500],
      ['seed', 7],
      ['user', ',"provider":1'],
    );
    const space = fc.constantFrom('', ' ', '\n\t', '\r\n  ');
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(member, { selector: ([name]) => name }),
        fc.nat(),
        fc.nat(),
        fc.array(space, { minLength: 4, maxLength: 4 }),
        async (members, modelAt, messagesAt, [a, b, c, d]) => {
          const all = [...members];
          all.splice(modelAt % (all.length + 1), 0, ['model', 'm']);
          all.splice(messagesAt % (all.length + 1), 0, ['messages', []]);
          const written = all.map(([name, value]) => `${a}"${name}"${b}:${c}${JSON.stringify(value)}${d}`);
          const body = Buffer.from(`{${written.join(',')}}`);
          const request = await scanWhole(body, { clientRouting: CONTROLS });
          const at = body.length >> 1;
          const halves = [body.subarray(0, at), body.subarray(at)];
          const spliced = spliceRequest(halves, request, {
            model: 'upstream',
            includeUsage: true,
            outputLimit: { field: 'max_completion_tokens', tokens: 9, inserts: true, moves: true },
          });
          const kept: Record<string, unknown> = Object.fromEntries(
            all.filter(([name]) => !CONTROLS.has(name) && name !== 'max_tokens'),
          );
          expect(JSON.parse(Buffer.concat(spliced).toString())).toEqual({
            ...kept,
            model: 'upstream',
            max_completion_tokens: 9,
            ...('stream' in kept && { stream_options: { include_usage: true } }),
          });
        },
      ),
      { numRuns: runs(2000) },
    );
  });
});
