import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A real redis-server of a test's own, on a free loopback port, with nothing on disk that outlives it. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Ends it as an operator would. */
  stop(): Promise<void>;
  /** Ends it as a power cut would. */
  kill(): Promise<void>;
}

/** @param args - further options for redis-server, e.g. `['--appendonly', 'yes']` */
export async function startRedis(args: readonly string[] = []): Promise<RedisServer> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), 'ccr-redis-'));
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = spawn('redis-server', [...options, '--dir', directory, ...args], { stdio: 'ignore' });
  const exited = once(server, 'exit');
  await Promise.race([
    listening(port),
    exited.then(() => Promise.reject(new Error('redis-server did not start'))),
  ]);

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    server.kill(signal);
    await exited;
    rmSync(directory, { recursive: true, force: true });
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Resolves once something accepts connections there. */
async function listening(port: number): Promise<void> {
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    const outcome = await Promise.race([
      once(socket, 'connect').then(() => 'connected'),
      once(socket, 'error').then(() => 'refused'),
    ]).catch(() => 'refused');
    socket.destroy();
    if (outcome === 'connected') return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
