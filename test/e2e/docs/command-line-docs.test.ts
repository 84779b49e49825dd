import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { parseJsonConfig } from '../../../src/cli/config/json-config.ts';
import { createChatCompletionsRouter, type ServerConfig } from '../../../src/index.ts';
import { completion, type FakeProvider, respond, startFakeProvider } from '../../../src/testing.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const PAGE = readFileSync(`${ROOT}docs/command-line.md`, 'utf8');

interface Example {
  readonly command: string;
  /** What it prints; … stands for anything. */
  readonly output: string;
}

/** The commands of the page, in their order, with what the page says that they print. */
const examples: readonly Example[] = [...PAGE.matchAll(/^```console\n(.*?)^```/gms)].flatMap(
  ([, block = '']) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((each) => {
        const [command = '', ...output] = each.split('\n');
        return { command, output: output.join('\n') };
      }),
);

describe('docs/command-line.md', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-docs-'));
  const servers: ChildProcess[] = [];
  let provider: FakeProvider;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    provider = await startFakeProvider();
    const list = respond(200, { data: [{ id: 'gpt-4o-mini' }, { id: 'gpt-4.1-mini' }] });
    provider.answer((response, request) =>
      (request.method === 'GET' ? list : completion())(response, request),
    );
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    // `npx NAME` without the registry.
    writeFileSync(
      join(bin, 'npx'),
      `#!/bin/sh\nshift\nexec '${process.execPath}' '${ROOT}dist/cli.js' "$@"\n`,
    );
    chmodSync(join(bin, 'npx'), 0o755);
    env = {
      PATH: `${bin}:${process.env['PATH']}`,
      OPENAI_API_KEY: 'sk-test',
      OPENAI_BASE_URL: provider.baseURL,
    };
  });

  afterAll(async () => {
    for (const server of servers) {
      server.kill('SIGKILL');
      if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
    }
    await provider.close();
    rmSync(folder, { recursive: true });
  });

  it('shows commands', () => {
    expect(examples.length).toBeGreaterThan(9);
  });

  it('has a config in JSON that the router takes', () => {
    const [, source = ''] = /^```json\n(.*?)^```/ms.exec(PAGE) ?? [];
    const config = parseJsonConfig(source, 'config.json', { OPENAI_API_KEY: 'x' });
    expect(() => createChatCompletionsRouter(config as ServerConfig)).not.toThrow();
  });

  it.each(examples)('is true of $command', async ({ command, output }) => {
    if (/^npx \S+ serve/.test(command)) {
      const args = command
        .replace(/^npx \S+ /, '')
        .replace('8787', '0')
        .split(' ');
      const server = spawn(join(folder, 'bin/npx'), ['_', ...args], {
        cwd: folder,
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      servers.push(server);
      const [line] = (await once(server.stdout, 'data')) as [Buffer];
      expect(line.toString().replace(/:\d+\/v1/, ':8787/v1')).toMatch(asPattern(output));
      return;
    }
    const child = spawn('sh', ['-c', command], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(stderr).toBe('');
    expect(steady(stdout)).toMatch(asPattern(steady(output)));
  });
});

/** Columns are as wide as what stands in them, and no two runs take as long. */
function steady(output: string): string {
  return output.replaceAll(/\d+ ms/g, '1 ms').replaceAll(/ +/g, ' ');
}

function asPattern(output: string): RegExp {
  const pieces = output.split('…').map((piece) => piece.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${pieces.join('.*')}$`, 's');
}
