import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, expect, it } from 'vitest';

import { documentedBlock } from '../../helpers/documented.ts';
import { type BuiltImage, parseDockerfile, runDockerfile } from '../../helpers/dockerfile.ts';
import { freePort } from '../../helpers/redis-server.ts';

const TARBALL = join(import.meta.dirname, '../../../.cache/e2e/chat-completions-router.tgz');
const folder = mkdtempSync(join(tmpdir(), 'ccr-docker-'));

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** A folder that an image is built of, with the packed library in its lock file. */
function contextFor(name: string, files: Readonly<Record<string, string>>): string {
  const context = join(folder, name);
  mkdirSync(context);
  for (const [file, text] of Object.entries(files)) writeFileSync(join(context, file), text);
  const options = ['--package-lock-only', '--no-audit', '--no-fund', '--silent', '--prefer-offline'];
  execFileSync('npm', ['install', ...options, TARBALL], { cwd: context, stdio: 'inherit' });
  return context;
}

const CONFIG = JSON.stringify({
  store: '${CREDITS_STORE}',
  providers: { local: { baseURL: 'http://127.0.0.1:1/v1' } },
  models: { chat: { targets: ['local/m'], pricing: 'free' } },
});

async function runsAndEnds(
  { command: [, ...args], workdir, root, env, healthcheck }: BuiltImage,
  path: string,
  status: number,
): Promise<void> {
  const port = await freePort();
  const { PATH = '', HOME = '' } = process.env;
  const inside = Object.entries(env).map(([name, value]) => [name, value.replace('/data', `${root}/data`)]);
  const child = spawn(process.execPath, args, {
    cwd: workdir,
    env: { PATH, HOME, PORT: String(port), ...(Object.fromEntries(inside) as Record<string, string>) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const exited = once(child, 'exit');
  const ask = (): Promise<number> =>
    fetch(`http://127.0.0.1:${port}${path}`).then(
      (response) => response.status,
      () => 0,
    );
  await expect.poll(ask, { timeout: 30_000 }).toBe(status);
  const [, ...check] = healthcheck.map((each) => each.replace('8787', String(port)));
  if (check.length > 0) expect(spawnSync(process.execPath, check).status).toBe(0);
  child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
}

it('the Dockerfile of serve makes what serves, is healthy, and ends on SIGTERM', async () => {
  const context = contextFor('serve', {
    'package.json': '{"private":true}',
    'chat-completions-router.config.json': CONFIG,
  });
  const image = runDockerfile(
    documentedBlock('deployment.md', 'Dockerfile'),
    context,
    join(folder, 'serve-image'),
  );
  expect(image.healthcheck).not.toEqual([]);
  await runsAndEnds(image, '/v1/models', 401);
});

it('the Dockerfile of an app makes what serves, and ends on SIGTERM', async () => {
  const context = contextFor('app', {
    'package.json': JSON.stringify({
      private: true,
      type: 'module',
      scripts: { build: 'mkdir -p dist && cp server.js router.js dist/' },
    }),
    'router.js': `import { createChatCompletionsRouter } from 'chat-completions-router';
      export const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} });`,
    'server.js': `import { createServer } from 'node:http';
      import { router } from './router.js';
      const server = createServer(router).listen(Number(process.env.PORT));
      process.once('SIGTERM', async () => {
        await router.close();
        server.close(() => process.exit(0));
      });`,
  });
  const source = documentedBlock('deployment.md', 'Dockerfile of an app');
  await runsAndEnds(runDockerfile(source, context, join(folder, 'app-image')), '/v1/models', 401);
});

it('the Dockerfile of Next.js can be read', () => {
  const instructions = parseDockerfile(documentedBlock('deployment.md', 'Dockerfile of Next.js'));
  expect(instructions.filter(([name]) => name === 'FROM')).toHaveLength(2);
  expect(instructions.at(-1)).toEqual(['CMD', '["node", "server.js"]']);
});
