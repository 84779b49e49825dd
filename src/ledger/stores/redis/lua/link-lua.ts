/**
 * Links a script: its own source with the shared parts prepended.
 *
 * Each run of a script creates all of its functions, with a reference to each local that they use, which took a tenth of a
 * request's time in Redis. So constants (locals with names in capitals) are inlined, and unused functions and comments are
 * removed.
 */
export function linkLua(source: string): string {
  return withoutUnused(withoutConstants(withoutComments(source)));
}

export function withoutComments(source: string): string {
  return source.replaceAll(COMMENT, '');
}

export function withoutConstants(source: string): string {
  const values = new Map([...source.matchAll(CONSTANT)].map(([, name = '', value = '']) => [name, value]));
  return source.replaceAll(CONSTANT, '').replaceAll(CAPITALS, (name) => values.get(name) ?? name);
}

function withoutUnused(source: string): string {
  const { rest, functions } = functionsOf(source);
  let kept: readonly LuaFunction[] = functions;
  for (;;) {
    const words = wordsOf([...kept.map(({ text }) => text), rest].join(''));
    const used = kept.filter(({ name, text }) => (words.get(name) ?? 0) > (wordsOf(text).get(name) ?? 0));
    if (used.length === kept.length) break;
    kept = used;
  }
  const unused = new Set(functions.filter((each) => !kept.includes(each)).map(({ text }) => text));
  return functions.reduce(
    (linked, { text }) => (unused.has(text) ? linked.replace(text, '') : linked),
    source,
  );
}

interface LuaFunction {
  readonly name: string;
  readonly text: string;
}

/** The functions at the top of a script: from `local function` to the `end` that stands at the margin. */
function functionsOf(source: string): { rest: string; functions: LuaFunction[] } {
  const functions: LuaFunction[] = [];
  let rest = '';
  let lines: string[] | undefined;
  for (const line of source.split(/(?<=\n)/)) {
    if (line.startsWith('local function ')) lines = [];
    if (!lines) rest += line;
    lines?.push(line);
    if (!lines || line !== 'end\n') continue;
    const name = /^local function (\w+)/.exec(lines[0] ?? '')?.[1] ?? '';
    functions.push({ name, text: lines.join('') });
    lines = undefined;
  }
  return { rest: rest + (lines?.join('') ?? ''), functions };
}

function wordsOf(text: string): Map<string, number> {
  const words = new Map<string, number>();
  for (const [word] of text.matchAll(/\w+/g)) words.set(word, (words.get(word) ?? 0) + 1);
  return words;
}

const COMMENT = /^ *-- .*\n/gm;
const CONSTANT = /^local ([A-Z_]+) = (KEYS\[\d+\]|'[^']*'|-?\d+)\n/gm;
/** Except in quotes, where they are the name of a command. */
const CAPITALS = /(?<!['\w])[A-Z_]{2,}(?!['\w])/g;
