import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

const ROOT = new URL('../../..', import.meta.url).pathname;
// Below `test/e2e`, which has the packages that the programs import.
const FOLDER = `${ROOT}test/e2e/.cache/programs`;
const PAGES = [
  'README.md',
  ...readdirSync(`${ROOT}docs`)
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

describe('the programs in the README and in docs', () => {
  it('compile', { timeout: 60_000 }, () => {
    rmSync(FOLDER, { recursive: true, force: true });
    mkdirSync(FOLDER, { recursive: true });
    const programs = PAGES.flatMap((page) => {
      const source = readFileSync(`${ROOT}${page}`, 'utf8');
      return blocks(source, 'ts').filter((block) => block.includes('import '));
    });
    expect(programs.length).toBeGreaterThanOrEqual(6);
    programs.forEach((program, i) => {
      // One that begins with its name is imported by others of its page.
      const [, name = `${i}.ts`] = /^\/\/ ([a-z]+\.ts)\n/.exec(program) ?? [];
      writeFileSync(`${FOLDER}/${name}`, program);
    });
    const paths = {
      'chat-completions-router': ['../../../../src/index.ts'],
      'chat-completions-router/*': ['../../../../src/*.ts'],
      'chat-completions-router/testing/contracts': ['../../../contracts/index.ts'],
      'next/server.js': ['../../../../src/adapters/next-server.d.ts'],
      '@/router': ['./router.ts'],
    };
    const config = {
      extends: '../../../../tsconfig.json',
      compilerOptions: {
        paths,
        typeRoots: ['../../../../node_modules/@types'],
        noPropertyAccessFromIndexSignature: false,
      },
      include: ['*.ts'],
      exclude: [],
    };
    writeFileSync(`${FOLDER}/tsconfig.json`, JSON.stringify(config));
    const { stdout, status } = spawnSync('tsc', ['-p', FOLDER], { encoding: 'utf8' });
    expect(stdout).toBe('');
    expect(status).toBe(0);
  });
});

describe('the commands in the README and in docs', () => {
  it.each(PAGES)('are what a shell takes: %s', (page) => {
    const source = readFileSync(`${ROOT}${page}`, 'utf8');
    for (const [, input = ''] of source.matchAll(/^ *```sh\n(.*?)^ *```/gms)) {
      const { stderr } = spawnSync('sh', ['-n'], { input, encoding: 'utf8' });
      expect(stderr, input).toBe('');
    }
  });
});

function blocks(page: string, language: string): string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(
    ([, code = '']) => code,
  );
}
