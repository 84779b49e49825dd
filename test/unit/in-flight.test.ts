import { describe, expect, it } from 'vitest';

import { SlotList } from '../../src/async/slot-list.ts';

describe('what is in flight', () => {
  it('is there from add to delete, whichever of many goes first', () => {
    const inFlight = new SlotList<string>();
    const [first, second, third] = ['a', 'b', 'c'].map((value) => inFlight.add(value));
    inFlight.delete(first!);
    expect(inFlight.values().toSorted()).toEqual(['b', 'c']);
    inFlight.delete(third!);
    inFlight.delete(second!);
    expect(inFlight.size).toBe(0);
  });

  it('loses nothing else when one is deleted twice', () => {
    const inFlight = new SlotList<string>();
    const first = inFlight.add('a');
    inFlight.delete(first);
    inFlight.add('b');
    inFlight.delete(first);
    expect(inFlight.values()).toEqual(['b']);
  });

  it('may change while it is iterated', () => {
    const inFlight = new SlotList<string>();
    const places = ['a', 'b', 'c'].map((value) => inFlight.add(value));
    const seen: string[] = [];
    for (const value of inFlight.values()) {
      seen.push(value);
      for (const place of places) inFlight.delete(place);
    }
    expect(seen).toEqual(['a', 'b', 'c']);
  });
});
