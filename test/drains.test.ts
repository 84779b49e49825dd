import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Drain, Drains } from '../src/http/drains.ts';
import { ClientGone } from '../src/http/exchange.ts';
import { PRESETS } from '../src/models/presets.ts';
import { resolveProvider } from '../src/models/providers.ts';
import { resolveSettings } from '../src/settings.ts';
import { chunk, DONE, hang, reset, type Script, stream } from '../src/testing.ts';
import { type Gateway, QUESTION, startGateway } from './helpers/gateway.ts';
import { event } from './helpers/provider.ts';

describe('answers that are read on for nobody', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('are 32 at a time', () => {
    const drains = new Drains();
    const running = Array.from({ length: 32 }, () => new Drain(drains));
    expect(running.map((drain) => drain.begin(() => {}))).not.toContain(false);
    const late = new Drain(drains);
    expect(late.begin(() => {})).toBe(false);
    running[7]?.end();
    expect(late.begin(() => {})).toBe(true);
  });

  it('have 120 seconds each', () => {
    const drain = new Drain(new Drains());
    const abort = vi.fn<(reason: Error) => void>();
    drain.begin(abort);
    vi.advanceTimersByTime(119_999);
    expect(abort).not.toHaveBeenCalled();
    // The sockets are read once more before it is over: here that comes with the next millisecond.
    vi.advanceTimersByTime(2);
    expect(abort).toHaveBeenCalledExactlyOnceWith(expect.any(ClientGone));
  });

  it('have them once, however often their client is said to have left', () => {
    const drain = new Drain(new Drains());
    const abort = vi.fn<(reason: Error) => void>();
    const again = vi.fn<(reason: Error) => void>();
    drain.begin(abort);
    vi.advanceTimersByTime(100_000);
    expect(drain.begin(again)).toBe(true);
    vi.advanceTimersByTime(20_001);
    expect(abort).toHaveBeenCalledOnce();
    expect(again).not.toHaveBeenCalled();
  });

  it('are left alone once they are over', () => {
    const drains = new Drains();
    const drain = new Drain(drains);
    const abort = vi.fn<(reason: Error) => void>();
    drain.begin(abort);
    drain.end();
    vi.advanceTimersByTime(200_000);
    drains.close();
    expect(abort).not.toHaveBeenCalled();
  });

  it('end when the router is closed, and none begins then', () => {
    const drains = new Drains();
    const abort = vi.fn<(reason: Error) => void>();
    new Drain(drains).begin(abort);
    drains.close();
    expect(abort).toHaveBeenCalledOnce();
    expect(new Drain(drains).begin(abort)).toBe(false);
  });
});

describe('a provider', () => {
  const { timeouts } = resolveSettings({ store: 'memory:', providers: {}, models: {} });
  const resolved = (name: string, options: object = {}): string =>
    resolveProvider(name, { apiKey: 'sk', ...options }, timeouts).onClientGone;

  it('that bills on when its connection is closed is drained, by its preset; the others are aborted', () => {
    const drained = Object.keys(PRESETS).filter((name) => PRESETS[name]?.onClientGone === 'drain');
    expect(drained).toEqual(
      'bedrock gemini groq huggingface mistral perplexity qwen sambanova vertex'.split(' '),
    );
    expect(resolved('groq')).toBe('drain');
    expect(resolved('deepseek')).toBe('abort');
    expect(resolved('mine', { baseURL: 'https://example.com/v1' })).toBe('abort');
  });

  it('can be said to be otherwise than its preset', () => {
    expect(resolved('groq', { onClientGone: 'abort' })).toBe('abort');
    expect(resolved('openai', { onClientGone: 'drain' })).toBe('drain');
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

  it('have 32 of 33 answers read to their end: the last connection is closed, and costs what was delivered', async () => {
    gateway = await startGateway({ provider: { onClientGone: 'drain' } });
    const oneAborted = Promise.withResolvers<void>();
    gateway.provider.script = stream(
      chunk('Hello'),
      () => oneAborted.promise,
      chunk('.', 'stop'),
      event({ choices: [], usage: USAGE }),
      DONE,
    );
    const all = Array.from({ length: 33 }, () => gateway.nextSettled());
    await Promise.all(all.map(() => leave()));
    await Promise.race(gateway.provider.received.map(({ aborted }) => aborted));
    oneAborted.resolve();
    const settled = await Promise.all(all);
    expect(settled.map(({ ending }) => ending)).toEqual(Array.from({ length: 33 }, () => 'client_gone'));
    // 9 x 1,000 + 12 x 3,000 nano-dollars each; and 13 x 1,000 + 2 x 3,000 by estimate.
    const charges = settled.map(({ charged }) => charged).toSorted();
    expect(charges).toEqual(['0.000019', ...Array.from({ length: 32 }, () => '0.000045')]);
  });

  it.each<[string, Script]>([
    ['is reset', stream(chunk('Hello'), () => left.promise, chunk(' there'), reset)],
    ['goes silent', stream(chunk('Hello'), () => left.promise, chunk(' there'), hang)],
  ])('pay the estimate of what was read where the rest %s', async (_, script) => {
    left = Promise.withResolvers<void>();
    gateway = await startGateway({ provider: { onClientGone: 'drain' }, timeouts: { idleMs: 200 } });
    gateway.provider.script = script;
    const settled = gateway.nextSettled();
    await leave();
    left.resolve();
    expect(await settled).toMatchObject({ ending: 'client_gone', usageSource: 'estimated', voided: false });
  });

  it('are not drained by a provider that is told to abort', async () => {
    gateway = await startGateway({ provider: { onClientGone: 'abort' } });
    gateway.provider.script = stream(chunk('Hello'), hang);
    const settled = gateway.nextSettled();
    await leave();
    expect(await settled).toMatchObject({ ending: 'client_gone', charged: '0.000019' });
    expect(await gateway.provider.received[0]?.aborted).toBeGreaterThan(0);
  });
});
