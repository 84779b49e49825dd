import { describe, expect, it } from 'vitest';

import type { Settled } from '../../../src/index.ts';
import { EstimateCalibration } from '../../../src/metering/estimate-calibration.ts';
import { DEFAULT_TOKEN_BUDGETS, quoteFor, type PromptSize } from '../../../src/metering/estimate.ts';
import { parsePricing } from '../../../src/metering/pricing.ts';
import { textUsage as usage } from '../../../src/metering/usage-dialects.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, DONE, event, text } from '../../helpers/provider.ts';

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
function quote(size: Partial<PromptSize> = {}, n = 1): ReturnType<typeof quoteFor> {
  return quoteFor({
    size: { ...TEXT, ...size },
    budgets: DEFAULT_TOKEN_BUDGETS,
    bounds: DEFAULT_TOKEN_BUDGETS,
    contextWindow: undefined,
    outputCap: 1000,
    modelOutputCap: 1000,
    n,
    webSearches: 0,
    webSearchesNeeded: 0,
    prices: [parsePricing({ input: '1', output: '3' }, 'pricing')],
  });
}

/** Text that is estimated at 1,000 tokens. */
const THOUSAND = { ascii: 4000, nonAscii: 0 };

/** After so many answers of each account, of 1,000 estimated tokens that turned out as told. */
function after(
  count: number,
  prompt: number,
  output: number,
  accounts: readonly string[] = THREE,
): EstimateCalibration {
  const correction = new EstimateCalibration();
  for (const account of accounts) {
    for (let i = 0; i < count; i++) correction.learn(account, quote(), THOUSAND, usage(prompt, output));
  }
  return correction;
}

const THREE = ['a', 'b', 'c'];

describe('an estimate that is charged', () => {
  it('is what it is until something was learned', () => {
    expect(new EstimateCalibration().prompt('a', 1234)).toBe(1234);
    expect(new EstimateCalibration().output('a', 1234)).toBe(1234);
  });

  it('approaches what providers counted, prompt and output apart', () => {
    const correction = after(30, 1250, 800);
    // (2,000 + 30 × 1,250) / (2,000 + 30 × 1,000), and with 800
    expect(correction.prompt('d', 1000)).toBe(1235);
    expect(correction.output('d', 1000)).toBe(813);
  });

  it('is hardly moved by one answer', () => {
    expect(after(1, 1500, 1500).output('d', 1000)).toBe(1167);
  });

  it.each([
    ['twice', 2000, 2000],
    ['half', 0, 500],
  ])('is never corrected to more than double or less than half: %s', (_name, counted, corrected) => {
    const correction = after(10_000, counted, counted);
    expect(correction.prompt('d', 1000)).toBe(corrected);
    expect(correction.output('d', 1000)).toBe(corrected);
  });

  it('forgets: a tokenizer that changed is known after some hundred answers', () => {
    const correction = after(1000, 1000, 2000);
    for (let i = 0; i < 1000; i++)
      for (const each of THREE) correction.learn(each, quote(), THOUSAND, usage(1000, 1000));
    expect(correction.output('d', 1000)).toBe(1000);
  });

  it('learns nothing of prompts with media, whose budgets are no estimates', () => {
    const correction = new EstimateCalibration();
    for (let i = 0; i < 100; i++)
      for (const each of THREE) correction.learn(each, quote({ images: 1 }), THOUSAND, usage(100, 1000));
    expect(correction.prompt('d', 1000)).toBe(1000);
  });

  it.each([
    ['of one account by half', ['a'], 500, { a: 1000, d: 1000 }],
    ['of two accounts by half', ['a', 'b'], 500, { a: 1000, d: 1000 }],
    ['of three accounts by half', THREE, 500, { a: 530, d: 530 }],
    // 1,000 × (2,000 + 32 × 1,000 × 2) / (2,000 + 32 × 1,000)
    ['of one account by twice, which pays so itself', ['a'], 2000, { a: 1942, d: 1000 }],
  ])('is moved by what was learned %s', (_whose, accounts, counted, corrected) => {
    const correction = after(32, counted, counted, accounts);
    for (const [account, tokens] of Object.entries(corrected)) {
      expect([correction.prompt(account, 1000), correction.output(account, 1000)]).toEqual([tokens, tokens]);
    }
  });

  it('has in it what each of several answers hides', () => {
    const correction = new EstimateCalibration();
    for (const each of THREE)
      correction.learn(each, quote({}, 4), { ascii: 0, nonAscii: 0 }, usage(1000, 8000));
    expect(correction.output('d', 0)).toBe(2000);
    expect(correction.output('d', 0, 8)).toBe(16_000);
  });

  it('is the median of what accounts met with, however much one of them asks', () => {
    const correction = after(30, 1000, 1000, ['b', 'c']);
    for (let i = 0; i < 1000; i++) correction.learn('a', quote(), THOUSAND, usage(500, 500));
    expect(correction.output('d', 1000)).toBe(1000);
    expect(correction.output('a', 1000)).toBe(1000);
  });

  it('is of the 64 accounts that asked last', () => {
    const correction = after(1000, 500, 500);
    for (let i = 0; i < 64; i++) correction.learn(`new ${i}`, quote(), THOUSAND, usage(1000, 1000));
    expect(correction.output('a', 1000)).toBe(1000);
  });
});

describe('a router', () => {
  /** 1,000 tokens by estimate, and 1,500 as the provider counts. */
  const LONG = 'abcd'.repeat(1000);
  const COUNTED = event({
    choices: [],
    usage: { prompt_tokens: 13, completion_tokens: 1500, total_tokens: 1513 },
  });

  async function asked(gateway: Gateway, model: string, pieces: readonly string[]): Promise<Settled> {
    gateway.provider.script = answerStream(pieces);
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, model, stream: true })).text();
    return settled;
  }

  it('corrects what it charges by estimate, for each target by itself, and not what it holds', async () => {
    const modelOf = (name: string): object => ({
      targets: [`loopback/${name}`],
      pricing: PRICING,
      maxOutputTokens: 2000,
    });
    const models = { a: modelOf('of-a'), alias: modelOf('of-a'), b: modelOf('of-b') } as never;
    const gateway = await startGateway({ models });
    const whole = [text(LONG, 'stop'), COUNTED, DONE];
    const uncounted = [text(LONG, 'stop'), DONE];
    expect((await asked(gateway, 'a', uncounted)).usage?.completionTokens).toBe(1000);
    for (let i = 0; i < 20; i++) await asked(gateway, 'a', whole);
    // (2,000 + 20 × 1,500) / (2,000 + 20 × 1,000) of 1,000
    expect(await asked(gateway, 'a', uncounted)).toMatchObject({
      usageSource: 'estimated',
      usage: { completionTokens: 1455 },
    });
    expect((await asked(gateway, 'alias', uncounted)).usage?.completionTokens).toBe(1455);
    expect((await asked(gateway, 'b', uncounted)).usage?.completionTokens).toBe(1000);
    await gateway.close();
  });

  it('learns of the model that answered, where a client chose several', async () => {
    const gateway = await startGateway({
      clientRouting: true,
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
    expect((await asked(gateway, 'b', uncounted)).usage?.completionTokens).toBe(1455);
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

describe('what an answer hides', () => {
  const ONE_WORD = { ascii: 4, nonAscii: 0 };
  const reasoned = (tokens: number): ReturnType<typeof usage> => ({
    ...usage(10, tokens + 1),
    reasoningTokens: tokens,
  });

  it('is added to what is estimated of its text: its average, for the account that met with it', () => {
    const correction = new EstimateCalibration();
    for (const tokens of [1000, 3000]) correction.learn('a', quote(), ONE_WORD, reasoned(tokens));
    expect(correction.output('a', 10)).toBe(2010);
    expect(correction.output('a', 0)).toBe(2000);
    expect(correction.output('d', 10)).toBe(10);
  });

  it('is the median of three accounts for others, and for those that met with less', () => {
    const correction = new EstimateCalibration();
    for (const [account, tokens] of [
      ['a', 10_000],
      ['b', 2000],
      ['c', 500],
    ] as const) {
      correction.learn(account, quote(), ONE_WORD, reasoned(tokens));
    }
    expect(['a', 'b', 'c', 'd'].map((each) => correction.output(each, 0))).toEqual([
      10_000, 2000, 2000, 2000,
    ]);
  });

  it('is known of a target as soon as it counted more reasoning than its text can hold', () => {
    const correction = plain();
    // Four bytes may be four tokens, and seen reasoning is text.
    correction.learn('a', quote(), ONE_WORD, reasoned(4));
    expect(correction.mayHide('d')).toBe(false);
    correction.learn('a', quote(), ONE_WORD, reasoned(5));
    expect(correction.mayHide('d')).toBe(true);
  });

  it('is known to an account, and of three to all, where reasoning is not counted', () => {
    const correction = new EstimateCalibration(() => 0.5);
    for (const account of THREE) {
      show(correction);
      expect(correction.mayHide('d')).toBe(false);
      correction.learn(account, quote(), THOUSAND, usage(10, 2051));
      show(correction);
      expect(correction.mayHide(account)).toBe(true);
    }
    expect(correction.mayHide('d')).toBe(true);
  });

  it.each([
    ['sound', { ...usage(10, 9000), audioCompletionTokens: 8000 }],
    ['images', { ...usage(10, 9000), imageCompletionTokens: 8000 }],
  ])('is also %s, which no text shows', (_what, counted) => {
    const correction = plain();
    correction.learn('a', quote(), THOUSAND, counted);
    expect(correction.mayHide('a')).toBe(true);
  });

  it('is not dense text', () => {
    const correction = plain();
    correction.learn('a', quote(), THOUSAND, usage(10, 2050));
    expect(correction.mayHide('a')).toBe(false);
  });
});

describe('answers that an account leaves', () => {
  const answers = (correction: EstimateCalibration, account: string, count: number): void => {
    for (let i = 0; i < count; i++) correction.learn(account, quote(), THOUSAND, usage(1000, 1000));
  };

  it.each<[string, Readonly<Record<string, number>>, string, boolean]>([
    ['nothing', {}, 'd', true],
    ['seven of its own', { d: 7 }, 'd', true],
    ['eight of its own', { d: 8 }, 'd', false],
    ['a thousand of another', { a: 1000 }, 'd', true],
    ['a thousand of two others', { a: 1000, b: 1000 }, 'd', true],
    ['a thousand of another, and three of its own', { a: 1000, d: 3 }, 'd', true],
    ['four of another, and four of its own', { a: 4, d: 4 }, 'd', false],
    ['a thousand of one, and one of each of two', { a: 1000, b: 1, c: 1 }, 'd', true],
    ['eight of three', { a: 4, b: 3, c: 1 }, 'd', false],
  ])('are all read on until enough have shown that they hide nothing: %s', (_what, seen, who, isReadOn) => {
    const correction = new EstimateCalibration(() => 0.5);
    for (const [account, count] of Object.entries(seen)) answers(correction, account, count);
    expect(correction.mayHide(who)).toBe(isReadOn);
  });

  it('are read on again after one that hid something', () => {
    const correction = plain();
    correction.learn('a', quote(), THOUSAND, usage(1000, 9000));
    expect(correction.mayHide('d')).toBe(true);
    show(correction);
    expect(correction.mayHide('d')).toBe(false);
  });

  it('are not read on for ever where no answer tells its usage', () => {
    const correction = new EstimateCalibration(() => 0.5);
    for (let i = 0; i < 8; i++) correction.learnWithoutUsage('a');
    expect(correction.mayHide('a')).toBe(false);
  });

  it('say nothing where they had no text: their limits may have cut them before', () => {
    const correction = new EstimateCalibration(() => 0.5);
    for (let i = 0; i < 100; i++) correction.learn('a', quote(), { ascii: 0, nonAscii: 0 }, usage(1000, 16));
    expect(correction.mayHide('a')).toBe(true);
  });

  it('are then read on one time in sixteen, however many accounts leave them', () => {
    let draws = 0;
    const correction = new EstimateCalibration(() => (draws++ % 16) / 16);
    show(correction);
    const sampled = Array.from({ length: 1600 }, (_, i) => correction.mayHide(`account ${i % 200}`));
    expect(sampled.filter(Boolean)).toHaveLength(100);
  });
});

/** Answers of three accounts that hide nothing, enough of them to be believed. */
function show(correction: EstimateCalibration): void {
  for (let i = 0; i < 3; i++)
    for (const each of ['x', 'y', 'z']) correction.learn(each, quote(), THOUSAND, usage(1000, 1000));
}

/** Of a target that hides nothing, as far as is known; none is a sample. */
function plain(): EstimateCalibration {
  const correction = new EstimateCalibration(() => 0.5);
  show(correction);
  return correction;
}
