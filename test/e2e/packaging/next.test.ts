import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterAll, beforeAll, describe } from 'vitest';

import { describeGateway } from '../../contracts/router.ts';
import { type RuntimeProcess, startRuntime } from '../../helpers/runtime-process.ts';
import { type Provider, startProvider } from '../../helpers/provider.ts';

const AREA = import.meta.dirname;
const TARBALL = join(AREA, '../../../.cache/e2e/chat-completions-router.tgz');

/** Majors before the one that `test/e2e/next/next-build.test.ts` builds. */
const VERSIONS: readonly [string, string][] = [
  ['14.2.35', '18.3.1'],
  ['15.5.28', '19.3.1'],
];

const FILES: Readonly<Record<string, string>> = {
  'package.json': '{"private":true,"type":"module"}',
  'next.config.mjs': 'export default { skipTrailingSlashRedirect: true };',
  'app/layout.js':
    'export default function Layout({ children }) { return <html><body>{children}</body></html>; }',
  'lib/router.js': `
    import { createChatCompletionsRouter } from 'chat-completions-router';
    export const router = createChatCompletionsRouter({
      store: process.env.CREDITS_STORE ?? 'sqlite:./credits.db',
      providers: {
        loopback: { baseURL: process.env.PROVIDER_URL ?? 'http://127.0.0.1:1', apiKey: () => process.env.PROVIDER_KEY, onDisconnect: 'abort' },
      },
      models: {
        'acme/fast': {
          targets: ['loopback/upstream-model'],
          pricing: { input: '1', output: '3', cachedInput: '0.1' },
          contextWindow: 8192,
          maxOutputTokens: 1000,
        },
      },
      keyCacheMs: 1,
      hooks: { onSettled: (settled) => console.log('settled ' + JSON.stringify(settled)) },
    });`,
  'app/v1/[...path]/route.js': `
    import { toNextHandlers } from 'chat-completions-router/next';
    import { router } from '../../../lib/router.js';
    export const dynamic = 'force-dynamic';
    export const { GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS } = toNextHandlers(router);`,
  'pages/api/v1/[...path].js': `
    import { toNextPagesHandler } from 'chat-completions-router/next';
    import { router } from '../../../lib/router.js';
    export default toNextPagesHandler(router);
    export const config = { api: { bodyParser: false, externalResolver: true } };`,
};

const folder = mkdtempSync(join(tmpdir(), 'ccr-next-'));
let provider: Provider;

beforeAll(async () => {
  provider = await startProvider();
});

afterAll(async () => {
  await provider.close();
  rmSync(folder, { recursive: true });
});

describe.each(VERSIONS)('Next.js %s, built', (version, react) => {
  const app = mkdtempSync(join(folder, 'app-'));

  beforeAll(() => {
    for (const [file, source] of Object.entries(FILES)) {
      mkdirSync(dirname(join(app, file)), { recursive: true });
      writeFileSync(join(app, file), source);
    }
    copyFileSync(join(AREA, 'next-start.mjs'), join(app, 'next-start.mjs'));
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent', '--prefer-offline'];
    const packages = [`next@${version}`, `react@${react}`, `react-dom@${react}`, TARBALL];
    execFileSync('npm', ['install', ...options, ...packages], { cwd: app, stdio: 'inherit' });
    const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], NEXT_TELEMETRY_DISABLED: '1' };
    execFileSync(process.execPath, ['node_modules/next/dist/bin/next', 'build'], { cwd: app, env });
  });

  describe.each([
    ['App Router', ''],
    ['Pages Router', '/api'],
  ])('%s', (_name, parent) => {
    let started: RuntimeProcess;

    beforeAll(async () => {
      const command = [process.execPath, 'next-start.mjs', parent] as const;
      const store = `sqlite:${join(app, `credits${parent.length}.db`)}`;
      started = await startRuntime({ command, cwd: app, store, provider });
    });

    afterAll(async () => {
      await started.stop();
    });

    describeGateway('it', () => started.gateway());
  });
});
