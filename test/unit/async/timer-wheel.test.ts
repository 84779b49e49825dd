import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Deadline, TimerWheel } from '../../../src/async/timer-wheel.ts';
import { runs } from '../../helpers/runs.ts';

class Named extends Deadline {
  readonly #reached: () => void;

  constructor(reached: () => void) {
    super();
    this.#reached = reached;
  }

  override reached(): void {
    this.#reached();
  }
}

describe('a timer wheel', () => {
  let wheel: TimerWheel;
  let reached: [name: string, at: number][];
  let from: number;

  beforeEach(() => {
    vi.useFakeTimers();
    wheel = new TimerWheel();
    reached = [];
    from = performance.now();
  });

  afterEach(() => {
    vi.clearAllTimers();
    vi.useRealTimers();
  });

  function named(name: string, then: () => void = () => {}): Named {
    return new Named(() => {
      reached.push([name, performance.now() - from]);
      then();
    });
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

  it("waits again for the time of this process's own stall", () => {
    const now = performance.now.bind(performance);
    let stalledMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now() + stalledMs);
    wheel.set(named('stalled'), 1000);
    vi.advanceTimersByTime(500);
    stalledMs += 3000;
    vi.advanceTimersByTime(499);
    expect(reached).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(reached).toHaveLength(1);
  });

  it('times out in a process that always stalls, too, after 5 s more at most', () => {
    const now = performance.now.bind(performance);
    let stalledMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now() + stalledMs);
    wheel.set(named('stalled'), 10_000);
    while (reached.length === 0 && performance.now() - from < 30_000) {
      vi.advanceTimersToNextTimer();
      stalledMs += 500;
    }
    expect(performance.now() - from).toBeGreaterThan(14_000);
    expect(performance.now() - from).toBeLessThan(18_000);
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
  it("doesn't keep the process alive", () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timers();
    const wheel = new TimerWheel();
    const deadline = new Named(() => {});
    wheel.set(deadline, 60_000);
    expect(timers()).toBe(before);
    wheel.clear(deadline);
  });
});
