/**
 * `npm run test:e2e`: the packed library beside real software: clients, frameworks, runtimes, bundlers.
 *
 * Each folder of `test/e2e` that has a lock file is an area with packages of its own, which `npm ci` installs first,
 * and the packed library beside them. Arguments choose areas or files: `npm run test:e2e -- clients`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

import project from '../package.json' with { type: 'json' };
import { provideRedis } from './redis.ts';

const CACHE = '.cache/e2e';
const TARBALL = join(CACHE, 'chat-completions-router.tgz');

const filters = process.argv.slice(2);
if (!provideRedis()) process.exit(1);
pack();
for (const lock of globSync('test/e2e/*/package-lock.json')) {
  const area = dirname(lock);
  const isChosen =
    filters.every((filter) => filter.startsWith('-')) ||
    filters.some((filter) => filter.includes(basename(area)));
  if (isChosen) install(area);
}
const reporters = ['--reporter=default', '--reporter=./test/helpers/closing-line.ts'];
const args = ['run', '--config', 'test/e2e/vitest.config.ts', ...reporters, ...filters];
process.exit(spawnSync('vitest', args, { stdio: 'inherit' }).status ?? 1);

/** Builds and packs the library, as npm would publish it. */
function pack(): void {
  execFileSync(process.execPath, ['scripts/build.ts'], { stdio: 'inherit' });
  mkdirSync(CACHE, { recursive: true });
  const options = ['--silent', '--ignore-scripts', '--pack-destination', CACHE];
  const file = execFileSync('npm', ['pack', ...options], { encoding: 'utf8' }).trim();
  execFileSync('mv', [join(CACHE, file), TARBALL]);
}

/** What the library itself needs is linked below it, as npm would put it there: an area may have other versions. */
function install(area: string): void {
  const installed = join(area, 'node_modules');
  const marker = join(installed, '.package-lock.json');
  if (!existsSync(marker) || statSync(marker).mtimeMs < statSync(join(area, 'package-lock.json')).mtimeMs) {
    execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: area,
      stdio: 'inherit',
    });
  }
  const folder = join(installed, 'chat-completions-router');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  execFileSync('tar', ['-xzf', TARBALL, '-C', folder, '--strip-components=1']);
  for (const name of Object.keys(project.dependencies)) {
    const link = join(folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true }); // that of a scope, too
    symlinkSync(resolve('node_modules', name), link);
  }
}
