import { expect, it } from 'vitest';

import type { Connection } from '../../../src/catalog/connection.ts';
import { type ConnectionPool, ConnectionPools } from '../../../src/upstream/transport/connection-pools.ts';

class Pool implements ConnectionPool {
  readonly connection: Connection;
  isEmpty = true;
  isWarm = false;
  readonly calls: string[] = [];

  constructor(connection: Connection) {
    this.connection = connection;
  }

  setWarm(isWarm: boolean): void {
    this.isWarm = isWarm;
  }

  closeUnused(): void {
    this.calls.push('closeUnused');
  }

  destroy(): void {
    this.calls.push('destroy');
  }
}

const connection = (keepWarm = 0): Connection => ({
  origin: new URL('https://provider.example'),
  proxy: undefined,
  tls: undefined,
  localAddress: undefined,
  // A function of each reload.
  lookup: () => {},
  maxConnections: Infinity,
  keepWarm,
  owner: undefined,
  connectMs: 1000,
});

it('a pool that no provider uses any more closes what is unused, and is forgotten once it is empty', () => {
  const pools = new ConnectionPools((each) => new Pool(each));
  const [before, after] = [connection(1), connection(1)];
  pools.keepWarm([before]);
  const old = pools.for(before);
  expect(old.isWarm).toBe(true);
  old.isEmpty = false;
  pools.keepWarm([after]);
  expect([old.isWarm, old.calls]).toEqual([false, ['closeUnused']]);
  old.isEmpty = true;
  pools.keepWarm([after]);
  pools.close();
  expect(old.calls).toEqual(['closeUnused', 'closeUnused']);
  expect(pools.for(after).calls).toEqual(['destroy']);
});

it('a pool that a running request uses again is closed with the others', () => {
  const pools = new ConnectionPools((each) => new Pool(each));
  const before = connection();
  const old = pools.for(before);
  pools.keepWarm([connection()]);
  expect(pools.for(before)).toBe(old);
  pools.close();
  expect(old.calls).toEqual(['closeUnused', 'destroy']);
});
