import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { type ApiKeys, createApiKeys } from '../../../src/keys/api-keys.ts';
import { termsOf } from '../../../src/keys/key-terms.ts';
import { MemoryStore } from '../../../src/index.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const PAGE = readFileSync(`${ROOT}docs/keys.md`, 'utf8');
const FOLDER = `${ROOT}.cache/keys`;

/** Of each section that has a program: its heading, the program, and what that prints. */
const PROGRAMS = PAGE.split(/^## /m).flatMap((section) => {
  const [, program = '', printed = ''] =
    /^```ts\n(.*?)^```(?:\n\n^```text\n(.*?)^```)?/ms.exec(section) ?? [];
  return program === '' ? [] : [[section.split('\n')[0] ?? '', program, printed] as const];
});

describe('docs/keys.md', () => {
  it.each(PROGRAMS)(
    'has a program that runs, and what it prints: %s',
    { timeout: 30_000 },
    async (heading, program, printed) => {
      mkdirSync(FOLDER, { recursive: true });
      const file = `${FOLDER}/${heading.replaceAll(/\W+/g, '-')}.ts`;
      const source = program
        .replaceAll("'chat-completions-router'", "'../../src/index.ts'")
        .replaceAll("'chat-completions-router/testing'", "'../../src/testing.ts'");
      writeFileSync(file, source);
      const { stdout } = await promisify(execFile)(process.execPath, [file]);
      rmSync(file);
      const told = stdout.replaceAll(/sk-ccr-\w{48}/g, 'sk-ccr-…').replaceAll(/20\d\d-[\d:T.-]+Z/g, '20…Z');
      expect(told).toBe(printed);
    },
  );

  it('has an example of each operation, and a row for each field', () => {
    expect(PROGRAMS).toHaveLength(8);
    const store = new MemoryStore();
    const operations = Object.keys(createApiKeys(store, { invalidate: () => {}, forget: () => {} }));
    const used = PROGRAMS.map(([, program]) => program).join('\n');
    for (const operation of operations as (keyof ApiKeys)[])
      expect(used).toContain(`router.keys.${operation}(`);
    const [, takes = ''] = /it takes (.*)$/.exec(messageOf(() => termsOf({ other: 1 } as object))) ?? [];
    expect(takes.split(', ')).toHaveLength(9);
    for (const field of takes.split(', ')) expect(PAGE).toMatch(new RegExp(`^\\| \`${field}\` `, 'm'));
  });
});

function messageOf(call: () => unknown): string {
  try {
    call();
    return '';
  } catch (error) {
    return String(error);
  }
}
