import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = new URL('../..', import.meta.url).pathname;

export interface ConsoleExample {
  readonly command: string;
  /** What it prints; … stands for anything. */
  readonly output: string;
}

/** The commands in the blocks `console` of a page of docs, in their order, with what the page says that they print. */
export function consoleExamples(page: string): readonly ConsoleExample[] {
  const source = readFileSync(`${ROOT}docs/${page}`, 'utf8');
  return [...source.matchAll(/^```console\n(.*?)^```/gms)].flatMap(([, block = '']) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((each) => {
        const [command = '', ...output] = each.split('\n');
        return { command, output: output.join('\n') };
      }),
  );
}

/** The first block of a page in a language. */
export function firstBlock(page: string, language: string): string {
  const source = readFileSync(`${ROOT}docs/${page}`, 'utf8');
  return new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'ms').exec(source)?.[1] ?? '';
}

/** Makes a folder for PATH, in which `npx NAME` is the built command, without the registry. */
export function npxFolder(folder: string): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const script = `#!/bin/sh\nshift\nexec '${process.execPath}' '${ROOT}dist/cli.js' "$@"\n`;
  writeFileSync(join(bin, 'npx'), script);
  chmodSync(join(bin, 'npx'), 0o755);
  return bin;
}

/** Columns are as wide as what stands in them, and no two runs take as long. */
export function steady(output: string): string {
  return output.replaceAll(/\d+ ms/g, '1 ms').replaceAll(/ +/g, ' ');
}

export function asPattern(output: string): RegExp {
  const pieces = output.split('…').map((piece) => piece.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${pieces.join('.*')}$`, 's');
}
