import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import * as net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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
  if (name === 'Portkey') return startPortkey(upstreamPort, core);
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

/** Which peers this machine has; for each other a line that says what it lacks. */
export function findPeers(): { readonly found: readonly string[]; readonly missing: readonly string[] } {
  const found: string[] = [];
  const missing: string[] = [];
  try {
    execFileSync('nginx', ['-v'], { stdio: 'ignore' });
    found.push('nginx');
  } catch {
    missing.push('nginx is not installed: apt-get install nginx-light');
  }
  if (existsSync(PORTKEY)) found.push('Portkey');
  else missing.push('Portkey is not installed: npm install --prefix .cache/peers @portkey-ai/gateway');
  return { found, missing };
}

const PORTKEY = join(
  import.meta.dirname,
  '../.cache/peers/node_modules/@portkey-ai/gateway/build/start-server.js',
);

async function startPortkey(upstreamPort: number, core: number): Promise<Proxy> {
  const port = await freePort();
  const child = spawn(process.execPath, [PORTKEY, `--port=${port}`, '--headless'], { stdio: 'ignore' });
  return foreign('Portkey', child.pid ?? 0, port, core, () => void child.kill('SIGKILL'), {
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `http://127.0.0.1:${upstreamPort}/v1`,
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
