/**
 * The word with the smallest edit distance to `typed`, at most a third of its length; undefined if there is none.
 *
 * The work is bounded, so that a client can ask for it: of many words, only the first that fit are compared.
 *
 * @param isMeant - whether the word may be suggested; asked of similar words only
 */
export function didYouMean(
  typed: string,
  words: Iterable<string>,
  isMeant: (word: string) => boolean = () => true,
): string | undefined {
  let best: string | undefined;
  let fewest = Infinity;
  let steps = 0;
  for (const word of words) {
    const most = Math.min(fewest - 1, Math.max(1, Math.floor(word.length / 3)));
    if (Math.abs(word.length - typed.length) > most) continue;
    steps += typed.length * word.length;
    if (steps > MAX_STEPS) break;
    const edits = distance(typed, word, most);
    if (edits <= most && isMeant(word)) [best, fewest] = [word, edits];
  }
  return best;
}

/** A few milliseconds. */
const MAX_STEPS = 300_000;

/** `; did you mean "timeouts"?`, or nothing: the end of a message about an unknown word. */
export function suggestion(typed: unknown, words: Iterable<string>): string {
  const near = typeof typed === 'string' ? didYouMean(typed, words) : undefined;
  return near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`;
}

/** Says that a value is not accepted, with the nearest accepted one. */
export function notOneOf(what: string, choices: readonly string[], value: string): string {
  return `${what} must be one of ${choices.join(', ')}, got ${JSON.stringify(value)}${suggestion(value, choices)}`;
}

/** The error for a key that an option doesn't have. @param option - its path: `models["x"].pricing` */
export function keyTypoError(option: string, key: string, known: readonly string[]): TypeError {
  const hint = suggestion(key, known);
  const unknown = `${option} has an unknown key ${JSON.stringify(key)}`;
  return new TypeError(`${unknown}${hint === '' ? '; it' : `${hint} It`} takes ${known.join(', ')}`);
}

/** Edit distance: insertions, deletions, replacements and swaps of neighbors. Stops at more than `most`. */
function distance(one: string, other: string, most: number): number {
  const rows = [Array.from({ length: other.length + 1 }, (_, n) => n)];
  for (let i = 1; i <= one.length; i++) {
    const above = rows[i - 1] ?? [];
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = (above[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      const swapped = isSwap ? (rows[i - 2]?.[j - 2] ?? 0) + 1 : Infinity;
      row.push(Math.min(replaced, swapped, (above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    // A swap reaches back one row more.
    if (Math.min(...above, ...row) > most) return Infinity;
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
