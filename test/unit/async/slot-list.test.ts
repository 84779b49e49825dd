import { describe, expect, it } from 'vitest';

import { SlotList } from '../../../src/async/slot-list.ts';

describe('a slot list', () => {
  it('is there from add to delete, whichever of many goes first', () => {
    const list = new SlotList<string>();
    const [first, second, third] = ['a', 'b', 'c'].map((value) => list.add(value));
    list.delete(first!);
    expect(list.values().toSorted()).toEqual(['b', 'c']);
    list.delete(third!);
    list.delete(second!);
    expect(list.size).toBe(0);
  });

  it('loses nothing else when one is deleted twice', () => {
    const list = new SlotList<string>();
    const first = list.add('a');
    list.delete(first);
    list.add('b');
    list.delete(first);
    expect(list.values()).toEqual(['b']);
  });

  it('may change while it is iterated', () => {
    const list = new SlotList<string>();
    const places = ['a', 'b', 'c'].map((value) => list.add(value));
    const seen: string[] = [];
    for (const value of list.values()) {
      seen.push(value);
      for (const place of places) list.delete(place);
    }
    expect(seen).toEqual(['a', 'b', 'c']);
  });
});
