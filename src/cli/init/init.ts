import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import type { ProviderVariables } from './check-answers.ts';
import { findConfig } from '../config/config-file.ts';
import { type AppKind, detectAppKind, mountSnippet } from './mount-snippets.ts';
import { type ConfigPlan, jsonConfig, scriptConfig } from './config-text.ts';
import { findProviders, KNOWN_PROVIDERS, type KnownProvider } from './known-providers.ts';

export { APP_KINDS, type AppKind } from './mount-snippets.ts';
export { KNOWN_PROVIDERS } from './known-providers.ts';
export { promptTerminal } from './prompts.ts';
export { providerVariables, storeMistake } from './check-answers.ts';

/** What to write; missing options are detected. */
export interface InitOptions {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly app?: AppKind;
  readonly isJson?: boolean;
  /** Names of providers. */
  readonly providers?: readonly string[];
  readonly variables?: ProviderVariables;
  readonly store?: string;
  /** Overwrite existing files. */
  readonly force?: boolean;
}

export interface InitResult {
  /** Written files, relative to the folder, in order. */
  readonly files: readonly string[];
  readonly app: AppKind;
  readonly providers: readonly KnownProvider[];
  /** Environment variables that the config needs and that aren't set. */
  readonly missing: readonly string[];
  /** The package is in the folder's node_modules. */
  readonly isInstalled: boolean;
  /** Code to add to the app, unless a written file contains it. */
  readonly lines?: string;
}

/** App and providers as detected from the folder and the environment. */
export function suggest({ folder, env }: Pick<InitOptions, 'folder' | 'env'>): {
  readonly app: AppKind;
  readonly providers: readonly KnownProvider[];
} {
  const found = findProviders(env);
  return {
    app: detectAppKind(manifestOf(folder)),
    providers: found.length > 0 ? found : KNOWN_PROVIDERS.slice(0, 1),
  };
}

/**
 * Writes a config, and for Next.js the route that mounts the router.
 *
 * @throws {Error} before anything is written, if a file exists already
 */
export function init(options: InitOptions): InitResult {
  const { folder, env, isJson = false, store = 'sqlite:./credits.db', force = false } = options;
  const suggested = suggest(options);
  const { app = 'standalone' } = options;
  const providers = options.providers
    ? KNOWN_PROVIDERS.filter(({ name }) => options.providers?.includes(name))
    : suggested.providers;
  const { variables = {} } = options;
  const plan: ConfigPlan = { providers, variables, store, env, isStandalone: app === 'standalone' };
  const extension = isJson ? '.json' : configExtension(folder, app);
  const config = `chat-completions-router.config${extension}`;
  const files = new Map([[config, isJson ? jsonConfig(plan) : scriptConfig(plan, extension.endsWith('ts'))]]);
  if (app === 'next') {
    // Next.js needs a route with one of these extensions; its bundler resolves a TypeScript import without extension.
    const route = `${nextAppFolder(folder)}/v1/[...path]/route${extension === '.ts' ? '.ts' : '.js'}`;
    files.set(route, `${mountSnippet(app, relative(dirname(route), config.replace(/\.ts$/, '')))}\n`);
  }
  writeFiles(folder, files, force);
  const lines = app === 'standalone' || app === 'next' ? undefined : mountSnippet(app, `./${config}`);
  return {
    files: [...files.keys()],
    app,
    providers,
    missing: [...new Set(providers.flatMap(({ variable }) => variable ?? []))].filter((name) => !env[name]),
    isInstalled: existsSync(join(folder, 'node_modules/chat-completions-router')),
    ...(lines !== undefined && { lines }),
  };
}

/** @throws {Error} before anything is written, if a file exists already */
export function writeFiles(folder: string, files: ReadonlyMap<string, string>, force: boolean): void {
  assertWritable(folder, [...files.keys()], force);
  for (const [name, text] of files) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

function assertWritable(folder: string, files: readonly string[], force: boolean): void {
  const existing = files.find((name) => existsSync(join(folder, name)));
  if (existing !== undefined && !force)
    throw new Error(`${existing} exists already; overwrite it with --force`);
  const found = findConfig(folder);
  const other = found === undefined ? undefined : relative(folder, found);
  if (other !== undefined && !files.includes(other)) {
    throw new Error(`${other} exists and takes precedence; remove it first`);
  }
}

/** The extension for a config: the app loads it, so it depends on the app's module type and TypeScript setup. */
function configExtension(folder: string, app: AppKind): string {
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
