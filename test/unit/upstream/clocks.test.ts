import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { UpstreamTimeoutError } from '../../../src/index.ts';
import type { ClientConnection } from '../../../src/http/exchange.ts';
import { TimerWheel } from '../../../src/async/timer-wheel.ts';
import { attempt } from '../../../src/upstream/attempt.ts';
import { AttemptTimeouts } from '../../../src/upstream/attempt-timeouts.ts';
import type { SendListener, Transport, UpstreamRequest } from '../../../src/upstream/transport/transport.ts';

const TIMEOUTS = { connectMs: 100, firstByteMs: 1000, idleMs: 200, totalMs: 5000 };

describe('the clocks of an attempt', () => {
  let ranOut: string[];
  let wheel: TimerWheel;

  beforeEach(() => {
    vi.useFakeTimers();
    ranOut = [];
    wheel = new TimerWheel();
  });

  afterEach(() => {
    // The wheel ticks once more, and stops.
    vi.advanceTimersByTime(100);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  function start(timeouts = TIMEOUTS, spentMs = 0): AttemptTimeouts {
    const abort = (reason: Error): void => {
      if (reason instanceof UpstreamTimeoutError) ranOut.push(reason.code);
    };
    return new AttemptTimeouts(timeouts, spentMs, { abort }, wheel);
  }

  /** The clock that ran out, and after how many ms more. */
  function next(): [code: string | undefined, ms: number] {
    const from = performance.now();
    while (ranOut.length === 0 && performance.now() - from < 10_000) vi.advanceTimersByTime(1);
    // The verdict is an immediate: here these come with the next millisecond.
    return [ranOut[0], Math.floor(performance.now() - from) - 1];
  }

  it('connect: runs from the start', () => {
    start();
    expect(next()).toEqual(['upstream_connect_timeout', 100]);
  });

  it('first byte: runs from the connection', () => {
    const clocks = start();
    vi.advanceTimersByTime(60);
    clocks.connected();
    expect(next()).toEqual(['upstream_first_byte_timeout', 1000]);
  });

  it('idle: runs from the head, and from each piece after it', () => {
    const clocks = start();
    clocks.connected();
    vi.advanceTimersByTime(900);
    clocks.answered();
    for (let i = 0; i < 10; i++) {
      vi.advanceTimersByTime(199);
      clocks.touch();
    }
    expect(next()).toEqual(['upstream_idle_timeout', 200]);
  });

  it('idle: stands still while nothing is awaited', () => {
    const clocks = start();
    clocks.answered();
    clocks.pause();
    vi.advanceTimersByTime(4000);
    expect(ranOut).toEqual([]);
    clocks.touch();
    expect(next()).toEqual(['upstream_idle_timeout', 200]);
  });

  it('total: runs out whatever comes, less what is spent already', () => {
    const clocks = start(TIMEOUTS, 4000);
    clocks.answered();
    const living = setInterval(() => {
      clocks.touch();
    }, 50);
    expect(next()).toEqual(['upstream_total_timeout', 1000]);
    clearInterval(living);
  });

  it('total: runs out also while nothing is awaited', () => {
    const clocks = start();
    clocks.answered();
    clocks.pause();
    expect(next()).toEqual(['upstream_total_timeout', 5000]);
  });

  it('a shorter clock that begins is not overslept', () => {
    const clocks = start({ ...TIMEOUTS, connectMs: 4000, firstByteMs: 3000, idleMs: 20 });
    clocks.connected();
    clocks.answered();
    expect(next()).toEqual(['upstream_idle_timeout', 20]);
  });

  it('what came while this process was busy came in time', () => {
    const clocks = start();
    clocks.answered();
    // A turn of the event loop in which the clock's timer goes off before the bytes are read.
    setTimeout(() => {
      clocks.touch();
    }, 200);
    vi.advanceTimersByTime(200);
    vi.advanceTimersByTime(0);
    expect(ranOut).toEqual([]);
    clocks.stop();
  });

  it('tell of one end, once, and of none after the stop', () => {
    const clocks = start();
    expect(next()[0]).toBe('upstream_connect_timeout');
    clocks.connected();
    clocks.touch();
    vi.advanceTimersByTime(20_000);
    expect(ranOut).toHaveLength(1);
    start().stop();
  });

  it('set one timer in all for a request that takes less than the first of them', () => {
    // Not by a spy: one on a fake timer would leave that timer to the files that follow in this worker.
    const fake = globalThis.setTimeout;
    let timers = 0;
    const counting = (...call: Parameters<typeof fake>): NodeJS.Timeout => {
      timers += 1;
      return fake(...call);
    };
    globalThis.setTimeout = Object.assign(counting, fake);
    const clocks = start({ connectMs: 10_000, firstByteMs: 600_000, idleMs: 120_000, totalMs: 3_600_000 });
    clocks.connected();
    clocks.answered();
    for (let i = 0; i < 100; i++) clocks.touch();
    expect(vi.getTimerCount()).toBe(1);
    clocks.stop();
    globalThis.setTimeout = fake;
    expect(timers).toBe(1);
  });

  it('total: a request that is sent again has what is left of it', async () => {
    const sendings: SendListener[] = [];
    const aborted: Error[] = [];
    const transport = {
      send: (_request: UpstreamRequest, listener: SendListener) => {
        sendings.push(listener);
        return {
          wasRefused: true,
          diedUnanswered: false,
          isWritten: false,
          abort: (reason: Error) => aborted.push(reason),
        };
      },
    };
    const client = { throwIfDisconnected: () => {}, onDisconnect: () => {} };
    const progress = { attempting: () => {}, dispatched: () => {} };
    const terms = {
      transport: transport as unknown as Transport,
      timeouts: { ...TIMEOUTS, connectMs: 10_000 },
      wheel,
      startedAt: performance.now(),
      client: client as unknown as ClientConnection,
      progress,
    };
    const answer = { resolve: () => {}, reject: () => {} };
    attempt({} as UpstreamRequest, terms as unknown as Parameters<typeof attempt>[1], undefined, answer);
    vi.advanceTimersByTime(4000);
    sendings[0]?.onFailed(new Error('refused'));
    expect(sendings).toHaveLength(2);
    aborted.length = 0;
    vi.advanceTimersByTime(1000);
    vi.advanceTimersByTime(1);
    expect(aborted).toMatchObject([{ code: 'upstream_total_timeout' }]);
  });
});
