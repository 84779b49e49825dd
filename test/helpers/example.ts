import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';

/** Without the variables that would bring real providers in. */
export const ENV = { PATH: process.env['PATH'], HOME: process.env['HOME'] };

/** An example that runs in a process of its own. */
export interface Example {
  readonly process: ChildProcessByStdio<null, Readable, Readable>;
  /** What it printed at its start. */
  readonly banner: string;
  readonly baseURL: string;
  readonly apiKey: string;
  /** Ends it as an operator would, and gives its exit code. */
  stop(): Promise<number | null>;
}

/** @param name - a folder of `examples/` whose `server.ts` prints the banner of the demo */
export async function startExample(name: string, env: NodeJS.ProcessEnv = {}): Promise<Example> {
  const child = spawn(process.execPath, [`examples/${name}/server.ts`], {
    env: { ...ENV, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let banner = '';
  let complaints = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (complaints += chunk));
  for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    banner += chunk;
    if (banner.includes('Ctrl-C')) break;
  }
  child.stdout.resume();
  const [, baseURL] = /Address\s+(http:\S+)/.exec(banner) ?? [];
  const [, apiKey] = /API key\s+(sk-ccr-\S+)/.exec(banner) ?? [];
  if (!baseURL || !apiKey) {
    child.kill();
    throw new Error(`The example ${name} did not start: ${banner}${complaints}`);
  }
  return {
    process: child,
    banner,
    baseURL,
    apiKey,
    stop: async () => {
      if (child.exitCode === null) {
        child.kill('SIGTERM');
        await once(child, 'exit');
      }
      return child.exitCode;
    },
  };
}
