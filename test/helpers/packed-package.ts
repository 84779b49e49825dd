import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = new URL('../..', import.meta.url).pathname;

/**
 * Packs the library as npm would publish it, and unpacks it into the `node_modules` of a folder, with the packages that
 * the project has.
 *
 * @returns the folder that it is in
 */
export function installPacked(folder: string): string {
  const installed = join(folder, 'node_modules', 'chat-completions-router');
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], { cwd: ROOT });
  const tarball = join(folder, readdirSync(folder).find((file) => file.endsWith('.tgz')) ?? '');
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  rmSync(tarball);
  symlinkSync(join(ROOT, 'node_modules'), join(installed, 'node_modules'));
  symlinkSync(join(ROOT, 'test/e2e/node_modules/next'), join(folder, 'node_modules/next'));
  return installed;
}
