import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import * as net from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { type Child, pin, startChild } from './child.ts';

/** A proxy that runs, and what a client must send to be let through. */
export interface Proxy {
  readonly name: string;
  readonly port: number;
  readonly path: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Of the process so far, in µs. */
  cpuUs(): Promise<number>;
  rssBytes(): Promise<number>;
  /** Where it is a process of Node's: its heap after a collection, and the longest block of its event loop since last asked. */
  readonly node: Child | undefined;
  stop(): Promise<void>;
}

export interface Surroundings {
  readonly upstreamPort: number;
  readonly redisUrl: string;
  readonly folder: string;
  /** The core that the proxy has to itself; none on a machine with one. */
  readonly core: number;
}

/** Proxies of ours and those that they are compared with, by name. */
export async function startProxy(
  name: string,
  { upstreamPort, redisUrl, folder, core }: Surroundings,
  options: Readonly<Record<string, unknown>> = {},
): Promise<Proxy> {
  if (name === 'nginx') return startNginx(upstreamPort, folder, core);
  const gateway = GATEWAYS[name];
  if (gateway) return startGateway(name, gateway, upstreamPort, core);
  const child = await startChild('proxy.ts', [name, String(upstreamPort), JSON.stringify(options)], {
    core,
    env: { REDIS_URL: redisUrl, SQLITE_FILE: join(folder, 'bench.db') },
  });
  return {
    name,
    port: child.port,
    path: '/v1/chat/completions',
    key: await child.ask<string>('key'),
    headers: {},
    cpuUs: async () => (await child.usage()).cpuUs,
    rssBytes: async () => (await child.usage()).rssBytes,
    node: child,
    stop: () => child.stop(),
  };
}

export interface Peers {
  readonly found: readonly string[];
  /** By name, e.g. `1.15.2`. */
  readonly versions: Readonly<Record<string, string>>;
  /** For each other a line that says what it lacks. */
  readonly missing: readonly string[];
}

/** Which peers this machine has; those of npm are installed once, outside of the repository. */
export async function findPeers(): Promise<Peers> {
  const versions: Record<string, string> = {};
  const missing: string[] = [];
  try {
    const { stderr } = await execute('nginx', ['-v']);
    versions['nginx'] = /nginx\/(\S+)/.exec(stderr)?.[1] ?? 'unknown';
  } catch {
    missing.push('nginx is left out: it is not installed (apt-get install nginx-light)');
  }
  try {
    await installPeers();
    for (const [name, { module }] of Object.entries(GATEWAYS)) versions[name] = versionOf(module);
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    missing.push(
      `${Object.keys(GATEWAYS).join(' and ')} are left out: npm could not install them (${reason})`,
    );
  }
  return { found: Object.keys(versions), versions, missing };
}

const execute = promisify(execFile);
const PEERS = join(homedir(), '.cache/chat-completions-router/peers');

interface Gateway {
  readonly module: string;
  /** The arguments of Node that start it, in the folder of the peers. */
  readonly args: (port: number) => readonly string[];
}

/** Gateways of Node's that npm installs. The second is a fork of the first, and comes without a server. */
const GATEWAYS: Readonly<Record<string, Gateway>> = {
  Portkey: {
    module: '@portkey-ai/gateway',
    args: (port) => [
      join(PEERS, 'node_modules/@portkey-ai/gateway/build/start-server.js'),
      `--port=${port}`,
      '--headless',
    ],
  },
  LLMOps: {
    module: '@llmops/gateway',
    args: (port) => [
      '--input-type=module',
      '--eval',
      `import { serve } from '@hono/node-server'; import gateway from '@llmops/gateway'; serve({ fetch: gateway.fetch, port: ${port} });`,
    ],
  },
};

async function installPeers(): Promise<void> {
  mkdirSync(PEERS, { recursive: true });
  const manifest = {
    private: true,
    dependencies: {
      '@portkey-ai/gateway': '1.15.2',
      '@llmops/gateway': '0.6.10',
      '@hono/node-server': '1.14.1',
    },
    // With a later one, Portkey answers every stream with 500: https://github.com/Portkey-AI/gateway/issues/1389
    overrides: { '@hono/node-server': '1.14.1' },
  };
  const path = join(PEERS, 'package.json');
  const written = `${JSON.stringify(manifest, undefined, 2)}\n`;
  const isThere = existsSync(path) && readFileSync(path, 'utf8') === written;
  if (
    isThere &&
    Object.values(GATEWAYS).every(({ module }) => existsSync(join(PEERS, 'node_modules', module)))
  )
    return;
  writeFileSync(path, written);
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--omit=dev'];
  await execute('npm', args, { cwd: PEERS, timeout: 120_000 });
}

function versionOf(module: string): string {
  const { version }: { readonly version: string } = JSON.parse(
    readFileSync(join(PEERS, 'node_modules', module, 'package.json'), 'utf8'),
  );
  return version;
}

async function startGateway(
  name: string,
  { args }: Gateway,
  upstreamPort: number,
  core: number,
): Promise<Proxy> {
  const port = await freePort();
  const child = spawn(process.execPath, args(port), { cwd: PEERS, stdio: 'ignore' });
  return foreign(name, child.pid ?? 0, port, core, () => void child.kill('SIGKILL'), {
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `http://127.0.0.1:${upstreamPort}/v1`,
    'x-llmops-provider': 'openai',
    'x-llmops-custom-host': `http://127.0.0.1:${upstreamPort}/v1`,
  });
}

async function startNginx(upstreamPort: number, folder: string, core: number): Promise<Proxy> {
  const port = await freePort();
  const prefix = mkdtempSync(join(folder, 'nginx-'));
  writeFileSync(
    join(prefix, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${prefix}/pid; error_log /dev/null;
     events { worker_connections 20000; }
     http {
       access_log off; client_max_body_size 100m; client_body_buffer_size 2m; keepalive_requests 1000000;
       client_body_temp_path ${prefix}; proxy_temp_path ${prefix}; fastcgi_temp_path ${prefix};
       uwsgi_temp_path ${prefix}; scgi_temp_path ${prefix};
       upstream provider { server 127.0.0.1:${upstreamPort}; keepalive 512; keepalive_requests 1000000; }
       server {
         listen 127.0.0.1:${port} backlog=8192;
         location / { proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
       }
     }`,
  );
  const child = spawn('nginx', ['-p', prefix, '-c', join(prefix, 'nginx.conf')], { stdio: 'ignore' });
  const worker = async (): Promise<number> => {
    for (;;) {
      try {
        const pids = execFileSync('pgrep', ['-P', String(child.pid)], { encoding: 'utf8' });
        return Number(pids.split('\n')[0]);
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  };
  return foreign('nginx', await worker(), port, core, () => void child.kill('SIGTERM'), {});
}

/** A process that can't be asked: the operating system says what it used. */
async function foreign(
  name: string,
  pid: number,
  port: number,
  core: number,
  kill: () => void,
  headers: Readonly<Record<string, string>>,
): Promise<Proxy> {
  pin(pid, core);
  await listening(port);
  return {
    name,
    port,
    path: '/v1/chat/completions',
    key: 'none',
    headers,
    cpuUs: async () => {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10_000;
    },
    rssBytes: async () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024,
    node: undefined,
    stop: async () => kill(),
  };
}

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  server.close();
  await once(server, 'close');
  return port;
}

async function listening(port: number): Promise<void> {
  for (const until = performance.now() + 20_000; performance.now() < until;) {
    const socket = net.connect(port, '127.0.0.1');
    const isOpen = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`Nothing listens on port ${port}`);
}

export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'ccr-bench-'));
