import { execFileSync } from 'node:child_process';
import { existsSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Those of `examples/` that need packages beyond the project's own. */
export const EXAMPLES_WITH_PACKAGES: readonly string[] = ['nest', 'next', 'payments'];

/** Installs the packages that only `test/e2e` and the site of `docs/` need, and lets the examples of the same frameworks find them. */
export function installE2e(): void {
  installPackages('test/e2e');
  installPackages('docs');
  for (const name of EXAMPLES_WITH_PACKAGES) {
    const link = `examples/${name}/node_modules`;
    rmSync(link, { force: true });
    symlinkSync('../../test/e2e/node_modules', link);
  }
}

/** `npm ci` in a folder, unless that has installed what its lock file says. */
export function installPackages(folder: string): void {
  const lock = join(folder, 'package-lock.json');
  const marker = join(folder, 'node_modules/.package-lock.json');
  if (existsSync(marker) && statSync(marker).mtimeMs >= statSync(lock).mtimeMs) return;
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', args, { cwd: folder, stdio: 'inherit' });
}
