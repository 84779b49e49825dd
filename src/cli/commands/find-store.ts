import { existsSync } from 'node:fs';

import { findConfig, loadConfig } from '../config/config-file.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import { UsageError } from './command.ts';

const DEFAULT_STORE = 'sqlite:./credits.db';

/**
 * The store that a command is meant to work on: of `--store`, `--config`, the environment, or the config in this folder.
 *
 * @param mayBeNew - a store that a config names needn't be there yet
 * @throws {UsageError} when none is named; an Error when there is no such file
 */
export async function findStore(
  { store, config }: { readonly store?: string | undefined; readonly config?: string | undefined },
  mayBeNew: boolean,
): Promise<string | LedgerStore> {
  if (store !== undefined && config !== undefined) {
    throw new UsageError('--store and --config both say where the store is: give one of them');
  }
  const named = store ?? (config === undefined ? process.env['CREDITS_STORE'] : undefined);
  if (named !== undefined && named !== '') return requireExisting(named);
  const path = config ?? findConfig('.');
  if (path === undefined) {
    throw new UsageError('--store URL is required, or --config FILE, or CREDITS_STORE in the environment');
  }
  const { store: configured = DEFAULT_STORE } = await loadConfig(path);
  return mayBeNew && typeof configured === 'string' && configured !== 'memory:'
    ? configured
    : requireExisting(configured);
}

/** A store that can have something: a mistyped path must not make a new, empty file that looks sound. */
function requireExisting<Store extends string | LedgerStore>(store: Store): Store {
  if (store === 'memory:')
    throw new UsageError("memory: is a process's own, and gone with it: no other can look into it");
  const file = typeof store === 'string' ? /^sqlite:(.+)/s.exec(store)?.[1] : undefined;
  if (file !== undefined && !existsSync(file)) throw new Error(`there is no file ${file}`);
  return store;
}
