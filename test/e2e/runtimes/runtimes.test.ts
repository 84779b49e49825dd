import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import type { MountFacts } from '../../contracts/mount.ts';
import { describeGateway } from '../../contracts/router.ts';
import { type RuntimeProcess, startRuntime } from '../../helpers/runtime-process.ts';
import { runCli, startServe } from '../../helpers/cli.ts';
import { clientsOf } from '../../helpers/gateway.ts';
import { type Provider, startProvider } from '../../helpers/provider.ts';
import { freePort, type RedisServer, startRedis } from '../../helpers/redis-server.ts';

interface Runtime {
  readonly name: string;
  readonly program: string;
  /** Before the file that is run. */
  readonly flags: readonly string[];
  /** What it can put before a router. */
  readonly servers: readonly (readonly [name: string, facts?: MountFacts])[];
}

const AREA = import.meta.dirname;
const { dependencies, optionalDependencies } = JSON.parse(
  readFileSync(join(AREA, 'package.json'), 'utf8'),
) as Record<'dependencies' | 'optionalDependencies', Record<string, string>>;

const RUNTIMES: readonly Runtime[] = [
  ...Object.keys(optionalDependencies).map((folder) => ({
    name: folder.replace('node-', 'Node '),
    program: join(AREA, `node_modules/${folder}/bin/node`),
    flags: [],
    servers: [['node:http']] as const,
  })),
  {
    name: `Bun ${dependencies['bun']}`,
    program: join(AREA, 'node_modules/bun/bin/bun.exe'),
    flags: [],
    servers: [['node:http'], ['Bun.serve', { keepsHeads: true }]],
  },
  {
    name: `Deno ${dependencies['deno']}`,
    program: join(AREA, 'node_modules/deno/deno'),
    flags: ['run', '--allow-net', '--allow-env', '--allow-read', '--allow-write'],
    servers: [['node:http'], ['Deno.serve']],
  },
];

const STORES = ['memory', 'SQLite', 'Redis'] as const;

/** Out of the project, whose tsconfig.json would lead Bun into `src/`. */
const folder = mkdtempSync(join(tmpdir(), 'ccr-runtimes-'));
let provider: Provider;
let redis: RedisServer;
let stores = 0;

beforeAll(async () => {
  copyFileSync(join(AREA, 'app.mjs'), join(folder, 'app.mjs'));
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
  symlinkSync(join(AREA, 'node_modules'), join(folder, 'node_modules'));
  provider = await startProvider();
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
  await provider.close();
  rmSync(folder, { recursive: true });
});

function storeURL(store: (typeof STORES)[number]): string {
  stores += 1;
  if (store === 'memory') return 'memory:';
  return store === 'SQLite' ? `sqlite:${join(folder, `${stores}.db`)}` : `${redis.url}?prefix=${stores}:`;
}

const isInstalled = ({ program }: Runtime): boolean => existsSync(program);

for (const runtime of RUNTIMES) {
  const { name, program, flags, servers } = runtime;
  if (!isInstalled(runtime)) console.log(`Skipped: ${name}, which is installed on 64-bit x86 Linux only.`);
  for (const [server, facts] of servers) {
    for (const store of STORES) {
      describe.skipIf(!isInstalled(runtime))(`${name}, ${server}, ${store}`, () => {
        let app: RuntimeProcess;

        beforeAll(async () => {
          const command = [program, ...flags, 'app.mjs', server] as const;
          app = await startRuntime({ command, cwd: folder, store: storeURL(store), provider });
        });

        afterAll(async () => {
          await app.stop();
        });

        describeGateway('it', () => app.gateway(), facts);
      });
    }
  }

  it.skipIf(!isInstalled(runtime))(
    `${name} runs the command, with a config in TypeScript that is read again`,
    async ({ onTestFinished }) => {
      const cwd = mkdtempSync(join(folder, 'command-'));
      const store = `sqlite:${join(cwd, 'credits.db')}`;
      const write = (models: readonly string[]): void => {
        writeFileSync(join(cwd, 'models.mts'), `export const pricing: 'free' = 'free';\n`);
        writeFileSync(
          join(cwd, 'chat-completions-router.config.ts'),
          `import { pricing } from './models.mts';
         interface Model { targets: string[]; pricing: 'free' }
         const model: Model = { targets: ['loopback/m'], pricing };
         export default {
           store: ${JSON.stringify(store)},
           providers: { loopback: { baseURL: ${JSON.stringify(provider.baseURL)} } },
           models: { ${models.map((id) => `'${id}': model`).join()} } as Record<string, Model>,
         };`,
        );
      };
      write(['acme/fast']);
      const options = { cwd, runtime: program, flags };
      const made = await runCli(['keys', 'create', 'acme'], options);
      expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining('sk-ccr-') });
      const [key = ''] = /sk-ccr-\w+/.exec(made.stdout) ?? [];

      const served = await startServe([], options);
      onTestFinished(async () => {
        served.process.kill('SIGKILL');
        if (served.process.exitCode === null && served.process.signalCode === null) {
          await once(served.process, 'exit');
        }
      });
      const { client } = clientsOf(`${served.origin}/v1`, key);
      expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['acme/fast']);
      write(['acme/fast', 'acme/slow']);
      served.process.kill('SIGHUP');
      await served.logged('reloaded');
      expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['acme/fast', 'acme/slow']);
      expect(await served.stop()).toBe(0);
    },
  );
}

describe('docs/runtimes.md', () => {
  const page = readFileSync(join(AREA, '../../../docs/runtimes.md'), 'utf8');

  it.each(RUNTIMES.slice(-2))('has lines that serve on $name', async ({ program, flags }) => {
    const cwd = mkdtempSync(join(folder, 'docs-'));
    const port = await freePort();
    const programs = [...page.matchAll(/^```js\n\/\/ (\w+\.js)\n(.*?)^```/gms)];
    for (const [, file = '', source = ''] of programs) {
      writeFileSync(join(cwd, file), source.replace('8787', String(port)));
    }
    writeFileSync(
      join(cwd, 'router.js'),
      `import { createChatCompletionsRouter } from 'chat-completions-router';
       export const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} });`,
    );
    const file = program.endsWith('deno') ? 'deno.js' : 'bun.js';
    const child = spawn(program, [...flags, file], { cwd, stdio: 'ignore' });
    const ask = (): Promise<number> =>
      fetch(`http://127.0.0.1:${port}/v1/models`).then(
        ({ status }) => status,
        () => 0,
      );
    await expect.poll(ask, { timeout: 30_000 }).toBe(401);
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  });

  it('names the versions that are tried', () => {
    for (const version of Object.values(dependencies)) expect(page).toContain(version);
  });
});

it('undiciTransport says on Bun that it does not run there', async () => {
  const bun = RUNTIMES.find(({ name }) => name.startsWith('Bun'));
  const cwd = mkdtempSync(join(folder, 'undici-'));
  writeFileSync(
    join(cwd, 'app.mjs'),
    `import { undiciTransport } from 'chat-completions-router/undici';
     try { undiciTransport() } catch (error) { console.log(error.message) }`,
  );
  const child = spawn(bun?.program ?? '', ['app.mjs'], { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
  expect(await text(child.stdout)).toContain('does not run on this runtime');
});

it('an outcome that one runtime wrote to a ledger file is read by another', async () => {
  const store = `sqlite:${join(folder, 'shared.db')}`;
  const installed = RUNTIMES.filter(isInstalled);
  for (const { program, flags } of installed) {
    const command = [program, ...flags, 'app.mjs'] as const;
    const app = await startRuntime({ command, cwd: folder, store, provider, account: 'shared' });
    const gateway = await app.gateway();
    const settled = gateway.nextSettled();
    await gateway.client.chat.completions.create({
      model: 'acme/fast',
      messages: [{ role: 'user', content: 'Say hello.' }],
    });
    await settled;
    await app.stop();
  }
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  const { totalUsed } = await router.credits.balance('shared');
  // Each runtime charges 9 × 1,000 + 12 × 3,000 nano-dollars.
  expect(Math.round(Number(totalUsed) * 1e9)).toBe(installed.length * 45_000);
  await router.close();
});
