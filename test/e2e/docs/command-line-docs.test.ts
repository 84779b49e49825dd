import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { parseJsonConfig } from '../../../src/cli/config/json-config.ts';
import { createChatCompletionsRouter, type ServerConfig } from '../../../src/index.ts';
import { completion, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { asPattern, consoleExamples, firstBlock, npxFolder, steady } from '../../helpers/console-examples.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { runCli } from '../../helpers/cli.ts';

const PAGE = 'command-line.md';
const examples = consoleExamples(PAGE);
const ASKS_GATEWAY = /^npx \S+ (?:providers|status|models|health|whoami|requests running|requests waiting)/;

describe(`docs/${PAGE}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-docs-'));
  const servers: ChildProcess[] = [];
  let provider: FakeProvider;
  let env: NodeJS.ProcessEnv;
  let gateway: AdminDoor | undefined;

  beforeAll(async () => {
    provider = await startFakeProvider();
    provider.listModels(
      { id: 'gpt-4o-mini', prices: null },
      { id: 'gpt-4.1-mini', prices: null, contextWindow: 1_047_576 },
    );
    provider.answer(completion());
    env = {
      PATH: `${npxFolder(folder)}:${process.env['PATH']}`,
      OPENAI_API_KEY: 'sk-test',
      OPENAI_BASE_URL: provider.baseURL,
    };
  });

  afterAll(async () => {
    await stopServers();
    await provider.close();
    await gateway?.close();
    rmSync(folder, { recursive: true });
  });

  /** What the commands on providers ask, at an address of its own. */
  async function startGateway(): Promise<AdminDoor> {
    const targets = ['groq/llama-3.3-70b-versatile'];
    const pricing = { input: '1', output: '1' };
    const model = { targets, strategy: 'weighted', pricing, maxOutputTokens: 1000 } as const;
    const router = createChatCompletionsRouter({
      store: 'memory:',
      providers: { groq: { apiKey: 'sk-test' } },
      models: { llama: model },
    });
    const door = await startAdmin({ router });
    env['ADMIN_TOKEN'] = OPERATOR_TOKEN;
    return { ...door, close: async () => void (await Promise.all([door.close(), router.close()])) };
  }

  async function stopServers(): Promise<void> {
    for (const server of servers.splice(0)) {
      if (server.exitCode !== null || server.signalCode !== null) continue;
      server.kill('SIGTERM');
      await once(server, 'exit');
    }
  }

  const addressOf = (command: string): string =>
    gateway && ASKS_GATEWAY.test(command) ? ` --url ${gateway.baseURL}` : '';

  it('names every command', async () => {
    const { stdout } = await runCli(['--help']);
    const names = [...stdout.matchAll(/^ {2}([a-z]+(?: [a-z]+)?) {2,}/gm)].map(([, name = '']) => name);
    expect(names.length).toBeGreaterThan(15);
    const source = readFileSync(new URL(`../../../docs/${PAGE}`, import.meta.url), 'utf8');
    for (const name of names) expect(source).toContain(`npx chat-completions-router ${name}`);
  });

  it('has a config in JSON that the router takes', () => {
    const config = parseJsonConfig(firstBlock(PAGE, 'json'), 'config.json', { OPENAI_API_KEY: 'x' });
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
    if (ASKS_GATEWAY.test(command)) gateway ??= await startGateway();
    // As the page says: all gateways must be stopped.
    if (command.includes(' migrate ')) await stopServers();
    // The other commands of the page use the config of the first one.
    const cwd = command.includes(' --force') ? join(folder, 'another') : folder;
    mkdirSync(cwd, { recursive: true });
    // Both streams, in their order, as a terminal shows them.
    const child = spawn('sh', ['-c', `exec 2>&1; ${command}${addressOf(command)}`], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    expect(steady(await text(child.stdout))).toMatch(asPattern(steady(output)));
  });
});
