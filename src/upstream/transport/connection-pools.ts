import { isDeepStrictEqual } from 'node:util';

import type { Connection } from '../../catalog/connection.ts';

/** An unused connection is closed before a provider would close it. */
export const KEEP_ALIVE_MS = 30_000;
/** Most unused connections to one origin. */
export const MAX_FREE_CONNECTIONS = 1024;

/** The connections to one origin that are made in one way. */
export interface ConnectionPool {
  readonly connection: Connection;
  /** It has no connection, and opens none. */
  readonly isEmpty: boolean;
  setWarm(isWarm: boolean): void;
  /** Closes connections that no request uses, and that were used before. */
  closeUnused(): void;
  /** Closes all connections. */
  destroy(): void;
}

/** The connections to providers: a pool for each distinct origin with its connection options. */
export class ConnectionPools<Pool extends ConnectionPool> {
  readonly #create: (connection: Connection) => Pool;
  readonly #pools = new Set<Pool>();
  readonly #byConnection = new WeakMap<Connection, Pool>();

  constructor(create: (connection: Connection) => Pool) {
    this.#create = create;
  }

  for(connection: Connection): Pool {
    let pool = this.#byConnection.get(connection);
    if (!pool) {
      pool = [...this.#pools].find((each) => isSame(each.connection, connection)) ?? this.#create(connection);
      this.#byConnection.set(connection, pool);
    }
    this.#pools.add(pool);
    return pool;
  }

  /** Keeps connections warm where these ask for it, and nowhere else, and keeps the pools of these only. */
  keepWarm(connections: readonly Connection[]): void {
    const warm = new Set<Pool>();
    for (const connection of connections) {
      const pool = this.for(connection);
      if (connection.keepWarm > 0) warm.add(pool);
    }
    for (const pool of this.#pools) pool.setWarm(warm.has(pool));
    this.keepOnly(connections);
  }

  /** Pools of none of these close what they don't use, and are forgotten once they are empty. */
  keepOnly(connections: readonly Connection[]): void {
    for (const pool of this.#pools) {
      if (connections.some((each) => isSame(pool.connection, each))) continue;
      pool.closeUnused();
      if (pool.isEmpty) this.#pools.delete(pool);
    }
  }

  closeUnused(connection: Connection): void {
    this.for(connection).closeUnused();
  }

  close(): void {
    for (const pool of this.#pools) pool.destroy();
  }
}

function isSame(one: Connection, other: Connection): boolean {
  if (one === other) return true;
  return (
    one.origin.href === other.origin.href &&
    isDeepStrictEqual({ ...one, origin: '' }, { ...other, origin: '' })
  );
}
