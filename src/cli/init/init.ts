import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { findConfig } from '../config/config-file.ts';
import { type App, detectApp, mountSnippet } from './mount-snippets.ts';
import { type ConfigPlan, jsonConfig, scriptConfig } from './config-text.ts';
import { findProviders, KNOWN_PROVIDERS, type KnownProvider } from './known-providers.ts';

export { APPS, type App } from './mount-snippets.ts';
export { KNOWN_PROVIDERS } from './known-providers.ts';
export { promptTerminal as askTerminal } from './prompts.ts';

/** What is to be written; what isn't said is found out. */
export interface InitOptions {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly app?: App;
  readonly isJson?: boolean;
  /** By their names. */
  readonly providers?: readonly string[];
  readonly store?: string;
  /** What is there may be written over. */
  readonly force?: boolean;
}

export interface InitResult {
  /** In the folder, in the order in which they were written. */
  readonly files: readonly string[];
  readonly app: App;
  readonly providers: readonly KnownProvider[];
  /** Variables that the config asks for and that aren't set. */
  readonly missing: readonly string[];
  /** What the app is still to be told, where a file couldn't say it. */
  readonly lines?: string;
}

/** What a folder and the environment suggest. */
export function suggest({ folder, env }: Pick<InitOptions, 'folder' | 'env'>): {
  readonly app: App;
  readonly providers: readonly KnownProvider[];
} {
  const found = findProviders(env);
  return {
    app: detectApp(manifestOf(folder)),
    providers: found.length > 0 ? found : KNOWN_PROVIDERS.slice(0, 1),
  };
}

/**
 * Writes a config, and what mounts it where that is a file of its own.
 *
 * @throws an Error, before anything is written, where something is there already
 */
export function init(options: InitOptions): InitResult {
  const { folder, env, isJson = false, store = 'sqlite:./credits.db', force = false } = options;
  const suggested = suggest(options);
  const { app = 'standalone' } = options;
  const providers = options.providers
    ? KNOWN_PROVIDERS.filter(({ name }) => options.providers?.includes(name))
    : suggested.providers;
  const plan: ConfigPlan = { providers, store, env, isStandalone: app === 'standalone' };
  const ending = isJson ? '.json' : configExtension(folder, app);
  const config = `chat-completions-router.config${ending}`;
  const files = new Map([[config, isJson ? jsonConfig(plan) : scriptConfig(plan, ending.endsWith('ts'))]]);
  if (app === 'next') {
    // Next.js finds routes that end so, and its bundler a file of TypeScript without its ending.
    const route = `${nextAppFolder(folder)}/v1/[...path]/route${ending === '.ts' ? '.ts' : '.js'}`;
    files.set(route, `${mountSnippet(app, relative(dirname(route), config.replace(/\.ts$/, '')))}\n`);
  }
  assertWritable(folder, [...files.keys()], force);
  for (const [name, text] of files) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const lines = app === 'standalone' || app === 'next' ? undefined : mountSnippet(app, `./${config}`);
  return {
    files: [...files.keys()],
    app,
    providers,
    missing: providers.map(({ variable }) => variable).filter((variable) => !env[variable]),
    ...(lines !== undefined && { lines }),
  };
}

function assertWritable(folder: string, files: readonly string[], force: boolean): void {
  const there = files.find((name) => existsSync(join(folder, name)));
  if (there !== undefined && !force) throw new Error(`${there} is there already: --force writes over it`);
  const found = findConfig(folder);
  const other = found === undefined ? undefined : relative(folder, found);
  if (other !== undefined && !files.includes(other)) {
    throw new Error(`${other} is there, and is read first: remove it`);
  }
}

/** As the project's own files end: a config of an app is loaded by that app, too. */
function configExtension(folder: string, app: App): string {
  if (app === 'standalone') return '.ts';
  const isModule = Reflect.get(Object(manifestOf(folder)), 'type') === 'module';
  if (app === 'next') return existsSync(join(folder, 'tsconfig.json')) ? '.ts' : '.mjs';
  return `.${isModule ? '' : 'm'}${existsSync(join(folder, 'tsconfig.json')) ? 'ts' : 'js'}`;
}

function nextAppFolder(folder: string): string {
  return existsSync(join(folder, 'src/app')) ? 'src/app' : 'app';
}

function manifestOf(folder: string): unknown {
  const path = join(folder, 'package.json');
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}
