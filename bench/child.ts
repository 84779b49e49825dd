import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

import type { Memory } from './processes/parent.ts';

/** A process of the benchmark that listens on a port and answers questions. */
export interface Child {
  readonly port: number;
  readonly pid: number;
  ask<T>(question: string, argument?: unknown): Promise<T>;
  cpuUs(): Promise<number>;
  memory(): Promise<Memory>;
  stop(): Promise<void>;
}

interface ChildOptions {
  readonly core?: number;
  readonly env?: NodeJS.ProcessEnv;
  readonly nodeFlags?: readonly string[] | undefined;
}

/** @param file - in `bench/processes` */
export async function startChild(
  file: string,
  args: readonly string[] = [],
  { core, env, nodeFlags = [] }: ChildOptions = {},
): Promise<Child> {
  const child = fork(join(import.meta.dirname, 'processes', file), args, {
    execArgv: ['--no-warnings', '--expose-gc', ...nodeFlags],
    env: { ...process.env, ...env },
  });
  const pid = child.pid ?? 0;
  if (core !== undefined) pin(pid, core);
  const ask = async <T>(question: string, argument?: unknown): Promise<T> => {
    child.send({ question, argument });
    return answerOf<T>(child);
  };
  return {
    port: await answerOf<number>(child),
    pid,
    ask,
    cpuUs: () => ask<number>('cpuUs'),
    memory: () => ask<Memory>('memory'),
    stop: async () => {
      const closed = once(child, 'close');
      child.kill('SIGKILL');
      await closed;
    },
  };
}

async function answerOf<T>(child: ChildProcess): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onExit = (code: number | null): void => {
    reject(new Error(`${child.spawnargs.slice(1).join(' ')} ended with code ${code}`));
  };
  child.once('exit', onExit);
  child.once('message', (message) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own process sends it
    resolve((message as { readonly answer: T }).answer);
  });
  try {
    return await promise;
  } finally {
    child.off('exit', onExit);
  }
}

/** Gives a process one core, where the system can do that; says whether it could. */
export function pin(pid: number, core: number): boolean {
  if (availableParallelism() < 2) return false;
  try {
    execFileSync('taskset', ['-acp', String(core), String(pid)], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
