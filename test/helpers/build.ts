import { execFileSync } from 'node:child_process';

/** Builds `dist/` once before all tests: the examples and the packed package are made of it. */
export function setup(): void {
  execFileSync(process.execPath, ['scripts/build.ts'], { stdio: 'inherit' });
}
