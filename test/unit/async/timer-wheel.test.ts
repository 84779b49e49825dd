import { AsyncLocalStorage } from 'node:async_hooks';

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Deadline, TimerWheel } from '../../../src/async/timer-wheel.ts';
import { runs } from '../../helpers/runs.ts';

class Named extends Deadline {
  readonly #reached: () => void;
  readonly isWait: boolean;

  constructor(reached: () => void, isWait = true) {
    super();
    this.#reached = reached;
    this.isWait = isWait;
  }

  override reached(): void {
    this.#reached();
  }
}

describe('a timer wheel', () => {
  let wheel: TimerWheel;
  let reached: [name: string, at: number][];
  let from: number;
  let stalledMs: number;

  beforeEach(() => {
    vi.useFakeTimers();
    const now = performance.now.bind(performance);
    stalledMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now() + stalledMs);
    wheel = new TimerWheel();
    reached = [];
    from = performance.now();
  });

  afterEach(() => {
    vi.clearAllTimers();
    vi.useRealTimers();
  });

  function named(name: string, then: () => void = () => {}, isWait = true): Named {
    return new Named(() => {
      reached.push([name, performance.now() - from]);
      then();
    }, isWait);
  }

  /** Time passes in which this process does nothing. */
  function stall(ms: number): void {
    stalledMs += ms;
  }

  it('reaches each deadline at its time, also the next turns of the wheel', () => {
    const times = [0, 1, 63, 64, 65, 1000, 32_767, 32_768, 32_769, 100_000, 3_600_000];
    for (const ms of times) wheel.set(named('at'), ms);
    vi.advanceTimersByTime(4_000_000);
    expect(reached.map(([, at]) => at)).toEqual(times);
  });

  it('moves one that is set again, and never reaches one that is cleared', () => {
    const moved = named('moved');
    const cleared = named('cleared');
    wheel.set(moved, 100);
    wheel.set(cleared, 100);
    vi.advanceTimersByTime(50);
    wheel.set(moved, 500);
    wheel.clear(cleared);
    wheel.clear(cleared);
    expect([moved.isSet, cleared.isSet]).toEqual([true, false]);
    vi.advanceTimersByTime(1000);
    wheel.clear(moved);
    expect(reached).toEqual([['moved', 550]]);
  });

  it('lets one that is reached set and clear others, and itself', () => {
    const other = named('other');
    const late = named('late');
    const first: Named = named('first', () => {
      wheel.clear(other);
      wheel.set(late, 10);
      if (reached.length < 3) wheel.set(first, 5);
    });
    wheel.set(first, 20);
    wheel.set(other, 20);
    vi.advanceTimersByTime(100);
    expect(reached).toEqual([
      ['first', 20],
      ['first', 25],
      ['first', 30],
      ['late', 40],
    ]);
  });

  it('reaches the others, too, if one throws', () => {
    const thrower = named('thrower', () => {
      throw new Error('no');
    });
    wheel.set(thrower, 20);
    wheel.set(named('other'), 20);
    expect(() => vi.advanceTimersByTime(20)).toThrow('no');
    vi.advanceTimersByTime(64);
    expect(reached.map(([name]) => name)).toEqual(['thrower', 'other']);
  });

  it('has one timer, which ends when nothing is set', () => {
    const all = Array.from({ length: 1000 }, (_, n) => named(String(n)));
    for (const [n, each] of all.entries()) wheel.set(each, 1000 + n);
    expect(vi.getTimerCount()).toBe(1);
    for (const each of all) wheel.clear(each);
    vi.advanceTimersByTime(64);
    expect(vi.getTimerCount()).toBe(0);
    expect(reached).toEqual([]);
  });

  it("waits again for the time of this process's own stall, if that is a second at most", () => {
    wheel.set(named('stalled'), 1000);
    vi.advanceTimersByTime(500);
    stall(900);
    vi.advanceTimersByTime(499);
    expect(reached).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(reached).toHaveLength(1);
    wheel.set(named('stalled for longer'), 5000);
    stall(3900);
    vi.advanceTimersByTime(1500);
    expect(reached).toHaveLength(1);
    vi.advanceTimersByTime(600);
    expect(reached).toHaveLength(2);
  });

  it('counts no stall that was before a deadline is set', () => {
    wheel.set(named('other'), 10_000);
    stall(900);
    from = performance.now();
    wheel.set(named('after'), 100);
    vi.advanceTimersByTime(99);
    expect(reached).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(reached).toEqual([['after', 100]]);
  });

  it('times out in a process that always stalls, too', () => {
    wheel.set(named('stalled'), 10_000);
    while (reached.length === 0 && performance.now() - from < 30_000) {
      vi.advanceTimersToNextTimer();
      stall(500);
    }
    expect(performance.now() - from).toBeGreaterThan(10_500);
    expect(performance.now() - from).toBeLessThan(13_000);
  });

  it('goes on after its timer was taken from it, as by fake timers of an app', () => {
    wheel.set(named('lost'), 100);
    vi.clearAllTimers();
    vi.advanceTimersByTime(200);
    expect(reached).toEqual([]);
    wheel.set(named('next'), 100);
    vi.advanceTimersByTime(300);
    expect(reached.map(([name]) => name)).toEqual(['lost', 'next']);
  });

  it('goes on when the clock is another one', () => {
    vi.advanceTimersByTime(100_000);
    wheel.set(named('before'), 100);
    stall(-100_000);
    wheel.set(named('after'), 100);
    vi.advanceTimersByTime(100);
    expect(reached.map(([name]) => name)).toEqual(['after']);
  });

  it('ticks only where something is due, while it looks for no stall', () => {
    let ticks = 0;
    const counted = named('lease', () => {}, false);
    wheel.set(counted, 30_000);
    wheel.set(
      named('later', () => {}, false),
      29_000,
    );
    while (reached.length < 2) {
      vi.advanceTimersToNextTimer();
      ticks += 1;
    }
    expect(ticks).toBeLessThan(5);
    expect(reached).toEqual([
      ['later', 29_000],
      ['lease', 30_000],
    ]);
  });

  it('refuses a time that is none, and is as before', () => {
    for (const ms of [Infinity, Number.NaN]) {
      expect(() => {
        wheel.set(named('never'), ms);
      }).toThrow('The wheel has no slot');
    }
    expect(vi.getTimerCount()).toBe(0);
  });

  it('does as a list of times does, under any sequence of changes', () => {
    const change = fc.oneof(
      fc.record({
        op: fc.constant('set' as const),
        index: fc.nat(9),
        ms: fc.oneof(fc.nat(200), fc.nat(100_000)),
      }),
      fc.record({ op: fc.constant('clear' as const), index: fc.nat(9) }),
      fc.record({
        op: fc.constant('pass' as const),
        ms: fc.oneof(fc.nat(100), fc.nat(5000), fc.nat(200_000)),
      }),
    );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        reached = [];
        const times = new Map<string, number>();
        const expected: [name: string, at: number][] = [];
        const all = Array.from({ length: 10 }, (_, index) => named(String(index)));
        for (const each of changes) {
          const now = performance.now() - from;
          if (each.op === 'set') {
            wheel.set(all[each.index]!, each.ms);
            times.set(String(each.index), now + each.ms);
          } else if (each.op === 'clear') {
            wheel.clear(all[each.index]!);
            times.delete(String(each.index));
          } else {
            vi.advanceTimersByTime(each.ms);
            const due = [...times].filter(([, at]) => at <= now + each.ms);
            for (const [name] of due) times.delete(name);
            expected.push(...due.toSorted((a, b) => a[1] - b[1]));
          }
        }
        for (const each of all) wheel.clear(each);
        const inOrder = (list: typeof reached): string[] =>
          list.map(([name, at]) => `${at} ${name}`).toSorted();
        expect(inOrder(reached)).toEqual(inOrder(expected));
        const ats = reached.map(([, at]) => at);
        expect(ats).toEqual(ats.toSorted((a, b) => a - b));
      }),
      { numRuns: runs(2000) },
    );
  });
});

describe('the timer of a wheel', () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

  it('keeps the process alive while something waits for another process', () => {
    const before = timers();
    const wheel = new TimerWheel();
    const lease = new Named(() => {}, false);
    const wait = new Named(() => {});
    wheel.set(lease, 60_000);
    expect(timers()).toBe(before);
    wheel.set(wait, 60_000);
    wheel.set(wait, 30_000);
    expect(timers()).toBe(before + 1);
    wheel.clear(wait);
    expect(timers()).toBe(before);
    wheel.clear(lease);
  });

  it('has the context of no request', async () => {
    const context = new AsyncLocalStorage<string>();
    const wheel = new TimerWheel();
    const seen = await context.run(
      'of a request',
      () =>
        new Promise((resolve) => {
          wheel.set(
            new Named(() => {
              resolve(context.getStore());
            }),
            1,
          );
        }),
    );
    expect(seen).toBeUndefined();
  });
});
