/** The word with the smallest edit distance to `typed`, at most a third of its length; undefined if there is none. */
export function didYouMean(typed: string, words: readonly string[]): string | undefined {
  const [best] = words
    .map((word) => ({ word, edits: distance(typed, word) }))
    .filter(({ word, edits }) => edits <= Math.max(1, Math.floor(word.length / 3)))
    .sort((one, other) => one.edits - other.edits);
  return best?.word;
}

/** Says that a value is none of the accepted ones, with the nearest of them. */
export function notOneOf(what: string, choices: readonly string[], value: string): string {
  const near = didYouMean(value, choices);
  const hint = near === undefined ? '' : `; did you mean ${near}?`;
  return `${what} must be one of ${choices.join(', ')}, got ${JSON.stringify(value)}${hint}`;
}

/** Edit distance: insertions, deletions, replacements and swaps of neighbors. */
function distance(one: string, other: string): number {
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
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
