import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../../..');

/** A fenced block of code of a page. */
export interface DocumentedBlock {
  /** `docs/pricing.md`, `README.md` */
  readonly page: string;
  readonly line: number;
  /** As the fence names it; empty if it names none. */
  readonly language: string;
  readonly code: string;
  /** What its first line says in a comment: a file, or what the block shows. */
  readonly name: string | undefined;
}

/** All blocks of README.md, CONTRIBUTING.md and docs/. */
export function documentedBlocks(): readonly DocumentedBlock[] {
  const pages = ['README.md', 'CONTRIBUTING.md', ...globSync('docs/*.md', { cwd: ROOT }).sort()];
  return pages.flatMap((page) => {
    const source = readFileSync(join(ROOT, page), 'utf8');
    return [...source.matchAll(/^```(\w*)[^\n]*\n(.*?)^```$/gms)].map(
      ({ index, 1: language = '', 2: code = '' }) => ({
        page,
        line: source.slice(0, index).split('\n').length,
        language,
        code,
        name: /^(?:\/\/|#) (.+)\n/.exec(code)?.[1],
      }),
    );
  });
}

/** The commands of a shell block; of a transcript, the lines behind its prompts. */
export function shellCommands({ code }: DocumentedBlock): string {
  if (!/^\$ /m.test(code)) return code;
  return [...code.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm)].map(([, command]) => command).join('\n');
}

/** The words of each call of a command in a script, without its name: `npx chat-completions-router`. */
export function callsOf(name: string, script: string): readonly (readonly string[])[] {
  const lines = script.replaceAll('\\\n', ' ').split('\n');
  return lines.flatMap((line) =>
    line
      .split(new RegExp(String.raw`(?<=^|[\s;&|('"])${name}(?=\s|$)`))
      .slice(1)
      .map((rest) => {
        const words = [];
        // An argument may be quoted; a comment, a pipe, a redirection or the next command ends the call.
        for (const [word] of rest.matchAll(/"[^"]*"|'[^']*'|[;&|<>)]+|[^\s"';&|<>)]+/g)) {
          if (/^[#;&|<>)]/.test(word)) break;
          words.push(word.replaceAll(/^["']|["']$/g, ''));
        }
        return words;
      }),
  );
}
