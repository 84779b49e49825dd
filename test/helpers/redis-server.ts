import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
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
  const directory = mkdtempSync(join(parent, 'ccr-redis-'));
  const configured = configure(directory);
  let port = 0;
  let server: ChildProcess | undefined;
  process.once('SIGTERM', abandon);
  await retried(async () => {
    port = await freePort();
    await launch();
  }).catch(async (error: unknown) => {
    await remove('SIGKILL');
    throw error;
  });

  async function launch(): Promise<void> {
    const address = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory];
    server = spawn('redis-server', [...configured, ...address], { stdio: ['ignore', 'pipe', 'ignore'] });
    await listening(server);
  }
  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    server?.kill('SIGCONT');
    if (server?.exitCode === null && server.signalCode === null) {
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
    server?.kill('SIGKILL');
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
      await retried(launch);
    },
    freeze: () => void server?.kill('SIGSTOP'),
    thaw: () => void server?.kill('SIGCONT'),
  };
}

/** Another process may take a port for a moment, as a client of another test does: then it is tried again. */
export async function retried<T>(start: () => Promise<T>): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await start();
    } catch (error) {
      if (retries === 3) throw error;
    }
  }
}

/**
 * Resolves once the server listens, though it may still load its data. It says so itself: what accepts
 * connections on its port may be another test's, and then this one exits. Options must leave its log on stdout, with notices.
 */
async function listening(server: ChildProcess): Promise<void> {
  const said = new Promise<void>((resolve) => {
    server.stdout!.on('data', (chunk: Buffer) => {
      if (/Server initialized|Sentinel ID is/.test(chunk.toString())) resolve();
    });
  });
  const exited = once(server, 'exit');
  await Promise.race([said, exited.then(() => Promise.reject(new Error('redis-server did not start')))]);
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
