import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startApp } from '../../helpers/app-process.ts';
import { documentedBlock, documentedPage } from '../../helpers/documented.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import { beginStream, DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const PAGE = documentedPage('deployment.md');

/** A folder below the project's root, so that programs in it import the built package by its name. */
function folderFor(name: string): string {
  const folder = join(ROOT, '.cache/deployment', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

describe.each(['shutdown-express.js', 'shutdown-fastify.js'])('%s', (name) => {
  it('finishes a running stream on SIGTERM, charges it, and ends', async ({ onTestFinished }) => {
    const cwd = folderFor(name);
    cpSync(join(ROOT, 'test/e2e/frameworks/router.mjs'), join(cwd, 'router.js'));
    writeFileSync(
      join(cwd, name),
      documentedBlock('deployment.md', name).replace('8787', 'Number(process.env.PORT)'),
    );
    const app = await startApp({ cwd, args: [name] });
    onTestFinished(() => app.stop());
    const gateway = await app.startAt('/v1');
    const { promise: refused, resolve: go } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await refused;
      response.end(text(' there', 'stop') + USAGE_EVENT + DONE);
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true });
    const ended = app.end();
    // New requests are refused, in whatever way, while the stream goes on.
    await expect.poll(() => statusOf(gateway.fetch('/models'))).not.toBe(200);
    go();
    expect(await response.text()).toContain('[DONE]');
    expect(await settled).toMatchObject({ ending: 'finished', charged: '0.000045' });
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await gateway.router.credits.balance(gateway.account)).toMatchObject({
      totalUsed: '0.000045',
      held: '0.00',
    });
  });
});

it('shutdown-express.js answers probes and refuses requests with 503 until it has closed', async ({
  onTestFinished,
}) => {
  const cwd = folderFor('probes');
  cpSync(join(ROOT, 'test/e2e/frameworks/router.mjs'), join(cwd, 'router.js'));
  const program = documentedBlock('deployment.md', 'shutdown-express.js');
  writeFileSync(join(cwd, 'app.js'), program.replace('8787', 'Number(process.env.PORT)'));
  const app = await startApp({ cwd, args: ['app.js'] });
  onTestFinished(() => app.stop());
  const gateway = await app.startAt('/v1');
  const probe = (path: string): Promise<number> => statusOf(fetch(app.origin + path));
  expect([await probe('/healthz'), await probe('/readyz')]).toEqual([200, 200]);
  let go: () => void = () => {};
  gateway.provider.script = async (response) => {
    beginStream(response);
    response.write(text('Hello'));
    await new Promise<void>((resolve) => (go = resolve));
    response.end(DONE);
  };
  const response = await gateway.post({ ...QUESTION, stream: true });
  const ended = app.end();
  await expect.poll(() => probe('/readyz')).toBe(503);
  expect(await probe('/healthz')).toBe(200);
  const refused = await gateway.post(QUESTION);
  expect([refused.status, refused.headers.has('retry-after')]).toEqual([503, true]);
  go();
  await response.text();
  expect((await ended).code).toBe(0);
});

describe('docs/deployment.md', () => {
  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
  if (!hasSystemd) console.log('Skipped: the systemd unit, because systemd-analyze is not installed.');

  it.skipIf(!hasSystemd)('has a unit that systemd accepts', () => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-systemd-'));
    const unit = join(folder, 'chat-completions-router.service');
    // What it runs must be there.
    writeFileSync(
      unit,
      documentedBlock('deployment.md', 'chat-completions-router.service').replace(
        '/usr/bin/node',
        process.execPath,
      ),
    );
    const { stderr, status } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], {
      encoding: 'utf8',
    });
    rmSync(folder, { recursive: true });
    expect(stderr.split('\n').filter((line) => line.includes('chat-completions-router'))).toEqual([]);
    expect(status).toBe(0);
  });

  it('has a PM2 file that can be loaded', () => {
    const file = join(folderFor('pm2'), 'ecosystem.config.cjs');
    writeFileSync(file, documentedBlock('deployment.md', 'ecosystem.config.cjs'));
    expect(createRequire(import.meta.url)(file)).toMatchObject({ apps: [{ exec_mode: 'cluster' }] });
  });

  it.each([PAGE, documentedPage('reverse-proxies.md'), documentedPage('frameworks.md')])(
    'has commands that a shell can read',
    (page) => {
      for (const [, script = ''] of page.matchAll(/^```sh\n(.*?)^```/gms)) {
        const { stderr } = spawnSync('bash', ['-n'], { input: script, encoding: 'utf8' });
        expect(stderr, script).toBe('');
      }
    },
  );
});

async function statusOf(response: Promise<Response>): Promise<number> {
  return response.then(
    async (answered) => {
      await answered.body?.cancel();
      return answered.status;
    },
    () => 0,
  );
}
