import { spawnSync } from 'node:child_process';

/** Runs vitest, whose output ends with `N passed, N failed, N skipped`, and gives its exit code. */
export function runTests(args: readonly string[], env: NodeJS.ProcessEnv = process.env): number {
  const reporters = ['--reporter=default', '--reporter=./test/helpers/closing-line.ts'];
  return spawnSync('vitest', ['run', ...reporters, ...args], { stdio: 'inherit', env }).status ?? 1;
}
