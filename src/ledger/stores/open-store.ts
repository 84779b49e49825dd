import type { LedgerStore } from '../contract/ledger-store.ts';
import type { RequestLogStore } from '../contract/request-log.ts';
import type { RoutingStore } from '../contract/routing.ts';
import { MemoryRequestLog } from './memory/memory-request-log.ts';
import { MemoryRouting } from './memory/memory-routing.ts';
import { MemoryStore } from './memory/memory-store.ts';
import { RedisStore, type RedisStoreOptions } from './redis/redis-store.ts';
import { withoutPassword } from './redis/redis-url.ts';
import { SqliteStore } from './sqlite/sqlite-store.ts';

const DEFAULT_FILE = './credits.db';

/**
 * Opens the store of a URL, or returns the given store. Default: a file in the working directory.
 *
 * Accesses no network or file: the first command does.
 *
 * @param options.timeoutMs - how long a command waits for Redis, if the URL names one; 2000 by default
 * @throws {TypeError} that lists the valid stores
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

/** The store's log of requests; a log in memory for a store that has none. */
export function requestLogOf({ requestLog }: LedgerStore): RequestLogStore {
  return requestLog ?? new MemoryRequestLog();
}

/** What operators change of the routing: in memory for a store that has no place for it. */
export function routingOf({ routing }: LedgerStore): RoutingStore {
  return routing ?? new MemoryRouting();
}

/** A store in messages: its URL, without a password. */
export function nameOfStore(store: string | LedgerStore = `sqlite:${DEFAULT_FILE}`): string {
  if (typeof store !== 'string') return typeof store.name === 'string' ? store.name : 'object';
  return store.startsWith('redis') ? withoutPassword(store) : store;
}

const SHARED = Symbol.for('chat-completions-router.memory');

/** One store per process: Next.js bundles routes and pages separately, and rebuilds each at every edit. */
function sharedMemoryStore(): MemoryStore {
  const found: MemoryStore | undefined = Reflect.get(globalThis, SHARED);
  if (found) return found;
  const store = new MemoryStore();
  Reflect.set(globalThis, SHARED, store);
  return store;
}

/** Logs the path of a file that no option named, so that an operator finds it. */
function logPath(path: string): void {
  console.info(`chat-completions-router: credits and keys are kept in ${path}`);
}
