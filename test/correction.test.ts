import { describe, expect, it } from 'vitest';

import type { Settled } from '../src/index.ts';
import { Correction } from '../src/metering/correction.ts';
import { DEFAULT_TOKEN_BUDGETS, quoteFor, type PromptSize } from '../src/metering/estimate.ts';
import { parsePricing } from '../src/metering/pricing.ts';
import { textUsage as usage } from '../src/metering/usage-dialects.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from './helpers/gateway.ts';
import { answerJson, answerStream, DONE, event, text } from './helpers/provider.ts';

const TEXT: PromptSize = {
  messages: 0,
  stringBytes: 4000,
  asciiChars: 4000,
  nonAsciiChars: 0,
  images: 0,
  audioBytes: 0,
  files: 0,
  fileBytes: 0,
  linkedFiles: 0,
  toolLists: 0,
};

/** A request whose prompt is estimated at 1,000 tokens. */
function quote(size: Partial<PromptSize> = {}): ReturnType<typeof quoteFor> {
  return quoteFor({
    size: { ...TEXT, ...size },
    budgets: DEFAULT_TOKEN_BUDGETS,
    bounds: DEFAULT_TOKEN_BUDGETS,
    contextWindow: undefined,
    outputCap: 1000,
    modelOutputCap: 1000,
    n: 1,
    webSearches: 0,
    webSearchesNeeded: 0,
    prices: [parsePricing({ input: '1', output: '3' }, 'pricing')],
  });
}

/** After so many answers of 1,000 estimated tokens that turned out as told. */
function after(count: number, prompt: number, output: number): Correction {
  const correction = new Correction();
  for (let i = 0; i < count; i++) correction.learn(quote(), 1000, usage(prompt, output));
  return correction;
}

describe('an estimate that is charged', () => {
  it('is what it is until something was learned', () => {
    expect(new Correction().prompt(1234)).toBe(1234);
    expect(new Correction().output(1234)).toBe(1234);
  });

  it('approaches what providers counted, prompt and output apart', () => {
    const correction = after(30, 1250, 800);
    // (2,000 + 30 × 1,250) / (2,000 + 30 × 1,000), and with 800
    expect(correction.prompt(1000)).toBe(1235);
    expect(correction.output(1000)).toBe(813);
  });

  it('is hardly moved by one answer', () => {
    expect(after(1, 1500, 1500).output(1000)).toBe(1167);
  });

  it.each([
    ['twice', 100_000, 2000],
    ['half', 0, 500],
  ])('is never corrected to more than double or less than half: %s', (_name, counted, corrected) => {
    const correction = after(10_000, counted, counted);
    expect(correction.prompt(1000)).toBe(corrected);
    expect(correction.output(1000)).toBe(corrected);
  });

  it('forgets: a tokenizer that changed is known after some hundred answers', () => {
    const correction = after(1000, 1000, 2000);
    for (let i = 0; i < 1000; i++) correction.learn(quote(), 1000, usage(1000, 1000));
    expect(correction.output(1000)).toBe(1001); // Rounded up.
  });

  it('learns nothing of prompts with media, whose budgets are no estimates', () => {
    const correction = new Correction();
    for (let i = 0; i < 100; i++) correction.learn(quote({ images: 1 }), 1000, usage(100, 1000));
    expect(correction.prompt(1000)).toBe(1000);
  });

  it('learns nothing of output that no text shows', () => {
    const correction = new Correction();
    for (let i = 0; i < 100; i++) correction.learn(quote(), 0, usage(1000, 500));
    expect(correction.output(1000)).toBe(1000);
  });
});

describe('a router', () => {
  /** 1,000 tokens by estimate, and 500 as the provider counts. */
  const LONG = 'abcd'.repeat(1000);
  const COUNTED = event({
    choices: [],
    usage: { prompt_tokens: 13, completion_tokens: 500, total_tokens: 513 },
  });

  async function asked(gateway: Gateway, model: string, pieces: readonly string[]): Promise<Settled> {
    gateway.provider.script = answerStream(pieces);
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, model, stream: true })).text();
    return settled;
  }

  it('corrects what it charges by estimate, for each model by itself, and not what it holds', async () => {
    const model = { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 2000 };
    const gateway = await startGateway({ models: { a: model, b: model } });
    const whole = [text(LONG, 'stop'), COUNTED, DONE];
    const uncounted = [text(LONG, 'stop'), DONE];
    expect((await asked(gateway, 'a', uncounted)).usage?.completionTokens).toBe(1000);
    for (let i = 0; i < 20; i++) await asked(gateway, 'a', whole);
    // (2,000 + 20 × 500) / (2,000 + 20 × 1,000) of 1,000
    expect(await asked(gateway, 'a', uncounted)).toMatchObject({
      usageSource: 'estimated',
      usage: { completionTokens: 546 },
    });
    expect((await asked(gateway, 'b', uncounted)).usage?.completionTokens).toBe(1000);
    await gateway.close();
  });

  it('learns of the model that answered, where a client chose several', async () => {
    const gateway = await startGateway({
      requestControl: true,
      retries: { perTarget: 0 },
      models: {
        a: { targets: ['loopback/of-a'], pricing: PRICING, maxOutputTokens: 2000 },
        b: { targets: ['loopback/of-b'], pricing: PRICING, maxOutputTokens: 2000 },
      },
    });
    const busy = answerJson('{"error":{"message":"busy"}}', 503);
    const whole = answerStream([text(LONG, 'stop'), COUNTED, DONE]);
    gateway.provider.script = (response, request) =>
      (request.body.includes('of-a') ? busy : whole)(response, request);
    for (let i = 0; i < 20; i++) {
      const settled = gateway.nextSettled();
      await (await gateway.post({ ...QUESTION, model: 'a', models: ['b'], stream: true })).text();
      expect((await settled).model).toBe('b');
    }
    const uncounted = [text(LONG, 'stop'), DONE];
    expect((await asked(gateway, 'a', uncounted)).usage?.completionTokens).toBe(1000);
    expect((await asked(gateway, 'b', uncounted)).usage?.completionTokens).toBe(546);
    await gateway.close();
  });

  it('learns nothing of counts that can not be, nor of answers that were cut', async () => {
    const gateway = await startGateway();
    const absurd = event({ choices: [], usage: { prompt_tokens: 13, completion_tokens: 1e9 } });
    for (let i = 0; i < 20; i++) await asked(gateway, 'acme/fast', [text(LONG, 'stop'), absurd, DONE]);
    for (let i = 0; i < 20; i++) {
      gateway.provider.script = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(text(LONG) + COUNTED, () => response.destroy());
      };
      const settled = gateway.nextSettled();
      await (await gateway.post({ ...QUESTION, stream: true })).text().catch(() => 'cut');
      await settled;
    }
    const told = await asked(gateway, 'acme/fast', [text(LONG, 'stop'), DONE]);
    expect(told.usage?.completionTokens).toBe(1000);
    await gateway.close();
  });
});
