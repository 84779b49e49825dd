import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { SlidingWindow } from '../../../src/upstream/sliding-window.ts';

const SECOND = 1000;

describe('a sliding window', () => {
  it('has what was added in the last minute, and the second in which it was', () => {
    const window = new SlidingWindow();
    window.add(2, window.bucketAt(500));
    window.add(3, window.bucketAt(30 * SECOND));
    expect(window.sumAt(30 * SECOND)).toBe(5);
    // What was added at the end of second 0 is a whole minute old.
    expect(window.sumAt(60.999 * SECOND)).toBe(5);
    expect(window.sumAt(61 * SECOND)).toBe(3);
    expect(window.sumAt(91 * SECOND)).toBe(0);
    expect(window.sumAt(1e9)).toBe(0);
  });

  it('says when an amount fits', () => {
    const window = new SlidingWindow();
    for (const at of [0, 10, 20]) window.add(2, at);
    expect(window.waitMs(1, 7, 20_000)).toBe(0);
    expect(window.waitMs(1, 6, 20_000)).toBe(41_000);
    expect(window.waitMs(2, 6, 20_400)).toBe(40_600);
    expect(window.waitMs(3, 6, 20_000)).toBe(51_000);
    // More than the limit fits when nothing counts.
    expect(window.waitMs(100, 6, 20_000)).toBe(61_000);
    expect(window.waitMs(100, 6, 81_000)).toBe(0);
  });

  it('takes back from the bucket to which it was added, while that counts', () => {
    const window = new SlidingWindow();
    window.add(5, 3);
    window.add(5, 50);
    window.add(-4, 3);
    expect(window.sumAt(50_000)).toBe(6);
    window.add(-100, 3);
    expect(window.sumAt(50_000)).toBe(5);
    window.add(1, 64);
    window.add(-5, 3);
    expect(window.sumAt(64_000)).toBe(6);
  });

  it('never lets more than the limit into any minute, and wastes at most a second of each', () => {
    const gap = fc.integer({ min: 0, max: 20_000 });
    fc.assert(
      fc.property(fc.array(gap, { maxLength: 300 }), fc.integer({ min: 1, max: 9 }), (gaps, limit) => {
        const window = new SlidingWindow();
        const sent: number[] = [];
        let now = 5_000_000;
        for (const ms of gaps) {
          now += ms;
          const waitMs = window.waitMs(1, limit, now);
          const inMinute = sent.filter((at) => at > now - 62 * SECOND).length;
          if (inMinute < limit) expect(waitMs).toBe(0);
          // Who waits so long is served, and no minute has more.
          now += waitMs;
          expect(window.waitMs(1, limit, now)).toBe(0);
          window.add(1, window.bucketAt(now));
          sent.push(now);
          expect(sent.filter((at) => at > now - 60 * SECOND).length).toBeLessThanOrEqual(limit);
        }
      }),
    );
  });
});
