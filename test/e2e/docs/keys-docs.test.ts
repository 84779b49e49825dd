import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { type ApiKeys, createApiKeys } from '../../../src/keys/api-keys.ts';
import { termsOf } from '../../../src/keys/key-terms.ts';
import { MemoryStore } from '../../../src/index.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const PAGE = readFileSync(`${ROOT}docs/keys.md`, 'utf8');
const FOLDER = `${ROOT}.cache/keys`;

type Program = readonly [heading: string, program: string, printed: string];

/** Of each section that has a program: its heading, the program, and what that prints. */
function programsIn(page: string): readonly Program[] {
  return page.split(/^## /m).flatMap((section) => {
    const [, program = '', printed = ''] =
      /^```ts\n(.*?)^```(?:\n\n^```text\n(.*?)^```)?/ms.exec(section) ?? [];
    return program === '' ? [] : [[section.split('\n')[0] ?? '', program, printed] as const];
  });
}

const PROGRAMS = programsIn(PAGE);
const CREDITS = programsIn(readFileSync(`${ROOT}docs/credits.md`, 'utf8'));

describe('docs/keys.md', () => {
  it.each(PROGRAMS)(
    'has a program that runs, and what it prints: %s',
    { timeout: 30_000 },
    async (heading, program, printed) => {
      const stdout = await outputOf(heading, program);
      const steady = stdout.replaceAll(/sk-ccr-\w{48}/g, 'sk-ccr-…').replaceAll(/20\d\d-[\d:T.-]+Z/g, '20…Z');
      expect(steady).toBe(printed);
    },
  );

  it('has an example of each operation, and a row for each field', () => {
    expect(PROGRAMS).toHaveLength(12);
    const store = new MemoryStore();
    const operations = Object.keys(createApiKeys(store, { invalidate: () => {}, forget: () => {} }));
    const used = PROGRAMS.map(([, program]) => program).join('\n');
    for (const operation of operations as (keyof ApiKeys)[])
      expect(used).toContain(`router.keys.${operation}(`);
    const [, takes = ''] = /it takes (.*)$/.exec(messageOf(() => termsOf({ other: 1 } as object))) ?? [];
    expect(takes.split(', ')).toHaveLength(11);
    for (const field of takes.split(', ')) expect(PAGE).toMatch(new RegExp(`^\\| \`${field}\` `, 'm'));
  });
});

describe('docs/credits.md', () => {
  it('begins with a program that runs, and what it prints', { timeout: 30_000 }, async () => {
    const [[heading, program, printed] = ['', '', '']] = CREDITS;
    expect(heading).toBe('Grant credits');
    expect(printed).toContain("balance: '24.00'");
    expect(await outputOf('credits', program)).toBe(printed);
  });
});

/** What a program prints, in an empty folder. */
async function outputOf(name: string, program: string): Promise<string> {
  mkdirSync(FOLDER, { recursive: true });
  const folder = mkdtempSync(`${FOLDER}/${name.replaceAll(/\W+/g, '-')}-`);
  const source = program
    .replaceAll("'chat-completions-router'", "'../../../src/index.ts'")
    .replaceAll("'chat-completions-router/testing'", "'../../../src/testing.ts'");
  writeFileSync(`${folder}/program.ts`, source);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, ['program.ts'], { cwd: folder });
    return stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function messageOf(call: () => unknown): string {
  try {
    call();
    return '';
  } catch (error) {
    return String(error);
  }
}
