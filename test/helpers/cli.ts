import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

const CLI = new URL('../../dist/cli.js', import.meta.url).pathname;

/** A process of the command that has ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Of Node's own. */
  readonly flags?: readonly string[];
  /** What runs the command. @default this Node */
  readonly runtime?: string;
}

/** Starts the built command. */
export function startCli(
  args: readonly string[],
  { env, cwd, flags = [], runtime = process.execPath }: RunOptions = {},
): ChildProcessByStdio<null, Readable, Readable> {
  return spawn(runtime, [...flags, CLI, ...args], {
    cwd,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs the built command to its end. */
export async function runCli(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const child = startCli(args, options);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}

/** A line of the log of `serve`. */
export type LogLine = Readonly<Record<string, unknown>> & { readonly level: string; readonly event: string };

/** A process of `serve`. */
export interface Served {
  readonly process: ChildProcessByStdio<null, Readable, Readable>;
  /** Scheme, host and port. */
  readonly origin: string;
  /** What it has logged so far. */
  readonly log: readonly LogLine[];
  /** The next line, or the one that was there, that tells of this event. */
  logged(event: string): Promise<LogLine>;
  /** Asks it to end, and gives its exit code once it has. */
  stop(): Promise<number | null>;
}

/** Starts `serve` on a port that is free. */
export async function startServe(args: readonly string[], options: RunOptions = {}): Promise<Served> {
  const child = startCli(['serve', '--port', '0', ...args], options);
  const complaints = text(child.stderr);
  const exited = once(child, 'exit');
  const log: LogLine[] = [];
  const waiting: { readonly event: string; readonly resolve: (line: LogLine) => void }[] = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const parsed = JSON.parse(line) as LogLine;
      log.push(parsed);
      for (const { event, resolve } of waiting) if (event === parsed.event) resolve(parsed);
    }
  });
  const logged: Served['logged'] = (event) =>
    new Promise((resolve) => {
      const found = log.findLast((line) => line.event === event);
      if (found) resolve(found);
      else waiting.push({ event, resolve });
    });
  const listening = await Promise.race([logged('listening'), exited]);
  if (Array.isArray(listening)) throw new Error(`serve did not start: ${await complaints}`);
  return {
    process: child,
    origin: new URL(String(listening['url'])).origin,
    log,
    logged,
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
      return child.exitCode;
    },
  };
}
