/**
 * `npm run test:node -- 22`: the tests on another Node, the newest of its major that npm's own package `node` has.
 *
 * Kept in `.cache/`. Further arguments go to vitest: `npm run test:node -- 22 test/leaks.test.ts`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

const [major = '', ...args] = process.argv.slice(2);
if (!/^\d+$/.test(major)) {
  console.error('npm run test:node -- MAJOR, e.g. 22');
  process.exit(1);
}

const folder = resolve('.cache', `node-${major}`);
const bin = resolve(folder, 'node_modules/.bin');
if (!existsSync(resolve(bin, 'node'))) {
  mkdirSync(folder, { recursive: true });
  // A project of its own, so that npm installs here, and runs the script by which this package gets its binary.
  writeFileSync(resolve(folder, 'package.json'), '{"private":true,"allowScripts":{"node":true}}\n');
  run('npm', ['install', '--no-audit', '--no-fund', '--silent', '--prefix', folder, `node@${major}`]);
}
const env = { ...process.env, PATH: [bin, process.env['PATH']].join(delimiter) };
run('node', ['-p', '`The tests run on Node ${process.version}.`'], env);
run('node', ['scripts/test.ts', ...args], env);

function run(command: string, options: readonly string[], env = process.env): void {
  const { status } = spawnSync(command, options, { stdio: 'inherit', env });
  if (status !== 0) process.exit(status ?? 1);
}
