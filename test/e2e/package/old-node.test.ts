import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, posix } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { installPacked } from '../../helpers/packed-package.ts';
import { unsupportedNode } from '../../../src/platform/node-version.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-old-node-'));

/** Path → version: one that npm installs for this test where it can run it, and those that the machine has. */
const OLD_NODES = new Map(
  [
    new URL('../node_modules/old-node/bin/node', import.meta.url).pathname,
    ...(process.env['PATH'] ?? '').split(delimiter).map((path) => join(path, 'node')),
  ]
    .filter((path) => existsSync(path))
    .map((path) => [path, execFileSync(path, ['-p', 'process.versions.node'], { encoding: 'utf8' }).trim()])
    .filter(([, node = '']) => unsupportedNode({ ...process.versions, node }) !== undefined)
    .map(([path = '', version = '']): [string, string] => [path, version]),
);

const { exports } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  exports: Record<string, unknown>;
};
const ENTRIES = Object.keys(exports)
  // The clients of both APIs are plain `fetch`, and the account page is for browsers: they are imported on any Node.
  .filter((entry) => !['./package.json', './client', './account-page'].includes(entry))
  .map((entry) => posix.join('chat-completions-router', entry));

describe.skipIf(OLD_NODES.size === 0)('on a Node that is too old', () => {
  beforeAll(() => {
    installPacked(folder);
  });
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  const cases = [...OLD_NODES].flatMap(([path, version]) =>
    ENTRIES.map((entry) => ({ entry, version, path })),
  );

  it.each(cases)('$version, importing $entry says which one is needed', ({ entry, version, path }) => {
    const complaint = `Error: chat-completions-router requires Node >= 22.15, found ${version}`;
    expect(failure(path, 'app.mjs', `import '${entry}';`)).toContain(complaint);
    expect(failure(path, 'app.cjs', `require('${entry}');`)).toContain(complaint);
  });

  it.each([...OLD_NODES])('%s: the command says it in one line', (path, version) => {
    const cli = join(folder, 'node_modules/chat-completions-router/dist/cli.js');
    const { stderr, status } = spawnSync(path, [cli, 'demo'], { encoding: 'utf8' });
    expect(stderr).toBe(`chat-completions-router: requires Node >= 22.15, found ${version}\n`);
    expect(status).toBe(1);
  });
});

/** What a program that fails prints on stderr. */
function failure(node: string, file: string, source: string): string {
  writeFileSync(join(folder, file), source);
  const { stderr, status } = spawnSync(node, [file], { cwd: folder, encoding: 'utf8' });
  expect(status, stderr).toBe(1);
  return stderr;
}
