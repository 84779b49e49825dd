import { afterEach, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions, ModelOptions } from '../../../src/index.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, USAGE } from '../../helpers/provider.ts';

/** 0.000045 USD for its tokens, and a cent for each search; 5 searches are held for. */
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: { ...PRICING, webSearch: '0.01' },
  contextWindow: 8192,
  maxOutputTokens: 1000,
};

describe('a request whose provider tells of searches', () => {
  let gateway: Gateway;

  afterEach(() => gateway.close());

  async function start(
    searches: number,
    credits = '5.00',
    options: Partial<ChatCompletionsRouterOptions> = {},
  ): Promise<void> {
    gateway = await startGateway({ models: { 'acme/fast': MODEL }, ...options }, undefined, credits);
    const usage = { ...USAGE, server_tool_use: { web_search_requests: searches } };
    gateway.provider.script = answerJson(completionBody({ usage }));
  }

  it('is charged for them', async () => {
    await start(3);
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.030045', usage: { webSearches: 3 } });
  });

  it('holds for five of them, or as many as its model may make', async () => {
    for (const [maxWebSearches, fees] of [
      [undefined, 0.05],
      [2, 0.02],
    ] as const) {
      await start(0, '0.015', { holdMode: 'strict' });
      if (maxWebSearches) gateway.router.reload({ models: { 'acme/fast': { ...MODEL, maxWebSearches } } });
      const { error } = (await (await gateway.post(QUESTION)).json()) as { error: { required: string } };
      expect(Number(error.required)).toBeGreaterThan(fees);
      expect(Number(error.required)).toBeLessThan(fees + 0.01);
      if (!maxWebSearches) await gateway.close();
    }
  });

  it('is not admitted by a balance that does not cover them, save with adaptive holds: few make any', async () => {
    for (const [holdMode, status] of [
      ['clamp', 402],
      ['adaptive', 200],
    ] as const) {
      await start(0, '0.005', { holdMode });
      expect((await gateway.post(QUESTION)).status).toBe(status);
      if (status === 402) await gateway.close();
    }
  });

  it('is admitted by any balance where its model makes none', async () => {
    await start(0, '0.005', { models: { 'acme/fast': { ...MODEL, maxWebSearches: 0 } } });
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });

  it('is charged for more than was held, down to a balance of 0, and the rest is written off', async () => {
    await start(12, '0.10');
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.10', writtenOff: '0.020045' });
    expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '0.00' });
  });

  it('is charged for as many as there can be, where it tells of more', async () => {
    await start(1001);
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ usageSource: 'upstream', usage: { webSearches: 1000 } });
  });
});

describe('a request whose prompt may reach a dearer tier', () => {
  it('is held for at that, and charged by the tier that its prompt turns out to be in', async () => {
    const tiers = [{ above: 8, input: '1000', output: '3000' }];
    const gateway = await startGateway({
      holdMode: 'strict',
      models: { 'acme/fast': { ...MODEL, pricing: { ...PRICING, tiers } } },
    });
    // 142 tokens at most, and 1,000 of output: 0.142 and 3 USD
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(await settled).toMatchObject({ charged: '0.045' });
    const refused = await gateway.post({ ...QUESTION, n: 2 });
    expect(refused.status).toBe(402);
    await gateway.close();
  });
});
