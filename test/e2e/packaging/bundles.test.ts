import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { describeGateway } from '../../contracts/router.ts';
import { type RuntimeProcess, startRuntime } from '../../helpers/runtime-process.ts';
import { type Provider, startProvider } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const AREA = import.meta.dirname;
const TARBALL = join(AREA, '../../../.cache/e2e/chat-completions-router.tgz');

/** As `bundle.mjs` has them; the first two are the lines of docs/runtimes.md. No option is there for this package. */
const BUNDLERS = [
  'esbuild, ESM',
  'esbuild, ESM with a banner',
  'esbuild, ESM in chunks',
  'esbuild, minified ESM',
  'esbuild, CommonJS',
  'rollup',
  'rolldown',
  'webpack',
  'bun build',
];

const folder = mkdtempSync(join(tmpdir(), 'ccr-bundles-'));
const source = join(folder, 'source');
let provider: Provider;
let redis: RedisServer;
let stores = 0;

/** An app that has the package from npm, as users have it. */
beforeAll(async () => {
  mkdirSync(source);
  copyFileSync(join(AREA, '../runtimes/app.mjs'), join(source, 'app.mjs'));
  writeFileSync(join(source, 'package.json'), '{"private":true,"type":"module"}');
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent', '--prefer-offline'];
  execFileSync('npm', ['install', ...options, TARBALL], { cwd: source, stdio: 'inherit' });
  provider = await startProvider();
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
  await provider.close();
  rmSync(folder, { recursive: true });
});

describe.each(BUNDLERS)('an app bundled by %s, in a folder without node_modules', (bundler) => {
  const bundled = mkdtempSync(join(folder, 'bundled-'));
  let file = '';

  beforeAll(() => {
    execFileSync(process.execPath, [join(AREA, 'bundle.mjs'), bundler, source, bundled], {
      stdio: 'inherit',
    });
    file = readdirSync(bundled).find((name) => /^app\.[cm]js$/.test(name)) ?? '';
  });

  it('sees no global require, once it runs', () => {
    const check = `await import('./${file}'); console.log('global require:', typeof globalThis.require);`;
    const args = ['--input-type=module', '--eval', check];
    const env = { PATH: process.env['PATH'], CREDITS_STORE: 'memory:', PROVIDER_URL: provider.baseURL };
    const said = execFileSync(process.execPath, args, { cwd: bundled, env, input: '', encoding: 'utf8' });
    expect(said).toContain('global require: undefined\n');
  });

  describe.each([
    ['memory', () => 'memory:'],
    ['SQLite', () => `sqlite:${join(bundled, 'credits.db')}`],
    ['Redis', () => `${redis.url}?prefix=${++stores}:`],
  ])('on %s', (_name, store) => {
    let app: RuntimeProcess;

    beforeAll(async () => {
      app = await startRuntime({ command: [process.execPath, file], cwd: bundled, store: store(), provider });
    });

    afterAll(async () => {
      await app.stop();
    });

    describeGateway('it', () => app.gateway());
  });
});
