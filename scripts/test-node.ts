/**
 * `npm run test:node -- 22.15.0`: the tests on another Node, of npm's own package `node`; `22` is the newest of that major,
 * asked for each time.
 *
 * Kept in `.cache/`. Further arguments go to vitest: `npm run test:node -- 22 test/integration/http/leaks.test.ts`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

import { NODE_MAJORS, OLDEST_NODES } from './supported-nodes.ts';

const [version = '', ...args] = process.argv.slice(2);
if (!/^\d+(\.\d+\.\d+)?$/.test(version)) {
  console.error(
    `npm run test:node -- VERSION: ${OLDEST_NODES.join(', ')} are the oldest that package.json names, ` +
      `${NODE_MAJORS.join(', ')} the newest of each.`,
  );
  process.exit(1);
}

const folder = resolve('.cache', `node-${version}`);
const bin = resolve(folder, 'node_modules/.bin');
// What is the newest of a major today may not be so tomorrow.
if (!version.includes('.') || !existsSync(resolve(bin, 'node'))) {
  mkdirSync(folder, { recursive: true });
  // A project of its own, so that npm installs here, and runs the script by which this package gets its binary.
  writeFileSync(resolve(folder, 'package.json'), '{"private":true,"allowScripts":{"node":true}}\n');
  run('npm', ['install', '--no-audit', '--no-fund', '--silent', '--prefix', folder, `node@${version}`]);
}
const env: NodeJS.ProcessEnv = { ...process.env, PATH: [bin, process.env['PATH']].join(delimiter) };
run('node', ['-p', '`The tests run on Node ${process.version}.`'], env);
// The tests, and what they start, are TypeScript: Node reads it without being asked from 22.18 on.
const reads = spawnSync('node', ['-p', 'process.features.typescript ?? false'], { env, encoding: 'utf8' });
if (reads.stdout.trim() === 'false') {
  const options = '--experimental-strip-types --disable-warning=ExperimentalWarning';
  env['NODE_OPTIONS'] = [process.env['NODE_OPTIONS'], options].filter(Boolean).join(' ');
}
// The ecosystem tier has runtimes of its own.
const tiers = ['unit', 'integration', 'undici', 'e2e', 'chaos'].map((tier) => `--project=${tier}`);
run('node', ['scripts/test-all.ts', ...tiers, ...args], env);

function run(command: string, options: readonly string[], environment = process.env): void {
  const { status } = spawnSync(command, options, { stdio: 'inherit', env: environment });
  if (status !== 0) process.exit(status ?? 1);
}
