import { describe, expect, it } from 'vitest';

import { Link } from '../../../src/async/link.ts';

class Named extends Link {
  readonly name: string;

  constructor(name: string) {
    super();
    this.name = name;
  }
}

function namesOf(ring: Link): string[] {
  const names: string[] = [];
  for (let link = ring.next; link instanceof Named; link = link.next) names.push(link.name);
  return names;
}

function ringOf(...names: string[]): { ring: Link; links: Named[] } {
  const ring = new Link();
  const links = names.map((name) => new Named(name));
  for (const link of links) link.linkBefore(ring);
  return { ring, links };
}

describe('a ring of links', () => {
  it('has them in the order in which they came, whichever leaves', () => {
    expect(namesOf(ringOf('a', 'b', 'c').ring)).toEqual(['a', 'b', 'c']);
    for (const [n, left] of [
      ['b', 'c'],
      ['a', 'c'],
      ['a', 'b'],
    ].entries()) {
      const { ring, links } = ringOf('a', 'b', 'c');
      links[n]?.unlink();
      links[n]?.unlink();
      expect(namesOf(ring)).toEqual(left);
    }
  });

  it('takes back one that has left, at its end', () => {
    const { ring, links } = ringOf('a', 'b');
    links[0]?.unlink();
    links[0]?.linkBefore(ring);
    expect(namesOf(ring)).toEqual(['b', 'a']);
  });

  it('is not held by one that has left', () => {
    const { links } = ringOf('a', 'b', 'c');
    const [, middle] = links;
    middle?.unlink();
    expect(middle?.next).toBe(middle);
    expect(middle?.previous).toBe(middle);
  });
});
