import { globSync } from 'node:fs';

import { expect, it } from 'vitest';

import config from '../../vitest.config.ts';
import { closingLine } from '../helpers/closing-line.ts';

const ROOT = new URL('../..', import.meta.url).pathname;

interface Tier {
  readonly test: { readonly name: string; readonly include: string[]; readonly exclude?: string[] };
}

it('has each test in one tier', () => {
  const filesOf = (patterns: string[], exclude: string[] = []): string[] =>
    globSync(patterns, { cwd: ROOT, exclude: ['**/node_modules/**', ...exclude] });
  const { projects = [] } = config.test ?? {};
  // The project `undici` repeats some of the integration tier.
  const tiers = (projects as Tier[]).filter(({ test }) => test.name !== 'undici');
  const inTiers = tiers.flatMap(({ test }) => filesOf(test.include, test.exclude));
  // Run by a test of the packed package, where it is installed.
  const all = filesOf(['test/**/*.test.ts'], ['test/e2e/package/contracts/**']);
  expect(all.length).toBeGreaterThan(200);
  expect(inTiers.toSorted()).toEqual(all.toSorted());
});

it('counts an error that no test caught as a failure', () => {
  expect(closingLine([], [new Error('unhandled')])).toBe('0 passed, 1 failed, 0 skipped');
  expect(closingLine([], [])).toBeUndefined();
});
