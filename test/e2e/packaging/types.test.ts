import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, it } from 'vitest';

const AREA = import.meta.dirname;
const TARBALL = join(AREA, '../../../.cache/e2e/chat-completions-router.tgz');

const compilerOf = (folder: string): string => join(AREA, 'node_modules', folder, 'bin/tsc');
const COMPILERS: Readonly<Record<string, string>> = {
  '5.4': compilerOf('typescript-5.4'),
  '5.9': compilerOf('typescript-5.9'),
  '6.0': compilerOf('typescript-6'),
  '7.0': join(createRequire(import.meta.url).resolve('typescript/package.json'), '../bin/tsc'),
};

/** Compiler, `module`, `moduleResolution`, and the file: `.mts` is an ES module, `.cts` is CommonJS. */
const CASES: readonly [string, string, string, string][] = [
  ['5.4', 'commonjs', 'node10', 'use.cts'],
  ['5.4', 'esnext', 'bundler', 'use.mts'],
  ['5.4', 'node16', 'node16', 'use.mts'],
  ['5.9', 'commonjs', 'node10', 'use.cts'],
  ['5.9', 'esnext', 'bundler', 'use.mts'],
  ['5.9', 'nodenext', 'nodenext', 'use.mts'],
  ['5.9', 'nodenext', 'nodenext', 'use.cts'],
  ['6.0', 'esnext', 'bundler', 'use.mts'],
  ['6.0', 'commonjs', 'bundler', 'use.cts'],
  ['6.0', 'node16', 'node16', 'use.mts'],
  ['6.0', 'nodenext', 'nodenext', 'use.mts'],
  ['6.0', 'nodenext', 'nodenext', 'use.cts'],
  ['7.0', 'esnext', 'bundler', 'use.mts'],
  ['7.0', 'commonjs', 'bundler', 'use.cts'],
  ['7.0', 'node16', 'node16', 'use.mts'],
  ['7.0', 'nodenext', 'nodenext', 'use.mts'],
  ['7.0', 'nodenext', 'nodenext', 'use.cts'],
];

const USE = `
import { type ChatCompletionsRouter, createChatCompletionsRouter, MemoryStore } from 'chat-completions-router';
import { createAdminRouter } from 'chat-completions-router/admin';
import { type Account, type AdminClient, createAdminClient } from 'chat-completions-router/client';
import { toFastifyPlugin } from 'chat-completions-router/fastify';
import { toHonoHandler } from 'chat-completions-router/hono';
import { toKoaMiddleware } from 'chat-completions-router/koa';
import { toNextHandlers, toNextPagesHandler } from 'chat-completions-router/next';
import { openTelemetryHooks } from 'chat-completions-router/opentelemetry';
import { catalogPrices } from 'chat-completions-router/prices';
import { createPrometheusMetrics } from 'chat-completions-router/prometheus';
import { completion, type FakeProvider, startFakeProvider } from 'chat-completions-router/testing';
import { describeLedgerStore, describeRouter } from 'chat-completions-router/testing/contracts';
import { undiciTransport } from 'chat-completions-router/undici';

const router: ChatCompletionsRouter = createChatCompletionsRouter({
  store: 'memory:',
  prices: catalogPrices(),
  transport: undiciTransport({ allowH2: false }),
  providers: { openai: { apiKey: () => process.env['OPENAI_API_KEY'] } },
  models: { 'openai/*': { targets: ['openai/*'], pricing: 'catalog' } },
  hooks: [openTelemetryHooks({ propagate: true }), createPrometheusMetrics().hooks],
});
export const balance: Promise<string> = router.credits.balance('acme').then((credits) => credits.balance);
export const admin = createAdminRouter(router, { authorize: () => 'ada' });
export const client: AdminClient = createAdminClient({ baseURL: 'https://example.com/admin', token: 'secret' });
export const accounts: Promise<readonly Account[]> = client.listAccounts().then(({ data }) => data);
export const mounts = [toFastifyPlugin(router), toHonoHandler(router), toKoaMiddleware(router)];
export const next = [toNextHandlers(router), toNextPagesHandler(router)];
export const provider: Promise<FakeProvider> = startFakeProvider();
export const script = completion({ content: ['Hel', 'lo'] });
describeLedgerStore('MemoryStore', ({ now }) => new MemoryStore({ now }));
describeRouter('nothing', async () => ({ baseURL: '', close: async () => {} }));
// @ts-expect-error -- so that types which are not found, and so are any, fail
createChatCompletionsRouter({ store: 7 });
`;

const folder = mkdtempSync(join(tmpdir(), 'ccr-types-'));

beforeAll(() => {
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent', '--prefer-offline'];
  const packages = ['@types/node@22.20.5', '@opentelemetry/api@1.10.0', '@pydantic/genai-prices@0.1.8'];
  execFileSync('npm', ['install', ...options, ...packages, TARBALL], { cwd: folder, stdio: 'inherit' });
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

it.each(CASES)(
  'TypeScript %s with module %s and moduleResolution %s finds the types of every entry in %s',
  (compiler, module, moduleResolution, file) => {
    const project = mkdtempSync(join(folder, 'project-'));
    symlinkSync(join(folder, 'node_modules'), join(project, 'node_modules'));
    const compilerOptions = {
      module,
      moduleResolution,
      target: 'es2022',
      lib: ['es2022'],
      types: ['node'],
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noEmit: true,
    };
    writeFileSync(join(project, 'package.json'), '{"private":true}');
    writeFileSync(join(project, file), USE);
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }));
    const args = [COMPILERS[compiler] ?? '', '-p', project];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(stdout + stderr).toBe('');
    expect(status).toBe(0);
  },
);
