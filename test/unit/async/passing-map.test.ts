import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { PassingMap } from '../../../src/async/passing-map.ts';
import { runs } from '../../helpers/runs.ts';

/** Few keys, so that they are set and deleted again and again. */
const change = fc.record({ key: fc.integer({ min: 0, max: 40 }).map(String), isSet: fc.boolean() });

describe('PassingMap', () => {
  it('has what a Map would have, whatever is set and deleted', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 300 }), (changes) => {
        const map = new PassingMap<number>();
        const model = new Map<string, number>();
        for (const [n, { key, isSet }] of changes.entries()) {
          if (isSet) map.set(key, n);
          else map.delete(key);
          if (isSet) model.set(key, n);
          else model.delete(key);
          expect(map.size).toBe(model.size);
          expect(map.has(key)).toBe(isSet);
          expect(map.get(key)).toBe(model.get(key));
        }
        expect(Object.fromEntries(map.entries())).toEqual(Object.fromEntries(model));
        const inOrder = (values: Iterable<number>): number[] => [...values].toSorted((a, b) => a - b);
        expect(inOrder(map.values())).toEqual(inOrder(model.values()));
      }),
      { numRuns: runs(500) },
    );
  });

  it('has them in the order in which they came, if none comes twice', () => {
    const map = new PassingMap<number>();
    for (let n = 0; n < 1000; n++) {
      map.set(`key${n}`, n);
      if (n % 10 !== 0) map.delete(`key${n}`);
    }
    expect([...map.values()]).toEqual(Array.from({ length: 100 }, (_, n) => 10 * n));
  });
});
