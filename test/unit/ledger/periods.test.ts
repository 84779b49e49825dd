import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Grid, laterPeriod, periodsBetween, periodStart } from '../../../src/ledger/engine/periods.ts';
import { type Allow, ALLOWANCE_PERIODS, ROLLOVERS } from '../../../src/ledger/contract/allowances.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { runs } from '../../helpers/runs.ts';

const FIRST = Date.parse('1996-01-01T00:00Z');
const LAST = Date.parse('2110-01-01T00:00Z');
const time = fc.integer({ min: FIRST, max: LAST });
const seconds = time.map((ms) => Math.floor(ms / 1000) * 1000);
const grid: fc.Arbitrary<Grid> = fc.record({ per: fc.constantFrom(...ALLOWANCE_PERIODS), anchor: seconds });

describe('the periods of an allowance', () => {
  it('follow each other without a gap, and each time is in one', () => {
    const property = fc.property(grid, time, (periods, now) => {
      const start = periodStart(periods, now);
      const end = laterPeriod(periods, start, 1);
      expect(start <= now && now < end).toBe(true);
      expect(periodStart(periods, start)).toBe(start);
      expect(periodStart(periods, end - 1)).toBe(start);
      expect(periodStart(periods, end)).toBe(end);
      expect(laterPeriod(periods, end, -1)).toBe(start);
    });
    fc.assert(property, { numRuns: runs(5000) });
  });

  it('begin at the anchor', () => {
    const property = fc.property(grid, (periods) => {
      expect(periodStart(periods, periods.anchor)).toBe(periods.anchor);
    });
    fc.assert(property, { numRuns: runs(500) });
  });

  it('are counted as they are stepped through, whatever lies between', () => {
    const property = fc.property(grid, time, fc.integer({ min: -40, max: 40 }), (periods, now, count) => {
      const start = periodStart(periods, now);
      let stepped = start;
      for (let n = 0; n < Math.abs(count); n++) stepped = laterPeriod(periods, stepped, Math.sign(count));
      expect(laterPeriod(periods, start, count)).toBe(stepped);
      expect(periodsBetween(periods, start, stepped)).toBe(count);
    });
    fc.assert(property, { numRuns: runs(2000) });
  });

  it('of months keep the day and the time of the anchor, or have the last day', () => {
    const property = fc.property(seconds, time, (anchor, now) => {
      const start = new Date(periodStart({ per: 'month', anchor }, now));
      const day = new Date(anchor).getUTCDate();
      const isLast = new Date(start.getTime() + 86_400_000).getUTCDate() === 1;
      expect(start.getUTCDate() === day || (isLast && start.getUTCDate() < day)).toBe(true);
      expect(start.getTime() % 86_400_000).toBe(anchor % 86_400_000);
    });
    fc.assert(property, { numRuns: runs(2000) });
  });

  it.each([
    ['2024-01-31T00:00Z', '2024-02-15T00:00Z', '2024-01-31T00:00Z', '2024-02-29T00:00Z'],
    ['2024-01-31T00:00Z', '2024-02-29T00:00Z', '2024-02-29T00:00Z', '2024-03-31T00:00Z'],
    ['2026-01-31T23:59:59Z', '2026-02-28T23:59:58Z', '2026-01-31T23:59:59Z', '2026-02-28T23:59:59Z'],
    ['2026-08-31T12:00Z', '2100-02-28T11:00Z', '2100-01-31T12:00Z', '2100-02-28T12:00Z'],
  ])('from %s on, at %s: from %s to %s', (anchor, now, from, to) => {
    const periods = { per: 'month', anchor: Date.parse(anchor) } as const;
    const start = periodStart(periods, Date.parse(now));
    expect([start, laterPeriod(periods, start, 1)]).toEqual([Date.parse(from), Date.parse(to)]);
  });
});

describe('an allowance that is looked at rarely', () => {
  it('has as much available as one that is looked at in each period', async () => {
    const arbitrary = fc.record({
      terms: grid,
      rollover: fc.constantFrom(...ROLLOVERS),
      begin: time,
      passed: fc.array(fc.double({ min: 0, max: 2, noNaN: true }), { minLength: 1, maxLength: 20 }),
      until: fc.option(fc.double({ min: 0.01, max: 20, noNaN: true }), { nil: undefined }),
    });
    const property = fc.asyncProperty(arbitrary, async ({ terms, rollover, begin, passed, until }) => {
      const clock = { now: begin };
      const [often, seldom] = [
        new MemoryStore({ now: () => clock.now }),
        new MemoryStore({ now: () => clock.now }),
      ];
      const lengthMs = laterPeriod(terms, periodStart(terms, begin), 1) - periodStart(terms, begin);
      const allow: Allow = {
        account: 'acme',
        id: 'pro',
        amount: 7n,
        ...terms,
        rollover,
        priority: 50,
        change: 'next_period',
        ...(until !== undefined && { until: begin + 1 + Math.floor(until * lengthMs) }),
      };
      for (const store of [often, seldom]) await store.allow(allow);
      for (const part of passed) {
        const end = clock.now + Math.floor(part * lengthMs);
        for (let next = laterPeriod(terms, periodStart(terms, clock.now), 1); next <= end;) {
          clock.now = next;
          await often.balance('acme');
          next = laterPeriod(terms, next, 1);
        }
        clock.now = end;
      }
      const [one, other] = [await often.balance('acme'), await seldom.balance('acme')];
      const shown = ({ available, allowances, lots }: NonNullable<typeof one>) => ({
        available,
        allowances,
        lots,
      });
      expect(shown(other!)).toEqual(shown(one!));
    });
    await fc.assert(property, { numRuns: runs(500) });
  });
});
