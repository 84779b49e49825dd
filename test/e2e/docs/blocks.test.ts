import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { main } from '../../../src/cli/main.ts';
import * as library from '../../../src/index.ts';
import {
  callsOf,
  type DocumentedBlock,
  documentedBlocks,
  shellCommands,
} from '../helpers/documented-blocks.ts';

const ROOT = join(import.meta.dirname, '../../..');
// Below `test/e2e`, which has the packages that the programs import.
const FOLDER = join(ROOT, 'test/e2e/.cache/programs');
const BLOCKS = documentedBlocks();

/** Blocks of a language that another test runs. A block of TypeScript or JavaScript is also run if a test has its name. */
const RUN_BY: Readonly<Record<string, string>> = {
  'docs/account-page.md tsx': 'test/e2e/examples/next.test.ts',
  'docs/coding-tools.md toml': 'test/unit/docs/guides.test.ts',
  'docs/clients.md go': 'test/e2e/languages/shown-program.ts',
  'docs/clients.md java': 'test/e2e/languages/shown-program.ts',
  'docs/clients.md js': 'test/e2e/clients/docs.test.ts',
  'docs/clients.md python': 'test/e2e/languages/shown-program.ts',
  'docs/clients.md rust': 'test/e2e/languages/shown-program.ts',
  'docs/reverse-proxies.md caddy': 'test/helpers/reverse-proxy.ts',
  'docs/reverse-proxies.md haproxy': 'test/helpers/reverse-proxy.ts',
  'docs/reverse-proxies.md nginx': 'test/helpers/reverse-proxy.ts',
};

/** Output and diagrams. */
const NO_CODE = ['', 'csv', 'diff', 'http', 'mermaid', 'text', 'txt'];
const PROGRAMS = ['js', 'ts', 'tsx'];
const SHELL = ['bash', 'console', 'sh', 'shell'];

const TESTS = globSync('test/**/*.test.ts', { cwd: ROOT, exclude: ['**/node_modules/**', '**/.apps/**'] })
  .filter((file) => basename(file) !== 'blocks.test.ts')
  .map((file) => readFileSync(join(ROOT, file), 'utf8'))
  .join('\n');

const place = ({ page, line }: DocumentedBlock): string => `${page}:${line}`;
const inLanguages = (...languages: readonly string[]): readonly DocumentedBlock[] =>
  BLOCKS.filter(({ language }) => languages.includes(language));
const isRunElsewhere = ({ page, language, name }: DocumentedBlock): boolean =>
  `${page} ${language}` in RUN_BY ||
  (name !== undefined && ["'", '"', '`'].some((quote) => TESTS.includes(quote + name + quote)));

/** What lines that are no whole program use: `router.credits.grant(…)`. */
const CONTEXT = `
import type { Express } from 'express';
import type { ChatCompletionsRouter, createChatCompletionsRouter } from 'chat-completions-router';
export * from 'chat-completions-router';
export declare const router: ChatCompletionsRouter;
export declare const app: Express;
export declare const models: Parameters<typeof createChatCompletionsRouter>[0]["models"];
export declare const session: string;
export declare const apiKey: string, groqKey: string, key1: string, key2: string, keyId: string;
`;
const CONTEXT_NAMES = [
  'app',
  'apiKey',
  'groqKey',
  'key1',
  'key2',
  'keyId',
  'session',
  'models',
  'router',
  ...Object.keys(library),
];

function programOf({ code }: DocumentedBlock): string {
  if (/^import |\bimport\(|\brequire\(/m.test(code)) return code;
  const used = CONTEXT_NAMES.filter(
    (name) =>
      new RegExp(String.raw`(?<![.\w'])${name}\b(?!['\w]|: )`).test(code) &&
      !new RegExp(String.raw`\b(?:const|let|function|class) ${name}\b`).test(code),
  );
  return used.length === 0 ? code : `import { ${used.join(', ')} } from '../context.ts'; ${code}`;
}

it('are found on every page that has some', () => {
  expect(BLOCKS.length).toBeGreaterThan(100);
});

it('of TypeScript and JavaScript compile', { timeout: 120_000 }, () => {
  rmSync(FOLDER, { recursive: true, force: true });
  const written = new Set<string>();
  const folders = new Set<string>();
  for (const block of inLanguages(...PROGRAMS)) {
    if (block.language !== 'ts' && isRunElsewhere(block)) continue;
    const folder = basename(block.page, '.md');
    folders.add(folder);
    mkdirSync(join(FOLDER, folder), { recursive: true });
    // One that begins with its name is imported by others of its page.
    const named = `${folder}/${/^[\w-]+\.[jt]sx?$/.exec(block.name ?? '')?.[0]}`;
    const file =
      named.endsWith('undefined') || written.has(named)
        ? `${folder}/line-${block.line}.${block.language}`
        : named;
    written.add(file);
    writeFileSync(join(FOLDER, file), programOf(block));
  }
  expect(written.size).toBeGreaterThan(50);
  writeFileSync(join(FOLDER, 'context.ts'), CONTEXT);
  const paths = {
    'chat-completions-router': ['../../../../src/index.ts'],
    'chat-completions-router/*': ['../../../../src/*.ts'],
    'chat-completions-router/testing/contracts': ['../../../contracts/index.ts'],
    'next/server.js': ['../../../../src/adapters/next-server.d.ts'],
    '@/router': ['./frameworks/router.ts'],
  };
  const config = {
    extends: '../../../../tsconfig.json',
    compilerOptions: {
      paths,
      rootDirs: [...folders],
      typeRoots: ['../../../../node_modules/@types'],
      allowJs: true,
      checkJs: true,
      noPropertyAccessFromIndexSignature: false,
      noUnusedLocals: false,
    },
    include: ['**/*'],
    exclude: [],
  };
  writeFileSync(join(FOLDER, 'tsconfig.json'), JSON.stringify(config));
  const { stdout, status } = spawnSync('tsc', ['-p', FOLDER], { encoding: 'utf8' });
  expect(stdout.replaceAll('test/e2e/.cache/programs/', '')).toBe('');
  expect(status).toBe(0);
});

it.each(inLanguages('json', 'jsonc').map((block) => [place(block), block] as const))(
  'are JSON: %s',
  (_, { code }) => {
    const whole = code.replaceAll(/^\s*\/\/.*$/gm, '').replaceAll(/([{[])…(?=[}\]])/g, '$1');
    const parse = (text: string): unknown => JSON.parse(text);
    // One value, or one in each line.
    const lines = whole.trim().split('\n');
    if (lines.length > 1 && lines.every((line) => /^\{.*\}$/.test(line))) lines.forEach(parse);
    else parse(whole);
  },
);

it.each(inLanguages('yaml', 'yml').map((block) => [place(block), block] as const))(
  'are YAML: %s',
  (_, { code }) => {
    expect(parseAllDocuments(code).flatMap(({ errors }) => errors)).toEqual([]);
  },
);

describe.each(inLanguages(...SHELL).map((block) => [place(block), block] as const))(
  'commands: %s',
  (_, block) => {
    const script = shellCommands(block);

    it('are valid shell, with scripts of package.json', () => {
      const { stderr } = spawnSync('bash', ['-n'], { input: script, encoding: 'utf8' });
      expect(stderr).toBe('');
      const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object };
      if (block.page === 'README.md' || block.page === 'CONTRIBUTING.md')
        for (const [name = ''] of callsOf('npm run', script)) expect(scripts).toHaveProperty([name]);
    });

    it('are commands and options that the CLI has', async () => {
      for (const words of callsOf('npx chat-completions-router', script)) {
        const options = words.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0] ?? '');
        const command = words.filter((word) => !word.startsWith('-'));
        const help = await helpOf(command);
        // Without a command, the help has its two options in a sentence.
        const before = command.length === 0 ? '(?<![\\w-])' : '^ *';
        for (const option of options)
          expect(help, words.join(' ')).toMatch(new RegExp(`${before}${option}(?![\\w-])`, 'm'));
      }
    });
  },
);

it('of other languages are run by the test that is named here', () => {
  const known = [...NO_CODE, ...PROGRAMS, ...SHELL, 'json', 'jsonc', 'yaml', 'yml'];
  const others = BLOCKS.filter((block) => !known.includes(block.language) && !isRunElsewhere(block));
  expect(others.map((block) => `${place(block)} ${block.language}`)).toEqual([]);
  for (const [which, file] of Object.entries(RUN_BY)) {
    expect(
      BLOCKS.some(({ page, language }) => `${page} ${language}` === which),
      which,
    ).toBe(true);
    const [page = ''] = which.split(' ');
    expect(readFileSync(join(ROOT, file), 'utf8'), which).toContain(basename(page));
  }
});

/** What a command says of itself. @throws if there is no such command */
async function helpOf(words: readonly string[]): Promise<string> {
  const lines: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line));
  const error = vi.spyOn(console, 'error').mockImplementation((line: string) => void lines.push(line));
  try {
    // Its options are those of the command that the first words name.
    expect(await main([...words, '--help']), `${words.join(' ')}: ${lines.join('\n')}`).toBe(0);
  } finally {
    log.mockRestore();
    error.mockRestore();
  }
  return lines.join('\n');
}
