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
  process.once('SIGTERM', abandon);
  const starting = new AbortController();
  try {
    await Promise.race([
      listening(port, starting.signal),
      exited.then(() => Promise.reject(new Error('redis-server did not start'))),
    ]);
  } finally {
    starting.abort();
  }

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    server.kill(signal);
    await exited;
    process.off('SIGTERM', abandon);
    rmSync(directory, { recursive: true, force: true });
  }
  /** Vitest ends its workers by SIGTERM; a test that failed on its way to `stop` must leave no server behind. */
  function abandon(): void {
    server.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true });
    process.kill(process.pid, 'SIGTERM');
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
async function listening(port: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
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
