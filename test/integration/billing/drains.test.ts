import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { DetachedRead, DetachedReads } from '../../../src/http/detached-reads.ts';
import { ClientDisconnectedError } from '../../../src/http/exchange.ts';
import { PRESETS } from '../../../src/catalog/presets.ts';
import { resolveProvider } from '../../../src/catalog/resolve-provider.ts';
import type { Target } from '../../../src/catalog/model.ts';
import {
  type AbandonedQuote,
  isReadToEnd,
  reasonsSilently,
} from '../../../src/upstream/abandoned-answers.ts';
import { EstimateCalibration } from '../../../src/metering/estimate-calibration.ts';
import { FREE } from '../../../src/metering/price.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { chunk, DONE, hang, reset, type Script, stream } from '../../../src/testing.ts';
import type { Settled } from '../../../src/index.ts';
import { type Gateway, type GatewayOptions, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { noticing } from '../../helpers/noticed.ts';
import { event } from '../../helpers/provider.ts';

describe('answers that are read to the end without a client', () => {
  const wanted = (): boolean => true;
  const drainOf = (drains: DetachedReads, key = 'a'): DetachedRead =>
    new DetachedRead(drains, { owner: key, shouldRead: wanted });
  const reader = (): ReturnType<typeof vi.fn<() => void>> => vi.fn<() => void>();

  it('are 32 at a time of one key: others of its own wait for their turn, and none is refused', () => {
    const drains = new DetachedReads();
    const running = Array.from({ length: 34 }, () => drainOf(drains));
    const reads = running.map(() => reader());
    for (const [i, drain] of running.entries()) {
      expect(drain.begin(() => {})).toBe(true);
      drain.whenItsTurn(reads[i]!);
    }
    const read = (): number => reads.filter(({ mock }) => mock.calls.length === 1).length;
    expect(read()).toBe(32);
    // One that waits takes nobody's turn with it.
    running[33]!.end();
    expect(read()).toBe(32);
    running[7]!.end();
    expect(read()).toBe(33);
    expect(reads[32]).toHaveBeenCalledOnce();
    expect(reads[33]).not.toHaveBeenCalled();
  });

  it('of one key keep none of another waiting', () => {
    const drains = new DetachedReads();
    for (let i = 0; i < 100; i++) {
      const drain = drainOf(drains);
      drain.begin(() => {});
      drain.whenItsTurn(() => {});
    }
    const other = drainOf(drains, 'b');
    const read = reader();
    other.begin(() => {});
    other.whenItsTurn(read);
    expect(read).toHaveBeenCalledOnce();
  });

  it('are those that are wanted, which is asked once of each', () => {
    const drains = new DetachedReads();
    const isWanted = vi.fn<() => boolean>().mockReturnValueOnce(true);
    const drain = new DetachedRead(drains, { owner: 'a', shouldRead: isWanted });
    expect([drain.begin(() => {}), drain.begin(() => {})]).toEqual([true, true]);
    expect(isWanted).toHaveBeenCalledOnce();
    expect(new DetachedRead(drains, { owner: 'a', shouldRead: () => false }).begin(() => {})).toBe(false);
  });

  it('are left alone once they are over', () => {
    const drains = new DetachedReads();
    const drain = drainOf(drains);
    const abort = vi.fn<(reason: Error) => void>();
    drain.begin(abort);
    drain.end();
    drains.close();
    expect(abort).not.toHaveBeenCalled();
  });

  it('end when the router is closed, and none begins then', () => {
    const drains = new DetachedReads();
    const abort = vi.fn<(reason: Error) => void>();
    drainOf(drains).begin(abort);
    drains.close();
    expect(abort).toHaveBeenCalledExactlyOnceWith(expect.any(ClientDisconnectedError));
    expect(drainOf(drains).begin(abort)).toBe(false);
  });
});

describe('a provider', () => {
  const settings = resolveSettings({ store: 'memory:', providers: {}, models: {} });
  const resolved = (name: string, options: object = {}): string | undefined =>
    resolveProvider(name, { apiKey: 'sk', ...options }, settings).onDisconnect;

  it('that bills on when its connection is closed is drained, by its preset; of the others it depends on the model', () => {
    const drained = Object.keys(PRESETS).filter((name) => PRESETS[name]?.onDisconnect === 'drain');
    expect(drained).toEqual(
      'bedrock gemini groq huggingface mistral perplexity qwen sambanova vertex'.split(' '),
    );
    expect(resolved('groq')).toBe('drain');
    expect(resolved('deepseek')).toBeUndefined();
    expect(resolved('mine', { baseURL: 'https://example.com/v1' })).toBeUndefined();
  });

  it('can be said to be otherwise than its preset', () => {
    expect(resolved('groq', { onDisconnect: 'abort' })).toBe('abort');
    expect(resolved('openai', { onDisconnect: 'drain' })).toBe('drain');
  });
});

describe('a model', () => {
  it.each(
    (
      'o1 o3-mini o4-mini-2025-04-16 gpt-5 openai/gpt-5.1 GPT-5-nano codex-mini-latest gemini-2.5-pro ' +
      'google/gemini-3-flash grok-4 xai/grok-4.1-fast-reasoning'
    ).split(' '),
  )('is known to reason silently: %s', (name) => {
    expect(reasonsSilently(name)).toBe(true);
  });

  it.each(
    (
      'gpt-4o gpt-oss-120b gpt-5-chat-latest openai/gpt-5.1-chat o o3x ollama o1/other gemini-2.0-flash grok-3-mini ' +
      'grok-4-fast-non-reasoning deepseek-reasoner claude-opus-4'
    ).split(' '),
  )('is not: %s', (name) => {
    expect(reasonsSilently(name)).toBe(false);
  });

  it.each<[string, boolean, 'abort' | 'drain' | undefined, boolean]>([
    ['is read to the end', false, undefined, true],
    ['is not, with the client’s own key', true, undefined, false],
    ['is, also with that, where its provider says so', true, 'drain', true],
    ['is not where its provider says so', false, 'abort', false],
  ])('that reasons silently: its abandoned answer %s', (_, usesByok, onDisconnect, isRead) => {
    const target = { provider: { onDisconnect }, model: 'o3', price: FREE, usesByok } as unknown as Target;
    const size = { images: 0, audioBytes: 0, files: 0, linkedFiles: 0 } as AbandonedQuote['size'];
    const quote = { size, predictedTokens: undefined, webSearchesNeeded: 0 };
    expect(isReadToEnd(target, 'acct', quote, new EstimateCalibration())).toBe(isRead);
  });
});

describe('an answer that its client leaves, of a model that shows what it counts', () => {
  let gateway: Gateway;
  afterEach(() => gateway.close());

  const USAGE = { prompt_tokens: 400_000, completion_tokens: 1, total_tokens: 400_001 };
  const QUESTIONS = { ...QUESTION, stream: true, max_tokens: 20 };
  const asks = (content: object): object => ({
    ...QUESTIONS,
    messages: [{ role: 'user', content: [content] }],
  });
  const IMAGE = asks({ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } });
  const FILE = asks({
    type: 'file',
    file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' },
  });
  const SOUND = asks({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } });
  const model = (pricing: object = {}, name = 'upstream-model'): GatewayOptions => ({
    learnsOfLeavers: true,
    models: {
      'acme/fast': {
        targets: [`loopback/${name}`],
        pricing: { ...PRICING, ...pricing },
        contextWindow: 1_000_000,
        maxOutputTokens: 1000,
      },
    },
  });

  beforeEach(() => {
    // No answer is read on for being the one of sixteen.
    vi.spyOn(Math, 'random').mockReturnValue(0.5);
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });

  /** Has the account show that its answers hide nothing, and then leave one. */
  async function leaveOne(options: GatewayOptions, question: object): Promise<Settled> {
    const router = noticing();
    gateway = await startGateway(options, router.mount, '100.00');
    const shown = event({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 } });
    gateway.provider.script = stream(chunk('Hello', 'stop'), shown, DONE);
    for (let i = 0; i < 8; i++) {
      const settled = gateway.nextSettled();
      await (await gateway.post(QUESTIONS)).text();
      await settled;
    }
    const end = [chunk('.', 'stop'), event({ choices: [], usage: USAGE }), DONE];
    gateway.provider.script = stream(chunk('Hello'), () => router.left(1), ...end);
    const settled = gateway.nextSettled();
    const controller = new AbortController();
    const response = await gateway.post(question, { signal: controller.signal });
    await response.body?.getReader().read();
    controller.abort();
    return settled;
  }

  it('is charged by estimate if it was asked for in text', async () => {
    expect(await leaveOne(model(), QUESTIONS)).toMatchObject({ usageSource: 'estimated' });
  });

  it.each<[string, GatewayOptions, object]>([
    ['has an image', model(), IMAGE],
    ['has a file', model(), FILE],
    ['has sound', model(), SOUND],
    ['may search', model({ webSearch: '0.02' }), QUESTIONS],
    ['has a model that always searches', model({ request: '0.02' }, 'gpt-4o-search-preview'), QUESTIONS],
    ['has a model whose images have a price', model({ imageOutput: '30' }), QUESTIONS],
    ['has a model whose sound has a price', model({ audioOutput: '80' }), QUESTIONS],
  ])('is charged as if the client had stayed if its request %s', async (_what, options, question) => {
    expect(await leaveOne(options, question)).toMatchObject({
      ending: 'client_gone',
      usageSource: 'upstream',
      usage: { promptTokens: 400_000 },
    });
  });
});

describe('clients that leave in mid-answer', () => {
  let left = Promise.withResolvers<void>();
  const USAGE = { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 };
  let gateway: Gateway;

  afterEach(async () => {
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  /** Asks, reads the first piece, and leaves. */
  async function leave(): Promise<void> {
    const controller = new AbortController();
    const response = await gateway.post(
      { ...QUESTION, stream: true, max_tokens: 20 },
      { signal: controller.signal },
    );
    await response.body?.getReader().read();
    controller.abort();
  }

  it('have all their answers read to the end, though 32 at a time', async () => {
    const router = noticing();
    gateway = await startGateway({ provider: { onDisconnect: 'drain' } }, router.mount);
    gateway.provider.script = stream(
      chunk('Hello'),
      () => router.left(40),
      chunk('.', 'stop'),
      event({ choices: [], usage: USAGE }),
      DONE,
    );
    const all = Array.from({ length: 40 }, () => gateway.nextSettled());
    await Promise.all(all.map(() => leave()));
    const settled = await Promise.all(all);
    // 9 x 1,000 + 12 x 3,000 nano-dollars each.
    expect(new Set(settled.map(({ charged }) => charged))).toEqual(new Set(['0.000045']));
    expect(new Set(settled.map(({ ending }) => ending))).toEqual(new Set(['client_gone']));
  });

  it.each<[string, Script]>([
    ['is reset', stream(chunk('Hello'), () => left.promise, chunk(' there'), reset)],
    ['goes silent', stream(chunk('Hello'), () => left.promise, chunk(' there'), hang)],
  ])('pay the estimate of what was read where the rest %s', async (_, script) => {
    left = Promise.withResolvers<void>();
    gateway = await startGateway({ provider: { onDisconnect: 'drain' }, timeouts: { idleMs: 200 } });
    gateway.provider.script = script;
    const settled = gateway.nextSettled();
    await leave();
    left.resolve();
    expect(await settled).toMatchObject({ ending: 'client_gone', usageSource: 'estimated', voided: false });
  });

  it('are not drained by a provider that is configured to abort', async () => {
    gateway = await startGateway({ provider: { onDisconnect: 'abort' } });
    gateway.provider.script = stream(chunk('Hello'), hang);
    const settled = gateway.nextSettled();
    await leave();
    expect(await settled).toMatchObject({ ending: 'client_gone', charged: '0.000019' });
    expect(await gateway.provider.received[0]?.aborted).toBeGreaterThan(0);
  });
});
