import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

import { listening } from './app-process.ts';
import { documentedBlock } from './documented.ts';
import { freePort } from './redis-server.ts';

/** A reverse proxy that runs with its configuration of docs/reverse-proxies.md. */
export interface ReverseProxy {
  readonly origin: string;
  stop(): Promise<void>;
}

export type ProxyName = 'nginx' | 'Caddy' | 'HAProxy';

interface Program {
  readonly file: string;
  /** The block of the page. */
  readonly block: string;
  /** What the block is a part of. */
  readonly whole: (block: string, folder: string) => string;
  readonly args: (config: string) => readonly string[];
}

const PROGRAMS: Readonly<Record<ProxyName, Program>> = {
  nginx: {
    file: 'nginx',
    block: 'nginx.conf',
    whole: (block, folder) => `
daemon off;
pid nginx.pid;
error_log stderr warn;
${process.getuid?.() === 0 ? 'user root;' : ''}
worker_processes 1;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  ${block}
}
`,
    args: (config) => ['-e', 'stderr', '-p', join(config, '..'), '-c', config],
  },
  Caddy: {
    file: 'caddy',
    block: 'Caddyfile',
    whole: (block) => `{
  admin off
  auto_https off
}
${block.replace(':8080 {', 'http://127.0.0.1:8080 {\n  bind 127.0.0.1')}`,
    args: (config) => ['run', '--adapter', 'caddyfile', '--config', config],
  },
  HAProxy: {
    file: 'haproxy',
    block: 'haproxy.cfg',
    whole: (block) => block.replace('bind :8080', 'bind 127.0.0.1:8080'),
    args: (config) => ['-db', '-f', config],
  },
};

/** Its program, if it is installed; Debian has some of them where only root's `PATH` leads. */
function programOf(name: ProxyName): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  return folders.map((folder) => join(folder, PROGRAMS[name].file)).find((file) => existsSync(file));
}

export function isInstalled(name: ProxyName): boolean {
  return programOf(name) !== undefined;
}

/** Whether it resets a client's connection when the app resets its own; Caddy does from 2.8 on. */
export function passesResets(name: ProxyName): boolean {
  if (name !== 'Caddy') return true;
  const version = execFileSync(programOf(name) ?? '', ['version'], { encoding: 'utf8' });
  // A build of Go's own names no version: it is of the newest.
  const [, major, minor] = /(\d+)\.(\d+)/.exec(version)?.map(Number) ?? [0, 2, 8];
  return major! > 2 || (major === 2 && minor! >= 8);
}

/**
 * Starts one in front of a server on 127.0.0.1.
 *
 * @param port - the server's
 * @param edit - changes the configuration of the page
 */
export async function startReverseProxy(
  name: ProxyName,
  port: number,
  edit: (config: string) => string = (config) => config,
): Promise<ReverseProxy> {
  const { block, whole, args } = PROGRAMS[name];
  const folder = mkdtempSync(join(tmpdir(), 'ccr-proxy-'));
  mkdirSync(join(folder, 'home'));
  const own = await freePort();
  const config = edit(whole(documentedBlock('reverse-proxies.md', block), folder))
    .replaceAll('8787', String(port))
    .replaceAll('8080', String(own));
  const file = join(folder, block);
  writeFileSync(file, config);
  const child = spawn(programOf(name) ?? '', args(file), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: join(folder, 'home') },
  });
  const exited = once(child, 'exit');
  const output = outputOf(child);
  try {
    await listening(child, own, output);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  return {
    origin: `http://127.0.0.1:${own}`,
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function outputOf(child: ChildProcess): () => string {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  return () => output;
}
