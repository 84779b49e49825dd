import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Wait, Waits } from '../../../src/ledger/stores/redis/waits.ts';

const MS = 1000;
let stalledMs = 0;

beforeEach(() => {
  vi.useFakeTimers();
  stalledMs = 0;
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + stalledMs);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe('waits of one length', () => {
  it('time out in the order in which they began, each after its own time, by one timer', () => {
    const { begin, timedOut } = open();
    begin('first');
    vi.advanceTimersByTime(MS - 100);
    begin('second');
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(90);
    expect(timedOut).toEqual([]);
    vi.advanceTimersByTime(20);
    expect(timedOut).toEqual(['first']);
    vi.advanceTimersByTime(MS - 120);
    expect(timedOut).toEqual(['first']);
    vi.advanceTimersByTime(20);
    expect(timedOut).toEqual(['first', 'second']);
  });

  it('never time out once they have ended, in whatever order', () => {
    const { waits, begin, timedOut } = open();
    const all = ['a', 'b', 'c', 'd'].map(begin);
    for (const n of [1, 3, 0]) waits.end(all[n] ?? new Wait());
    vi.advanceTimersByTime(3 * MS);
    expect(timedOut).toEqual(['c']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('let the sockets be read once more', () => {
    const { waits, begin, timedOut } = open();
    const wait = begin('answered');
    for (let slice = 1; slice <= 4; slice++) vi.advanceTimersToNextTimer();
    expect(timedOut).toEqual([]);
    waits.end(wait);
    vi.runAllTimers();
    expect(timedOut).toEqual([]);
  });

  it("don't count the time for which this process stalls", () => {
    const { begin, timedOut } = open();
    begin('stalled');
    stall(200);
    stall(200);
    vi.advanceTimersByTime(MS - 510);
    expect(timedOut).toEqual([]);
    vi.advanceTimersByTime(20);
    expect(timedOut).toEqual(['stalled']);
  });

  it('go on for a slice after one stall that was longer than all of their time', () => {
    const { waits, begin, timedOut } = open();
    const answered = begin('answered');
    begin('silent');
    stall(10 * MS);
    vi.advanceTimersByTime(200);
    expect(timedOut).toEqual([]);
    waits.end(answered);
    vi.advanceTimersByTime(60);
    expect(timedOut).toEqual(['silent']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('time out though this process always stalls, and after twice the time', () => {
    const { begin, timedOut } = open();
    begin('stalled');
    const began = performance.now();
    while (timedOut.length === 0) stall(400);
    expect(performance.now() - began).toBeGreaterThanOrEqual(2 * MS);
  });
});

/** The next timer, in 250 ms, is late by so much. */
function stall(ms: number): void {
  stalledMs += ms;
  vi.advanceTimersToNextTimer();
}

function open(): {
  readonly waits: Waits;
  readonly timedOut: readonly string[];
  readonly begin: (name: string) => Wait;
} {
  const waits = new Waits(MS);
  const timedOut: string[] = [];
  const begin = (name: string): Wait => {
    const wait = new Named(name, timedOut);
    waits.begin(wait);
    return wait;
  };
  return { waits, timedOut, begin };
}

class Named extends Wait {
  readonly #name: string;
  readonly #timedOut: string[];

  constructor(name: string, timedOut: string[]) {
    super();
    this.#name = name;
    this.#timedOut = timedOut;
  }

  override onTimeout(): void {
    this.#timedOut.push(this.#name);
  }
}
