import { afterEach, describe, expect, it } from 'vitest';

import type { ModelOptions, ReloadOptions } from '../../../src/index.ts';
import { type Gateway, PRICING, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, beginStream, completionBody, DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';

const BUSY = answerJson('{"error":{"message":"busy","type":"server_error","param":null,"code":null}}', 503);
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: PRICING,
  contextWindow: 8192,
  maxOutputTokens: 1000,
};
/** Twice the price: 9 × 2,000 + 12 × 6,000 nano-dollars. */
const DEARER: ModelOptions = { ...MODEL, pricing: { input: '2', output: '6' } };

describe('router.reload', () => {
  let gateway: Gateway;

  afterEach(() => gateway.close());

  async function ids(): Promise<string[]> {
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  }

  const provider = (apiKey = PROVIDER_KEY): NonNullable<ReloadOptions['providers']> => ({
    loopback: { baseURL: gateway.provider.baseURL, apiKey, onDisconnect: 'abort' },
  });

  it('puts the models that are given in place of all others, at once', async () => {
    gateway = await startGateway();
    gateway.router.reload({ models: { 'acme/new': MODEL, 'acme/other': MODEL } });
    expect(await ids()).toEqual(['acme/new', 'acme/other']);
    expect((await gateway.fetch('/models/acme/fast')).status).toBe(404);
    expect((await gateway.post(QUESTION)).status).toBe(404);
    expect((await gateway.post({ ...QUESTION, model: 'acme/new' })).status).toBe(200);
  });

  it('keeps the models where only providers are given, and asks at their new address', async () => {
    gateway = await startGateway();
    gateway.router.reload({ providers: provider('sk-another') });
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(gateway.provider.received[0]?.headers.authorization).toBe('Bearer sk-another');
  });

  it('lets a running request end as it began, at its price', async () => {
    gateway = await startGateway();
    let finish = (): void => {};
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await new Promise<void>((resolve) => (finish = resolve));
      response.end(text('.', 'stop') + USAGE_EVENT + DONE);
    };
    const settled = gateway.nextSettled();
    const running = await gateway.post({ ...QUESTION, stream: true });
    gateway.router.reload({ providers: {}, models: {} });
    expect(await ids()).toEqual([]);
    finish();
    expect(await running.text()).toContain('[DONE]');
    expect(await settled).toMatchObject({ charged: '0.000045', model: 'acme/fast' });
  });

  it('charges the next request by the new price', async () => {
    gateway = await startGateway();
    gateway.router.reload({ models: { 'acme/fast': DEARER } });
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.00009' });
  });

  it.each<[string, unknown]>([
    ['models["acme/fast"].pricing is missing', { models: { 'acme/fast': { ...MODEL, pricing: undefined } } }],
    ['models["a"].targets[0].provider must be one of providers', { providers: {}, models: { a: MODEL } }],
    ['models["acme/fast"].targets[0].provider must be one of providers', { providers: {} }],
    ['reload has an unknown key "store"', { store: 'memory:' }],
    ['reload must be an object', 'models'],
    ['models must be an object', { models: [] }],
  ])('refuses what can’t be right, and changes nothing: %s', async (message, changes) => {
    gateway = await startGateway();
    expect(() => gateway.router.reload(changes as ReloadOptions)).toThrow(message);
    expect(await ids()).toEqual(['acme/fast']);
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });

  it('remembers how the targets of a provider do that is the same, tells of those that models have, and forgets another provider’s', async () => {
    gateway = await startGateway({ retries: false, health: { failures: 1, coolDownMs: 60_000 } });
    gateway.provider.script = BUSY;
    await gateway.post(QUESTION);
    gateway.router.reload({ providers: provider(), models: { 'acme/fast': DEARER } });
    expect(gateway.router.health()).toMatchObject([{ provider: 'loopback', state: 'ejected' }]);
    gateway.router.reload({ models: { 'acme/fast': { ...DEARER, targets: ['loopback/other'] } } });
    expect(gateway.router.health()).toEqual([]);
    gateway.router.reload({ models: { 'acme/fast': DEARER } });
    expect(gateway.router.health()).toMatchObject([{ provider: 'loopback', state: 'ejected' }]);
    gateway.router.reload({ providers: provider('sk-another') });
    expect(gateway.router.health()).toEqual([]);
  });

  it('remembers which key of a provider that is the same was refused', async () => {
    gateway = await startGateway();
    const keys = { baseURL: gateway.provider.baseURL, apiKeys: ['sk-dead', 'sk-good'] };
    gateway.router.reload({ providers: { loopback: keys } });
    gateway.provider.script = (response, request) => {
      const dead = request.headers.authorization === 'Bearer sk-dead';
      return (dead ? answerJson('{}', 401) : answerJson(completionBody()))(response, request);
    };
    await gateway.post(QUESTION);
    await gateway.post(QUESTION);
    gateway.router.reload({ providers: { loopback: { ...keys } } });
    await gateway.post(QUESTION);
    await gateway.post(QUESTION);
    const dead = gateway.provider.received.filter(
      ({ headers }) => headers.authorization === 'Bearer sk-dead',
    );
    expect(dead).toHaveLength(1);
  });

  it('reads options again that the host changed in place', async () => {
    const models: Record<string, ModelOptions> = { 'acme/fast': MODEL };
    gateway = await startGateway({ models });
    models['acme/new'] = MODEL;
    expect(await ids()).toEqual(['acme/fast']);
    gateway.router.reload({});
    expect(await ids()).toEqual(['acme/fast', 'acme/new']);
  });

  it('can be called while the provider is being asked, and after the router was closed', async () => {
    gateway = await startGateway();
    const asked = gateway.provider.next();
    const answered = gateway.post(QUESTION);
    await asked;
    gateway.router.reload({ models: {} });
    expect((await answered).status).toBe(200);
    await gateway.router.close();
    expect(() => gateway.router.reload({ models: {} })).not.toThrow();
  });
});
