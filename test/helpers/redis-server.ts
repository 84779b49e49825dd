import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A real redis-server of a test's own, on a free loopback port, with nothing on disk that outlives it. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly directory: string;
  /** Ends it as an operator would. */
  stop(): Promise<void>;
  /** Ends it as a power cut would. */
  kill(): Promise<void>;
  /**
   * Ends it as a power cut would, and starts it again on the same port, with what its disk has.
   *
   * @param whileDown - what happens to the disk meanwhile
   */
  restart(whileDown?: () => unknown): Promise<void>;
  /** Stops it where it is, without closing a connection, until `thaw`. */
  freeze(): void;
  thaw(): void;
}

/**
 * @param args - further options for redis-server, e.g. `['--appendonly', 'yes']`
 * @param parent - where its directory is made
 */
export async function startRedis(args: readonly string[] = [], parent?: string): Promise<RedisServer> {
  return startRedisWithConfig(() => ['--save', '', '--appendonly', 'no', ...args], parent);
}

/** @param configure - the options, of which the first may be a file, by the directory that is the server's own */
export async function startRedisWithConfig(
  configure: (directory: string) => readonly string[],
  parent: string = tmpdir(),
): Promise<RedisServer> {
  const port = await freePort();
  const directory = mkdtempSync(join(parent, 'ccr-redis-'));
  const options = [
    ...configure(directory),
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    directory,
  ];
  process.once('SIGTERM', abandon);
  let server = await launch(options, port);

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    server.kill('SIGCONT');
    if (server.exitCode === null && server.signalCode === null) {
      const exited = once(server, 'exit');
      server.kill(signal);
      await exited;
    }
  }
  async function remove(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    await end(signal);
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
    directory,
    stop: () => remove('SIGTERM'),
    kill: () => remove('SIGKILL'),
    restart: async (whileDown = () => {}) => {
      await end('SIGKILL');
      await whileDown();
      server = await launch(options, port);
    },
    freeze: () => void server.kill('SIGSTOP'),
    thaw: () => void server.kill('SIGCONT'),
  };
}

/** A port may be taken for a moment, as by a client of another test: then the server is started again. */
async function launch(options: readonly string[], port: number): Promise<ChildProcess> {
  for (let retries = 0; ; retries++) {
    try {
      return await launchOnce(options, port);
    } catch (error) {
      if (retries === 3) throw error;
    }
  }
}

async function launchOnce(options: readonly string[], port: number): Promise<ChildProcess> {
  const server = spawn('redis-server', options, { stdio: 'ignore' });
  const exited = once(server, 'exit');
  const starting = new AbortController();
  try {
    await Promise.race([
      listening(port, starting.signal),
      exited.then(() => Promise.reject(new Error('redis-server did not start'))),
    ]);
  } finally {
    starting.abort();
  }
  return server;
}

/** Below the ports that the system gives to clients: one of those could take it while its server restarts. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
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
