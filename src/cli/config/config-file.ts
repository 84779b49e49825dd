import { existsSync, readFileSync } from 'node:fs';
import { extname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import type { ServerConfig } from '../../options/server-options.ts';
import { ConfigError } from './config-error.ts';
import { parseJsonConfig } from './json-config.ts';

const EXTENSIONS = ['.ts', '.mts', '.js', '.mjs', '.json', '.jsonc'];

/** The config of a folder, where it has one under its usual name. */
export function findConfig(folder: string): string | undefined {
  return EXTENSIONS.map((ending) => join(folder, `chat-completions-router.config${ending}`)).find((path) =>
    existsSync(path),
  );
}

/**
 * Reads a config, of TypeScript, JavaScript or JSON; each time anew.
 *
 * @throws {ConfigError} when it can't be read, or is none; its options are the router's to judge
 */
export async function loadConfig(path: string): Promise<ServerConfig> {
  const ending = extname(path);
  if (!EXTENSIONS.includes(ending)) throw new ConfigError(path, `a config ends in ${EXTENSIONS.join(', ')}`);
  if (!existsSync(path)) throw new ConfigError(path, 'there is no such file');
  const config = ending.startsWith('.json')
    ? parseJsonConfig(readFileSync(path, 'utf8'), path, process.env)
    : await importConfig(path);
  if (isConfig(config)) return await withCatalog(config, path);
  const wanted = ending.startsWith('.json')
    ? 'it must hold an object'
    : 'its default export must be an object';
  throw new ConfigError(path, `${wanted} with providers and models`);
}

function isConfig(value: unknown): value is ServerConfig {
  return typeof value === 'object' && value !== null && 'providers' in value && 'models' in value;
}

/** JSON can't import a catalog: `"prices": "catalog"` stands for that of the package. */
async function withCatalog(config: ServerConfig, path: string): Promise<ServerConfig> {
  const prices: unknown = config.prices;
  if (prices !== 'catalog') return config;
  try {
    const { catalogPrices } = await import('../../catalog/genai-prices.ts');
    return { ...config, prices: catalogPrices() };
  } catch {
    throw new ConfigError(path, "prices is 'catalog', which needs npm install @pydantic/genai-prices");
  }
}

let imports = 0;

async function importConfig(path: string): Promise<unknown> {
  const url = pathToFileURL(resolve(path));
  // A module is evaluated once for each URL: what has changed since needs another.
  if (imports > 0) url.searchParams.set('reload', String(imports));
  imports += 1;
  try {
    const module: unknown =
      process.versions['bun'] === undefined
        ? await importByNode(path, url)
        : // Reads TypeScript by itself, and takes a path with a query for another module, but no such URL.
          await import(resolve(path) + url.search);
    return typeof module === 'object' && module !== null && 'default' in module ? module.default : undefined;
  } catch (error) {
    throw new ConfigError(path, error instanceof Error ? error.message : String(error), { cause: error });
  }
}

async function importByNode(path: string, url: URL): Promise<unknown> {
  // An old Node hasn't got these: imported by name, they would keep the command from saying so.
  const { registerHooks, stripTypeScriptTypes } = process.getBuiltinModule('node:module');
  const hooks = registerHooks({
    load: (loaded, context, next) => {
      // Whatever the `type` of its package, and also where Node doesn't strip types by itself.
      const isOurs = loaded === url.href && /\.m?ts$/.test(path);
      if (!isOurs && (process.features.typescript || !/^file:.*\.m?ts(\?|$)/.test(loaded)))
        return next(loaded, context);
      const source = readFileSync(fileURLToPath(loaded), 'utf8');
      return { format: 'module', source: stripTypeScriptTypes(source), shortCircuit: true };
    },
  });
  try {
    return await import(url.href);
  } finally {
    hooks.deregister();
  }
}
