import { setImmediate as turn } from 'node:timers/promises';

import { describe, expect, it } from 'vitest';

import { Batch } from '../../../src/async/batch.ts';

describe('a batch', () => {
  it('takes the steps of one turn in a row, in the order in which they were asked for', async () => {
    const taken: string[] = [];
    const first = new Batch<string>((name) => taken.push(`first ${name}`));
    const second = new Batch<string>((name) => taken.push(`second ${name}`));
    first.add('a');
    second.add('a');
    first.add('b');
    expect(taken).toEqual([]);
    await turn();
    expect(taken).toEqual(['first a', 'first b', 'second a']);
  });

  it('takes what a step asks for in a later turn', async () => {
    const taken: number[] = [];
    const batch: Batch<number> = new Batch((n) => {
      taken.push(n);
      if (n < 3) batch.add(n + 1);
    });
    batch.add(1);
    await turn();
    expect(taken).toEqual([1]);
    await turn();
    await turn();
    expect(taken).toEqual([1, 2, 3]);
  });
});
