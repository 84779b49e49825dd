import { describe, expect, it } from 'vitest';

import { flaggedWords } from '../../scripts/words.ts';

describe('the word list', () => {
  it('says which line has a flagged word, and what to write instead', () => {
    expect(flaggedWords('/** Fine. */\n/** Asks an unknown stranger. */')).toEqual([
      { line: 2, word: 'stranger', suggestion: 'unauthenticated client' },
    ]);
  });

  it.each(['adminDoor', 'The web door', 'STRANGERS', 'Nobody knows', 'MOST_BYTES'])('flags %s', (text) => {
    expect(flaggedWords(text)).toHaveLength(1);
  });

  it.each(['most_bytes', 'utmost_', 'canew', 'a status', 'so longer'])('does not flag %s', (text) => {
    expect(flaggedWords(text)).toEqual([]);
  });

  it.each(['told\n * of', 'told\n  // of', 'told\n-- of', 'told\nof'])(
    'finds a phrase across lines: %j',
    (text) => {
      expect(flaggedWords(`It gets\n${text} a change`)).toMatchObject([{ line: 2, word: 'told of' }]);
    },
  );

  it('names the longer phrase, where two overlap', () => {
    expect(flaggedWords('a clock that nobody sets')).toMatchObject([{ suggestion: 'monotonic clock' }]);
  });
});
