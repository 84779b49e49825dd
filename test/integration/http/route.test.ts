import { afterEach, describe, expect, it } from 'vitest';

import type { HookCaller, ResponseEnded, RouteFacts } from '../../../src/index.ts';
import { type Gateway, type GatewayOptions, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';

const MODELS = {
  'acme/small': { targets: ['loopback/small'], pricing: PRICING, maxOutputTokens: 100 },
  'acme/large': {
    targets: ['loopback/large'],
    pricing: { input: '10', output: '30' },
    maxOutputTokens: 1000,
  },
};

let gateway: Gateway;
let responses: ResponseEnded[] = [];

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
});

async function start(options: GatewayOptions): Promise<void> {
  responses = [];
  const hooks = [{ onResponse: (ended: ResponseEnded) => responses.push(ended) }];
  gateway = await startGateway({ models: MODELS, hooks, ...options });
}

function sentModel(): unknown {
  return JSON.parse(gateway.provider.received[0]?.body.toString() ?? '{}').model;
}

async function codeOf(answer: Response): Promise<string> {
  const { error } = (await answer.json()) as { error: { code: string } };
  return `${answer.status} ${error.code}`;
}

describe('route', () => {
  it('names the model by its caller and what is known of the request', async () => {
    const seen: [RouteFacts, HookCaller][] = [];
    await start({
      dimensions: { user: true, tags: ['feature'] },
      route: (facts, caller) => {
        seen.push([facts, caller]);
        return undefined;
      },
    });
    const body = {
      ...QUESTION,
      model: 'acme/small',
      stream: true,
      user: 'u-1',
      metadata: { feature: 'search' },
    };
    gateway.provider.script = answerStream(STREAM);
    const headers = { 'x-plan': 'pro', cookie: 'session=secret', 'x-api-key': 'secret' };
    const answer = await gateway.post(body, { headers });
    await answer.text();
    const [[facts, caller] = []] = seen;
    expect(facts).toMatchObject({
      requestId: answer.headers.get('x-request-id'),
      model: 'acme/small',
      stream: true,
      bytes: JSON.stringify(body).length,
      headers: { 'x-plan': 'pro', 'content-type': 'application/json' },
    });
    expect(facts?.promptTokens).toBeGreaterThan(5);
    expect(Object.keys(facts?.headers ?? {})).not.toContain('authorization');
    expect(JSON.stringify(facts?.headers)).not.toContain('secret');
    expect(caller).toMatchObject({ account: 'acct', user: 'u-1', tags: { feature: 'search' } });
    expect(responses[0]).toMatchObject({ hookCalls: [{ hook: 'route', result: 'passed' }] });
  });

  it('is priced, sent and recorded as the model that it names, which the client need not know', async () => {
    await start({ route: async ({ promptTokens }) => (promptTokens > 1000 ? 'acme/large' : 'acme/small') });
    const settled = gateway.nextSettled();
    const answer = await gateway.post({ ...QUESTION, model: 'auto' });
    expect(answer.status).toBe(200);
    expect(sentModel()).toBe('small');
    // 9 x 1,000 + 12 x 3,000 nano-dollars.
    expect(await settled).toMatchObject({ model: 'acme/small', charged: '0.000045' });
    expect(responses[0]).toMatchObject({
      model: 'acme/small',
      hookCalls: [{ hook: 'route', result: 'changed' }],
    });
  });

  it('may name the model that the provider calls as the client called another', async () => {
    await start({
      models: { ...MODELS, large: { ...MODELS['acme/small'], targets: ['loopback/asked'] } },
      route: () => 'acme/large',
    });
    await gateway.post({ ...QUESTION, model: 'asked' });
    expect(sentModel()).toBe('large');
  });

  it('leaves the answer with the name that the client asked for, where answers say ours', async () => {
    await start({ answer: { model: 'ours' }, route: () => 'acme/small' });
    const answer = await gateway.post({ ...QUESTION, model: 'auto' });
    expect(await answer.json()).toMatchObject({ model: 'auto' });
  });

  it('gives a key no model that its own list forbids, and needs no leave for the name that was asked for', async () => {
    await start({ route: ({ model }) => (model === 'auto' ? 'acme/small' : 'acme/large') });
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['acme/small'] });
    const headers = { authorization: `Bearer ${key}` };
    expect((await gateway.post({ ...QUESTION, model: 'auto' }, { headers })).status).toBe(200);
    const refused = await gateway.post({ ...QUESTION, model: 'acme/small' }, { headers });
    expect(await codeOf(refused)).toBe('403 model_not_allowed');
  });

  it('that names no model is a 404 for that name', async () => {
    await start({ route: () => 'acme/none' });
    const answer = await gateway.post({ ...QUESTION, model: 'acme/small' });
    expect(await answer.json()).toMatchObject({
      error: { code: 'model_not_found', message: expect.stringContaining('acme/none') },
    });
  });

  it('comes before the guard, which sees the model that it named', async () => {
    const models: string[] = [];
    await start({
      route: () => 'acme/small',
      guard: ({ model }) => {
        models.push(model);
        return undefined;
      },
    });
    await gateway.post({ ...QUESTION, model: 'auto' });
    expect(models).toEqual(['acme/small']);
    const [ended] = responses;
    expect(ended?.hookCalls?.map(({ hook }) => hook)).toEqual(['route', 'guard']);
  });
});

describe('a route that fails', () => {
  it.each<[string, () => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('no plans');
      },
      /^no plans$/,
    ],
    ['hangs', async () => new Promise(() => {}), /^The route hook returned nothing within 20 ms\.$/],
    ['names nothing', () => '', /characters, or undefined, got ""$/],
    ['returns an object', () => ({ model: 'acme/small' }), /characters, or undefined, got \{"model":"acme/],
    [
      'returns a name without end',
      () => 'm'.repeat(257),
      /^route must return the ID of a model, of 1 to 256/,
    ],
  ])('%s: the client gets a 503, or with onError pass what it asked for', async (_, run, message) => {
    // @ts-expect-error -- what no typed app returns
    await start({ route: { run, timeoutMs: 20 } });
    const refused = await gateway.post({ ...QUESTION, model: 'acme/small' });
    expect(await codeOf(refused)).toBe('503 route_unavailable');
    expect(gateway.errors[0]?.cause).toMatchObject({ message: expect.stringMatching(message) });
    await gateway.close();

    // @ts-expect-error -- what no typed app returns
    await start({ route: { run, timeoutMs: 20, onError: 'pass' } });
    expect((await gateway.post({ ...QUESTION, model: 'acme/small' })).status).toBe(200);
    expect(sentModel()).toBe('small');
    expect(gateway.errors).toMatchObject([{ code: 'route_unavailable' }]);
  });
});
