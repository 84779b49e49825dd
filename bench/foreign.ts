import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import * as net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { pin } from './child.ts';
import type { Proxy } from './proxy.ts';

/** A gateway that isn't ours: how its process is started, and how a client is let through. */
export interface Program {
  readonly file: string;
  readonly args: readonly string[];
  readonly folder: string;
  readonly env?: NodeJS.ProcessEnv;
  /** @default '/v1/chat/completions' */
  readonly path?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly isSlowAtFirst?: boolean;
  readonly mostStreams?: number;
}

/** How long a process may take to listen; Python's imports alone are seconds. */
const START_MS = 60_000;

/**
 * Starts a process that can't be asked: the operating system says what it used.
 *
 * @throws saying why, where it doesn't come to listen
 */
export async function runForeign(name: string, port: number, program: Program, core: number): Promise<Proxy> {
  const { file, args, folder, env } = program;
  const child = spawn(file, args, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  try {
    if (child.pid !== undefined) pin(child.pid, core);
    await listening(child, port);
  } catch (error) {
    await end(child);
    throw error;
  }
  const pid = child.pid ?? 0;
  // A child may be older than its parent's pin.
  for (const member of familyOf(pid)) pin(member, core);
  return {
    name,
    port,
    path: program.path ?? '/v1/chat/completions',
    key: program.key ?? 'none',
    headers: program.headers ?? {},
    isSlowAtFirst: program.isSlowAtFirst ?? false,
    ...(program.mostStreams !== undefined && { mostStreams: program.mostStreams }),
    cpuUs: async () => sumOf(familyOf(pid), cpuUsOf),
    rssBytes: async () => sumOf(familyOf(pid), rssBytesOf),
    node: undefined,
    stop: () => end(child),
  };
}

/** Not `SIGKILL` at first: that would leave the processes that it began. */
async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  const killer = setTimeout(() => child.kill('SIGKILL'), 2000);
  child.kill('SIGTERM');
  await ended;
  clearTimeout(killer);
}

/** A process and all that it began, as far as they are still there. */
function familyOf(pid: number): readonly number[] {
  const threads = orNothing(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  const children = threads.flatMap((thread) =>
    (orNothing(() => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')) ?? '')
      .split(' ')
      .filter((child) => child !== '')
      .map(Number),
  );
  return [pid, ...children.flatMap(familyOf)];
}

function cpuUsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

function rssBytesOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

/** NaN where the operating system tells nothing. */
function sumOf(pids: readonly number[], read: (pid: number) => number): number {
  const values = pids.map((pid) => orNothing(() => read(pid))).filter((value) => value !== undefined);
  return values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0);
}

/** A process may end between two looks at it. */
function orNothing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  server.close();
  await once(server, 'close');
  return port;
}

async function listening(child: ChildProcess, port: number): Promise<void> {
  let said = '';
  let failure: string | undefined;
  // Read to the end, or a process with much to say would wait for its reader.
  child.stderr?.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-2000)));
  child.once('error', (error) => (failure = error.message));
  child.once('exit', (code, signal) => (failure ??= `it ended with ${signal ?? `code ${code}`}`));
  for (const until = performance.now() + START_MS; performance.now() < until; await sleep(50)) {
    if (failure !== undefined) throw new Error(`${failure}${lastLineOf(said)}`);
    if (await isOpen(port)) return;
  }
  throw new Error(`it does not listen after ${START_MS / 1000} s${lastLineOf(said)}`);
}

function lastLineOf(text: string): string {
  const line = text.trimEnd().split('\n').at(-1) ?? '';
  return line === '' ? '' : ` (${line.trim()})`;
}

async function isOpen(port: number): Promise<boolean> {
  const socket = net.connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
