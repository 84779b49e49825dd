/**
 * `npm run test:all`: every tier, each property test with its full number of runs.
 *
 * - `unit`, `integration`: the tests of `npm test`
 * - `undici`: those of `integration` that depend on the transport, on the other one
 * - `e2e`: processes, builds, a browser; with the packages of `test/e2e/package.json`
 * - `chaos`: kills, failovers, clusters, the simulation
 * - `ecosystem`: the packed library beside clients, frameworks, runtimes and bundlers; each folder of `test/e2e` that has
 *   a lock file is an area with packages of its own, and the packed library is installed beside them
 *
 * `npm ci` installs the packages of an area first. Arguments choose tiers, areas or files:
 * `npm run test:all -- --project=chaos`, `npm run test:all -- test/e2e/clients`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

import project from '../package.json' with { type: 'json' };
import { installE2e, installPackages } from './e2e-packages.ts';
import { provideRedis } from './redis.ts';
import { runTests } from './vitest.ts';

const CACHE = '.cache/e2e';
const TARBALL = join(CACHE, 'chat-completions-router.tgz');

const args = process.argv.slice(2);
const tiers = args.filter((arg) => arg.startsWith('--project=')).map((arg) => arg.slice(10));
const files = args.filter((arg) => !arg.startsWith('-'));

if (!provideRedis()) process.exit(1);
if (isChosen('e2e', 'test/e2e')) {
  installE2e();
  const { status } = spawnSync('tsc', ['-p', 'test/e2e/tsconfig.json'], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
const areas = globSync('test/e2e/*/package-lock.json').map((file) => dirname(file));
const chosen = areas.filter((area) => isChosen('ecosystem', basename(area)));
if (chosen.length > 0) pack();
for (const area of chosen) installArea(area);
process.exit(runTests(args, { ...process.env, CCR_FULL: '1' }));

function isChosen(tier: string, folder: string): boolean {
  return (
    (tiers.length === 0 || tiers.includes(tier)) &&
    (files.length === 0 || files.some((file) => file.includes(folder)))
  );
}

/** Builds and packs the library, as npm would publish it. */
function pack(): void {
  execFileSync(process.execPath, ['scripts/build.ts'], { stdio: 'inherit' });
  mkdirSync(CACHE, { recursive: true });
  const options = ['--silent', '--ignore-scripts', '--pack-destination', CACHE];
  const file = execFileSync('npm', ['pack', ...options], { encoding: 'utf8' }).trim();
  execFileSync('mv', [join(CACHE, file), TARBALL]);
}

/** What the library itself needs is linked below it, as npm would put it there: an area may have other versions. */
function installArea(area: string): void {
  installPackages(area);
  const folder = join(area, 'node_modules/chat-completions-router');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  execFileSync('tar', ['-xzf', TARBALL, '-C', folder, '--strip-components=1']);
  for (const name of Object.keys(project.dependencies)) {
    const link = join(folder, 'node_modules', name);
    // A scoped name has a folder of its own.
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(resolve('node_modules', name), link);
  }
}
