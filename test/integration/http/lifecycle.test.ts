import { afterEach, describe, expect, it, vi } from 'vitest';

import { createChatCompletionsRouter, type ModelOptions } from '../../../src/index.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';

const MODEL: ModelOptions = { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 1000 };

describe('a model that is going', () => {
  let gateway: Gateway;

  afterEach(async () => {
    vi.useRealTimers();
    await gateway.close();
  });

  async function start(options: Partial<ModelOptions>): Promise<void> {
    gateway = await startGateway({ models: { 'acme/fast': { ...MODEL, ...options }, 'acme/next': MODEL } });
  }

  it('says so on each answer, and is served', async () => {
    await start({
      deprecatedAt: '2023-06-30T23:59:59Z',
      shutdownDate: '2099-12-31',
      replacement: 'acme/next',
    });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(200);
    // The example of RFC 9745
    expect(response.headers.get('deprecation')).toBe('@1688169599');
    expect(response.headers.get('sunset')).toBe('Thu, 31 Dec 2099 00:00:00 GMT');
    gateway.provider.script = answerStream(STREAM);
    const stream = await gateway.post({ ...QUESTION, stream: true });
    expect(stream.headers.get('deprecation')).toBe('@1688169599');
    await stream.text();
  });

  it('is listed with its dates', async () => {
    await start({
      deprecatedAt: new Date(Date.UTC(2026, 0, 31)),
      shutdownDate: '2099-12-31',
      replacement: 'acme/next',
    });
    const response = await gateway.fetch('/models/acme/fast');
    expect(response.headers.get('sunset')).toBe('Thu, 31 Dec 2099 00:00:00 GMT');
    expect(await response.json()).toMatchObject({
      deprecated_at: '2026-01-31',
      shutdown_date: '2099-12-31',
      replacement: 'acme/next',
    });
  });

  it('leaves the answers of other models as they are', async () => {
    await start({ shutdownDate: '2099-12-31' });
    const response = await gateway.post({ ...QUESTION, model: 'acme/next' });
    expect([response.headers.get('deprecation'), response.headers.get('sunset')]).toEqual([null, null]);
  });

  it('is gone on its day: refused with what to use instead, and not listed', async () => {
    await start({ shutdownDate: '2026-10-01', replacement: 'acme/next' });
    const refused = await gateway.post(QUESTION);
    expect(refused.status).toBe(404);
    expect(await refused.json()).toEqual({
      error: {
        message: 'The model "acme/fast" was shut down on 2026-10-01. Use "acme/next" instead.',
        type: 'invalid_request_error',
        param: 'model',
        code: 'model_shut_down',
      },
    });
    expect((await gateway.fetch('/models/acme/fast')).status).toBe(404);
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(['acme/next']);
    expect(gateway.provider.received).toEqual([]);
  });

  it('leaves the list when its day comes, without a reload', async () => {
    const ids = async (): Promise<string[]> => {
      const { data } = (await (await gateway.fetch('/models')).json()) as { data: { id: string }[] };
      return data.map(({ id }) => id);
    };
    await start({ shutdownDate: new Date(Date.now() + 3_600_000) });
    expect(await ids()).toEqual(['acme/fast', 'acme/next']);
    vi.useFakeTimers({ now: Date.now() + 3_600_001, toFake: ['Date'] });
    expect(await ids()).toEqual(['acme/next']);
  });
});

describe('the dates of a model', () => {
  it.each<[string, Partial<ModelOptions>]>([
    ['models["a"].deprecatedAt must be a Date, or a date', { deprecatedAt: 'soon' }],
    ['models["a"].deprecatedAt must be a Date, or a date', { deprecatedAt: '31.12.2026' }],
    ['models["a"].shutdownDate must be a Date, or a date', { shutdownDate: '2026-02-31' }],
    ['models["a"].shutdownDate must be a Date, or a date', { shutdownDate: new Date('x') }],
    [
      'models["a"].shutdownDate must be a Date, or a date',
      { shutdownDate: 1_800_000_000 as unknown as string },
    ],
    [
      'models["a"].shutdownDate must not be before its deprecatedAt',
      { deprecatedAt: '2027-01-02', shutdownDate: '2027-01-01' },
    ],
    ['models["a"].replacement needs a deprecatedAt or shutdownDate', { replacement: 'b' }],
    ['models["a"].replacement must be the ID', { shutdownDate: '2027-01-01', replacement: '' }],
  ])('are refused when they can’t be right: %s', (message, options) => {
    const create = (): unknown =>
      createChatCompletionsRouter({
        store: 'memory:',
        providers: { loopback: { baseURL: 'http://127.0.0.1:1/v1' } },
        models: { a: { ...MODEL, ...options } },
      });
    expect(create).toThrow(message);
  });
});
