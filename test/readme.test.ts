import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { PRESETS } from '../src/models/presets.ts';

const ROOT = new URL('..', import.meta.url).pathname;
const README = readFileSync(`${ROOT}README.md`, 'utf8');

describe('the README', () => {
  it('has programs that compile', { timeout: 60_000 }, () => {
    const folder = `${ROOT}.cache/readme`;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const programs = blocks('ts').filter((block) => block.includes('import '));
    expect(programs.length).toBeGreaterThanOrEqual(2);
    programs.forEach((program, i) => {
      writeFileSync(`${folder}/${i}.ts`, program);
    });
    const paths = { 'chat-completions-router': ['../../src/index.ts'] };
    const config = {
      extends: '../../tsconfig.json',
      compilerOptions: { paths, noPropertyAccessFromIndexSignature: false },
      include: ['*.ts'],
    };
    writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(config));
    const { stdout, status } = spawnSync('tsc', ['-p', folder], { encoding: 'utf8' });
    expect(stdout).toBe('');
    expect(status).toBe(0);
  });

  it('names every code that an error can have, and no other', () => {
    const source = readFileSync(`${ROOT}src/errors.ts`, 'utf8');
    const declared = [...source.matchAll(/readonly code\b(?: = |:)([^;]*);/g)]
      .flatMap(([, codes = '']) => [...codes.matchAll(/'([a-z_]+)'/g)])
      .map(([, code = '']) => code);
    expect(declared.length).toBeGreaterThan(25);
    const table = README.slice(README.indexOf('## Errors'), README.indexOf('## Streaming'));
    const rows = table.split('\n').filter((line) => /^\| \d{3}/.test(line));
    const documented = rows.flatMap((row) => [...(row.split('|')[2] ?? '').matchAll(/`([a-z_]+)`/g)]);
    expect(new Set(documented.map(([, code]) => code))).toEqual(new Set(declared));
  });

  it('names every preset', () => {
    for (const name of Object.keys(PRESETS)) expect(README).toContain(`\`${name}\``);
  });

  it('names only commands and files that exist', () => {
    const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
      scripts: Record<string, string>;
    };
    for (const [, script = ''] of README.matchAll(/npm run ([a-z]+)/g))
      expect(scripts).toHaveProperty(script);
    for (const [, path = ''] of README.matchAll(/\]\((?!https?:)([^)#]+)\)/g)) {
      expect(() => readdirOrFile(`${ROOT}${path}`), path).not.toThrow();
    }
  });
});

function blocks(language: string): string[] {
  return [...README.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(
    ([, code = '']) => code,
  );
}

function readdirOrFile(path: string): unknown {
  return path.endsWith('/') || !/\.\w+$/.test(path) ? readdirSync(path) : readFileSync(path);
}
