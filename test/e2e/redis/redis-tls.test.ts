import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { freePort, startRedis, startRedisWithConfig } from '../../helpers/redis-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-tls-'));
const [certificate, key] = ['certificate.pem', 'key.pem'].map((file) => join(folder, file));

/** A certificate of this host's that nobody has signed but itself. */
beforeAll(() => {
  const names = 'subjectAltName=DNS:localhost,IP:127.0.0.1';
  const request = `req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext ${names}`;
  const options = [...request.split(' '), '-keyout', String(key), '-out', String(certificate)];
  execFileSync('openssl', options, { stdio: 'ignore' });
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

async function tlsOptions(): Promise<{ tlsPort: number; args: string[] }> {
  const tlsPort = await freePort();
  const files = `--tls-cert-file ${certificate} --tls-key-file ${key} --tls-ca-cert-file ${certificate}`;
  return { tlsPort, args: `--tls-port ${tlsPort} ${files} --tls-auth-clients no`.split(' ') };
}

/** What a process of its own says of a store URL. */
async function outcomeOf(url: string, environment: Record<string, string> = {}): Promise<string> {
  const script = join(import.meta.dirname, '../../processes/redis-ready.ts');
  const options = { env: { ...process.env, ...environment } };
  const { stdout } = await promisify(execFile)(process.execPath, ['--no-warnings', script, url], options);
  return stdout.trim();
}

const trusting = (): Record<string, string> => ({ NODE_EXTRA_CA_CERTS: String(certificate) });

describe('a store URL with TLS', { timeout: 30_000 }, () => {
  it('is for a server whose certificate is trusted, and for no other', async () => {
    const { tlsPort, args } = await tlsOptions();
    const server = await startRedis(args);
    onTestFinished(() => server.stop());
    expect(await outcomeOf(`rediss://localhost:${tlsPort}`, trusting())).toBe('ready');
    expect(await outcomeOf(`rediss://127.0.0.1:${tlsPort}`, trusting())).toBe('ready');
    expect(await outcomeOf(`rediss://localhost:${tlsPort}`)).toBe('DEPTH_ZERO_SELF_SIGNED_CERT');
    expect(await outcomeOf(`rediss://127.0.0.2:${tlsPort}`, trusting())).not.toBe('ready');
  });

  it('reaches a cluster', async () => {
    const { tlsPort, args } = await tlsOptions();
    const busPort = await freePort();
    const cluster = `--cluster-enabled yes --cluster-port ${busPort} --cluster-announce-ip 127.0.0.1`;
    const server = await startRedis([...args, ...cluster.split(' '), '--tls-cluster', 'yes']);
    onTestFinished(() => server.stop());
    const redis = new Redis(server.port);
    onTestFinished(() => redis.disconnect());
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    await expect
      .poll(async () => redis.call('CLUSTER', 'INFO'), { timeout: 5000 })
      .toContain('cluster_state:ok');
    expect(await outcomeOf(`rediss+cluster://localhost:${tlsPort}`, trusting())).toBe('ready');
    expect(await outcomeOf(`rediss+cluster://localhost:${tlsPort}`)).not.toBe('ready');
  });

  it('reaches a primary by its sentinels', async () => {
    const primary = await tlsOptions();
    const server = await startRedis(primary.args);
    onTestFinished(() => server.stop());
    const { tlsPort, args } = await tlsOptions();
    const sentinel = await startRedisWithConfig((directory) => {
      const file = join(directory, 'sentinel.conf');
      writeFileSync(file, `sentinel monitor main 127.0.0.1 ${primary.tlsPort} 1\n`);
      return [file, '--sentinel', ...args, '--tls-replication', 'yes'];
    });
    onTestFinished(() => sentinel.stop());
    expect(await outcomeOf(`rediss+sentinel://localhost:${tlsPort}/main`, trusting())).toBe('ready');
    expect(await outcomeOf(`rediss+sentinel://localhost:${tlsPort}/main`)).not.toBe('ready');
  });
});
