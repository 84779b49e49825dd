import { readFileSync } from 'node:fs';

import type { parse as Parse } from 'yaml';

import type { PriceCatalog } from '../../../options/model-options.ts';
import { writeFiles } from '../init.ts';
import { importLine } from '../source-text.ts';
import { configSource, Variable } from './config-source.ts';
import { convertKeys } from './keys.ts';
import { CATALOG, convertModels, needsCatalog } from './models.ts';
import { Providers } from './providers.ts';
import { applySettings, readSettings } from './settings.ts';
import { isRecord, Notes } from './values.ts';

export { storeMistake } from '../check-answers.ts';

export interface ConvertOptions {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  /** A proxy's `config.yaml`. */
  readonly file: string;
  /** An answer of `/key/list?return_full_object=true` or `/key/info`. */
  readonly keysFile?: string;
  readonly store?: string;
  readonly isJson: boolean;
  readonly force: boolean;
}

export interface Converted {
  readonly files: readonly string[];
  readonly summary: string;
  /** What differs, or has no equivalent. */
  readonly notes: readonly { readonly setting: string; readonly why: string }[];
  /** Environment variables that the config needs and that aren't set. */
  readonly missing: readonly string[];
  readonly keysScript?: string;
}

const KEYS_SCRIPT = 'litellm-keys.sh';

/**
 * Writes a config with the models of a LiteLLM proxy, and a script that creates its keys.
 *
 * @throws {Error} before anything is written, if a file can't be read or one to write exists already
 */
export async function convertLiteLLM(options: ConvertOptions): Promise<Converted> {
  const { folder, env, file, keysFile, store = 'sqlite:./credits.db', isJson, force } = options;
  const config = await parse(file, 'FILE');
  if (!isRecord(config)) throw new Error(`${file}: must contain a mapping with model_list`);
  const notes = new Notes();
  const settings = readSettings(config, notes);
  const providers = new Providers(notes);
  const catalog = await installedCatalog();
  const models = convertModels(config['model_list'], settings.strategy, providers, catalog, notes);
  applySettings(models, settings, notes);
  if (Object.keys(models).length === 0) {
    const [first] = notes.list();
    throw new Error(`${file}: no model can be converted${first ? ` (${first.setting}: ${first.why})` : ''}`);
  }
  const hasCatalog = needsCatalog(models);
  if (hasCatalog && !catalog)
    notes.add('prices', 'LiteLLM has its own list: npm install @pydantic/genai-prices');
  const used = providersIn(models, providers);
  const text = configText(
    { store, providers: used, models, ...(hasCatalog && { prices: CATALOG }), ...settings.options },
    isJson,
  );
  const name = `chat-completions-router.config.${isJson ? 'json' : 'ts'}`;
  const files = new Map([[name, text]]);
  const missing = variablesIn(used).filter((variable) => !env[variable]);
  const envFile = missing.length > 0 ? '.env' : undefined;
  const keys =
    keysFile === undefined
      ? undefined
      : convertKeys(await parse(keysFile, '--keys'), { now: new Date(), envFile }, notes);
  if (keys) files.set(KEYS_SCRIPT, keys.script);
  writeFiles(folder, files, force);
  const counts = [
    counted(Object.keys(models).length, 'model'),
    counted(Object.keys(used).length, 'provider'),
    ...(keys ? [counted(keys.count, 'key')] : []),
  ];
  return {
    files: [...files.keys()],
    summary: counts.join(', '),
    notes: notes.list(),
    missing,
    ...(keys && { keysScript: KEYS_SCRIPT }),
  };
}

/** @throws {Error} naming the argument and the file, or the package that is needed */
async function parse(file: string, argument: string): Promise<unknown> {
  let source: string;
  try {
    source = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new Error(`${argument}: can't read ${file}`, { cause });
  }
  if (file.endsWith('.json')) {
    try {
      return JSON.parse(source);
    } catch (cause) {
      throw new Error(`${file}: invalid JSON`, { cause });
    }
  }
  let yaml: { readonly parse: typeof Parse };
  try {
    yaml = await import('yaml');
  } catch {
    throw new Error(`reading ${file} requires a YAML parser: npm install yaml`);
  }
  try {
    return yaml.parse(source, { merge: true });
  } catch (cause) {
    throw new Error(`${file}: invalid YAML`, { cause });
  }
}

/** The prices of `@pydantic/genai-prices`, if it is installed. */
async function installedCatalog(): Promise<PriceCatalog | undefined> {
  try {
    const { catalogPrices } = await import('../../../catalog/genai-prices.ts');
    return catalogPrices();
  } catch {
    return undefined;
  }
}

/** The providers that a target names. */
function providersIn(
  models: Readonly<Record<string, unknown>>,
  { entries }: Providers,
): Record<string, unknown> {
  const targets = Object.values(models).flatMap((model) => (isRecord(model) ? model['targets'] : []));
  const names = new Set(
    targets
      .flat()
      .map((target) =>
        typeof target === 'string'
          ? target.split('/', 1)[0]
          : isRecord(target)
            ? target['provider']
            : undefined,
      ),
  );
  return Object.fromEntries(Object.entries(entries).filter(([name]) => names.has(name)));
}

function counted(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}

function variablesIn(value: unknown): string[] {
  if (value instanceof Variable) return [value.name];
  if (typeof value !== 'object' || value === null) return [];
  return [...new Set(Object.values(value).flatMap(variablesIn))];
}

function configText(config: object, isJson: boolean): string {
  const comment = '// Converted from a config of LiteLLM: compare prices and limits with `check`.';
  const source = configSource(config, isJson);
  if (isJson) return `${comment}\n${source}\n`;
  const imports = [importLine('type { ServerConfig }', 'chat-completions-router')];
  if ('prices' in config) imports.push(importLine('{ catalogPrices }', 'chat-completions-router/prices'));
  return `${imports.join('\n')}\n\n${comment}\nexport default ${source} satisfies ServerConfig;\n`;
}
