import type { LedgerStore } from '../contract/ledger-store.ts';
import { MemoryStore } from './memory/memory-store.ts';
import { RedisStore, type RedisStoreOptions } from './redis/redis-store.ts';
import { withoutPassword } from './redis/redis-url.ts';
import { SqliteStore } from './sqlite/sqlite-store.ts';

const DEFAULT_FILE = './credits.db';

/**
 * The store that a URL names, or the given one itself; a file in the working folder where none is given.
 *
 * Touches no network or file: the first command does.
 *
 * @param options.timeoutMs - how long a command waits for a Redis that is opened now; two seconds by default
 * @throws {TypeError} saying what a store can be
 */
export function openStore(
  store: string | LedgerStore | undefined,
  options: Pick<RedisStoreOptions, 'timeoutMs'> = {},
): LedgerStore {
  if (store === undefined) return new SqliteStore(DEFAULT_FILE, { onOpen: logPath });
  if (store === 'memory:') return process.env['NEXT_RUNTIME'] ? sharedMemoryStore() : new MemoryStore();
  if (typeof store === 'string') {
    if (/^sqlite:./.test(store)) return new SqliteStore(store.slice('sqlite:'.length));
    if (/^rediss?[+:]/.test(store)) return new RedisStore({ ...options, client: store });
  }
  if (typeof store === 'object' && store !== null && typeof store.admit === 'function') return store;
  const got = JSON.stringify(typeof store === 'string' ? withoutPassword(store) : typeof store);
  throw new TypeError(`store must be 'memory:', 'sqlite:FILE', a redis:// URL or a store object, got ${got}`);
}

const SHARED = Symbol.for('chat-completions-router.memory');

/** Next.js bundles routes and pages apart, and each again at each edit: they all mean the same credits. */
function sharedMemoryStore(): MemoryStore {
  const found: MemoryStore | undefined = Reflect.get(globalThis, SHARED);
  if (found) return found;
  const store = new MemoryStore();
  Reflect.set(globalThis, SHARED, store);
  return store;
}

/** Nobody said where: who looks for the credits later must find out. */
function logPath(path: string): void {
  console.info(`chat-completions-router: credits and keys are kept in ${path}`);
}
