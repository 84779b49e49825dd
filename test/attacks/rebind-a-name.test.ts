import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { runCli, type Served, startServe } from '../helpers/cli.ts';
import { exchangeRaw } from '../helpers/raw-http.ts';

let folder: string;
let config: string;
let served: Served;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-host-'));
  config = write('config.json', {});
  const names = 'gateway.example.com,LocalHost,::1,127.0.0.1,other.example.com.';
  const env = { ADMIN_TOKEN: 'a-token-of-the-operator' };
  served = await startServe(['--config', config, '--host-names', names, '--admin'], { env });
});

afterAll(async () => {
  await served.stop();
  rmSync(folder, { recursive: true });
});

function write(name: string, server: object): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify({ store: 'memory:', providers: {}, models: {}, server }));
  return path;
}

function port(): number {
  return Number(new URL(served.origin).port);
}

async function statusOf(path: string, ...hosts: readonly string[]): Promise<number> {
  const lines = [`GET ${path} HTTP/1.1`, ...hosts.map((host) => `host: ${host}`), 'connection: close'];
  return Number((await exchangeRaw(port(), `${lines.join('\r\n')}\r\n\r\n`)).split(' ')[1]);
}

describe('a page whose name was made to point at the server', () => {
  it.each(['/v1/models', '/admin', '/admin/accounts', '/'])('is told nothing at %s', async (path) => {
    expect(await statusOf(path, 'evil.example')).toBe(421);
    expect(await statusOf(path, 'gateway.example.com')).not.toBe(421);
  });

  it.each([
    'evil.example',
    'gateway.example.com.evil.example',
    'evil.gateway.example.com',
    'gateway.example.com..',
    'gateway.example.com@evil.example',
    'gateway.example.com:80@evil.example',
    'gateway.example.com/evil.example',
    'gateway.example.com, evil.example',
    'gateway_example_com',
    '[::2]',
    '[::1',
    '10.0.0.1',
    ':80',
    '',
  ])('is not helped by the Host %j', async (host) => {
    expect(await statusOf('/v1/models', host)).toBe(421);
  });

  it('is not helped by a second Host', async () => {
    expect(await statusOf('/v1/models', 'gateway.example.com', 'evil.example')).toBe(421);
    expect(await statusOf('/v1/models', 'evil.example', 'gateway.example.com')).toBe(421);
  });

  it('is not helped by a request without Host', async () => {
    const answer = await exchangeRaw(port(), 'GET /v1/models HTTP/1.0\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 421 /);
  });

  it('gets an error that says why', async () => {
    const request = 'GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n';
    const [head = '', body = ''] = (await exchangeRaw(port(), request)).split('\r\n\r\n');
    expect(head).toMatch(/x-should-retry: false/i);
    expect(body).toContain('"code":"misdirected_request"');
    expect(body).toContain('The Host \\"evil.example\\" is not allowed.');
  });
});

describe('a client that asks by a name of the server', () => {
  it.each([
    'gateway.example.com',
    'gateway.example.com:8787',
    'gateway.example.com:',
    'Gateway.EXAMPLE.com',
    'gateway.example.com.',
    'other.example.com',
    'localhost:1',
    '127.0.0.1:8787',
    '[::1]:8787',
    '[0:0:0:0:0:0:0:1]',
  ])('is let in by the Host %s', async (host) => {
    expect(await statusOf('/v1/models', host)).toBe(401);
  });

  it.each(['/healthz', '/readyz'])('may ask for %s by any', async (path) => {
    expect(await statusOf(path, '10.1.2.3:8787')).toBe(200);
  });
});

describe('names of hosts', () => {
  it.each(['', 'a,', 'a:80', 'http://a', 'a/b', '*', '[::1]:80', '1:2'])(
    'are refused that can be none: %j',
    async (names) => {
      const { code, stderr } = await runCli(['serve', '--config', config, '--host-names', names]);
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining('--host-names must be host names without ports'),
      ]);
    },
  );

  it.each([[[]], ['a'], [[7]]])('are refused in a config that are none: %j', async (hostNames) => {
    const path = write('wrong.json', { hostNames });
    const { code, stderr } = await runCli(['serve', '--config', path]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('server.hostNames must be')]);
  });
});
