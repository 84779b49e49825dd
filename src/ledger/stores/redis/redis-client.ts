import { lookup } from 'node:dns';

import { backoff } from '../../../async/backoff.ts';
import type { RedisUrl } from './redis-url.ts';

/** What is used of a client: any `Redis` or `Cluster` of ioredis 5 or 6 has it. */
export interface RedisClient {
  readonly status: string;
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly host?: string | undefined;
    readonly port?: number | undefined;
  };
  connect(): Promise<unknown>;
  disconnect(): void;
  on(event: string, listener: (...about: unknown[]) => void): unknown;
  off(event: string, listener: (...about: unknown[]) => void): unknown;
  /** The command as a function that is never pipelined, to be called on the client. */
  createBuiltinCommand(name: string): {
    readonly string: (this: RedisClient, ...args: string[]) => Promise<unknown>;
  };
  /** A client of its own with the same options but these. */
  duplicate(options?: object): RedisClient;
  /** A cluster's clients of single servers. */
  nodes?(role: 'master'): readonly RedisClient[];
}

/** Makes a client by a URL. ioredis is loaded now, so whoever has no such URL never loads it. */
export async function createClient(url: RedisUrl): Promise<RedisClient> {
  const { Cluster, Redis } = (await import('./ioredis.ts')).ioredis;
  const { hosts, username, password, db, primary } = url;
  const login = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(url.tls && { tls: {} }),
  };
  if (url.shape === 'cluster') {
    return new Cluster([...hosts], {
      lazyConnect: true,
      // Of the cluster itself: a node's option of that name is ignored.
      enableOfflineQueue: false,
      clusterRetryStrategy: delayMs,
      // Told at once, or soon, so that it is known of a command given up that it was refused.
      retryDelayOnClusterDown: 0,
      retryDelayOnTryAgain: 10,
      slotsRefreshTimeout: ANSWER_MS,
      slotsRefreshInterval: 5000,
      // A certificate is for a name, so with TLS the names are kept.
      dnsLookup: url.tls ? (name, callback) => callback(null, name) : lookup,
      redisOptions: { ...login, ...SAFE_NODE_OPTIONS },
    });
  }
  const options = { ...login, db, ...SAFE_OPTIONS, retryStrategy: delayMs };
  if (url.shape === 'single') return new Redis({ ...hosts[0], ...options });
  return new Redis({
    ...options,
    sentinels: [...hosts],
    name: primary,
    ...(url.tls && { enableTLSForSentinelMode: true, sentinelTLS: {} }),
    sentinelRetryStrategy: delayMs,
    sentinelCommandTimeout: ANSWER_MS,
    // An old primary may well be alive, but what it acknowledges is lost.
    failoverDetector: true,
    // To listen for that only: ioredis prints each failure of these connections, so they are seldom tried.
    sentinelReconnectStrategy: () => 60_000,
  });
}

/** A connection of our own to the same server, for commands that block it up to `blockMs`. It dies at its first failure. */
export function duplicateClient(client: RedisClient, blockMs: number): RedisClient {
  const socketTimeout = SAFE_OPTIONS.socketTimeout + blockMs;
  return client.duplicate({ ...SAFE_OPTIONS, socketTimeout, retryStrategy: null, failoverDetector: false });
}

/** How long to wait before the `times`-th attempt in a row to connect. */
function delayMs(times: number): number {
  return backoff(times - 1, { firstMs: 75, maxMs: 750 });
}

/**
 * How long a node or sentinel has for what ioredis asks it by itself. Its timers run before the sockets are read: long
 * enough that a process that was busy for two seconds doesn't give up.
 */
const ANSWER_MS = 3000;

/** With ioredis's own options a lost reply runs a command twice, and one that was given up is run later. */
const SAFE_NODE_OPTIONS = {
  lazyConnect: true,
  autoResendUnfulfilledCommands: false,
  // With resending off, only this ends what was sent on a lost connection.
  maxRetriesPerRequest: 0,
  connectTimeout: 5000,
  // A server that is frozen, or a network that swallows all, closes no connection.
  socketTimeout: 5000,
  maxLoadingRetryTime: 500,
  enableAutoPipelining: false,
};

const SAFE_OPTIONS = {
  ...SAFE_NODE_OPTIONS,
  enableOfflineQueue: false,
  // A primary that became a replica: its name may lead to the new primary by now.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
};
