import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { flatMapInSlices, forEachInSlices, nextTurn } from '../../../src/async/slices.ts';

const ITEMS = Array.from({ length: 64 }, (_, i) => i);

/** By this clock each reading is past the end of a slice, so that one has as few items as possible: 16. */
let now = performance.now();

beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => (now += 1));
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** How much is done in each turn of the event loop after the first, until something is over. */
async function progress(done: () => number, over: Promise<unknown>): Promise<number[]> {
  const seen: number[] = [];
  const note = (): void => {
    seen.push(done());
    next = setImmediate(note);
  };
  let next = setImmediate(note);
  await over;
  clearImmediate(next);
  return seen.map((count, i) => count - (seen[i - 1] ?? 0)).slice(1);
}

describe('long work', () => {
  it('goes on in other turns of the event loop, in order', async () => {
    const results: number[] = [];
    const steps = await progress(
      () => results.length,
      forEachInSlices(ITEMS, (item) => results.push(item)),
    );
    expect(results).toEqual(ITEMS);
    expect(Math.max(...steps)).toBe(16);
  });

  it('has one slice a turn, however many works wait: the one that has waited longest is next', async () => {
    let done = 0;
    const order: string[] = [];
    const work = (name: string): Promise<void> =>
      forEachInSlices(ITEMS, (item) => {
        done += 1;
        if (item % 16 === 0) order.push(name);
      });
    const steps = await progress(() => done, Promise.all([work('a'), work('b'), work('c')]));
    expect(Math.max(...steps)).toBe(16);
    expect(order.join('')).toBe('abcabcabcabc');
  });

  it('rejects where it fails, and leaves other work alone', async () => {
    const fails = flatMapInSlices(ITEMS, (item) => {
      if (item === 20) throw new Error('twenty');
      return [item];
    });
    const works = flatMapInSlices(ITEMS, (item) => (item < 2 ? [item, -item] : []));
    await expect(fails).rejects.toThrow('twenty');
    expect(await works).toEqual([0, -0, 1, -1]);
    await nextTurn();
  });
});
