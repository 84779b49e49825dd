import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';

/** Without the variables that would bring real providers in; an old Node is asked by one to read TypeScript. */
export const ENV: NodeJS.ProcessEnv = {
  PATH: process.env['PATH'],
  HOME: process.env['HOME'],
  NODE_OPTIONS: process.env['NODE_OPTIONS'],
};

/** A process of an example. */
export interface ExampleProcess {
  readonly process: ChildProcessByStdio<null, Readable, Readable>;
  /** What it printed at its start. */
  readonly banner: string;
  /** Ends it as an operator would, and gives its exit code. */
  stop(): Promise<number | null>;
}

/** An example that serves the demo's account. */
export interface Example extends ExampleProcess {
  readonly baseURL: string;
  readonly apiKey: string;
}

/** @param name - a folder of `examples/` whose `server.ts` prints the banner of the demo */
export async function startExample(
  name: string,
  env: NodeJS.ProcessEnv = {},
  started: RegExp = /Ctrl-C/,
): Promise<Example> {
  return withAccount(await spawnExample(name, env, started));
}

/** The built command `demo`, as `npx chat-completions-router demo` runs it. */
export async function startDemo(env: NodeJS.ProcessEnv = {}, args: readonly string[] = []): Promise<Example> {
  return withAccount(await spawnServer(['dist/cli.js', 'demo', ...args], env, /Ctrl-C/));
}

function withAccount(example: ExampleProcess): Example {
  const [, baseURL = ''] = /Address\s+(http:\S+)/.exec(example.banner) ?? [];
  const [, apiKey = ''] = /API key\s+(sk-ccr-\S+)/.exec(example.banner) ?? [];
  return { ...example, baseURL, apiKey };
}

/** @param started - what it has printed when it can be used */
export function spawnExample(name: string, env: NodeJS.ProcessEnv, started: RegExp): Promise<ExampleProcess> {
  return spawnServer([`examples/${name}/server.ts`], env, started);
}

async function spawnServer(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  started: RegExp,
): Promise<ExampleProcess> {
  const child = spawn(process.execPath, args, {
    env: { ...ENV, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const closed = once(child, 'close');
  let banner = '';
  let complaints = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (complaints += chunk));
  for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    banner += chunk;
    if (started.test(banner)) break;
  }
  child.stdout.resume();
  if (!started.test(banner)) {
    child.kill();
    await closed; // now it has complained
    throw new Error(`${args.join(' ')} did not start: ${banner}${complaints}`);
  }
  return {
    process: child,
    banner,
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        await once(child, 'exit');
      }
      return child.exitCode;
    },
  };
}
