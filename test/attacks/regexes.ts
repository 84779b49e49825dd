import { readdirSync, readFileSync } from 'node:fs';

import { parseSync } from 'vite';

const SRC = new URL('../../src/', import.meta.url);

/** A regular expression of `src`, and where it stands. */
export interface FoundRegex {
  readonly regex: RegExp;
  readonly place: string;
}

/** The regular expressions that stand in the code of `src`, and where one is made of text. */
export function regexesOfSource(): { readonly literals: FoundRegex[]; readonly made: string[] } {
  const literals: FoundRegex[] = [];
  const made: string[] = [];
  for (const file of readdirSync(SRC, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const code = readFileSync(new URL(file, SRC), 'utf8');
    visit(parseSync(file, code).program, (node) => {
      const { regex, callee } = node;
      if (isNode(regex)) {
        const place = `${file}:${code.slice(0, Number(node['start'])).split('\n').length}`;
        literals.push({ regex: new RegExp(String(regex['pattern']), String(regex['flags'])), place });
      }
      if (isNode(callee) && callee['name'] === 'RegExp') made.push(file);
    });
  }
  return { literals, made };
}

type SyntaxNode = Readonly<Record<string, unknown>>;

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null;
}

function visit(value: unknown, found: (node: SyntaxNode) => void): void {
  if (!isNode(value)) return;
  if (!Array.isArray(value)) found(value);
  for (const child of Object.values(value)) visit(child, found);
}
