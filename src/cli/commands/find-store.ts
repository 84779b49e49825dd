import { existsSync } from 'node:fs';

import { findConfig, loadConfig, storeOf } from '../config/config-file.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import { UsageError } from './command.ts';

/**
 * The store of a command: from `--store`, `--config`, the environment, or the config in this folder.
 *
 * @param mayBeNew - the file of a store that a config names may not exist yet
 * @throws {UsageError} if none is given; an Error if the file doesn't exist
 */
export async function findStore(
  { store, config }: { readonly store?: string | undefined; readonly config?: string | undefined },
  mayBeNew: boolean,
): Promise<string | LedgerStore> {
  if (store !== undefined && config !== undefined) {
    throw new UsageError('--store and --config exclude each other');
  }
  const named = store ?? (config === undefined ? process.env['CREDITS_STORE'] : undefined);
  if (named !== undefined && named !== '') return requireExisting(named, mayBeNew ? HOW_TO_MAKE : '');
  const path = config ?? findConfig('.');
  if (path === undefined) {
    throw new UsageError(
      'no store given; use --store URL, --config FILE, or CREDITS_STORE in the environment',
      NO_CONFIG,
    );
  }
  const configured = storeOf(await loadConfig(path), path);
  return mayBeNew && typeof configured === 'string' && configured !== 'memory:'
    ? configured
    : requireExisting(configured);
}

/**
 * The config of a command that needs one: the given one, or the one in this folder.
 *
 * @throws {UsageError} if there is none
 */
export function requireConfig(given: string | undefined): string {
  const path = given ?? findConfig('.');
  if (path === undefined) throw new UsageError(NO_CONFIG, '');
  return path;
}

const NO_CONFIG = 'no config in this folder: run npx chat-completions-router init';

const HOW_TO_MAKE =
  '; the app creates it when it gets its first request, and this command creates the store of a --config FILE';

/** Rejects a store that doesn't exist: a mistyped path must not create a new, empty file that looks valid. */
function requireExisting<Store extends string | LedgerStore>(store: Store, hint = ''): Store {
  if (store === 'memory:')
    throw new UsageError('memory: stores exist only inside their process; use sqlite: or redis:');
  const file = typeof store === 'string' ? /^sqlite:(.+)/s.exec(store)?.[1] : undefined;
  if (file !== undefined && !existsSync(file)) throw new Error(`file not found: ${file}${hint}`);
  return store;
}
