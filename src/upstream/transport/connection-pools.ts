import { isDeepStrictEqual } from 'node:util';

import type { Connection } from '../../catalog/connection.ts';

/** An unused connection is closed before a provider would close it. */
export const KEEP_ALIVE_MS = 30_000;
/** Most unused connections to one origin. */
export const MAX_FREE_CONNECTIONS = 1024;

/** The connections to one origin that are made in one way. */
export interface ConnectionPool {
  readonly connection: Connection;
  setWarm(isWarm: boolean): void;
  /** Closes connections that no request uses, and that were used before. */
  closeUnused(): void;
  /** Closes all connections. */
  destroy(): void;
}

/** The connections to providers: a pool for each distinct origin with its connection options. */
export class ConnectionPools<Pool extends ConnectionPool> {
  readonly #create: (connection: Connection) => Pool;
  readonly #pools: Pool[] = [];
  readonly #byConnection = new WeakMap<Connection, Pool>();

  constructor(create: (connection: Connection) => Pool) {
    this.#create = create;
  }

  for(connection: Connection): Pool {
    let pool = this.#byConnection.get(connection);
    if (!pool) {
      pool = this.#pools.find((each) => isSame(each.connection, connection));
      if (!pool) {
        pool = this.#create(connection);
        this.#pools.push(pool);
      }
      this.#byConnection.set(connection, pool);
    }
    return pool;
  }

  /** Keeps connections warm where these ask for it, and nowhere else. */
  keepWarm(connections: Iterable<Connection>): void {
    const wanted = new Set<Pool>();
    for (const connection of connections) {
      if (connection.keepWarm > 0) wanted.add(this.for(connection));
    }
    for (const pool of this.#pools) pool.setWarm(wanted.has(pool));
  }

  closeUnused(connection: Connection): void {
    this.for(connection).closeUnused();
  }

  close(): void {
    for (const pool of this.#pools) pool.destroy();
  }
}

function isSame(one: Connection, other: Connection): boolean {
  return (
    one.origin.href === other.origin.href &&
    isDeepStrictEqual({ ...one, origin: '' }, { ...other, origin: '' })
  );
}
