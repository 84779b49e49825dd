import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One line of the ledger's code, changed so that it means something else. */
export interface Mutant {
  /** Path below `src/ledger`. */
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  readonly original: string;
  /** Empty where the line is left out. */
  readonly mutant: string;
}

export const SOURCE: string = new URL('../../src/ledger', import.meta.url).pathname;

/** What decides about money, by the stores whose tests must notice a change of it. */
const CODE = {
  redis: readdirSync(ledger('stores/redis/lua'))
    .filter((name) => !['define-script.ts', 'key-fields.ts', 'try-commands.ts'].includes(name))
    .map((name) => `stores/redis/lua/${name}`),
  memory: [
    'engine/account-engine.ts',
    'engine/lots.ts',
    'engine/grants.ts',
    'engine/due-credits.ts',
    'engine/allowances.ts',
    'engine/renewals.ts',
    'engine/periods.ts',
    'engine/refunds.ts',
    'engine/key-states.ts',
    'engine/witnesses.ts',
    'engine/key-limits.ts',
    'engine/limit-holders.ts',
    'engine/account-rows.ts',
  ],
} as const;

export type Kind = keyof typeof CODE;

type Language = 'lua' | 'typescript';

/** These link the Lua of the others, to scripts and to a library: they are mutated as TypeScript too. */
const LINKERS = ['stores/redis/lua/library.ts', 'stores/redis/lua/link-lua.ts'];

/** All mutants of one kind, in the order of the code. */
export function mutantsOf(kind: Kind): Mutant[] {
  return CODE[kind].flatMap((file) => {
    const lines = readFileSync(ledger(file), 'utf8').split('\n');
    const languages = languagesOf(kind, file, lines);
    return lines.flatMap((original, index) => {
      const language = languages.get(index);
      if (!language) return [];
      const changes = new Set(variants(original, language));
      return [...changes].map((mutant) => ({ file, line: index + 1, original, mutant }));
    });
  });
}

/** The file's text with the mutant in it. */
export function mutated({ file, line, original, mutant }: Mutant): string {
  const lines = readFileSync(ledger(file), 'utf8').split('\n');
  if (lines[line - 1] !== original) throw new Error(`${file}:${line} is not what it was`);
  lines[line - 1] = mutant;
  return lines.join('\n');
}

function ledger(path: string): string {
  return join(SOURCE, path);
}

/** The language of each line that can be mutated, by its index. */
function languagesOf(kind: Kind, file: string, lines: readonly string[]): Map<number, Language> {
  const languages = new Map<number, Language>();
  if (kind === 'memory' || LINKERS.includes(file)) {
    for (const index of linesOfFunctions(lines)) languages.set(index, 'typescript');
  }
  if (kind === 'redis') for (const index of linesOfLua(lines)) languages.set(index, 'lua');
  return languages;
}

/** Lines within a template of Lua, without its comments and its blank lines. */
function linesOfLua(lines: readonly string[]): Set<number> {
  const found = new Set<number>();
  let within = false;
  for (const [index, line] of lines.entries()) {
    const ends = within && line.startsWith('`');
    if (within && !ends && !/^\s*(--.*)?$|^\$\{|^#!lua/.test(line)) found.add(index);
    if (line.includes('/* lua */ `')) within = true;
    if (ends) within = false;
  }
  return found;
}

/** Lines of TypeScript that run: no imports, comments, signatures or closing brackets. */
function linesOfFunctions(lines: readonly string[]): Set<number> {
  const found = new Set<number>();
  let types = false;
  for (const [index, line] of lines.entries()) {
    if (/^(export )?(interface|type|import)\b/.test(line) && !line.endsWith(';')) types = true;
    if (!types && /^ {2,}\S|^const [A-Z_]+ = /.test(line) && !/^\s*(\/\/|\*|\/\*)/.test(line))
      found.add(index);
    if (types && /^[}\]]|;$/.test(line) && !/^\s/.test(line)) types = false;
  }
  return found;
}

interface Operator {
  readonly find: RegExp;
  readonly become: readonly string[];
}

const COMMON: readonly Operator[] = [
  { find: / < /, become: [' <= ', ' > '] },
  { find: / <= /, become: [' < '] },
  { find: / > /, become: [' >= ', ' < '] },
  { find: / >= /, become: [' > '] },
  { find: / \+ /, become: [' - '] },
  { find: / - /, become: [' + '] },
  { find: / \* /, become: [' + '] },
  { find: /[mM]ath\.min/, become: ['math.max'] },
  { find: /[mM]ath\.max/, become: ['math.min'] },
  { find: /\btrue\b/, become: ['false'] },
  { find: /\bfalse\b/, become: ['true'] },
];

const OPERATORS: Readonly<Record<Language, readonly Operator[]>> = {
  lua: [
    ...COMMON,
    { find: / == /, become: [' ~= '] },
    { find: / ~= /, become: [' == '] },
    { find: / and /, become: [' or '] },
    { find: / or /, become: [' and '] },
    { find: /\bnot /, become: [''] },
    { find: /'[HSVX]'/, become: ["'H'", "'S'", "'V'", "'X'"] },
    { find: /(?<![\w.'%"])\d+(?![\w'.])/, become: ['{+1}'] },
    { find: /ARGV\[\d\]/, become: ['{next}'] },
    { find: /\bnil\b/, become: ['1'] },
  ],
  typescript: [
    ...COMMON,
    { find: / === /, become: [' !== '] },
    { find: / !== /, become: [' === '] },
    { find: / && /, become: [' || '] },
    { find: / \|\| /, become: [' && '] },
    { find: /\?\? /, become: ['&& '] },
    { find: / \+= /, become: [' -= '] },
    { find: / -= /, become: [' += '] },
    { find: /(?<=[( ])!(?=\w)/, become: [''] },
    { find: /(?<![\w.'])\d+n\b/, become: ['{+1}'] },
    { find: /(?<![\w.'])\d[\d_]*(?![\w.'])/, become: ['{+1}'] },
    { find: /'(held|settled|voided|expired)'/, become: ["'held'", "'settled'", "'voided'", "'expired'"] },
    { find: /\bleast\((?!a: )/, become: ['(most)('] },
  ],
};

function* variants(line: string, language: Language): Generator<string> {
  for (const { find, become } of OPERATORS[language]) {
    for (const match of line.matchAll(new RegExp(find, 'g'))) {
      for (const to of become) {
        const next = replacement(match[0], to, language);
        if (next !== match[0])
          yield line.slice(0, match.index) + next + line.slice(match.index + match[0].length);
      }
    }
  }
  if (isStatement(line, language)) yield '';
}

function replacement(from: string, to: string, language: Language): string {
  if (to === '{+1}')
    return from.endsWith('n')
      ? `${BigInt(from.slice(0, -1)) + 1n}n`
      : String(Number(from.replaceAll('_', '')) + 1);
  if (to === '{next}') return `ARGV[${Number(from[5]) + 1}]`;
  if (to === '(most)(') return '((a: bigint, b: bigint) => (a > b ? a : b))(';
  return language === 'typescript' ? to.replace('math.', 'Math.') : to;
}

/** Lines that can be left out whole, and are missed by their effect alone. */
function isStatement(line: string, language: Language): boolean {
  if (language === 'lua') {
    const balanced =
      line.split('(').length === line.split(')').length && line.split('{').length === line.split('}').length;
    return (
      balanced &&
      /^\s*(if .* then .* end$|redis\.call\(|[\w.]+(\[[^\]]*\])?(, [\w.]+)* = [^=]|\w+\(.*\)$)/.test(line)
    );
  }
  return /^\s*(if \(.*\) .*;$|(?!return|const|let|export|throw)[\w.?]+(\(.*\)| [-+]?= .*| \?\?= .*);$)/.test(
    line,
  );
}
