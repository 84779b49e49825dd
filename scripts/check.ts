/**
 * `npm run check`: everything but the tests that says whether the project is sound; a line a step,
 * and the whole output of what failed.
 */
import { spawnSync } from 'node:child_process';

const startedAt = Date.now();
let failures = 0;

step('page', 'node', 'scripts/page.ts');
step('format', 'oxfmt', '--check');
step('lint', 'oxlint', '--type-aware', '--deny-warnings');
step('words', 'node', 'scripts/words.ts');
step('types', 'tsc', '-p', 'tsconfig.json');
step("the console's types", 'tsc', '-p', 'src/admin/page/tsconfig.json');
step("the account's types", 'tsc', '-p', 'src/account/page/tsconfig.json');
step('dead code', 'knip');
step('build', 'npm', 'run', '--silent', 'build');
step('architecture', 'vitest', 'run', 'test/unit/architecture.test.ts');

const outcome = failures === 0 ? 'All checks passed' : `${failures} of the checks failed`;
console.log(`${outcome}, in ${secondsSince(startedAt)}.`);
process.exit(failures === 0 ? 0 : 1);

function step(name: string, command: string, ...args: readonly string[]): boolean {
  const stepStartedAt = Date.now();
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  const passed = status === 0;
  console.log(`${passed ? 'ok  ' : 'FAIL'}  ${name.padEnd(20)}${secondsSince(stepStartedAt)}`);
  if (!passed) {
    failures += 1;
    console.log([error?.message, stdout, stderr].filter(Boolean).join('\n'));
  }
  return passed;
}

function secondsSince(time: number): string {
  return `${((Date.now() - time) / 1000).toFixed(1)} s`;
}
