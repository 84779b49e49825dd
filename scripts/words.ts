/**
 * `node scripts/words.ts [PATH…]`: checks comments, texts and names for the words of `flagged-words.json`, which say less
 * than the established term. Without paths it checks all of `CHECKED`.
 *
 * A phrase matches in any case unless it has capitals, across line breaks, and as part of a longer word where it has a `*`.
 */
import { globSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import suggestions from './flagged-words.json' with { type: 'json' };

/** Not checked yet: examples/, test/, bench/. */
const CHECKED = ['src', 'docs', 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'];
const FILES = '**/*.{ts,tsx,css,html,md}';
const EXCLUDED = ['**/node_modules/**', '**/.vitepress/**'];

export interface FlaggedWord {
  readonly line: number;
  /** As in the text. */
  readonly word: string;
  readonly suggestion: string;
}

const PATTERNS = Object.entries(suggestions).map(([phrase, suggestion]) => {
  const source = phrase
    .replaceAll(/\*/g, String.raw`\w*`)
    // A phrase may go on behind the mark of the next line of a comment.
    .replaceAll(' ', String.raw`\s+(?:(?:\*|//|--)\s+)?`);
  const flags = /[A-Z]/.test(phrase) ? 'g' : 'gi';
  return { pattern: new RegExp(String.raw`(?<!\w)${source}(?!\w)`, flags), suggestion };
});

/** Flagged words in the order of their lines; the first phrase of the list wins where several overlap. */
export function flaggedWords(text: string): readonly FlaggedWord[] {
  const found = new Map<
    number,
    { readonly end: number; readonly word: string; readonly suggestion: string }
  >();
  for (const { pattern, suggestion } of PATTERNS) {
    for (const { 0: word, index } of text.matchAll(pattern)) {
      const end = index + word.length;
      const overlaps = [...found].some(([start, other]) => start < end && index < other.end);
      if (!overlaps)
        found.set(index, { end, word: word.replaceAll(/\s+(?:(?:\*|\/\/|--)\s+)?/g, ' '), suggestion });
    }
  }
  return [...found]
    .sort(([one], [other]) => one - other)
    .map(([index, { word, suggestion }]) => ({
      line: text.slice(0, index).split('\n').length,
      word,
      suggestion,
    }));
}

function filesIn(path: string): readonly string[] {
  if (!statSync(path).isDirectory()) return [path];
  const files = globSync(FILES, { cwd: path, exclude: EXCLUDED }).filter(
    (file) => !file.includes('.generated.'),
  );
  return files.sort().map((file) => `${path}/${file}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const paths = process.argv.slice(2);
  const lines = (paths.length > 0 ? paths : CHECKED)
    .flatMap(filesIn)
    .flatMap((file) => [
      ...flaggedWords(file).map(({ word, suggestion }) => `${file}: "${word}": ${suggestion}`),
      ...flaggedWords(readFileSync(file, 'utf8')).map(
        ({ line, word, suggestion }) => `${file}:${line}: "${word}": ${suggestion}`,
      ),
    ]);
  for (const line of lines) console.log(line);
  process.exit(lines.length === 0 ? 0 : 1);
}
