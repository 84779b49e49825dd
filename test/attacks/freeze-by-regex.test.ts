import { describe, expect, it } from 'vitest';

import { cpuTime } from './cpu-time.ts';
import { hostileTexts } from './hostile-text.ts';
import { regexesOfSource } from './regexes.ts';

const KIB = 1024;
/** From a few characters on: there are expressions to which each one more is twice the time. */
const LENGTHS = [16, 20, 24, 28, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB];
/** So much longer than a harmless expression on a text as long: eight checks a character took 113 times as long on a busy machine, a square takes thousands. */
const MOST = 400;
/** Four times the text, and so much more time: a line takes four, a square sixteen. Below a few harmless ones it can't be told. */
const MAX_GROWTH = 8;
/** A suspect is timed so often: a core that others use, or a collection, makes one time longer. */
const TRIALS = 5;

/** An expression that looks at each character just once. */
const harmlessTime = (length: number): number => {
  const text = 'a'.repeat(length);
  return Math.max(
    0.05,
    cpuTime(() => /[^a]b/.test(text), 20),
  );
};

/** How long a text keeps an expression busy that goes through all of it; every match of one with `g`. */
function timeOf(regex: RegExp, text: string, runs: number): number {
  return cpuTime(() => {
    if (regex.global) text.replace(regex, '');
    else regex.test(text);
  }, runs);
}

/** The first text on which it takes more than linear time, and how much; undefined where there is none. */
function freezes(regex: RegExp, harmless: number): string | undefined {
  for (const textOf of hostileTexts(regex)) {
    let quarter = Infinity;
    for (const length of LENGTHS) {
      const text = textOf(length);
      let time = timeOf(regex, text, 1);
      const isSuspect = (): boolean =>
        time > MOST * harmless || (time > MAX_GROWTH * quarter && time > 10 * harmless);
      for (let trial = 0; trial < TRIALS && isSuspect(); trial++)
        time = Math.min(time, timeOf(regex, text, 1));
      if (isSuspect()) {
        const ratio = Math.round(time / harmless);
        return `${ratio} times a harmless one on ${JSON.stringify(textOf(20))}, ${length} long`;
      }
      quarter = length === 16 * KIB ? time : Infinity;
    }
  }
  return undefined;
}

describe('a regular expression', () => {
  const { literals, made } = regexesOfSource();
  const harmless = harmlessTime(64 * KIB);

  it('takes linear time on hostile text, wherever it stands in the source', () => {
    expect(literals.length).toBeGreaterThan(100);
    const frozen = literals.flatMap(({ regex, place }) => {
      const how = freezes(regex, harmless);
      return how === undefined ? [] : [`${place} ${String(regex)}: ${how}`];
    });
    expect(frozen).toEqual([]);
  }, 120_000);

  it('is written as one: what is made of text at run time is not seen here', () => {
    // Of names that stand in the source.
    expect(made).toEqual(['json-api/schema.ts']);
  });

  it.each([
    ['three repetitions that take the same', /(unknown|extra)[\s_-]+(\w+[\s_-]+)?(field|name)/i],
    ['slashes at either end', /^\/+|\/+$/g],
    ['slashes at the end', /\/+$/],
    ['a repeated group', /^(\w+\s?)*$/],
  ])('that has %s is found', (_what, regex) => {
    expect(freezes(regex, harmless)).toMatch(/times a harmless one/);
  });
});
