import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

import type { Settled } from '../../../src/index.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const NEXT = createRequire(import.meta.url).resolve('next/dist/bin/next');

/** A real `next start` of `test/e2e/next/fixture`. */
export interface NextServer {
  readonly origin: string;
  /** Emits what the app's `onSettled` is told. */
  readonly settled: EventEmitter<{ settled: [Settled] }>;
  /** All that it printed, on stdout and stderr. */
  output(): string;
  /** Ends it as a host would, and waits until it has ended. */
  stop(): Promise<void>;
}

/**
 * Builds the app in a folder of its own, where this package is installed as it would be by npm.
 *
 * @param flags - for `next build`, e.g. `--webpack`
 * @returns the folder
 */
export async function buildNextApp(flags: readonly string[] = []): Promise<string> {
  const folder = `${ROOT}.cache/next`;
  const installed = `${folder}/node_modules/chat-completions-router`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(installed, { recursive: true });
  cpSync(`${ROOT}test/e2e/next/fixture`, folder, { recursive: true });
  cpSync(`${ROOT}dist`, `${installed}/dist`, { recursive: true });
  cpSync(`${ROOT}package.json`, `${installed}/package.json`);
  writeFileSync(`${folder}/package.json`, '{"private":true,"type":"module"}');
  mkdirSync(`${folder}/node_modules/@types`);
  for (const name of ['next', 'react', 'react-dom', '@types/react', '@types/react-dom']) {
    symlinkSync(`${ROOT}test/e2e/node_modules/${name}`, `${folder}/node_modules/${name}`);
  }
  const build = run(folder, ['build', ...flags], {});
  const output = collect(build);
  const [status] = (await once(build, 'exit')) as [number | null];
  if (status !== 0) throw new Error(`next build ended with ${status}:\n${output()}`);
  return folder;
}

/** @param env - beside `PATH` and `HOME`, which is all that it gets of ours */
export async function startNextApp(
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<NextServer> {
  const server = run(folder, ['start', '--port', '0', '--hostname', '127.0.0.1'], env);
  const output = collect(server);
  const settled = new EventEmitter<{ settled: [Settled] }>().setMaxListeners(0);
  let listening: (origin: string) => void = () => {};
  const ready = new Promise<string>((resolve) => {
    listening = resolve;
  });
  createInterface({ input: server.stdout! }).on('line', (line) => {
    const origin = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
    if (origin) listening(origin);
    if (line.startsWith('settled ')) settled.emit('settled', JSON.parse(line.slice(8)) as Settled);
  });
  const exited = once(server, 'exit');
  const origin = await Promise.race([
    ready,
    exited.then(() => {
      throw new Error(`next start ended:\n${output()}`);
    }),
  ]);
  return {
    origin,
    settled,
    output,
    stop: async () => {
      server.kill('SIGTERM');
      await exited;
    },
  };
}

function run(folder: string, args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  const { PATH = '', HOME = '' } = process.env;
  return spawn(process.execPath, [NEXT, ...args], {
    cwd: folder,
    env: { PATH, HOME, NEXT_TELEMETRY_DISABLED: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

function collect(child: ChildProcess): () => string {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  return () => output;
}
