import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';

import type { Program } from '../foreign.ts';

/** Another gateway that the router is compared with. */
export interface Peer {
  readonly name: string;
  /** Whether it is measured with a provider that is reached by TLS, too. */
  readonly canTls?: boolean;
  /**
   * Installs it where it isn't yet, outside of the repository.
   *
   * @returns its version
   * @throws saying what it lacks
   */
  install(): Promise<string>;
  /** How it is run before the benchmark's provider. */
  program(place: Place): Program;
}

export interface Place {
  readonly port: number;
  readonly upstreamPort: number;
  /** What the provider must show; undefined where it speaks plain HTTP. */
  readonly caFile?: string;
  /** Of this run: what it writes is deleted with it. */
  readonly folder: string;
}

const PEERS = join(homedir(), '.cache/chat-completions-router/peers');
const MAX_SECONDS = 240;

/** Of npm's, of pip's, or of a script's of Node's: there the cause, where it has one. */
const LINE_THAT_SAYS_WHY = /(?<=\[cause\]: ).*|^(?:npm error|ERROR:|\w*Error:|❌).*$/m;

export const folderOf = (name: string): string => join(PEERS, name);

/**
 * Installs into a folder of its own, once for each recipe.
 *
 * What was not completed, or follows another recipe, is installed again.
 */
export async function installOnce(name: string, recipe: string, install: () => Promise<void>): Promise<void> {
  const folder = folderOf(name);
  const note = join(folder, 'installed');
  if (existsSync(note) && readFileSync(note, 'utf8') === recipe) return;
  console.log(`Installing ${name}, once`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await install();
  writeFileSync(note, recipe);
}

/**
 * The version of a program that this machine has.
 *
 * @throws saying how to get it
 */
export async function versionOf(
  file: string,
  args: readonly string[],
  pattern: RegExp,
  command: string,
): Promise<string> {
  try {
    return pattern.exec(await run(file, args))?.[1] ?? 'unknown';
  } catch {
    throw new Error(`it is not installed (${command})`);
  }
}

/** Installs packages of npm's, without their install scripts. */
export async function npmInstall(name: string, manifest: Readonly<Record<string, unknown>>): Promise<void> {
  const recipe = `${JSON.stringify({ private: true, ...manifest }, undefined, 2)}\n`;
  await installOnce(name, recipe, async () => {
    writeFileSync(join(folderOf(name), 'package.json'), recipe);
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--omit=dev', '--fetch-retries=1'];
    await run('npm', ['install', ...flags], { cwd: folderOf(name) });
  });
}

/**
 * Runs a step of an installation, for four minutes at most.
 *
 * @returns what it wrote, on both ways out
 * @throws with the one line of it that says why it failed
 */
export function run(
  file: string,
  args: readonly string[],
  { cwd, env }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const options = {
    cwd,
    env: { ...process.env, ...env },
    timeout: MAX_SECONDS * 1000,
    encoding: 'utf8',
  } as const;
  execFile(file, args, options, (error, stdout, stderr) => {
    const written = `${stdout}${stderr}`;
    if (!error) return resolve(written);
    const name = basename(file);
    if (error.code === 'ENOENT') return reject(new Error(`${name} is not installed`));
    if (error.killed) return reject(new Error(`${name} took more than ${MAX_SECONDS / 60} minutes`));
    const line = LINE_THAT_SAYS_WHY.exec(written)?.[0] ?? error.message.split('\n')[0];
    return reject(new Error(`${name}: ${line}`));
  });
  return promise;
}
