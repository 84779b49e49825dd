import { lookup } from 'node:dns';

import { backoff } from '../../../async/backoff.ts';
import type { RedisUrl } from './redis-url.ts';

/** The part of a client that is used: any `Redis` or `Cluster` of ioredis 5 or 6. */
export interface RedisClient {
  readonly status: string;
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly host?: string | undefined;
    readonly port?: number | undefined;
  };
  /** Its socket, while it has one. */
  readonly stream?: { cork(): void; uncork(): void } | undefined;
  connect(): Promise<unknown>;
  disconnect(): void;
  on(event: string, listener: (...about: unknown[]) => void): unknown;
  off(event: string, listener: (...about: unknown[]) => void): unknown;
  /** Returns the command as a function that is never pipelined; call it on the client. */
  createBuiltinCommand(name: string): {
    readonly string: (this: RedisClient, ...args: string[]) => Promise<unknown>;
  };
  /** Returns a new client with the same options, overridden by these. */
  duplicate(options?: object): RedisClient;
  /** A cluster's clients of the individual servers. */
  nodes?(role: 'master'): readonly RedisClient[];
}

/**
 * Creates a client for a URL. ioredis is loaded lazily, so apps without such a URL never load it.
 *
 * @param timeoutMs - how long a command may take
 */
export async function createClient(url: RedisUrl, timeoutMs: number): Promise<RedisClient> {
  const { Cluster, Redis } = (await import('./ioredis.ts')).ioredis;
  const { hosts, username, password, db, primary } = url;
  const login = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(url.tls && { tls: {} }),
  };
  // A connection without an answer outlives a command that is still waited for.
  const socketTimeout = Math.max(SAFE_NODE_OPTIONS.socketTimeout, timeoutMs);
  if (url.shape === 'cluster') {
    return new Cluster([...hosts], {
      lazyConnect: true,
      // On the cluster itself: the same option of a node is ignored.
      enableOfflineQueue: false,
      clusterRetryStrategy: delayMs,
      // Fail at once, or soon, so that a command that timed out is known to have been refused.
      retryDelayOnClusterDown: 0,
      retryDelayOnTryAgain: 10,
      slotsRefreshTimeout: ANSWER_MS,
      slotsRefreshInterval: 5000,
      // A certificate is for a host name, so with TLS names are not resolved here.
      dnsLookup: url.tls ? (name, callback) => callback(null, name) : lookup,
      redisOptions: { ...login, ...SAFE_NODE_OPTIONS, socketTimeout },
    });
  }
  const options = { ...login, db, ...SAFE_OPTIONS, socketTimeout, retryStrategy: delayMs };
  if (url.shape === 'single') return new Redis({ ...hosts[0], ...options });
  return new Redis({
    ...options,
    sentinels: [...hosts],
    name: primary,
    ...(url.tls && { enableTLSForSentinelMode: true, sentinelTLS: {} }),
    sentinelRetryStrategy: delayMs,
    sentinelCommandTimeout: ANSWER_MS,
    // A demoted primary may still be alive, but writes that it acknowledges are lost.
    failoverDetector: true,
    // For these listeners only: ioredis logs each failed connection, so reconnect rarely.
    sentinelReconnectStrategy: () => 60_000,
  });
}

/** A separate connection to the same server, for commands that block up to `blockMs`. It never reconnects. */
export function duplicateClient(client: RedisClient, blockMs: number): RedisClient {
  const socketTimeout = SAFE_OPTIONS.socketTimeout + blockMs;
  return client.duplicate({ ...SAFE_OPTIONS, socketTimeout, retryStrategy: null, failoverDetector: false });
}

/** Delay before the `times`-th reconnect in a row: exponential backoff with jitter, at most 750 ms. */
function delayMs(times: number): number {
  return backoff(times - 1, { firstMs: 75, maxMs: 750 });
}

/**
 * Timeout of ioredis's own commands to nodes and sentinels. Timers run before sockets are read, so it is long enough for
 * an event loop that was blocked for two seconds.
 */
const ANSWER_MS = 3000;

/** ioredis's defaults would run a command twice if its reply is lost, and run commands that have timed out. */
const SAFE_NODE_OPTIONS = {
  lazyConnect: true,
  autoResendUnfulfilledCommands: false,
  // With resending off, only this fails commands that were sent on a lost connection.
  maxRetriesPerRequest: 0,
  connectTimeout: 5000,
  // A frozen server, or a network that drops packets, closes no connection.
  socketTimeout: 5000,
  maxLoadingRetryTime: 500,
  enableAutoPipelining: false,
};

const SAFE_OPTIONS = {
  ...SAFE_NODE_OPTIONS,
  enableOfflineQueue: false,
  // The primary became a replica: its host name may resolve to the new primary.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
};
