import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Gateway, PRICING, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';

const PROGRAM = join(import.meta.dirname, 'node_modules/opencode-linux-x64-baseline/bin/opencode');
const PAGE = join(import.meta.dirname, '../../../docs/coding-tools.md');

/** Only the gateway can be reached. */
const OFFLINE = {
  HTTP_PROXY: 'http://127.0.0.1:9',
  HTTPS_PROXY: 'http://127.0.0.1:9',
  NO_PROXY: '127.0.0.1',
  OPENCODE_DISABLE_AUTOUPDATE: '1',
  OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
  OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
  OPENCODE_DISABLE_MODELS_FETCH: '1',
};

const isInstalled = existsSync(PROGRAM);
if (!isInstalled)
  console.log('skipped: opencode: npm could not install its program, or has none for this system');

describe.skipIf(!isInstalled)('opencode, with the file of docs/coding-tools.md', () => {
  const home = mkdtempSync(join(tmpdir(), 'ccr-opencode-'));
  const project = join(home, 'project');
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway({
      models: { 'small/chat': { targets: ['loopback/x'], pricing: PRICING, maxOutputTokens: 16_384 } },
    });
    gateway.provider.script = answerStream(STREAM);
    const [, file = ''] = /^`opencode\.json`.*?```json\n(.*?)```/ms.exec(readFileSync(PAGE, 'utf8')) ?? [];
    mkdirSync(project);
    writeFileSync(join(project, 'opencode.json'), file.replace('http://localhost:8787/v1', gateway.baseURL));
  });

  afterAll(async () => {
    await gateway.close();
    rmSync(home, { recursive: true, force: true });
  });

  /** @returns what it printed */
  async function run(signal: AbortSignal, ...args: string[]): Promise<string> {
    const env = { PATH: process.env['PATH'], HOME: home, CI: '1', ROUTER_API_KEY: gateway.key, ...OFFLINE };
    // It would read a standard input that is a pipe until that ends.
    const stdio: ['ignore', 'pipe', 'pipe'] = ['ignore', 'pipe', 'pipe'];
    const child = spawn(PROGRAM, args, { cwd: project, env, stdio, signal, killSignal: 'SIGKILL' });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    expect(child.exitCode, stderr).toBe(0);
    return stdout;
  }

  it('offers the model', async ({ signal }) => {
    expect((await run(signal, 'models')).split('\n')).toContain('gateway/small/chat');
  });

  it('streams an answer, which is charged', async ({ signal }) => {
    expect(await run(signal, 'run', 'Say hello.')).toContain('Hello there.');
    await expect.poll(() => gateway.settled.length).toBeGreaterThan(0);
    for (const settled of gateway.settled) {
      expect(settled).toMatchObject({ model: 'small/chat', voided: false });
      expect(settled.charged).not.toBe('0.00');
    }
  });
});
