import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { afterAll, beforeAll } from 'vitest';

import { createChatCompletionsRouter, type Settled } from '../../src/index.ts';
import { type AnyGateway, clientsOf, PROVIDER_KEY } from './gateway.ts';
import { answerJson, completionBody, startProvider } from './provider.ts';

/** An app in a process of its own whose router shares a ledger file and a provider with the test. */
export interface AppProcess {
  readonly origin: string;
  /** The app at one of its mounts, for an account that is new, with $5.00. */
  startAt(path: string): Promise<AnyGateway>;
  /** All that it printed, on stdout and stderr. */
  output(): string;
  /** Sends SIGTERM, and waits until it has ended by itself. */
  end(): Promise<{ readonly code: number | null; readonly signal: string | null }>;
  stop(): Promise<void>;
}

export interface AppOptions {
  /** What Node is given: the program, and its arguments. */
  readonly args: readonly string[];
  readonly cwd: string;
  /** Beside `PATH`, `HOME`, `PORT`, `HOST` and what its router needs. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** Starts it and waits until its port, which `PORT` tells it, takes connections. */
export async function startApp({ args, cwd, env = {} }: AppOptions): Promise<AppProcess> {
  const temporary = mkdtempSync(join(tmpdir(), 'ccr-app-'));
  const store = `sqlite:${join(temporary, 'credits.db')}`;
  const provider = await startProvider();
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  const port = await freePort();
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, args, {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH,
      HOME,
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PORT: String(port),
      CREDITS_STORE: store,
      PROVIDER_URL: provider.baseURL,
      PROVIDER_KEY,
      ...env,
    },
  });
  const exited = once(child, 'exit');
  const settled = new EventEmitter<{ settled: [Settled] }>().setMaxListeners(0);
  const output = collect(child);
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.startsWith('settled ')) settled.emit('settled', JSON.parse(line.slice(8)) as Settled);
  });
  const closeRest = async (): Promise<void> => {
    await provider.close();
    await router.close();
    rmSync(temporary, { recursive: true });
  };
  try {
    await listening(child, port, output);
  } catch (error) {
    await closeRest();
    throw error;
  }
  const origin = `http://127.0.0.1:${port}`;
  let accounts = 0;
  return {
    origin,
    output,
    startAt: async (path) => {
      const account = `acct-${++accounts}`;
      const { key } = await router.keys.create({ account, name: 'test' });
      await router.credits.grant(account, '5.00', { id: 'welcome' });
      provider.received.length = 0;
      provider.script = answerJson(completionBody());
      return {
        provider,
        router,
        account,
        ...clientsOf(origin + path, key),
        nextSettled: () =>
          new Promise((resolve) => {
            const listener = (event: Settled): void => {
              if (event.account !== account) return;
              settled.off('settled', listener);
              resolve(event);
            };
            settled.on('settled', listener);
          }),
        close: async () => {},
      };
    },
    end: async () => {
      child.kill('SIGTERM');
      const [code, signal] = (await exited) as [number | null, string | null];
      return { code, signal };
    },
    stop: async () => {
      child.kill('SIGKILL');
      await exited;
      await closeRest();
    },
  };
}

/**
 * The same for all tests of a file.
 *
 * @param prepare - builds it, where that is needed
 * @param onStart - gets the app once it has started
 */
export function useApp(
  prepare: () => AppOptions | Promise<AppOptions>,
  onStart: (app: AppProcess) => void = () => {},
): Pick<AppProcess, 'startAt'> {
  let app: AppProcess | undefined;
  beforeAll(async () => {
    app = await startApp(await prepare());
    onStart(app);
  }, 300_000);
  afterAll(async () => {
    await app?.stop();
  });
  return {
    startAt: (path) => {
      if (!app) throw new Error('The app has not started');
      return app.startAt(path);
    },
  };
}

/** Runs a build in its folder. @throws an Error with all that it printed, if it fails */
export async function runBuild(cwd: string, args: readonly string[]): Promise<void> {
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, NODE_ENV: 'production', CI: '1', NO_COLOR: '1' };
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = collect(child);
  const [status] = (await once(child, 'exit')) as [number | null];
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}:\n${output()}`);
}

function collect(child: ChildProcess): () => string {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  return () => output;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Less than the hooks that start a program wait: they can't end it. */
const START_MS = 120_000;

/** Resolves once a program takes connections. @throws an Error with all that it printed, if it ends, or is ended because it never does */
export async function listening(child: ChildProcess, port: number, output: () => string): Promise<void> {
  const starting = new AbortController();
  const limit = setTimeout(() => child.kill('SIGKILL'), START_MS);
  const exited = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`${child.spawnargs.join(' ')} ended with ${code ?? signal}:\n${output()}`);
  });
  try {
    await Promise.race([accepts(port, starting.signal), exited]);
  } finally {
    clearTimeout(limit);
    starting.abort();
  }
}

/** Programs say in words of their own that they listen, if they do: only the port says it alike. */
async function accepts(port: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const socket = connect(port, '127.0.0.1');
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => {
        resolve(true);
      });
      socket.once('error', () => {
        setTimeout(() => {
          resolve(false);
        }, 50);
      });
    });
    socket.destroy();
    if (isOpen) return;
  }
}
