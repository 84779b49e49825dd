import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, it } from 'vitest';

import { run } from './run-in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-completion-'));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

const has = (shell: string): boolean => spawnSync(shell, ['-c', 'exit 0']).status === 0;

/** What bash offers for a command line; the last word is being typed. */
async function offeredByBash(...words: string[]): Promise<string[]> {
  const { stdout } = await run(['completion', 'bash'], { folder });
  const line = ['chat-completions-router', ...words].map((word) => `'${word}'`).join(' ');
  const program = `${stdout}
COMP_WORDS=(${line}); COMP_CWORD=${words.length}
_chat_completions_router
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const shell = spawnSync('bash', ['-c', program], { encoding: 'utf8', cwd: folder });
  expect(shell.stderr).toBe('');
  return shell.stdout.split('\n').filter((word) => word !== '');
}

describe('completion', () => {
  it('of bash offers commands, subcommands, options and values', async () => {
    expect(await offeredByBash('cre')).toEqual(['credits']);
    expect(await offeredByBash('credits', '')).toEqual([
      'balance',
      'grant',
      'grants',
      'adjust',
      'allow',
      'allowances',
      'end',
      'limit',
      'refund',
      'statement',
      'compact',
    ]);
    expect(await offeredByBash('credits', 'grant', 'acme', '--e')).toEqual(['--expires', '--env-file']);
    expect(await offeredByBash('serve', '--log', '')).toEqual(['json', 'text']);
    expect(await offeredByBash('completion', 'z')).toEqual(['zsh']);
    expect(await offeredByBash('keys', 'create', 'acme', '--budget', '')).toEqual([]);
  });

  it('of bash offers files for an option that takes one', async () => {
    writeFileSync(join(folder, 'router.json'), '{}');
    expect(await offeredByBash('check', '--config', 'rou')).toEqual(['router.json']);
  });

  it.skipIf(!has('zsh'))('of zsh is a script that zsh reads', async () => {
    const { stdout } = await run(['completion', 'zsh'], { folder });
    const shell = spawnSync('zsh', ['-f', '-c', `autoload -U compinit; compinit -D; ${stdout}`], {
      encoding: 'utf8',
    });
    expect([shell.status, shell.stderr]).toEqual([0, '']);
  });

  it.skipIf(!has('fish'))('of fish offers commands and options', async () => {
    const { stdout } = await run(['completion', 'fish'], { folder });
    const ask = (line: string): string[] =>
      spawnSync('fish', ['--no-config', '-c', `${stdout}\ncomplete -C '${line}'`], { encoding: 'utf8' })
        .stdout.split('\n')
        .map((each) => each.split('\t')[0] ?? '');
    expect(ask('chat-completions-router cre')).toContain('credits');
    expect(ask('chat-completions-router credits gr')).toContain('grant');
    expect(ask('chat-completions-router serve --log ')).toContain('json');
  });

  it('of another shell is refused, with the nearest', async () => {
    const { code, stderr } = await run(['completion', 'bsh'], { folder });
    expect(code).toBe(2);
    expect(stderr).toContain('SHELL must be one of bash, zsh, fish, got "bsh"; did you mean "bash"?');
  });
});
