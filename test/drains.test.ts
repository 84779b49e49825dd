import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Drain, Drains } from '../src/http/drains.ts';
import { ClientGone } from '../src/http/exchange.ts';
import { PRESETS } from '../src/models/presets.ts';
import { resolveProvider } from '../src/models/providers.ts';
import { resolveSettings } from '../src/settings.ts';

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
    vi.advanceTimersByTime(1);
    expect(abort).toHaveBeenCalledExactlyOnceWith(expect.any(ClientGone));
  });

  it('have them once, however often their client is said to have left', () => {
    const drain = new Drain(new Drains());
    const abort = vi.fn<(reason: Error) => void>();
    const again = vi.fn<(reason: Error) => void>();
    drain.begin(abort);
    vi.advanceTimersByTime(100_000);
    expect(drain.begin(again)).toBe(true);
    vi.advanceTimersByTime(20_000);
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
