import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, it } from 'vitest';

import { run } from './run-in-process.ts';

const GRANT = ['credits', 'grant', 'acme', '5.00', '--id', 'welcome'];

let root: string;

/** `a` has a config whose store is relative, `b` nothing. */
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'ccr-store-')));
  for (const folder of ['a', 'a/sub', 'b']) mkdirSync(join(root, folder));
  const config = JSON.stringify({ providers: {}, models: {}, store: 'sqlite:./credits.db' });
  writeFileSync(join(root, 'a/ccr.config.json'), config);
});

afterEach(() => {
  rmSync(root, { recursive: true });
});

const inFolder = (folder: string, ...args: string[]) => run(args, { folder: join(root, folder) });

it.each([['serve', '--port', '0'], ['check'], GRANT, ['credits', 'balance']])(
  'a relative file of a config in another folder is not made, nor taken from beside the config: %s',
  async (...command) => {
    await inFolder('a', ...GRANT, '--config', 'ccr.config.json');
    const ended = await inFolder('b', ...command, '--config', '../a/ccr.config.json');
    expect(ended).toEqual({
      code: 1,
      stdout: '',
      stderr: `chat-completions-router: ../a/ccr.config.json: store: file not found: ${root}/b/credits.db; a relative path is of the working directory, and does not mean ${root}/a/credits.db beside the config. Use an absolute path\n`,
    });
    expect(existsSync(join(root, 'b/credits.db'))).toBe(false);
  },
);

it('a relative file of a config in another folder is that of the working directory, where it is', async () => {
  await inFolder('a', ...GRANT, '--config', 'ccr.config.json');
  writeFileSync(join(root, 'b/credits.db'), '');
  const here = await inFolder('b', 'credits', 'balance', '--json', '--config', '../a/ccr.config.json');
  expect([here.code, here.stdout]).toEqual([0, '']);
  const there = await inFolder('a', 'credits', 'balance', '--json', '--config', 'ccr.config.json');
  expect(JSON.parse(there.stdout)).toMatchObject({ account: 'acme', balance: '5.00' });
});

it.each([
  ['the working directory', 'a', 'ccr.config.json'],
  ['the working directory, by a link', 'a', '../link/ccr.config.json'],
  ['a folder in it', '.', 'a/ccr.config.json'],
])('the store of a config is made by a command where the config is in %s', async (_where, folder, config) => {
  symlinkSync(join(root, 'a'), join(root, 'link'));
  expect(await inFolder(folder, ...GRANT, '--config', config)).toMatchObject({ code: 0 });
  expect(existsSync(join(root, folder, 'credits.db'))).toBe(true);
});
