import { describe, expect, it } from 'vitest';
import { RequestIds, requestTime } from '../../../src/ledger/contract/request-ids.ts';

describe('RequestIds', () => {
  it('makes ids of 19 digits in base 36', () => {
    expect(new RequestIds().next()).toMatch(/^[0-9a-z]{19}$/);
  });

  it('begins an id with its time', () => {
    const ids = new RequestIds(() => NOON);
    expect(requestTime(ids.next())).toBe(NOON);
  });

  it('makes each id greater than the one before, in one millisecond and after it', () => {
    let now = NOON;
    const ids = new RequestIds(() => now);
    const made = Array.from({ length: 10_000 }, (_, n) => {
      if (n % 100 === 0) now += 1;
      return ids.next();
    });
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(10_000);
  });

  it('makes greater ids even when the clock steps back', () => {
    let now = NOON;
    const ids = new RequestIds(() => now);
    const first = ids.next();
    now -= 60_000;
    expect(ids.next() > first).toBe(true);
  });

  it('makes other ids than a second gateway with the same clock', () => {
    const [one, other] = [new RequestIds(() => NOON), new RequestIds(() => NOON)];
    expect(one.next()).not.toBe(other.next());
  });
});

describe('requestTime', () => {
  it('tells the time of each of several ids that are read in turns', () => {
    const early = new RequestIds(() => NOON).next();
    const late = new RequestIds(() => NOON + 1).next();
    const times = [early, late, late, early, early].map((id) => requestTime(id) - NOON);
    expect(times).toEqual([0, 1, 1, 0, 0]);
  });

  it.each(['', 'mmbw8pts0gate00000', 'mmbw8pts0gate0000001', 'MMBW8PTS0GATE000001', 'mmbw8pts0gate00000\n'])(
    'refuses what is not shaped like an id: %j',
    (id) => {
      expect(() => requestTime(id)).toThrow(/^requestId must be 19 characters of 0-9 a-z/);
    },
  );
});

const NOON = Date.parse('2026-03-04T12:00Z');
