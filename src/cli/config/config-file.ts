import { hash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, extname, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import type { ServerConfig } from '../../options/server-options.ts';
import { ConfigError } from './config-error.ts';
import { parseJsonConfig } from './json-config.ts';
import { withTlsFiles } from './tls-files.ts';

const EXTENSIONS = ['.ts', '.mts', '.js', '.mjs', '.json', '.jsonc'];

/** Path of the config in a folder, under its default name; undefined if there is none. */
export function findConfig(folder: string): string | undefined {
  return EXTENSIONS.map((extension) => join(folder, `chat-completions-router.config${extension}`)).find(
    (path) => existsSync(path),
  );
}

/**
 * Loads a config in TypeScript, JavaScript or JSON, without a cache.
 *
 * @throws {ConfigError} if it can't be read or is no config; the router validates its options
 */
export async function loadConfig(path: string): Promise<ServerConfig> {
  const extension = extname(path);
  if (!EXTENSIONS.includes(extension)) {
    throw new ConfigError(path, `unsupported file type; use one of ${EXTENSIONS.join(', ')}`);
  }
  if (!existsSync(path)) throw new ConfigError(path, 'file not found');
  const config = extension.startsWith('.json')
    ? parseJsonConfig(readFileSync(path, 'utf8'), path, process.env)
    : await importConfig(path);
  if (isConfig(config)) {
    const complete = await withModelInfo(await withCatalog(withTlsFiles(config, path), path), path);
    return await withTransport(complete, path);
  }
  const wanted = extension.startsWith('.json')
    ? 'must contain an object'
    : 'its default export must be an object';
  throw new ConfigError(path, `${wanted} with providers and models`);
}

const DEFAULT_STORE = 'sqlite:./credits.db';

/**
 * The store of a config. A relative file is in the working directory, as for the library.
 *
 * @throws {ConfigError} if such a file doesn't exist and the config is outside the working directory: the one that is
 * meant may be beside the config, and a new, empty one would look valid
 */
export function storeOf(
  { store = DEFAULT_STORE }: ServerConfig,
  path: string,
): NonNullable<ServerConfig['store']> {
  const file = typeof store === 'string' ? /^sqlite:(.+)/s.exec(store)?.[1] : undefined;
  if (file === undefined || isAbsolute(file) || existsSync(file)) return store;
  const folder = realpathSync(dirname(path));
  const way = relative(realpathSync('.'), folder);
  if (!isAbsolute(way) && !/^\.\.(?:[\\/]|$)/.test(way)) return store;
  throw new ConfigError(
    path,
    `store: file not found: ${resolve(file)}; a relative path is of the working directory, and does not mean ${resolve(folder, file)} beside the config. Use an absolute path`,
  );
}

function isConfig(value: unknown): value is ServerConfig {
  return typeof value === 'object' && value !== null && 'providers' in value && 'models' in value;
}

/** Resolves `"prices": "catalog"` of a JSON config, which can't import the catalog of the package. */
async function withCatalog(config: ServerConfig, path: string): Promise<ServerConfig> {
  const prices: unknown = config.prices;
  if (prices !== 'catalog') return config;
  try {
    const { catalogPrices } = await import('../../catalog/genai-prices.ts');
    return { ...config, prices: catalogPrices() };
  } catch {
    throw new ConfigError(path, "prices: 'catalog' requires npm install @pydantic/genai-prices");
  }
}

/** Resolves `"modelInfo": "models.dev.json"` of a JSON config, a path beside it. */
async function withModelInfo(config: ServerConfig, path: string): Promise<ServerConfig> {
  const file: unknown = config.modelInfo;
  if (typeof file !== 'string') return config;
  try {
    const { modelsDev } = await import('../../catalog/models-dev.ts');
    const text = readFileSync(resolve(path, '..', file), 'utf8');
    // By this a reload tells one file from another.
    const modelInfo = { ...modelsDev(JSON.parse(text)), digest: hash('sha256', text) };
    return { ...config, modelInfo };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(path, `modelInfo: ${reason}`, { cause: error });
  }
}

/** Resolves `"transport": "undici"` of a JSON config. */
async function withTransport(config: ServerConfig, path: string): Promise<ServerConfig> {
  const transport: unknown = config.transport;
  if (transport !== 'undici') return config;
  try {
    const { undiciTransport } = await import('../../upstream/transport/undici-transport.ts');
    return { ...config, transport: undiciTransport() };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(path, `transport: ${reason}`, { cause: error });
  }
}

let imports = 0;

async function importConfig(path: string): Promise<unknown> {
  const url = pathToFileURL(resolve(path));
  // A module is evaluated once per URL, so a reload needs another one.
  if (imports > 0) url.searchParams.set('reload', String(imports));
  imports += 1;
  try {
    const module: unknown =
      process.versions['bun'] === undefined
        ? await importByNode(path, url)
        : // Bun loads TypeScript itself; it reloads a path with a query, but not a file URL with one.
          await import(resolve(path) + url.search);
    return typeof module === 'object' && module !== null && 'default' in module ? module.default : undefined;
  } catch (error) {
    throw new ConfigError(path, error instanceof Error ? error.message : String(error), { cause: error });
  }
}

async function importByNode(path: string, url: URL): Promise<unknown> {
  // Missing in an old Node: a static import would fail before the command can report the required version.
  const { registerHooks, stripTypeScriptTypes } = process.getBuiltinModule('node:module');
  const hooks = registerHooks({
    load: (loaded, context, next) => {
      // Independent of the `type` of its package, and of whether Node strips types itself.
      const isConfigFile = loaded === url.href && /\.m?ts$/.test(path);
      if (!isConfigFile && (process.features.typescript || !/^file:.*\.m?ts(\?|$)/.test(loaded)))
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
